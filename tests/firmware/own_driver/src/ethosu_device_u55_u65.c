/* Arm's driver has a file of this name; ours needs none. */
typedef int nothing;

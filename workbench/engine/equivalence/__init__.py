"""Whether the exported program computes what the user's model does."""

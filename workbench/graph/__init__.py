"""A torch-free picture of a program: what it holds, how it nests, where it is drawn."""

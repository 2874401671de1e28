"""Boards: what is on them, which target they make, and whether a program fits."""

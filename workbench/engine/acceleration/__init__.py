"""Exact accelerations of the toolchain: same bytes, same numbers, less time."""

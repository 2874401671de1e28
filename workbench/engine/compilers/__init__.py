"""Compilers of targets by themselves: no torch, so that a process with one starts at once."""

"""Compilers without torch, so that worker processes start quickly."""

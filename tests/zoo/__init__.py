"""Architectures that people deploy, at small widths, through the whole flow."""

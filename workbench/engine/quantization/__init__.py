"""Configurations, weights and ranges of a quantized program."""

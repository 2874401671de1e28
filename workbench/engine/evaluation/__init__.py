"""Comparison of the quantized model with the float model, on samples."""

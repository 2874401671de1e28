"""Quantization-aware training: the quantized model is distilled from the float model."""

"""Arithmetic of int8 dynamic quantization on IBM Telum II's NNPA, emulated."""

"""Training with quantization in view: a student that rounds learns what the float model gives."""

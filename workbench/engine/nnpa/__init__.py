"""The arithmetic of IBM NNPA on tensors, and the torch side of its target in ``toolchain``.

Arithmetic on arrays needs none of the toolchain: nothing is imported here.
"""

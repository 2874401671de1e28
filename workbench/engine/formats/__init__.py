"""Emulated number formats on tensors, and the torch side of their targets in ``toolchain``.

Arithmetic on arrays needs none of the toolchain: nothing is imported here.
"""

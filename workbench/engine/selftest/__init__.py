"""Proof of the accelerations with other versions of the toolchain, by bytes."""

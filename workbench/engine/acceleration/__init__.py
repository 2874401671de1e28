"""Exact accelerations of the toolchain: the same bytes and the same numbers in less time.

The only place that knows the insides of torch, torchao and ExecuTorch. Each file is one
acceleration and says why it is exact; proofs are in tests/engine/acceleration.

- ``imports``: ``import_toolchain`` and ``run_with_big_stack``, for the start of an engine.
- ``table``: ``accelerated``, the context in which lowering is quick; ``ACCELERATIONS``, its parts.
- ``gate``: which versions the parts are proven for; ``selftest`` proves others.
- ``calibration``, ``convert``, ``evaluation``: quick passes over data before lowering.
- ``retarget``: another NPU or memory mode from the TOSA bytes of a program lowered before.

Only ``imports``, ``table`` and ``gate`` can be imported before torch is.
"""

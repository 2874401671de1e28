"""The one room for patches of third-party libraries: one gate, one table.

No other module of the engine assigns to an attribute of a library. Each patch is a row of
``table.PATCHES``, which says what it replaces, why that is safe, which versions it was proven with
and what happens with others.

- ``gate``: ``accelerated`` for lowering, ``require`` for patches the program needs.
- ``imports``, ``interpreter``: the start of an engine, its stack and collector.
- ``fx_graphs``, ``operator_memory``, ``functional_memory``, ``lean_retrace``, ``idle_retraces``,
  ``verified_graphs``, ``signature_maps``, ``decompositions``: the accelerations of lowering.
- ``calibration``, ``statistics``, ``preparing``, ``constant_values``, ``evaluation``,
  ``retarget``: quick passes over data, and another NPU from the TOSA bytes of a program lowered
  before.
- ``interception``, ``vela_models``: what ExecuTorch and Vela compute and do not return.
- ``decomposition_tracking``, ``ordered_partitioner``: corrections, which scripts carry along.
- ``patching``: replaces an attribute and checks pinned sources. ``selftest``: the proof for other
  versions, by bytes.

Only ``imports``, ``interpreter``, ``table`` and ``gate`` can be imported before torch is.
"""

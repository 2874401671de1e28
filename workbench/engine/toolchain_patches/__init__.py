"""The gate of all patches of third-party libraries, and those that the program starts with.

- ``gate``: ``accelerated`` for lowering, ``acceleration`` for a single one, ``require`` for patches
  that the program needs.
- ``patching``: replaces an attribute and compares pinned code.
- ``table``: what is patched beside corrections (``ethos_u.corrections``) and accelerations
  (``acceleration.table``): what it replaces, why that is safe, the versions it was proven with and
  what happens with others.
- ``imports``, ``interpreter``: the start of an engine and its stack.
- ``plain_pickles``: torch's reader of tensors without code.
- ``selftest``: the proof of the accelerations for other versions, by bytes.

Only ``imports``, ``interpreter``, ``table`` and ``gate`` can be imported before torch is.
"""

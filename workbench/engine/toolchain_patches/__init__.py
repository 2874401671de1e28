"""What all patches of third-party libraries are made of, and those that the program needs.

- ``patching``: replaces an attribute and compares pinned code.
- ``table``: what is patched beside corrections (``ethos_u.corrections``) and accelerations
  (``acceleration.table``): what it replaces, why that is safe, the versions it was proven with and
  what happens with others.
- ``gate``: ``require`` for patches that the program needs.
- ``plain_pickles``: torch's reader of tensors without code.

Only ``table`` and ``gate`` can be imported before torch is.
"""

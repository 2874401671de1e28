"""The same bytes in less time: what the toolchain does twice, or for nobody, is left out.

Only ``runtime.accelerated`` imports this package, by its table, and works without it. It imports
nothing of the workbench but ``toolchain_patches.patching``. Each acceleration pins the code of the
functions whose work it copies, and is left out where that is another.
"""

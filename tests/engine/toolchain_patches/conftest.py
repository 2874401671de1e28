"""The toolchain is imported here, once, because its own imports warn."""

from __future__ import annotations

import warnings

from workbench.engine.toolchain_patches.imports import import_toolchain

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import_toolchain()

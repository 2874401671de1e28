"""Prove the accelerations: ``python -m workbench.engine.toolchain_patches``.

Ends with 0 if every byte is the same, and with 1 if not; either way the verdict is remembered.
"""

from __future__ import annotations

import sys

from workbench.engine.toolchain_patches.imports import import_toolchain


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    import_toolchain()
    from workbench.engine.toolchain_patches.selftest import prove

    sys.exit(0 if prove(_say) else 1)

"""Prove the accelerations: ``python -m workbench.engine.selftest``.

Ends with 0 if every byte is the same, and with 1 if not; either way the verdict is remembered. With
the path of a file, writes there what becomes of corrections and accelerations, and proves nothing.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from workbench.engine.ethos_u.applied_corrections import correction_state, pins_of
from workbench.engine.runtime.accelerated import accelerations
from workbench.engine.runtime.imports import import_toolchain
from workbench.engine.toolchain_patches.gate import exists
from workbench.engine.toolchain_patches.patching import Patch, Pins, changed
from workbench.engine.toolchain_patches.table import PATCHES
from workbench.targets.ethos_u.corrections import CORRECTIONS, Correction
from workbench.toolchain_versions import status
from workbench.toolchains.versions import tool_versions


def report() -> dict[str, Any]:
    """Return the versions, the state of the accelerations and of each correction, and what moved.

    ``moved`` has, by patch, the functions whose code is not the pinned one and the attributes that
    are not there.
    """
    moved = {
        row.id: list(dict.fromkeys([*changed(_pins(row)), *filter(_is_gone, row.patches)]))
        for row in (*PATCHES, *(row for group in accelerations() for row in group))
    }
    moved |= {row.id: _least_changed(row) for row in CORRECTIONS}
    return {
        "tools": tool_versions(),
        "acceleration": status().model_dump(),
        "corrections": {row.id: correction_state(row.id, {}) for row in CORRECTIONS},
        "moved": {patch: paths for patch, paths in moved.items() if paths},
    }


def _pins(row: Patch) -> Pins:
    """Return the functions that the module of an acceleration was written for."""
    pins: Pins = getattr(sys.modules[row.apply.__module__], "PINS", ()) if row.apply else ()
    return pins


def _least_changed(row: Correction) -> list[str]:
    """Return what moved of a correction, of the release that the installed one is nearest to."""
    sets = sorted((changed(pins) for pins in pins_of(row)), key=len)
    return list(sets[0]) if sets else []


def _is_gone(path: str) -> bool:
    module = path.partition(":")[0]
    return module != "sys" and not exists(path)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    import_toolchain()
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(report()), encoding="utf-8")
        sys.exit(0)
    from workbench.engine.selftest.proof import prove

    sys.exit(0 if prove(_say) else 1)

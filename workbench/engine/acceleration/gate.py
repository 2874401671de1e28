"""Decide whether the accelerations may be used with the versions that are installed.

A proof is for one set of exact versions. The sets that the project's tests have proven are listed
here, so that a first run pays nothing; for any other set the self-test gives the proof once, and
the verdict is remembered.
"""

from __future__ import annotations

import hashlib
import json
import sys
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING

from workbench.engine.acceleration import remembered

if TYPE_CHECKING:
    from collections.abc import Callable

    Log = Callable[[str], None]

PACKAGES = ("torch", "torchao", "executorch")

# Proven byte for byte by tests/engine/acceleration/test_lowering.py.
PROVEN: tuple[dict[str, str], ...] = (
    {"python": "3.11", "torch": "2.13.0", "torchao": "0.18.0", "executorch": "1.5.1"},
)

_SAME, _DIFFERENT = b"same", b"different"


@cache
def versions() -> dict[str, str]:
    """Return the versions a proof is for; the local part (``+cpu``) of each is left out.

    They are read once: what a process has imported stays.
    """
    found = {"python": f"{sys.version_info[0]}.{sys.version_info[1]}"}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package).partition("+")[0]
        except metadata.PackageNotFoundError:
            found[package] = "none"
    return found


def approve(log: Log) -> bool:
    """Tell whether the installed versions are proven; say in ``log`` why, if they are not.

    A remembered verdict of this machine goes before the list of proven versions.
    """
    found = versions()
    verdict = remembered.recall(_verdict_name(found))
    if verdict == _DIFFERENT:
        log(f"Lowering runs at stock speed: the self-test gave other bytes with {_listed(found)}.")
        return False
    if verdict == _SAME or found in PROVEN:
        return True
    log(
        f"Lowering runs at stock speed: nothing is proven for {_listed(found)}. "
        "'python -m workbench.engine.acceleration' would prove it."
    )
    return False


def prove(log: Log) -> bool:
    """Run the self-test with the installed versions, remember the verdict and return it."""
    from workbench.engine.acceleration.selftest import differences

    found = versions()
    different = differences(log)
    remembered.remember(_verdict_name(found), _DIFFERENT if different else _SAME)
    log(
        f"Different with {_listed(found)}: {', '.join(different)}."
        if different
        else f"Every byte is the same with {_listed(found)}."
    )
    return not different


def _verdict_name(found: dict[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
    return f"acceleration-{digest[:16]}.verdict"


def _listed(found: dict[str, str]) -> str:
    return ", ".join(f"{package} {version}" for package, version in found.items())

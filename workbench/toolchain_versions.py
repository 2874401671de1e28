"""Which versions of Python and of the toolchain the engine's patches are proven for.

A proof is for one set of exact versions. The sets that the project's tests have proven are listed
here, so that a first run pays nothing; for any other set the engine's self-test gives the proof
once, and the verdict is remembered on this machine.
"""

from __future__ import annotations

import hashlib
import json
import sys
from functools import cache
from importlib import metadata

from workbench import disk_cache
from workbench.project.frozen import Frozen

PACKAGES = ("torch", "torchao", "executorch")
PROVE = "python -m workbench.engine.selftest"

# Proven byte for byte by tests/engine/acceleration, slow tests included.
PROVEN: tuple[dict[str, str], ...] = tuple(
    {"python": python, "torch": torch, "torchao": "0.18.0", "executorch": "1.5.1"}
    for python, torch in (("3.11", "2.13.0"), ("3.12", "2.13.0"), ("3.11", "2.14.1"), ("3.11", "2.15.0"))
)

_SAME, _DIFFERENT = b"same", b"different"


class AccelerationStatus(Frozen):
    """Whether the accelerations of the toolchain are in use, and why not; "" if they are."""

    active: bool
    reason: str = ""


@cache
def versions() -> dict[str, str]:
    """Return the versions a proof is for; the local part (``+cpu``) of each is left out.

    They are read once: what a process has imported stays.
    """
    versions_by_tool = {"python": f"{sys.version_info[0]}.{sys.version_info[1]}"}
    for package in PACKAGES:
        try:
            versions_by_tool[package] = metadata.version(package).partition("+")[0]
        except metadata.PackageNotFoundError:
            versions_by_tool[package] = "none"
    return versions_by_tool


def status(proof: dict[str, str] | None = None, *, is_enabled: bool = True) -> AccelerationStatus:
    """Return whether accelerations are in use with some versions.

    A remembered verdict of this machine goes before the list of proven versions.

    Args:
        proof: Versions as those of ``versions``; by default those that are installed.
        is_enabled: False if the user turned them off.
    """
    if not is_enabled:
        return AccelerationStatus(active=False, reason="Turned off by --no-acceleration.")
    versions_now = versions() if proof is None else proof
    verdict = disk_cache.recall(_verdict_name(versions_now))
    if verdict == _DIFFERENT:
        reason = f"The self-test gave other bytes with {listed(versions_now)}: stock speed."
        return AccelerationStatus(active=False, reason=reason)
    if verdict == _SAME or versions_now in PROVEN:
        return AccelerationStatus(active=True)
    reason = f"Not proven for {listed(versions_now)}: stock speed. '{PROVE}' runs the proof."
    return AccelerationStatus(active=False, reason=reason)


def remember_verdict(*, same: bool) -> None:
    """Remember on this machine what the self-test gave with the installed versions."""
    disk_cache.remember(_verdict_name(versions()), _SAME if same else _DIFFERENT)


def listed(versions: dict[str, str]) -> str:
    """Return versions as text: "python 3.11, torch 2.13.0"."""
    return ", ".join(f"{package} {version}" for package, version in versions.items())


def _verdict_name(versions: dict[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(versions, sort_keys=True).encode()).hexdigest()
    return f"acceleration-{digest[:16]}.verdict"

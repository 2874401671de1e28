"""What a machine has for compiling to IBM NNPA."""

from __future__ import annotations

import shutil

from workbench.doctor.findings import Finding
from workbench.targets.nnpa.command import COMPILER, CONTAINER_TOOL, IMAGE, ZDLC_IMAGE

_WHY = (
    "it compiles for IBM Telum II; on any machine it tells which products become int8, a library "
    "that it makes runs on a z17 only. Without it that number is predicted"
)


def compiler_findings() -> tuple[Finding, Finding]:
    """Return whether the compiler is here, and what runs its container; nothing is downloaded."""
    return _found(COMPILER, _WHY, f"Build it from source, or use the container: {IMAGE}."), _found(
        CONTAINER_TOOL,
        f"it runs the compiler's container: {IMAGE}, or {ZDLC_IMAGE} with an account at icr.io",
        f"Install Docker, then: docker pull {IMAGE}",
    )


def _found(name: str, why: str, remedy: str) -> Finding:
    path = shutil.which(name)
    return Finding(
        name=name, state="ok" if path else "optional", version=path or "", why=why,
        remedy="" if path else remedy,
    )  # fmt: skip

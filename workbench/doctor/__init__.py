"""The doctor: what is installed, what is missing, why it matters and how to get it."""

from __future__ import annotations

import os
import platform
import shutil
import sys

from workbench.doctor.findings import Finding
from workbench.doctor.machine import machine_findings
from workbench.doctor.nnpa_compiler import compiler_findings
from workbench.pipeline.cache import default_root
from workbench.pipeline.plan import tool_version
from workbench.project.trust import default_store

__all__ = ["PROVEN", "Finding", "findings"]

# Versions the workbench was proven with; the same pins stand in pyproject.toml.
PROVEN = {
    "torch": "2.13.0",
    "torchao": "0.18.0",
    "executorch": "1.5.1",
    "ethos-u-vela": "5.1.0",
    "tosa-tools": "2026.5.0",
    "onnx": "1.21.0",
    "onnxscript": "0.7.2",
    "onnxruntime": "1.31",
    "PySide6-Essentials": "6.11",
    "pyqtgraph": "0.14",
}


def findings() -> list[Finding]:
    """Return everything looked for, in a fixed order."""
    packages = (_package(name, version) for name, version in PROVEN.items())
    return [_python(), *packages, *machine_findings(), *compiler_findings(), _cache()]


def _python() -> Finding:
    version = platform.python_version()
    good = sys.version_info[:2] in {(3, 11), (3, 12)}
    return Finding(
        name="Python", state="ok" if good else "different", version=version,
        why="the toolchain's wheels exist for 3.11 and 3.12",
        remedy="" if good else "Install Python 3.11 and make the environment with it.",
    )  # fmt: skip


def _package(name: str, proven: str) -> Finding:
    version = tool_version(name)
    if version == "none":
        return Finding(name=name, state="missing", why="the workbench needs it",
                       remedy=f"pip install {name}=={proven}")  # fmt: skip
    same = version.split("+")[0].startswith(proven)
    remedy = "" if same else f"pip install {name}=={proven} for the version this was proven with"
    return Finding(name=name, state="ok" if same else "different", version=version, remedy=remedy)


def _cache() -> Finding:
    root = default_root()
    place = root if root.exists() else next(p for p in root.parents if p.exists())
    good = os.access(place, os.W_OK)
    free = shutil.disk_usage(place).free
    return Finding(
        name="cache", state="ok" if good and free > 1 << 30 else "missing",
        version=f"{free / 2**30:.0f} GiB free",
        why=f"results are kept in {root.name}; permissions in {default_store().parent.name}",
        remedy="" if good else "Set QUANTIZATION_WORKBENCH_CACHE to a folder you may write to.",
    )  # fmt: skip

"""The versions of the packages of the running interpreter, and the name of its toolchain."""

from __future__ import annotations

import importlib.metadata
import os
from functools import cache

# Every package that can change a result.
PACKAGES = (
    "torch",
    "torchao",
    "executorch",
    "ethos-u-vela",
    "tosa-tools",
    "onnx",
    "onnxscript",
    "onnxruntime",
)
# Set for the engine of a toolchain that is not the program's own, and for what the engine starts.
NAME_VARIABLE = "QUANTIZATION_WORKBENCH_ENGINE_TOOLCHAIN"


def own_name() -> str:
    """Return the toolchain that this process runs in; "" for the program's own."""
    return os.environ.get(NAME_VARIABLE, "")


@cache
def tool_version(package: str) -> str:
    """Return the installed version of a package from its metadata; "none" if not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def tool_versions() -> dict[str, str]:
    """Return the version of every package that can change a result, in this process."""
    return {name: tool_version(name) for name in PACKAGES}

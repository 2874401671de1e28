"""The versions of the packages of the running interpreter, and the name of its toolchain."""

from __future__ import annotations

import importlib.metadata
import os
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

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


@contextmanager
def named(name: str) -> Iterator[None]:
    """Let this process run in a toolchain of this name; "" is the program's own."""
    before = os.environ.pop(NAME_VARIABLE, None)
    if name:
        os.environ[NAME_VARIABLE] = name
    try:
        yield
    finally:
        os.environ.pop(NAME_VARIABLE, None)
        if before is not None:
            os.environ[NAME_VARIABLE] = before


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

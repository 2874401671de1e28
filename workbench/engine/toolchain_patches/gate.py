"""The patches that the program needs: whether what they replace exists.

They apply as long as the attributes that they replace exist, and the program refuses with a
sentence where one does not. Accelerations are switched on in ``runtime.accelerated``.
"""

from __future__ import annotations

import importlib
import inspect
from importlib import metadata
from typing import Any

from workbench.engine.toolchain_patches.table import PATCHES_BY_ID
from workbench.errors import failure

# Packages whose name on the index is not that of the module.
_DISTRIBUTIONS = {"ethosu": "ethos-u-vela"}


def require(patch: str) -> None:
    """Check that all that a patch replaces exists.

    Args:
        patch: The id of a patch that the program cannot work without.

    Raises:
        WorkbenchError: An attribute is missing in the installed version of its package.
    """
    row = PATCHES_BY_ID[patch]
    for path in row.patches:
        if not exists(path):
            versions = ", ".join(f"{name} {version}" for name, version in row.proven.items())
            raise failure(
                f"{_installed(path)} has no {path}, which the workbench needs ({row.title}).",
                f"Install the versions this was written for: {versions}.",
                code="toolchain-version-unknown",
            )


def exists(path: str) -> bool:
    """Return whether there is an attribute at ``module:Class.attribute``."""
    module, _, names = path.partition(":")
    try:
        owner: Any = importlib.import_module(module)
        for name in names.split("."):
            owner = inspect.getattr_static(owner, name)
    except (ImportError, AttributeError):
        return False
    return True


def _installed(path: str) -> str:
    package = path.partition(":")[0].partition(".")[0]
    name = _DISTRIBUTIONS.get(package, package)
    try:
        return f"{name} {metadata.version(name)}"
    except metadata.PackageNotFoundError:
        return name

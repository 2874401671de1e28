"""Where the program's own files lie, in a checkout and in an installed wheel, and its version."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

_PACKAGE = Path(__file__).parent
# A wheel carries the window and the resources inside the package, so that no top-level package
# named "ui" or "resources" is installed (see pyproject.toml).
_BUNDLE = _PACKAGE / "_bundle"


def root() -> Path:
    """Return the folder that holds ``ui`` and ``resources``."""
    return _BUNDLE if _BUNDLE.is_dir() else _PACKAGE.parent


def resources() -> Path:
    """Return the folder of icons, boards, samples, recipes, templates and the guide."""
    return root() / "resources"


def version() -> str:
    """Return the version of the program; ``0+unknown`` in a checkout that is not installed."""
    try:
        return metadata.version("quantization-workbench")
    except metadata.PackageNotFoundError:
        return "0+unknown"


def open_window() -> int:
    """Start the window: the entry point ``quantization-workbench``; return the exit code."""
    folder = str(root())
    if folder not in sys.path:
        sys.path.append(folder)
    from importlib import import_module

    code: int = import_module("ui.__main__").main()
    return code

"""The entry point ``quantization-workbench``. Nothing imports it: the core does not know the window."""

from __future__ import annotations

import sys
from importlib import import_module

from workbench.installation import root


def main() -> int:
    """Start the window; return the exit code."""
    folder = str(root())
    if folder not in sys.path:
        sys.path.append(folder)
    code: int = import_module("ui.__main__").main()
    return code

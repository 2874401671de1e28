"""The events that a runner records (ETDump), as a file or as text on the serial port.

Source of both forms: ExecuTorch, ``arm_executor_runner.cpp``, ``write_etdump``.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import mmap
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

FILE = "etdump.bin"
_PRINTED = re.compile(rb'^echo "([A-Za-z0-9+/=]+)" \| base64 -d >etdump\.bin', re.MULTILINE)


def recorded(folder: Path, log: Path) -> bytes:
    """Return what one start recorded; empty if nothing.

    Args:
        folder: Where the runner left its files.
        log: What it printed: runners without files print their events in base64.
    """
    with contextlib.suppress(OSError):
        return (folder / FILE).read_bytes()
    found = None
    # An empty log cannot be mapped.
    with (
        contextlib.suppress(OSError, ValueError),
        log.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text,
    ):
        match = _PRINTED.search(text)
        found = match[1] if match else None
    with contextlib.suppress(binascii.Error):
        return base64.b64decode(found or b"")
    return b""

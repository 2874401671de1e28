"""Small files kept between runs in the user's cache folder; losing them costs only time."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path

import platformdirs

_DIGEST_BYTES = hashlib.sha256().digest_size


def folder() -> Path:
    """Return the folder of remembered files, which need not exist."""
    return Path(platformdirs.user_cache_dir("quantization-workbench", appauthor=False))


def recall(name: str) -> bytes | None:
    """Return what was remembered under ``name``; None if absent, unreadable or damaged."""
    try:
        content = (folder() / name).read_bytes()
    except OSError:
        return None
    digest, payload = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    return payload if hashlib.sha256(payload).digest() == digest else None


def remember(name: str, payload: bytes) -> bool:
    """Keep ``payload`` under ``name``; False if the folder cannot be written.

    The file appears in one step, so that a reader never meets half of it.
    """
    temporary: str | None = None
    try:
        folder().mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{name}.", dir=folder())
        with os.fdopen(handle, "wb") as stream:
            stream.write(hashlib.sha256(payload).digest() + payload)
        Path(temporary).replace(folder() / name)
    except OSError:
        if temporary is not None:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
        return False
    return True

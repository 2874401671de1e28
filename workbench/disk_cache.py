"""Small files kept between runs in the user's cache folder; losing them costs only time."""

from __future__ import annotations

import hashlib
from pathlib import Path

from workbench.files import is_open_to_others, make_private_folder, read_limited, write_file
from workbench.installation import cache_folder

_MAX_BYTES = 256 << 20
_DIGEST_BYTES = hashlib.sha256().digest_size


def folder() -> Path:
    """Return the folder of remembered files, which need not exist; results are in it too."""
    return cache_folder()


def recall(name: str) -> bytes | None:
    """Return what was remembered under ``name``; None if absent, unreadable or damaged.

    Nothing is recalled from a folder or a file that other users can change.
    """
    if is_open_to_others(folder()) or is_open_to_others(folder() / name):
        return None
    try:
        content = read_limited(folder() / name, _MAX_BYTES)
    except OSError:
        return None
    digest, payload = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    return payload if hashlib.sha256(payload).digest() == digest else None


def remember(name: str, payload: bytes) -> bool:
    """Keep ``payload`` under ``name``; False if the folder cannot be written.

    The file appears in one step, so that a reader never meets half of it.
    """
    try:
        make_private_folder(folder())
        write_file(folder() / name, hashlib.sha256(payload).digest() + payload, mode=0o600)
    except OSError:
        return False
    return True

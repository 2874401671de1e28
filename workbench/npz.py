"""Archives of numpy, opened without trust in what they claim."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from workbench.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy as np

# What reading a damaged archive raises; the last two are those of methods that are not supported.
ZIP_ERRORS = (
    OSError,
    ValueError,
    EOFError,
    LookupError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    NotImplementedError,
    RuntimeError,
)
_ARRAY_MARK = b"\x93NUMPY"
ZIP_MARK = b"PK\3\4"
# What an archive may unpack to in any case [bytes], and the most records.
_FREE_BYTES, _MOST_RECORDS = 256 << 20, 20_000
# The most that a larger one may unpack to, as a multiple of its size: noise has 1, weights 2.
_MOST_TIMES = 50


def refuse_bomb(file: IO[bytes]) -> None:
    """Refuse a zip file that unpacks to much more than its size, or has too many records.

    Raises:
        ValueError: it is such a file.
        zipfile.BadZipFile: it is no zip file.
    """
    at = file.tell()
    size = os.fstat(file.fileno()).st_size
    with zipfile.ZipFile(file) as archive:
        records = archive.infolist()
        unpacked = sum(record.file_size for record in records)
    file.seek(at)
    if len(records) > _MOST_RECORDS:
        raise ValueError(f"it has {len(records)} records")
    if unpacked > max(_FREE_BYTES, _MOST_TIMES * size):
        raise ValueError(f"it unpacks to {unpacked // max(1, size)} times its size")


def refuse_bomb_at(path: Path) -> None:
    """Refuse what ``refuse_bomb`` refuses, if the file is a zip file.

    Raises:
        OSError: it cannot be read, or is not regular.
        ValueError: it unpacks to much more than its size.
        zipfile.BadZipFile: it is damaged.
    """
    with open_regular(path) as file:
        if file.peek(len(ZIP_MARK))[: len(ZIP_MARK)] == ZIP_MARK:
            refuse_bomb(file)


@contextmanager
def open_npz(path: Path) -> Iterator[Any]:
    """Open an .npz file, or an .npy file as an array; no pickles are read.

    Raises:
        OSError: it cannot be read, or is not regular.
        ValueError: it is neither, or unpacks to much more than its size.
        zipfile.BadZipFile: it is damaged.
    """
    import numpy as np

    with open_regular(path) as file:
        if file.peek(len(ZIP_MARK))[: len(ZIP_MARK)] == ZIP_MARK:
            refuse_bomb(file)
        if file.peek(len(_ARRAY_MARK))[: len(_ARRAY_MARK)] == _ARRAY_MARK:
            yield _mapped(file)
            return
        with np.load(file, allow_pickle=False) as loaded:
            yield loaded


def array_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, whether columns come first, and type of an .npy file; its numbers follow.

    Raises:
        ValueError: the header is damaged.
    """
    import numpy as np

    formats: Any = np.lib.format
    is_first = formats.read_magic(file) == (1, 0)
    read = formats.read_array_header_1_0 if is_first else formats.read_array_header_2_0
    header: tuple[tuple[int, ...], bool, np.dtype[Any]] = read(file)
    return header


def _mapped(file: Any) -> Any:
    """Return the array in an .npy file, which is read when it is used.

    Raises:
        ValueError: the header is damaged, or the file is shorter than it says.
    """
    import numpy as np

    shape, is_fortran, dtype = array_header(file)
    if dtype.hasobject:
        raise ValueError("it contains Python objects")
    return np.memmap(file, dtype, "r", file.tell(), shape, "F" if is_fortran else "C")

"""The arrays beside calibration's ranges, as tables and plots need them."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ui.models.range_table import RangeRow
from workbench.errors import Place, WorkbenchError, failure
from workbench.results import ARRAYS_FILE

if TYPE_CHECKING:
    from numpy.typing import NDArray

Arrays = dict[str, "NDArray[np.float64]"]
Channels = dict[int, "tuple[NDArray[np.float64], NDArray[np.float64]]"]

_PLAIN = ("histogram", "edges", "samples", "sample_min", "sample_max")


def read_histograms(folder: Path) -> Arrays:
    """Return ``histogram`` [T, B], ``edges`` [T, 2] and the extremes of every sample [T, S].

    Raises:
        WorkbenchError: the file is missing or damaged.
    """
    try:
        with np.load(folder / ARRAYS_FILE, allow_pickle=False) as file:
            return {name: file[name] for name in _PLAIN if name in file}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise _damaged() from error


def read_channels(folder: Path, rows: Sequence[RangeRow]) -> Iterator[Channels]:
    """Yield the least and greatest value of each channel, a tensor at a time, by row.

    There can be many hundreds of small arrays, so the reader may pause between any two.

    Raises:
        WorkbenchError: the file is missing or damaged.
    """
    try:
        with np.load(folder / ARRAYS_FILE, allow_pickle=False) as file:
            names = frozenset(file.files)
            for place, row in enumerate(rows):
                keys = [f"channel_{end}/{row.tensor.id}" for end in ("min", "max")]
                if names.issuperset(keys):
                    low, high = (_finite(file[key]) for key in keys)
                    if low.size == high.size:
                        yield {place: (low, high)}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise _damaged() from error


def _damaged() -> WorkbenchError:
    return failure(
        "The stored ranges are damaged.",
        "Run Calibrate again; they will be computed anew.",
        Place(kind="file", id=ARRAYS_FILE),
    )


def _finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    flat = values.reshape(-1).astype(np.float64)
    return np.where(np.isfinite(flat), flat, 0.0)

"""The arrays beside calibration's ranges, as tables and plots need them."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ui.models.range_table import RangeRow
from workbench.errors import Place, failure
from workbench.results import ARRAYS_FILE

if TYPE_CHECKING:
    from numpy.typing import NDArray

_OWN = "state/"
Channels = dict[int, "tuple[NDArray[np.float64], NDArray[np.float64]]"]


def read_arrays(folder: Path) -> dict[str, NDArray[np.float64]]:
    """Return histograms, edges and channels; the observers' own state is left out.

    Raises:
        WorkbenchError: the file is missing or damaged.
    """
    try:
        with np.load(folder / ARRAYS_FILE, allow_pickle=False) as file:
            return {name: file[name] for name in file.files if not name.startswith(_OWN)}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise failure(
            "The stored ranges are damaged.",
            "Run Calibrate again; they will be computed anew.",
            Place(kind="file", id=ARRAYS_FILE),
        ) from error


def channels_of(
    rows: Sequence[RangeRow], arrays: Mapping[str, NDArray[np.float64]]
) -> Channels:  # fmt: skip
    """Return the least and the greatest value of each channel, by the row's place."""
    found: Channels = {}
    for place, row in enumerate(rows):
        low = arrays.get(f"channel_min/{row.tensor.id}")
        high = arrays.get(f"channel_max/{row.tensor.id}")
        if low is not None and high is not None and low.size == high.size:
            found[place] = (_finite(low), _finite(high))
    return found


def _finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.nan_to_num(values.reshape(-1).astype(np.float64), posinf=0.0, neginf=0.0)

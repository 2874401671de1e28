"""Converts rows of the range table to plot data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ui.shared.range_data import RangeSeries, SampleView, TensorView
from ui.shared.range_rows import Arrays, Channels, RangeRow
from ui.shared.theme import Theme

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BINS = 256


class _Histograms(Mapping[int, tuple["NDArray[np.float64]", float, float]]):
    """Histograms by index, summed on first access."""

    def __init__(self, rows: Sequence[RangeRow], arrays: Arrays) -> None:
        self._rows, self._arrays = rows, arrays

    def __getitem__(self, position: int) -> tuple[NDArray[np.float64], float, float]:
        index = self._rows[position].tensor.index
        counts, edges = self._arrays.get("histogram"), self._arrays.get("edges")
        if counts is None or edges is None or index >= len(counts):
            raise KeyError(position)
        return drawn_counts(counts[index]), float(edges[index][0]), float(edges[index][1])

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self._rows)))

    def __len__(self) -> int:
        return len(self._rows)


def series_of(rows: Sequence[RangeRow], channels: Channels, arrays: Arrays | None = None) -> RangeSeries:
    """Return the plot data of all tensors; NaN is unknown."""

    def known(row: RangeRow, *values: float) -> list[float]:
        return [v if row.is_known and math.isfinite(v) else math.nan for v in values]

    columns = np.asarray(
        [
            known(
                r,
                r.tensor.minimum,
                r.tensor.maximum,
                r.tensor.p_low,
                r.tensor.p_high,
                *(r.grid or (math.nan, math.nan)),
                r.step or math.nan,
            )
            for r in rows
        ],
        np.float64,
    ).reshape(len(rows), 7)
    low, high, p_low, p_high, grid_low, grid_high, step = columns.T
    return RangeSeries(
        names=tuple(row.name for row in rows),
        labels=tuple(row.label for row in rows),
        is_weight=np.asarray([row.tensor.kind == "weight" for row in rows], bool),
        low=low,
        high=high,
        p_low=p_low,
        p_high=p_high,
        grid_low=grid_low,
        grid_high=grid_high,
        step=step,
        channels=channels,
        histograms=_Histograms(rows, arrays or {}),
    )


def tensor_of(row: RangeRow, index: int, arrays: Arrays, channels: Channels) -> TensorView | None:
    """Return the plot data of one tensor; None if calibration has no data of it."""
    counts, edges = arrays.get("histogram"), arrays.get("edges")
    if counts is None or edges is None or row.tensor.index >= len(counts) or not row.is_known:
        return None
    low, high = channels.get(index, (None, None))
    first, last = edges[row.tensor.index]
    return TensorView(
        drawn_counts(counts[row.tensor.index]),
        (float(first), float(last)),
        row.grid,
        row.step or 0.0,
        row.label,
        low,
        high,
        row.is_editable,
    )


def drawn_counts(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the counts merged into at most as many bins as a plot can show."""
    fine = counts.astype(np.float64)
    return fine.reshape(_BINS, -1).sum(1) if fine.size % _BINS == 0 else fine


def samples_of(arrays: Arrays, index: int) -> SampleView:
    """Return the minimum and maximum of one tensor by sample; None without samples."""
    low, high = arrays.get("sample_min"), arrays.get("sample_max")
    if low is None or high is None or index >= len(low):
        return SampleView()
    numbers = arrays["samples"].astype(np.int64)
    return SampleView(numbers, low[index].astype(np.float64), high[index].astype(np.float64))


def legend_of(theme: Theme, labels: Iterable[str]) -> str:
    """Return the legend of the range plot as rich text."""
    words = {"a8w8": "8 bit", "a16w8": "16 bit", "a8w4": "4 bit", "custom": "other formats"}
    colours: dict[str, list[str]] = {}
    for label in dict.fromkeys(labels):
        colours.setdefault(theme.precision_colour(label), []).append(words.get(label, label))
    marks = [
        f'<span style="color:{colour}">\u25a0</span>\u00a0{_unbroken(", ".join(names))}'
        for colour, names in colours.items()
    ]
    marks += [
        _unbroken("pale: min to max"),
        _unbroken("solid: 99.8 % of values"),
        f'<span style="color:{theme.text}">\u2500</span>{_unbroken(" range limits")}',
        f'<span style="color:{theme.bad}">\u2500</span>{_unbroken(" one step")}',
    ]
    return f'<span style="color:{theme.muted}">' + " &nbsp; ".join(marks) + "</span>"


def _unbroken(text: str) -> str:
    """Return a text that no line break divides."""
    return text.replace(" ", "\u00a0")

"""The observed tensors with their ranges and histograms, as rows of tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from workbench.analysis.histogram import Grid
from workbench.analysis.ranges import (
    METHOD_TITLES,
    WEIGHT_REFUSAL,
    histogram_of,
    observed_grid,
    scheme_of,
    title_of,
)
from workbench.errors import Place, WorkbenchError, failure
from workbench.npz import ZIP_ERRORS
from workbench.project.configs import FixedRange, MethodScope, RangeMethod
from workbench.results import ARRAYS_FILE, CalibrateResult, EvaluateResult, TensorRange

if TYPE_CHECKING:
    from numpy.typing import NDArray


ChoiceOfRange = FixedRange | RangeMethod


def method_title(method: str) -> str:
    """Return the title of a range method."""
    return METHOD_TITLES.get(method, "hand")


_LABELS = {"int8": "a8w8", "int16": "a16w8", "uint8": "uint8", "int32": "a16w8"}

_MOST_4_BIT = 7


@dataclass(frozen=True)
class RangeOverride:
    """The range override of one tensor.

    ``method`` is "" for a pinned range. ``ends`` is None if calibration's range is kept or the
    search is still running; ``is_known`` is False while it is running.
    """

    method: str
    scope: MethodScope
    ends: tuple[float, float] | None
    is_known: bool = True

    @property
    def who(self) -> str:
        """Title of the method, or "by hand"."""
        wider = {"tensor": "", "module": " (module)", "all": " (all)"}[self.scope]
        return f"{method_title(self.method)}{wider}"


@dataclass(frozen=True)
class RangeRow:
    """A row of the range table. ``clipped`` and ``outliers`` are None if unknown.

    ``refusal`` is the reason why the range cannot be overridden, or "".
    """

    tensor: TensorRange
    name: str
    node: str
    outliers: float | None
    clipped: float | None
    sqnr_db: float | None
    decided: RangeOverride | None = None
    refusal: str = ""

    @property
    def is_editable(self) -> bool:
        """Whether the range can be overridden."""
        return not self.refusal

    @property
    def effective(self) -> Grid | None:
        """The effective grid: of the override if there is one, else of calibration."""
        if self.decided is not None and not self.decided.is_known:
            return None
        if self.decided is not None and self.decided.ends is not None:
            return scheme_of(self.tensor).grid(*self.decided.ends)
        return observed_grid(self.tensor) if self.is_known else None

    @property
    def step(self) -> float | None:
        """The scale of the effective grid."""
        grid = self.effective
        return grid.scale if grid is not None else None

    @property
    def is_known(self) -> bool:
        """Whether calibration observed the tensor."""
        tensor = self.tensor
        return (
            (bool(tensor.format) or 0 < tensor.scale < math.inf)
            and math.isfinite(tensor.minimum)
            and math.isfinite(tensor.maximum)
        )

    @property
    def width(self) -> float | None:
        """Maximum less minimum."""
        return self.tensor.maximum - self.tensor.minimum if self.is_known else None

    @property
    def grid(self) -> tuple[float, float] | None:
        """The minimum and maximum representable value."""
        grid = self.effective
        return (grid.low, grid.high) if grid is not None else None

    @property
    def type_text(self) -> str:
        """The type of its integers: weights of 4 bits are stored as int8."""
        return "int4" if self.label == "a8w4" else self.tensor.dtype

    @property
    def label(self) -> str:
        """The label of the precision whose colour the tensor has."""
        if self.tensor.format:
            return "custom"
        if self.tensor.kind == "weight" and self.tensor.qmax <= _MOST_4_BIT:
            return "a8w4"
        return _LABELS.get(self.tensor.dtype, "custom")


def range_rows(
    calibrated: CalibrateResult,
    arrays: Mapping[str, NDArray[np.float64]],
    evaluated: EvaluateResult | None,
    decided: Mapping[str, RangeOverride] | None = None,
) -> list[RangeRow]:
    """Return a row per tensor in program order; ``decided`` has the overrides by node."""
    quality = {t.tensor: t.sqnr_db for t in evaluated.tensors} if evaluated is not None else {}
    by_id = {tensor.id: tensor for tensor in calibrated.ranges}
    known = decided or {}
    rows = []
    for tensor in calibrated.ranges:
        again = by_id.get(tensor.node)
        node = again.node if again is not None else tensor.node
        is_weight = tensor.kind == "weight"
        name = title_of(tensor, by_id)
        is_second = again is not None or tensor.op == "call_module"
        source = node if again is not None else tensor.origin or node
        refusal = WEIGHT_REFUSAL if is_weight else _follows(source) if is_second else ""
        refusal = FORMAT_REFUSAL if tensor.format else refusal
        refusal = CALL_REFUSAL if tensor.dynamic else refusal
        mine = known.get(node) if not refusal else None
        row = RangeRow(tensor, name, node, None, None, None, mine)
        sqnr_db = None if is_weight or again is not None else quality.get(node)
        rows.append(
            RangeRow(tensor, name, node, _outliers(row), _clipped(row, arrays), sqnr_db, mine, refusal)
        )
    return rows


# Why the range of a number format cannot be overridden.
FORMAT_REFUSAL = (
    "Its values use a number format, whose parameters define its range. See Formats for its values."
)

CALL_REFUSAL = (
    "Every call computes its own range, so it cannot be overridden. This range is over all "
    "samples; the tab Calls shows the range of each call."
)


def _follows(node: str) -> str:
    return (
        f"This is the second quantized range of {node}, for a neighbour with another precision. It "
        f"follows that of {node}."
    )


def _outliers(row: RangeRow) -> float | None:
    inner = row.tensor.p_high - row.tensor.p_low
    return row.width / inner if row.width is not None and inner > 0 else None


def _clipped(row: RangeRow, arrays: Mapping[str, NDArray[np.float64]]) -> float | None:
    """Return the fraction of values more than half a step outside the grid."""
    grid = row.effective
    if grid is None or row.tensor.channels > 1:
        return None
    half = grid.scale / 2
    if row.tensor.minimum >= grid.low - half and row.tensor.maximum <= grid.high + half:
        return 0.0
    histogram = histogram_of(row.tensor, arrays)
    return histogram.clipped(grid) if histogram is not None else None


Arrays = dict[str, "NDArray[np.float64]"]

Channels = dict[int, "tuple[NDArray[np.float64], NDArray[np.float64]]"]

_PLAIN = ("histogram", "edges", "samples", "sample_min", "sample_max")


def read_histograms(folder: Path) -> Arrays:
    """Return ``histogram`` [T, B], ``edges`` [T, 2], and minimum and maximum by sample [T, S].

    Raises:
        WorkbenchError: the file is missing or damaged.
    """
    try:
        with np.load(folder / ARRAYS_FILE, allow_pickle=False) as file:
            return {name: file[name] for name in _PLAIN if name in file}
    except ZIP_ERRORS as error:
        raise _damaged() from error


def read_channels(folder: Path, rows: Sequence[RangeRow]) -> Iterator[Channels]:
    """Yield the row and the minimum and maximum of each channel, one tensor at a time.

    There can be hundreds of small arrays; the caller may pause between two of them.

    Raises:
        WorkbenchError: the file is missing or damaged.
    """
    try:
        with np.load(folder / ARRAYS_FILE, allow_pickle=False) as file:
            names = frozenset(file.files)
            for index, row in enumerate(rows):
                keys = [f"channel_{end}/{row.tensor.id}" for end in ("min", "max")]
                if names.issuperset(keys):
                    low, high = (_finite(file[key]) for key in keys)
                    if low.size == high.size:
                        yield {index: (low, high)}
    except ZIP_ERRORS as error:
        raise _damaged() from error


def _damaged() -> WorkbenchError:
    return failure(
        "The stored ranges are damaged.",
        "Calibrate again.",
        Place(kind="file", id=ARRAYS_FILE),
        code="ranges-damaged",
    )


def _finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    flat = values.reshape(-1).astype(np.float64)
    return np.where(np.isfinite(flat), flat, 0.0)

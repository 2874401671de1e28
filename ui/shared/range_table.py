"""Table of calibrated ranges, one row per tensor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QObject

from ui.shared.number_format import DASH, decibel, figure, percent
from ui.shared.sortable_table import Column, FigureTableModel
from workbench.analysis.histogram import Grid
from workbench.analysis.ranges import (
    METHOD_TITLES,
    METHODS_BY_ID,
    WEIGHT_REFUSAL,
    Choice,
    histogram_of,
    observed_grid,
    scheme_of,
    title_of,
)
from workbench.errors import Place, WorkbenchError, failure
from workbench.graph.labels import operator_name
from workbench.npz import ZIP_ERRORS
from workbench.project.configs import FixedRange, MethodScope, RangeMethod
from workbench.results import ARRAYS_FILE, CalibrateResult, EvaluateResult, TensorRange

if TYPE_CHECKING:
    from numpy.typing import NDArray


METHOD_COLUMNS: tuple[Column[Choice], ...] = (
    Column("Method", lambda c: c.title),
    Column(
        "SQNR",
        lambda c: decibel(c.sqnr_db),
        lambda c: c.sqnr_db,
        "Predicted from the histogram: rounding and clipping of this tensor only",
    ),
    Column(
        "Clipped",
        lambda c: percent(c.clipped),
        lambda c: c.clipped,
        "Fraction of values more than half a step outside the quantized range",
    ),
    Column("Step", lambda c: figure(c.grid.scale), lambda c: c.grid.scale),
    Column("Min", lambda c: figure(c.minimum), lambda c: c.minimum),
    Column("Max", lambda c: figure(c.maximum), lambda c: c.maximum),
)
ChoiceOfRange = FixedRange | RangeMethod


def method_title(method: str) -> str:
    """Return the title of a range method."""
    return METHOD_TITLES.get(method, "hand")


def _place(chosen: ChoiceOfRange) -> str:
    return chosen.place if isinstance(chosen, RangeMethod) else chosen.tensor


def _by(chosen: ChoiceOfRange) -> str:
    return method_title(chosen.method if isinstance(chosen, RangeMethod) else "")


def _end(chosen: ChoiceOfRange, name: str) -> float | None:
    return float(getattr(chosen, name)) if isinstance(chosen, FixedRange) else None


CHOSEN_COLUMNS: tuple[Column[ChoiceOfRange], ...] = (
    Column(
        "Scope",
        _place,
        meaning="Pinned ranges override methods; a tensor overrides its module, a module overrides all",
    ),
    Column("Source", _by),
    Column("Min", lambda c: figure(_end(c, "minimum")), lambda c: _end(c, "minimum")),
    Column("Max", lambda c: figure(_end(c, "maximum")), lambda c: _end(c, "maximum")),
)


def _choice_tip(choice: Choice) -> str:
    known = METHODS_BY_ID.get(choice.method)
    return known.meaning if known is not None else "Range of torchao's histogram observer"


def _chosen_tip(chosen: ChoiceOfRange) -> str:
    if isinstance(chosen, RangeMethod):
        return f"{_place(chosen)}: by {_by(chosen)}; updated when data, weights or precision change"
    return f"{chosen.tensor}: pinned by hand"


class MethodTableModel(FigureTableModel[Choice]):
    """The range of one tensor by every method."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(METHOD_COLUMNS, _choice_tip, parent)


class ChosenTableModel(FigureTableModel[ChoiceOfRange]):
    """The range overrides of the project."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(CHOSEN_COLUMNS, _chosen_tip, parent)

    @staticmethod
    def tensor_of(chosen: ChoiceOfRange) -> str:
        """Return the tensor of an override; "" if it covers more than one."""
        if isinstance(chosen, FixedRange):
            return chosen.tensor
        return chosen.match if chosen.scope == "tensor" else ""


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


def describe(row: RangeRow) -> str:
    """Return the figures of a tensor, one per line."""
    tensor = row.tensor
    lines = [f"{row.name}  ({tensor.kind}, {tensor.dtype})", f"{tensor.op}  {tensor.module}".strip()]
    if row.is_known and row.tensor.format:
        lines.append(f"observed  {figure(tensor.minimum)} to {figure(tensor.maximum)}")
    if row.is_known and row.grid is not None:
        channels = f", largest of {tensor.channels} channels" if tensor.channels > 1 else ""
        lines += [
            f"observed  {figure(tensor.minimum)} to {figure(tensor.maximum)}",
            f"99.8 %  {figure(tensor.p_low)} to {figure(tensor.p_high)}",
            f"quantized range  {figure(row.grid[0])} to {figure(row.grid[1])}",
            f"step  {figure(row.step)}{channels}",
        ]
    if tensor.dynamic:
        lines.append("one range per call; shown over all samples")
    if tensor.origin and tensor.origin != tensor.node and tensor.kind != "weight":
        lines.insert(2, f"node {tensor.origin}")
    if row.clipped is not None:
        lines.append(f"clipped  {percent(row.clipped)}")
    if row.sqnr_db is not None:
        lines.append(f"SQNR  {decibel(row.sqnr_db)}, measured on host")
    if tensor.problem:
        lines.append(tensor.problem)
    return "\n".join(lines)


def _dead(row: RangeRow) -> str:
    tensor = row.tensor
    return f"{tensor.dead} of {tensor.channels}" if tensor.channels > 1 else DASH


def _if_known(row: RangeRow, value: float) -> float | None:
    return value if row.is_known else None


COLUMNS: tuple[Column[RangeRow], ...] = (
    Column("#", lambda r: str(r.tensor.index), lambda r: r.tensor.index, "Program order"),
    Column("Tensor", lambda r: r.name),
    Column("Kind", lambda r: r.tensor.kind),
    Column("Type", lambda r: r.tensor.dtype, meaning="Integer type or number format"),
    Column(
        "Min",
        lambda r: figure(_if_known(r, r.tensor.minimum)),
        lambda r: _if_known(r, r.tensor.minimum),
        "Minimum observed value",
    ),
    Column(
        "Max",
        lambda r: figure(_if_known(r, r.tensor.maximum)),
        lambda r: _if_known(r, r.tensor.maximum),
        "Maximum observed value",
    ),
    Column("Width", lambda r: figure(r.width), lambda r: r.width, "Max - min"),
    Column(
        "Step",
        lambda r: figure(r.step),
        lambda r: r.step,
        "Quantization step; the largest one of per-channel weights",
    ),
    Column(
        "Outlier ratio",
        lambda r: figure(r.outliers, 3),
        lambda r: r.outliers,
        "Width divided by the width of the middle 99.8 % of values",
    ),
    Column(
        "Clipped",
        lambda r: percent(r.clipped),
        lambda r: r.clipped,
        "Fraction of values more than half a step outside the quantized range, from the "
        "histogram; unknown for per-channel grids",
    ),
    Column(
        "SQNR",
        lambda r: decibel(r.sqnr_db),
        lambda r: r.sqnr_db,
        "Float against quantized, measured on host (PyTorch)",
    ),
    Column(
        "Zeros",
        lambda r: percent(r.tensor.zeros),
        lambda r: r.tensor.zeros,
        "Fraction of values that are exactly zero",
    ),
    Column(
        "Dead",
        _dead,
        lambda r: r.tensor.dead if r.tensor.channels > 1 else None,
        "Channels with only zero values",
    ),
    Column(
        "Override",
        lambda r: r.decided.who if r.decided is not None else "",
        meaning="Source of the range that replaces calibration's range",
    ),
    Column(
        "Zero point",
        lambda r: str(r.effective.zero_point) if r.effective else DASH,
        lambda r: r.effective.zero_point if r.effective else None,
        "Integer that represents 0",
    ),
    Column("Operator", lambda r: operator_name(r.tensor.op)),
    Column("Module", lambda r: r.tensor.module or DASH),
    Column("Observer", lambda r: r.tensor.observer),
    Column("Problem", lambda r: r.tensor.problem),
)


class RangeTableModel(FigureTableModel[RangeRow]):
    """The observed tensors."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(COLUMNS, describe, parent)


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
        "Run Calibrate again.",
        Place(kind="file", id=ARRAYS_FILE),
        code="ranges-damaged",
    )


def _finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    flat = values.reshape(-1).astype(np.float64)
    return np.where(np.isfinite(flat), flat, 0.0)

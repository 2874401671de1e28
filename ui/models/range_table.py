"""What calibration saw, one row per tensor, with what follows from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QObject

from ui.figures import DASH, decibel, figure, percent
from ui.models.figure_table import Column, FigureTableModel
from ui.models.method_table import method_title
from workbench.analysis.histogram import Grid
from workbench.analysis.ranges import (
    WEIGHT_REFUSAL,
    histogram_of,
    observed_grid,
    scheme_of,
    title_of,
)
from workbench.graph.labels import operator_name
from workbench.project.configs import MethodScope
from workbench.results import CalibrateResult, EvaluateResult, TensorRange

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LABELS = {"int8": "a8w8", "int16": "a16w8", "uint8": "uint8", "int32": "a16w8"}
_MOST_4_BIT = 7


@dataclass(frozen=True)
class Decided:
    """What the project decides of one tensor's range.

    ``method`` is "" for numbers given by hand; ``ends`` None where calibration's own range
    stands, or while the method still searches, which ``is_known`` tells.
    """

    method: str
    scope: MethodScope
    ends: tuple[float, float] | None
    is_known: bool = True

    @property
    def who(self) -> str:
        """Who or what decided, in words."""
        wider = {"tensor": "", "module": " (module)", "all": " (all)"}[self.scope]
        return f"{method_title(self.method)}{wider}"


@dataclass(frozen=True)
class RangeRow:
    """A tensor as it is shown. ``clipped`` and ``outliers`` are None where they cannot be known.

    ``refusal`` says why its range cannot be chosen; "" where it can.
    """

    tensor: TensorRange
    name: str
    node: str
    outliers: float | None
    clipped: float | None
    sqnr_db: float | None
    decided: Decided | None = None
    refusal: str = ""

    @property
    def is_editable(self) -> bool:
        """Whether its range can be chosen."""
        return not self.refusal

    @property
    def effective(self) -> Grid | None:
        """The grid that holds: of the chosen range if there is one, else calibration's."""
        if self.decided is not None and not self.decided.is_known:
            return None
        if self.decided is not None and self.decided.ends is not None:
            return scheme_of(self.tensor).grid(*self.decided.ends)
        return observed_grid(self.tensor) if self.is_known else None

    @property
    def step(self) -> float | None:
        """The scale of that grid."""
        grid = self.effective
        return grid.scale if grid is not None else None

    @property
    def is_known(self) -> bool:
        """Whether calibration reached it."""
        tensor = self.tensor
        return (
            (bool(tensor.format) or 0 < tensor.scale < math.inf)
            and math.isfinite(tensor.minimum)
            and math.isfinite(tensor.maximum)
        )

    @property
    def width(self) -> float | None:
        """How far apart the least and the greatest value are."""
        return self.tensor.maximum - self.tensor.minimum if self.is_known else None

    @property
    def grid(self) -> tuple[float, float] | None:
        """The least and the greatest value that the integers stand for."""
        grid = self.effective
        return (grid.low, grid.high) if grid is not None else None

    @property
    def label(self) -> str:
        """The precision whose colour the tensor has."""
        if self.tensor.format:
            return "custom"
        if self.tensor.kind == "weight" and self.tensor.qmax <= _MOST_4_BIT:
            return "a8w4"
        return _LABELS.get(self.tensor.dtype, "custom")


def range_rows(
    calibrated: CalibrateResult,
    arrays: Mapping[str, NDArray[np.float64]],
    evaluated: EvaluateResult | None,
    decided: Mapping[str, Decided] | None = None,
) -> list[RangeRow]:
    """Return a row per tensor, in the order of the program; ``decided`` by node."""
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
            RangeRow(
                tensor, name, node, _outliers(row), _clipped(row, arrays), sqnr_db, mine, refusal,
            )
        )  # fmt: skip
    return rows


# Why nobody chooses the range of a number format, in words.
FORMAT_REFUSAL = (
    "Its values go to a number format, whose parameters and not a range say what it reaches. "
    "Formats shows its grid against these values."
)


CALL_REFUSAL = (
    "Every call takes a range of its own, from that call's values; nobody chooses it. What stands "
    "here is over all samples; the page Calls shows one range for each."
)


def _follows(node: str) -> str:
    return (
        f"This is the second grid of {node}, for a neighbour of another precision. Its range "
        f"follows that of {node} and is not chosen by itself."
    )


def _outliers(row: RangeRow) -> float | None:
    inner = row.tensor.p_high - row.tensor.p_low
    return row.width / inner if row.width is not None and inner > 0 else None


def _clipped(row: RangeRow, arrays: Mapping[str, NDArray[np.float64]]) -> float | None:
    """Return the share of values that the grid cannot reach to within half a step."""
    grid = row.effective
    if grid is None or row.tensor.channels > 1:
        return None
    half = grid.scale / 2
    if row.tensor.minimum >= grid.low - half and row.tensor.maximum <= grid.high + half:
        return 0.0
    histogram = histogram_of(row.tensor, arrays)
    return histogram.clipped(grid) if histogram is not None else None


def describe(row: RangeRow) -> str:
    """Return the figures of a tensor in lines."""
    tensor = row.tensor
    lines = [
        f"{row.name}  ({tensor.kind}, {tensor.dtype})",
        f"{tensor.op}  {tensor.module}".strip(),
    ]
    if row.is_known and row.tensor.format:
        lines.append(f"seen  {figure(tensor.minimum)} to {figure(tensor.maximum)}")
    if row.is_known and row.grid is not None:
        each = f", largest of {tensor.channels} channels" if tensor.channels > 1 else ""
        lines += [
            f"seen  {figure(tensor.minimum)} to {figure(tensor.maximum)}",
            f"99.8 %  {figure(tensor.p_low)} to {figure(tensor.p_high)}",
            f"grid  {figure(row.grid[0])} to {figure(row.grid[1])}",
            f"step  {figure(row.step)}{each}",
        ]
    if tensor.dynamic:
        lines.append("a range at every call; these ends are over all samples")
    if tensor.origin and tensor.origin != tensor.node and tensor.kind != "weight":
        lines.insert(2, f"in {tensor.origin} of the graph")
    if row.clipped is not None:
        lines.append(f"outside the grid  {percent(row.clipped)}")
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
    Column("#", lambda r: str(r.tensor.index), lambda r: r.tensor.index, "Order of the program"),
    Column("Tensor", lambda r: r.name),
    Column("Kind", lambda r: r.tensor.kind),
    Column("Type", lambda r: r.tensor.dtype, meaning="Type of the integers, or number format"),
    Column("Min", lambda r: figure(_if_known(r, r.tensor.minimum)),
           lambda r: _if_known(r, r.tensor.minimum), "Least value seen"),
    Column("Max", lambda r: figure(_if_known(r, r.tensor.maximum)),
           lambda r: _if_known(r, r.tensor.maximum), "Greatest value seen"),
    Column("Width", lambda r: figure(r.width), lambda r: r.width, "Max less min"),
    Column("Step", lambda r: figure(r.step), lambda r: r.step,
           "Scale of the grid; of weights with channels the largest"),
    Column("Outlier ratio", lambda r: figure(r.outliers, 3), lambda r: r.outliers,
           "Width over the width of the middle 99.8 % of the values"),
    Column("Clipped", lambda r: percent(r.clipped), lambda r: r.clipped,
           "Share of values more than half a step outside the grid, from the histogram; "
           "not known where each channel has a grid of its own"),
    Column("SQNR", lambda r: decibel(r.sqnr_db), lambda r: r.sqnr_db,
           "Float against quantized, measured on host (PyTorch)"),
    Column("Zeros", lambda r: percent(r.tensor.zeros), lambda r: r.tensor.zeros,
           "Share of values that are exactly zero"),
    Column("Dead", _dead, lambda r: r.tensor.dead if r.tensor.channels > 1 else None,
           "Channels of which all values are zero"),
    Column("Chosen", lambda r: r.decided.who if r.decided is not None else "",
           meaning="Who or what sets the range in place of calibration"),
    Column("Zero point", lambda r: str(r.effective.zero_point) if r.effective else DASH,
           lambda r: r.effective.zero_point if r.effective else None,
           "Integer that stands for 0"),
    Column("Operator", lambda r: operator_name(r.tensor.op)),
    Column("Module", lambda r: r.tensor.module or DASH),
    Column("Observer", lambda r: r.tensor.observer),
    Column("Problem", lambda r: r.tensor.problem),
)  # fmt: skip


class RangeTableModel(FigureTableModel[RangeRow]):
    """All observed tensors."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(COLUMNS, describe, parent)

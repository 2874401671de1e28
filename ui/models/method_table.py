"""What every method would give a tensor, and what is fixed, as rows."""

from __future__ import annotations

from PySide6.QtCore import QObject

from ui.figures import decibel, figure, percent
from ui.models.figure_table import Column, FigureTableModel
from workbench.numerics.methods import METHODS_BY_ID
from workbench.numerics.tensors import Choice
from workbench.project.fixed_range import FixedRange

METHOD_COLUMNS: tuple[Column[Choice], ...] = (
    Column("Method", lambda c: c.title),
    Column("SQNR", lambda c: decibel(c.sqnr_db), lambda c: c.sqnr_db,
           "Predicted from the histogram: this tensor's own rounding and clipping alone"),
    Column("Clipped", lambda c: percent(c.clipped), lambda c: c.clipped,
           "Share of values the grid cannot reach to within half a step"),
    Column("Step", lambda c: figure(c.grid.scale), lambda c: c.grid.scale),
    Column("Min", lambda c: figure(c.minimum), lambda c: c.minimum),
    Column("Max", lambda c: figure(c.maximum), lambda c: c.maximum),
)  # fmt: skip
FIXED_COLUMNS: tuple[Column[FixedRange], ...] = (
    Column("Tensor", lambda f: f.tensor),
    Column("Min", lambda f: figure(f.minimum), lambda f: f.minimum),
    Column("Max", lambda f: figure(f.maximum), lambda f: f.maximum),
    Column("By", lambda f: method_title(f.by)),
)


def method_title(method: str) -> str:
    """Return who or what gave a range, in words."""
    known = METHODS_BY_ID.get(method)
    return known.title if known is not None else method or "hand"


def _choice_tip(choice: Choice) -> str:
    known = METHODS_BY_ID.get(choice.method)
    return known.meaning if known is not None else "What torchao's histogram observer finds"


def _fixed_tip(fixed: FixedRange) -> str:
    return f"{fixed.tensor}: fixed by {method_title(fixed.by)}"


class MethodTableModel(FigureTableModel[Choice]):
    """What every method would give one tensor."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(METHOD_COLUMNS, _choice_tip, parent)


class FixedTableModel(FigureTableModel[FixedRange]):
    """All ranges that the project fixes."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(FIXED_COLUMNS, _fixed_tip, parent)

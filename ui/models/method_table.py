"""What every method would give a tensor, and what is chosen, as rows."""

from __future__ import annotations

from PySide6.QtCore import QObject

from ui.figures import decibel, figure, percent
from ui.models.figure_table import Column, FigureTableModel
from workbench.analysis.ranges import METHOD_TITLES, METHODS_BY_ID, Choice
from workbench.project.configs import FixedRange, RangeMethod

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
ChoiceOfRange = FixedRange | RangeMethod


def method_title(method: str) -> str:
    """Return who or what gave a range, in words."""
    return METHOD_TITLES.get(method, "hand")


def _place(chosen: ChoiceOfRange) -> str:
    return chosen.place if isinstance(chosen, RangeMethod) else chosen.tensor


def _by(chosen: ChoiceOfRange) -> str:
    return method_title(chosen.method if isinstance(chosen, RangeMethod) else "")


def _end(chosen: ChoiceOfRange, name: str) -> float | None:
    return float(getattr(chosen, name)) if isinstance(chosen, FixedRange) else None


CHOSEN_COLUMNS: tuple[Column[ChoiceOfRange], ...] = (
    Column("For", _place, meaning="Numbers beat methods, a tensor its module, a module all"),
    Column("By", _by),
    Column("Min", lambda c: figure(_end(c, "minimum")), lambda c: _end(c, "minimum")),
    Column("Max", lambda c: figure(_end(c, "maximum")), lambda c: _end(c, "maximum")),
)


def _choice_tip(choice: Choice) -> str:
    known = METHODS_BY_ID.get(choice.method)
    return known.meaning if known is not None else "What torchao's histogram observer finds"


def _chosen_tip(chosen: ChoiceOfRange) -> str:
    if isinstance(chosen, RangeMethod):
        return (
            f"{_place(chosen)}: by {_by(chosen)}, taken anew whenever data, weights or "
            "precision change"
        )
    return f"{chosen.tensor}: fixed by hand"


class MethodTableModel(FigureTableModel[Choice]):
    """What every method would give one tensor."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(METHOD_COLUMNS, _choice_tip, parent)


class ChosenTableModel(FigureTableModel[ChoiceOfRange]):
    """All that the project decides of ranges."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(CHOSEN_COLUMNS, _chosen_tip, parent)

    @staticmethod
    def tensor_of(chosen: ChoiceOfRange) -> str:
        """Return the one tensor that a choice is for; "" when it is for more."""
        if isinstance(chosen, FixedRange):
            return chosen.tensor
        return chosen.match if chosen.scope == "tensor" else ""

"""The ranges that a project decides itself, in numbers, for the stages that use them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.numerics.methods import METHOD_TITLES, METHODS_BY_ID
from workbench.numerics.taking import RangeTaker, read_chosen

if TYPE_CHECKING:
    from workbench.engine.context import StageContext
    from workbench.project.range_method import RangeMethod

_TAKER = "range taker"
_NAMED = 3


def chosen_ranges(context: StageContext) -> tuple[dict[str, tuple[float, float]], list[str]]:
    """Return minimum and maximum by node of each range that the project decides.

    Returns:
        Ranges given in numbers or taken by a method from the present calibration, and sentences
        about tensors of which a method takes none.
    """
    taker = context.store.get(_TAKER, "")
    if taker is None:
        taker = RangeTaker()
        context.store.keep(_TAKER, "", taker)
    found, declined = read_chosen(context.project, context.path("calibrate"), taker)
    by_choice: dict[RangeMethod, list[str]] = {}
    for row, chosen in declined:
        by_choice.setdefault(chosen, []).append(row.node)
    return found, [_sentence(chosen, tensors) for chosen, tensors in by_choice.items()]


def _sentence(chosen: RangeMethod, tensors: list[str]) -> str:
    more = f" and {len(tensors) - _NAMED} more" if len(tensors) > _NAMED else ""
    known = METHODS_BY_ID.get(chosen.method)
    why = f" ({known.meaning})" if known is not None else ""
    return (
        f"{METHOD_TITLES[chosen.method]} takes no range of {', '.join(tensors[:_NAMED])}{more}"
        f"{why}: what calibration found stands."
    )

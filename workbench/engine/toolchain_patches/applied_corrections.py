"""The functions of the corrections and rewrites that a project's options leave on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from workbench.engine.rewrites import norms, strides, tails
from workbench.engine.toolchain_patches import (
    bounded_masks,
    corrections,
    delegate_graphs,
    foldable_norms,
    pass_corrections,
    plain_operators,
    refined_grids,
    refined_tables,
    rewritten_operators,
)
from workbench.engine.toolchain_patches.gate import correction_state
from workbench.results import AppliedCorrection
from workbench.targets.ethos_u.correction import Facet, Step
from workbench.targets.ethos_u.corrections import CORRECTIONS
from workbench.targets.ethos_u.rewrites import wanted_rewrites

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue


def correction_functions(
    options: Mapping[str, JsonValue], facet: Facet
) -> tuple[dict[Step, dict[str, Any]], tuple[AppliedCorrection, ...]]:
    """Return the functions of the corrections that are applied, and what becomes of each.

    Args:
        options: The options of the project's target.
        facet: The stage of the corrections.

    Returns:
        By step and id the functions, in the order of the table; and the state of every correction
        of the stage, without places.
    """
    functions: dict[Step, dict[str, Any]] = {step: {} for step in get_args(Step)}
    rows = [row for row in CORRECTIONS if row.facet == facet]
    states = tuple(
        AppliedCorrection(id=row.id, state=correction_state(row.id, options)) for row in rows
    )
    for row, applied in zip(rows, states, strict=True):
        if applied.state == "on":
            functions[row.step][row.id] = _FUNCTIONS[row.function]
    return functions, states


def rewrite_functions(options: Mapping[str, JsonValue]) -> dict[str, Any]:
    """Return the functions of the rewrites by id, in the order of the table.

    Args:
        options: The options of the project's target.
    """
    return {row.id: _FUNCTIONS[row.function] for row in wanted_rewrites(options)}


_FUNCTIONS = {
    name: value
    for module in (
        bounded_masks,
        corrections,
        delegate_graphs,
        foldable_norms,
        norms,
        pass_corrections,
        plain_operators,
        refined_grids,
        refined_tables,
        rewritten_operators,
        strides,
        tails,
    )
    for name, value in vars(module).items()
}

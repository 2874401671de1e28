"""The functions of the corrections and rewrites that a project's options leave on."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from workbench.engine.ethos_u import corrections, rewrites
from workbench.engine.ethos_u.corrections import lowering
from workbench.engine.toolchain_patches.patching import Pins, changed, sources_match
from workbench.results import AppliedCorrection, CorrectionState
from workbench.targets.ethos_u.corrections import (
    CORRECTIONS,
    CORRECTIONS_BY_ID,
    Correction,
    Facet,
    is_enabled,
)
from workbench.targets.ethos_u.rewrites import enabled_rewrites

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from pydantic import JsonValue

_LOGGER = logging.getLogger(__name__)


def correction_functions(
    options: Mapping[str, JsonValue], facet: Facet
) -> tuple[dict[str, tuple[Any, ...]], tuple[AppliedCorrection, ...]]:
    """Return the functions of the corrections that are applied, and what becomes of each.

    Args:
        options: The options of the project's target.
        facet: The stage of the corrections.

    Returns:
        The functions by their module, in the order in which they apply; and the state of every
        correction of the stage, without places.
    """
    functions: dict[str, tuple[Any, ...]] = {}
    rows = [row for row in CORRECTIONS if row.facet == facet]
    states = tuple(AppliedCorrection(id=row.id, state=correction_state(row.id, options)) for row in rows)
    for row, applied in zip(rows, states, strict=True):
        if applied.state == "on":
            known = functions.get(row.module, ())
            functions[row.module] = (*known, getattr(_module(row), row.id))
    return functions, states


def correction_state(correction: str, options: Mapping[str, JsonValue]) -> CorrectionState:
    """Return whether a correction is applied; one log line where the tools have other code.

    Args:
        correction: An id of ``workbench.targets.ethos_u.corrections``.
        options: The options of the project's target.
    """
    if not is_enabled(correction, options):
        return "off"
    row = CORRECTIONS_BY_ID[correction]
    if row.module in lowering.ABSENT:
        _LOGGER.warning("%s is off: ExecuTorch has no pass to insert it at.", row.title)
        return "aside"
    sets = pins_of(row)
    if not sets or any(not changed(pins) for pins in sets):
        return "on"
    return "on" if sources_match(row.title, sets[0]) else "aside"


def pins_of(row: Correction) -> tuple[Pins, ...]:
    """Return the sets of pinned functions of a correction, one of which has to be as it was."""
    module = _module(row)
    sets: dict[str, tuple[Pins, ...]] = getattr(module, "PINS", {})
    return sets.get(row.id, ())


def _module(row: Correction) -> ModuleType:
    return import_module(f"{corrections.__name__}.{row.module}")


def rewrite_functions(options: Mapping[str, JsonValue]) -> dict[str, Any]:
    """Return the functions of the rewrites by id, in the order of the table.

    Args:
        options: The options of the project's target.
    """
    return {
        row.id: getattr(import_module(f"{rewrites.__name__}.{row.module}"), row.function)
        for row in enabled_rewrites(options)
    }

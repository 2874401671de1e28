"""The functions of the rewrites that a project's options leave on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.engine.rewrites import norms, strides, tails
from workbench.targets.ethos_u.rewrites import wanted_rewrites

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue


def rewrite_functions(options: Mapping[str, JsonValue]) -> dict[str, Any]:
    """Return the functions of the rewrites by id, in the order of the table.

    Args:
        options: The options of the project's target.
    """
    return {row.id: _FUNCTIONS[row.function] for row in wanted_rewrites(options)}


_FUNCTIONS = {
    name: value for module in (norms, strides, tails) for name, value in vars(module).items()
}

"""Number formats without torch: what there is, and what parameters each takes."""

from __future__ import annotations

import difflib

from workbench.errors import Place, failure
from workbench.targets.number_formats.parameters import ROLES, ParameterSpec, Role, read
from workbench.targets.number_formats.table import SPECS, SchemeSpec

__all__ = ["ROLES", "SPECS", "ParameterSpec", "Role", "SchemeSpec", "read", "spec_of"]

_BY_NAME = {name: spec for spec in SPECS for name in (spec.name, *spec.aliases)}


def spec_of(name: str) -> SchemeSpec:
    """Return the number format of that name.

    Raises:
        WorkbenchError: there is none.
    """
    if (spec := _BY_NAME.get(name)) is not None:
        return spec
    close = difflib.get_close_matches(name, _BY_NAME, 1)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    raise failure(
        f"There is no number format {name!r}.",
        f"{hint}Known: {', '.join(spec.name for spec in SPECS)}.",
        Place(kind="option", id="scheme"),
    )

"""Taking a former configuration up again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.project.edits import revise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workbench.project.fixed_range import FixedRange
    from workbench.project.improvers import ImproverId
    from workbench.project.model import Project, Rule
    from workbench.project.qconfig import QuantConfig


def restore_rules(
    project: Project, rules: Sequence[Rule], presets: Mapping[str, QuantConfig],
    improvers: tuple[ImproverId, ...] = (), ranges: tuple[FixedRange, ...] = (),
) -> Project:  # fmt: skip
    """Return the project with other rules, improvers and fixed ranges, and presets for the rules.

    Presets of the project stay, save those of the same name.
    """
    named = {rule.config for rule in rules if isinstance(rule.config, str)}
    wanted = {name: config for name, config in presets.items() if name in named}
    return revise(project, rules=tuple(rules), presets={**project.presets, **wanted},
                  improvers=improvers, ranges=ranges)  # fmt: skip

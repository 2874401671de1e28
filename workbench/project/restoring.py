"""Taking a former configuration up again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.project.edits import revise

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workbench.project.fixed_range import FixedRange
    from workbench.project.improvers import ImproverId
    from workbench.project.model import Project, Rule
    from workbench.project.qconfig import Config
    from workbench.project.range_method import RangeMethod


def restore_rules(
    project: Project, rules: Sequence[Rule], presets: Mapping[str, Config],
    improvers: tuple[ImproverId, ...] = (), ranges: tuple[FixedRange, ...] = (),
    range_methods: tuple[RangeMethod, ...] = (),
) -> Project:  # fmt: skip
    """Return the project with other rules, improvers, choices of ranges and the rules' presets.

    Presets of the project stay, save those of the same name.
    """
    named = {rule.config for rule in rules if isinstance(rule.config, str)}
    wanted = {name: config for name, config in presets.items() if name in named}
    return revise(project, rules=tuple(rules), presets={**project.presets, **wanted},
                  improvers=improvers, ranges=ranges,
                  range_methods=range_methods)  # fmt: skip

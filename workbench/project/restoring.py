"""Taking a former configuration up again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from workbench.project.edits import revise

if TYPE_CHECKING:
    from workbench.project.model import Project, Rule
    from workbench.project.qconfig import Config

# The fields that a project and a run of it share: what was decided.
DECIDED = ("rules", "improvers", "trained_weights", "ranges", "range_methods")


class Kept(Protocol):
    """A configuration that was kept, with all fields of ``DECIDED``."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, general first."""

    @property
    def presets(self) -> dict[str, Config]:
        """Named configs that rules may use."""


def restore_rules(project: Project, kept: Kept) -> Project:
    """Return the project with the rules, weights and choices of ranges of a former configuration.

    Presets of the project stay, save those of the same name that the rules use.
    """
    named = {rule.config for rule in kept.rules if isinstance(rule.config, str)}
    wanted = {name: config for name, config in kept.presets.items() if name in named}
    decided = {name: getattr(kept, name) for name in DECIDED}
    return revise(project, presets={**project.presets, **wanted}, **decided)

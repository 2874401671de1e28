"""A project with the folder that its relative paths start from: one value in place of two."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from workbench.escaping import html_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from workbench.project.model import Project, Rule


@dataclass(frozen=True)
class OpenProject:
    """A project, and the folder that its relative paths start from.

    The value is frozen: every change returns a new one. Nothing is written before ``save``.

    Attributes:
        project: The project itself.
        folder: Where relative paths of the project start.
        path: The project file; None for a project that was never saved. Two values that differ
            in it alone are equal: no result depends on it.
    """

    project: Project
    folder: Path
    path: Path | None = field(default=None, compare=False)

    def edited(self, edit: Callable[[Project], Project]) -> OpenProject:
        """Return the project after an edit (a function of ``workbench.project.edits``)."""
        return replace(self, project=edit(self.project))

    def _repr_html_(self) -> str:
        rows = [(rule.id, rule.kind, rule.match, _config_text(rule)) for rule in self.project.rules]
        title = f"{self.project.name} for {self.project.target.id}"
        return html_table(title, ("rule", "kind", "match", "config"), rows)


def _config_text(rule: Rule) -> str:
    return rule.config if isinstance(rule.config, str) else type(rule.config).__name__

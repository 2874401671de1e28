"""A suggestion: what to change, why, what can be expected, and the edit if there is one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.project.model import Project

    Edit = Callable[[Project], Project]


@dataclass(frozen=True)
class Written:
    """A line of the model's source as it is and as it could be; ``place`` is ``file.py:12``.

    ``now`` is empty where the line is not known.
    """

    place: str
    now: str
    instead: str


@dataclass(frozen=True)
class Suggestion:
    """One thing to do.

    Attributes:
        id: The same for the same suggestion about another result.
        title: What to do, and the name of its undo step.
        evidence: Why, in a sentence or two.
        expected: What it should bring, and how that is known.
        nodes: The operators on the CPU that it is about, as the compiled program names them.
        edit: The change of the project; None where only the source can be changed.
        written: The lines of source to change.
    """

    id: str
    title: str
    evidence: str
    expected: str
    nodes: tuple[str, ...] = ()
    edit: Edit | None = None
    written: tuple[Written, ...] = ()

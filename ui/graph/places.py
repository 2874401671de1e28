"""Places in a drawing to come back to: bookmarks, back and forward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ui.graph.camera import Camera
    from workbench.graph.hierarchy import Shape

PLACES_KEPT = 100


@dataclass(frozen=True, slots=True)
class Place:
    """What shows: the open groups and the camera.

    With an ``anchor`` the camera's x and y are the way from that item's corner to the middle of
    the window, which outlives a change of the layout.
    """

    expanded: frozenset[str]
    camera: Camera
    shape: Shape = "modules"
    anchor: str = ""


class History:
    """The places that were left, and those that were gone back from."""

    def __init__(self) -> None:
        self._behind: list[Place] = []
        self._ahead: list[Place] = []

    def leave(self, place: Place) -> None:
        """Remember a place that is about to be left for a new one."""
        if not self._behind or self._behind[-1] != place:
            self._behind = [*self._behind[-PLACES_KEPT:], place]
        self._ahead.clear()

    def back(self, here: Place) -> Place | None:
        """Return the place before this one; None at the beginning."""
        while self._behind and self._behind[-1] == here:
            self._behind.pop()
        if not self._behind:
            return None
        self._ahead.append(here)
        return self._behind.pop()

    def forward(self, here: Place) -> Place | None:
        """Return the place that was last gone back from; None if there is none."""
        if not self._ahead:
            return None
        self._behind.append(here)
        return self._ahead.pop()

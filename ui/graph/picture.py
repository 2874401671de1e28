"""All that one painting of the graph depends on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF, QSizeF

if TYPE_CHECKING:
    from ui.graph.camera import Camera
    from ui.graph.marks import Marks
    from ui.graph.scene import Scene

TINY, FAR, CLOSE = 0.02, 0.25, 0.45
MANY = 700


@dataclass(frozen=True, slots=True)
class Picture:
    """A scene through a camera, with marks, selection and what moves.

    ``joints`` are pairs of items that a selected operation reads from or writes to.
    ``progress`` is 1.0 when everything stands where the scene has it; below that, items in
    ``origins`` are on their way from there. ``part`` is the piece of the drawing to be painted, all
    that shows if None; ``is_far`` says how, if that is decided already.
    """

    scene: Scene
    camera: Camera
    size: QSizeF
    marks: Marks
    selected: frozenset[str] = frozenset()
    current: str | None = None
    hovered: str | None = None
    joints: tuple[tuple[str, str], ...] = ()
    origins: dict[str, QRectF] = field(default_factory=dict)
    progress: float = 1.0
    part: QRectF | None = None
    is_far: bool | None = None

    @property
    def area(self) -> QRectF:
        """The part of the drawing that shows, or is to be painted."""
        return self.camera.shown(self.size) if self.part is None else self.part

    def rect(self, item: str) -> QRectF:
        """Return where an item is at this moment."""
        rect = self.scene.rect(item)
        origin = self.origins.get(item)
        if self.progress >= 1.0 or origin is None:
            return rect
        back = 1.0 - self.progress
        return QRectF(
            rect.x() + (origin.x() - rect.x()) * back,
            rect.y() + (origin.y() - rect.y()) * back,
            rect.width() + (origin.width() - rect.width()) * back,
            rect.height() + (origin.height() - rect.height()) * back,
        )

    def is_selected(self, item: str) -> bool:
        """Tell whether an operation, or anything in a closed group, is selected."""
        if item not in self.scene.hierarchy.groups:
            return item in self.selected
        return bool(self.selected) and any(
            leaf in self.selected for leaf in self.scene.hierarchy.leaves(item)
        )


def bottom_middle(rect: QRectF) -> QPointF:
    """Return where lines leave a box."""
    return QPointF(rect.center().x(), rect.bottom())


def top_middle(rect: QRectF) -> QPointF:
    """Return where lines enter a box."""
    return QPointF(rect.center().x(), rect.top())

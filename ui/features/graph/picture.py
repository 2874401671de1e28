"""The inputs of one paint of the graph: ``Picture`` and ``Camera``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF, QSizeF

if TYPE_CHECKING:
    from ui.features.graph.marks import Marks
    from ui.features.graph.scene import Scene
    from workbench.graph.layout import Flow


TINY, FAR, CLOSE = 0.02, 0.25, 0.45
MANY = 700


@dataclass(frozen=True, slots=True)
class Picture:
    """A scene with camera, marks, selection and animation state.

    ``joints`` are pairs of items that edges of the selection connect.
    ``progress`` is 1.0 without an animation; below that, items in
    ``origins`` move from there. ``part`` is the area to paint, None is the visible
    area. ``is_far`` is whether to paint zoomed out; None decides by scale and count.
    ``strip`` is the part of the widget beside the drawing that has the minimap.
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
    strip: QRectF = field(default_factory=QRectF)

    @property
    def area(self) -> QRectF:
        """The area to paint, in scene coordinates."""
        return self.camera.shown(self.size) if self.part is None else self.part

    def rect(self, item: str) -> QRectF:
        """Return the present rectangle of an item."""
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
        """Return whether an operation, or anything in a closed group, is selected."""
        if item not in self.scene.hierarchy.groups:
            return item in self.selected
        return bool(self.selected) and any(
            leaf in self.selected for leaf in self.scene.hierarchy.leaves(item)
        )


def way_out(rect: QRectF, flow: Flow) -> QPointF:
    """Return the point where lines leave a box."""
    if flow == "right":
        return QPointF(rect.right(), rect.center().y())
    return QPointF(rect.center().x(), rect.bottom())


def way_in(rect: QRectF, flow: Flow) -> QPointF:
    """Return the point where lines enter a box."""
    if flow == "right":
        return QPointF(rect.left(), rect.center().y())
    return QPointF(rect.center().x(), rect.top())


SMALLEST, LARGEST = 0.004, 4.0
FIT_MARGIN = 24.0
READABLE = 0.5


@dataclass(frozen=True, slots=True)
class Camera:
    """The scale, and the scene position at the upper left corner of the widget."""

    scale: float = 1.0
    x: float = 0.0
    y: float = 0.0

    def to_scene(self, point: QPointF) -> QPointF:
        """Return the scene position at a widget position."""
        return QPointF(point.x() / self.scale + self.x, point.y() / self.scale + self.y)

    def to_window(self, point: QPointF) -> QPointF:
        """Return the widget position of a scene position."""
        return QPointF((point.x() - self.x) * self.scale, (point.y() - self.y) * self.scale)

    def shown(self, size: QSizeF) -> QRectF:
        """Return the visible area of a widget of that size."""
        return QRectF(self.x, self.y, size.width() / self.scale, size.height() / self.scale)

    def zoomed(self, factor: float, anchor: QPointF) -> Camera:
        """Return the camera zoomed around the widget position ``anchor``."""
        scale = min(max(self.scale * factor, SMALLEST), LARGEST)
        point = self.to_scene(anchor)
        return Camera(scale, point.x() - anchor.x() / scale, point.y() - anchor.y() / scale)

    def panned(self, dx: float, dy: float) -> Camera:
        """Return the camera panned by widget pixels."""
        return Camera(self.scale, self.x - dx / self.scale, self.y - dy / self.scale)

    def centred(self, rect: QRectF, size: QSizeF) -> Camera:
        """Return the camera centred on ``rect``."""
        middle = rect.center()
        return Camera(
            self.scale,
            middle.x() - size.width() / 2 / self.scale,
            middle.y() - size.height() / 2 / self.scale,
        )


def fit(rect: QRectF, size: QSizeF, smallest: float = SMALLEST, flow: Flow = "down") -> Camera:
    """Return the camera that shows all of ``rect``, or its start if the scale would be too small.

    The start is the top across its width, in a flow to the right the left side across its height,
    and the upper left corner of a wrapped drawing.
    """
    width, height = max(rect.width(), 1.0), max(rect.height(), 1.0)
    room = QSizeF(size.width() - 2 * FIT_MARGIN, size.height() - 2 * FIT_MARGIN)
    scale = min(room.width() / width, room.height() / height, 1.25)
    if scale >= smallest:
        return Camera(max(scale, SMALLEST)).centred(rect, size)
    left, top = rect.left() - FIT_MARGIN / smallest, rect.top() - FIT_MARGIN / smallest
    if flow == "wrapped":
        return Camera(smallest, left, top)
    across = room.height() / height if flow == "right" else room.width() / width
    scale = min(max(smallest, SMALLEST), max(across, SMALLEST))
    if flow == "right":
        top = rect.center().y() - size.height() / 2 / scale
        return Camera(scale, rect.left() - FIT_MARGIN / scale, top)
    left = rect.center().x() - size.width() / 2 / scale
    return Camera(scale, left, rect.top() - FIT_MARGIN / scale)

"""Paints the headers of open groups: name, toggle sign and number of tensors in and out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from ui.features.graph.picture import CLOSE
from ui.features.graph.scene import TOGGLE
from workbench.graph.labels import elide, type_label
from workbench.graph.layout import HEADER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ui.features.graph.palette import Palette
    from ui.features.graph.picture import Picture
    from ui.features.graph.scene import Part, Scene


READABLE = CLOSE / 1.5
PORTS_ROOM = 96.0
LEAST = 160.0
PORTS_FROM = 330.0
PORTS_COUNTED = 400


def header_rects(scene: Scene, area: QRectF, frames: Iterable[str]) -> dict[str, QRectF]:
    """Return the rectangles of the headers of open groups in an area of the scene.

    A header above the area sticks to its upper edge, below the headers of the groups around
    it, while its group is visible. A header wider than the area is cut to it.
    """
    strips: dict[str, QRectF] = {}
    held: dict[str, int] = {}
    for item in sorted(frames, key=scene.hierarchy.depth.__getitem__):
        rect = scene.rect(item)
        above = held.get(scene.hierarchy.parent[item], 0)
        top = max(rect.top(), area.top() + above * HEADER)
        is_held = top > rect.top()
        held[item] = above + is_held
        if is_held and top > rect.bottom() - HEADER:
            held[item] = above
            continue
        left = min(max(rect.left(), area.left()), max(rect.right() - LEAST, rect.left()))
        right = max(min(rect.right(), area.right()), min(left + LEAST, rect.right()))
        strip = QRectF(left, top, right - left, HEADER)
        if strip.intersects(area):
            strips[item] = strip
    return strips


def shows_ports(scene: Scene, item: str, strip: QRectF) -> bool:
    """Return whether a header has space for the number of tensors in and out."""
    return strip.width() >= PORTS_FROM and scene.hierarchy.groups[item].size <= PORTS_COUNTED


def hit_header(scene: Scene, area: QRectF, point: QPointF, scale: float) -> tuple[str, Part] | None:
    """Return the innermost header at a position and its part; None if there is none."""
    if scale < READABLE:
        return None
    around = QRectF(point.x() - 1, area.top(), 2, area.height())
    strips = header_rects(scene, area, scene.frames_in(around))
    for item, strip in reversed(strips.items()):
        if not strip.contains(point):
            continue
        if point.x() < strip.left() + TOGGLE:
            return item, "toggle"
        if point.x() > strip.right() - PORTS_ROOM and shows_ports(scene, item, strip):
            return item, "ports"
        return item, "header"
    return None


SIGN_ROOM = 16.0


class HeaderPainter:
    """Paints the headers of open groups."""

    def __init__(self, palette: Palette) -> None:
        self._palette = palette

    def paint(self, painter: QPainter, picture: Picture) -> None:
        """Paint the headers of open groups, sticky at the upper edge."""
        scene, area = picture.scene, picture.area
        frames = scene.frames_in(area)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=True)
        if picture.progress < 1.0:
            strips = {item: picture.rect(item) for item in frames}
        else:
            strips = header_rects(scene, area, frames)
        for item, strip in strips.items():
            if picture.progress >= 1.0 and strip.top() > scene.rect(item).top():
                self._ground(painter, picture, item, strip)
            self._header(painter, picture, item, strip)

    def _ground(self, painter: QPainter, picture: Picture, item: str, strip: QRectF) -> None:
        """Cover the scene behind a sticky header."""
        depth = picture.scene.hierarchy.depth[item]
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=False)
        painter.setPen(self._palette.border)
        painter.setBrush(self._palette.shades[depth % 2])
        painter.drawRect(strip)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, on=True)

    def _header(self, painter: QPainter, picture: Picture, item: str, strip: QRectF) -> None:
        hierarchy, palette = picture.scene.hierarchy, self._palette
        sign(painter, palette.muted, QPointF(strip.x() + 13, strip.y() + 14), is_open=True)
        group = hierarchy.groups[item]
        right = strip.right() - 8
        module = hierarchy.snapshot.modules_by_path.get(group.module)
        name = type_label(module.type_name) if module and group.module else ""
        painter.setFont(palette.small_font)
        painter.setPen(palette.muted)
        if shows_ports(picture.scene, item, strip):
            reads, written = hierarchy.border(item)
            ports = palette.static_text(f"{len(reads)} in, {len(written)} out", is_title=False)
            right -= ports.size().width()
            painter.drawStaticText(QPointF(right, strip.y() + 6), ports)
        room = right - strip.x() - 2 * SIGN_ROOM
        title = palette.fitting_text(elide(group.label), room, is_title=True)
        painter.setFont(palette.title_font)
        painter.setPen(palette.text)
        painter.drawStaticText(QPointF(strip.x() + 24, strip.y() + 5), title)
        painter.setFont(palette.small_font)
        painter.setPen(palette.muted)
        left = strip.x() + 32 + title.size().width()
        small = palette.static_text(elide(name), is_title=False)
        if name and left + small.size().width() < right - 8:
            painter.drawStaticText(QPointF(left, strip.y() + 6), small)


def sign(painter: QPainter, colour: QColor, middle: QPointF, *, is_open: bool) -> None:
    """Paint a minus on an open group and a plus on a closed one."""
    pen = QPen(colour, 1.4)
    painter.setPen(pen)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawRoundedRect(QRectF(middle.x() - 5.5, middle.y() - 5.5, 11, 11), 2, 2)
    painter.drawLine(QPointF(middle.x() - 3, middle.y()), QPointF(middle.x() + 3, middle.y()))
    if not is_open:
        painter.drawLine(QPointF(middle.x(), middle.y() - 3), QPointF(middle.x(), middle.y() + 3))

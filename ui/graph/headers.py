"""The headers of open groups: in place, or held in view while what they head scrolls by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRectF

from ui.graph.picture import CLOSE
from ui.graph.scene import TOGGLE
from workbench.graph.layout import HEADER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ui.graph.scene import Part, Scene

READABLE = CLOSE / 1.5
PORTS_ROOM = 96.0
PORTS_FROM = 330.0
PORTS_COUNTED = 400


def header_rects(scene: Scene, area: QRectF, frames: Iterable[str]) -> dict[str, QRectF]:
    """Return where the headers of open groups show in a part of the drawing.

    A header whose own place is above stays at the upper edge, under those of the groups around
    it, until its group has gone by.
    """
    found: dict[str, QRectF] = {}
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
        strip = QRectF(rect.x(), top, rect.width(), HEADER)
        if strip.intersects(area):
            found[item] = strip
    return found


def shows_ports(scene: Scene, item: str, strip: QRectF) -> bool:
    """Tell whether a header has room to say how many tensors cross the group's border."""
    return strip.width() >= PORTS_FROM and scene.hierarchy.groups[item].size <= PORTS_COUNTED


def hit_header(scene: Scene, area: QRectF, point: QPointF, scale: float) -> tuple[str, Part] | None:
    """Return what the mouse means on a header, the innermost first; None if it is on none."""
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

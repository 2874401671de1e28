"""Navigation of the graph widget: camera moves, and the history of visited places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QPointF, QRectF

from ui.features.graph.picture import Camera
from workbench.graph.layout import HEADER

if TYPE_CHECKING:
    from ui.features.graph.graph_groups import GraphGroups
    from ui.features.graph.graph_surface import GraphSurface
    from ui.features.graph.scene import Scene
    from workbench.graph.hierarchy import Shape
    from workbench.graph.layout import Flow


MAX_PLACES = 100
# Titles have 12 px at scale 1: a graph opens with 10 px, and what is shown on demand has 5 px.
FIRST_SCALE, SHOWN_SCALE = 0.85, 0.45
REVEALED_AT_MOST = 60


@dataclass(frozen=True, slots=True)
class Place:
    """A visited place: the open groups, the camera, the grouping and the flow.

    Without a ``flow``, the present one stays.
    With an ``anchor``, the camera's x and y are the offset from that item's corner to the middle
    of the widget, which stays valid when the layout changes.
    """

    expanded: frozenset[str]
    camera: Camera
    shape: Shape = "folded"
    anchor: str = ""
    flow: Flow | None = None


class History:
    """The places behind and ahead, as in a web browser."""

    def __init__(self) -> None:
        self._behind: list[Place] = []
        self._ahead: list[Place] = []

    def leave(self, place: Place) -> None:
        """Record a place before moving to a new one."""
        if not self._behind or self._behind[-1] != place:
            self._behind = [*self._behind[-MAX_PLACES:], place]
        self._ahead.clear()

    def back(self, here: Place) -> Place | None:
        """Return the previous place; None at the start."""
        while self._behind and self._behind[-1] == here:
            self._behind.pop()
        if not self._behind:
            return None
        self._ahead.append(here)
        return self._behind.pop()

    def forward(self, here: Place) -> Place | None:
        """Return the next place after going back; None if there is none."""
        if not self._ahead:
            return None
        self._behind.append(here)
        return self._ahead.pop()


class GraphPlaces(QObject):
    """Moves the camera of the surface and records the visited places."""

    def __init__(self, surface: GraphSurface, groups: GraphGroups, parent: QObject) -> None:
        super().__init__(parent)
        self._surface, self._groups = surface, groups
        self._history = History()
        self._target: Place | None = None
        self._reveal: frozenset[str] = frozenset()
        self._awaited: frozenset[str] = frozenset()
        self._fits_next = False
        groups.leaving.connect(self._leave)
        groups.regrouped.connect(self._on_regrouped)
        groups.isolated_part.connect(self._on_isolated_part)
        groups.scene_shown.connect(self._on_scene_shown)

    def fit(self) -> None:
        """Show the whole scene; of a very long scene the start at a readable scale.

        While a layout is being computed, its scene is shown too when it is there.
        """
        self._fits_next = self._surface.is_waiting
        scene, size = self._surface.scene, self._surface.size()
        if scene is not None:
            self._leave()
            bounds = scene.bounds
            long = bounds.height() > 12 * size.height() or bounds.width() > 12 * size.width()
            least = SHOWN_SCALE if long else 0.0
            self._surface.look(self._surface.fitting(bounds, least, scene.flow))

    def here(self) -> Place:
        """Return the present place."""
        groups = self._groups
        return Place(groups.expanded, self._surface.camera, groups.shape, flow=groups.flow)

    def item_near(self, point: QPointF) -> str:
        """Return an item at or near a scene position; "" if there is none."""
        if self._surface.scene is None:
            return ""
        near = self._surface.scene.items_in(_around(point))
        return near[0] if near else ""

    def go_to(self, place: Place) -> None:
        """Go to a place, e.g. a bookmark."""
        self._leave()
        self._go(place)

    def back(self) -> None:
        """Go to the previous place."""
        self._go(self._history.back(self.here()))

    def forward(self) -> None:
        """Go to the next place after ``back``."""
        self._go(self._history.forward(self.here()))

    def reveal(self, node_ids: frozenset[str]) -> None:
        """Open the groups around operations and move to them, after a pending layout."""
        scene = self._surface.scene
        self._awaited = frozenset()
        if scene is None or scene.hierarchy.snapshot is not self._groups.snapshot:
            self._awaited = node_ids
            return
        hierarchy = scene.hierarchy
        drawn = frozenset(hierarchy.owner[n] for n in node_ids if n in hierarchy.owner)
        around = {g for item in sorted(drawn)[:REVEALED_AT_MOST] for g in hierarchy.ancestors(item)}
        self._reveal = drawn
        if around - {"/"} <= self._groups.expanded:
            self.show_items(drawn)
        else:
            self._groups.open(self._groups.expanded | around - {"/"})

    def show_items(self, items: frozenset[str]) -> None:
        """Move the camera to items, unless they are visible."""
        self._reveal = frozenset()
        surface, scene = self._surface, self._surface.scene
        if scene is None:
            return
        rects = [scene.rect(item) for item in items if scene.has(item)]
        if not rects:
            return
        whole = QRectF(rects[0])
        for rect in rects[1:]:
            whole = whole.united(rect)
        # The headers of open groups stay visible at the top and cover items below them.
        covered = HEADER * max(scene.hierarchy.depth.get(item, 1) - 1 for item in items)
        free = surface.area().adjusted(0, covered, 0, 0)
        if free.contains(whole) and surface.camera.scale >= SHOWN_SCALE:
            return
        fits = surface.fitting(whole, SHOWN_SCALE)
        scale = min(fits.scale, max(surface.camera.scale, 0.8))
        self._leave()
        target = whole if fits.scale > SHOWN_SCALE else rects[0]
        surface.look(surface.centring(target, scale))

    def _leave(self) -> None:
        self._history.leave(self.here())

    def _go(self, place: Place | None) -> None:
        groups = self._groups
        if place is None or groups.snapshot is None:
            return
        flow = place.flow or groups.flow
        present = (groups.expanded, groups.shape, groups.flow)
        is_same = (place.expanded, place.shape, flow) == present
        if is_same and not self._surface.is_waiting:
            self._land(place)
            return
        self._target = place
        groups.restore(place.expanded, place.shape, flow)

    def _land(self, place: Place) -> None:
        """Set the camera of a place; if its anchor no longer exists, fit the scene."""
        surface, scene, camera = self._surface, self._surface.scene, place.camera
        if place.anchor and scene is not None:
            if not scene.has(place.anchor):
                surface.look(surface.fitting(scene.bounds, SHOWN_SCALE))
                return
            middle = scene.rect(place.anchor).topLeft() + QPointF(camera.x, camera.y)
            camera = surface.centring(QRectF(middle, middle), camera.scale)
        surface.look(camera)
        if scene is not None and not surface.area().intersects(scene.bounds):
            self.fit()

    def _on_regrouped(self) -> None:
        if self._surface.selected:
            self._awaited = self._surface.selected

    def _on_isolated_part(self) -> None:
        self._history = History()

    def _on_scene_shown(self, former: Scene | None, scene: Scene, anchor: str) -> None:
        surface = self._surface
        is_same = former is not None and former.hierarchy is scene.hierarchy
        is_other = former is not None and _kind(former) != _kind(scene)
        if former is None or (is_other and self._target is None):
            surface.look(_first(scene, surface))
        elif is_same and self._target is None:
            self._keep_in_place(former, scene, anchor)
        if self._target is not None:
            self._land(self._target)
        elif self._fits_next or not surface.area().intersects(scene.bounds):
            self.fit()
        self._target = None
        if self._reveal:
            self.show_items(self._reveal)
        if self._awaited:
            self.reveal(self._awaited)

    def _keep_in_place(self, former: Scene, scene: Scene, anchor: str) -> None:
        """Keep the toggled group, or else the middle item, at its position in the widget."""
        held: str | None = anchor if scene.has(anchor) else None
        if held is None:
            near = former.items_in(_around(self._surface.middle()))
            held = next((item for item in near if scene.has(item)), None)
        if held is None or not former.has(held):
            return
        was, now = former.rect(held).topLeft(), scene.rect(held).topLeft()
        dx, dy = now.x() - was.x(), now.y() - was.y()
        camera = self._surface.camera
        self._surface.look(Camera(camera.scale, camera.x + dx, camera.y + dy))
        self._surface.animate_from(former, dx, dy)


def _around(point: QPointF) -> QRectF:
    """Return the scene area in which an item is near a position."""
    return QRectF(point.x() - 400, point.y() - 300, 800, 600)


def _kind(scene: Scene) -> tuple[str, str, str]:
    """Return level, grouping and flow of a scene. If they change, the camera is reset."""
    return scene.hierarchy.snapshot.level, scene.hierarchy.shape, scene.flow


def _first(scene: Scene, surface: GraphSurface) -> Camera:
    """Return the camera of a new scene: legible, or all of a wrapped one that is nearly so."""
    whole = surface.fitting(scene.bounds)
    if scene.flow == "wrapped" and whole.scale >= SHOWN_SCALE:
        return whole
    return surface.fitting(scene.bounds, FIRST_SCALE, scene.flow)

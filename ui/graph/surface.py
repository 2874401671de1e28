"""The painted ground: a scene through a camera with its marks; no layout, no input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QEasingCurve, QPointF, QRectF, QSizeF, Qt, QTimer, QVariantAnimation
from PySide6.QtGui import QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QWidget

from ui.graph import export
from ui.graph.backing import Backing
from ui.graph.camera import Camera
from ui.graph.marks import Marks
from ui.graph.painting import GraphPainter
from ui.graph.picture import Picture
from ui.graph.turns import window_first

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ui.graph.overlay import Overlay
    from ui.graph.scene import Scene
    from ui.theme import Theme
    from workbench.graph.compare import Difference

MOVE_MS = 170
REST_MS = 80


class GraphSurface(QWidget):
    """Paints a scene, what is marked and selected in it, and what is on its way."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.scene: Scene | None = None
        self.camera = Camera()
        self.marks = Marks()
        self.selected: frozenset[str] = frozenset()
        self.current: str | None = None
        self.hovered: str | None = None
        self._painter = GraphPainter(theme)
        self._backing = Backing(self._painter)
        self._rest = QTimer(self, interval=REST_MS, singleShot=True)
        self._rest.timeout.connect(self._refine)
        self._joints: tuple[tuple[str, str], ...] = ()
        self._origins: dict[str, QRectF] = {}
        self._progress = 1.0
        self._is_waiting = False
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
        self._motion = QVariantAnimation(self, startValue=0.0, endValue=1.0, duration=MOVE_MS)
        self._motion.setEasingCurve(QEasingCurve.Type.OutCubic)
        self._motion.valueChanged.connect(self._on_moved)

    @property
    def theme(self) -> Theme:
        """The theme it is painted in."""
        return self._painter.palette.theme

    def set_theme(self, theme: Theme) -> None:
        """Paint in another theme."""
        self._painter = GraphPainter(theme)
        self._backing = Backing(self._painter)
        self.update()

    def set_chips(self, chips: Mapping[str, str]) -> None:
        """Show the label of each operation's config."""
        self.marks.chips = chips
        self._remark()

    def set_reasons(self, reasons: Mapping[str, str]) -> None:
        """Hatch operations and say why, e.g. that they stay off the NPU."""
        self.marks.reasons = reasons
        self._remark()

    def set_tooltips(self, tooltips: Mapping[str, str]) -> None:
        """Give operations a line for their tooltip, e.g. which rule decided their config."""
        self.marks.tooltips = tooltips
        self._remark()

    def set_differences(
        self, differences: Mapping[str, Difference], words: Mapping[str, str]
    ) -> None:
        """Mark what was added, removed or changed against another graph, and say how."""
        self.marks.differences, self.marks.words = differences, words
        self._remark()

    def set_hits(self, hits: Mapping[str, tuple[int, ...]]) -> None:
        """Give operations the letters and colours of the kept searches that find them."""
        self.marks.found = hits
        self._remark()

    def set_overlay(self, overlay: Overlay | None) -> None:
        """Colour operations by a number; None takes the colours away."""
        self.marks.overlay = overlay
        self._remark()

    def brush(self, part: tuple[float, float] | None) -> None:
        """Let only a part of the overlay's scale, between 0 and 1, have colours; None for all."""
        if self.marks.overlay is not None and self.marks.overlay.brush != part:
            self.set_overlay(self.marks.overlay.brushed(part))

    def export_png(self, path: Path) -> None:
        """Write what shows as an image, at twice the resolution of the screen."""
        picture = self.picture()
        if picture is not None:
            export.write_png(self._painter, picture, path)

    def export_svg(self, path: Path) -> None:
        """Write what shows as a drawing file."""
        picture = self.picture()
        if picture is not None:
            export.write_svg(self._painter, picture, path)

    def _remark(self) -> None:
        self.marks.changed()
        self.update()

    def _refine(self) -> None:
        self._backing.refine()
        self.update()

    def look(self, camera: Camera) -> None:
        """Show another part of the drawing."""
        self.camera = camera
        self.update()

    def picture(self) -> Picture | None:
        """Return what is painted now."""
        if self.scene is None:
            return None
        return Picture(
            self.scene, self.camera, self._size(), self.marks, self.selected, self.current,
            self.hovered, self._joints, self._origins, self._progress,
        )  # fmt: skip

    def _area(self) -> QRectF:
        return self.camera.shown(self._size())

    def _size(self) -> QSizeF:
        return QSizeF(self.width(), self.height())

    def picture_middle(self) -> QPointF:
        """Return the place of the drawing in the middle of the window."""
        return self.camera.to_scene(QPointF(self.width() / 2, self.height() / 2))

    def _on_moved(self, value: float) -> None:
        self._progress = value
        if value >= 1.0:
            self._origins = {}
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        with window_first():
            self._paint()

    def _paint(self) -> None:
        painter = QPainter(self)
        picture = self.picture()
        if picture is None:
            self._painter.paint_empty(painter, self.rect(), is_waiting=self._is_waiting)
        else:
            self._backing.paint(painter, picture, self.devicePixelRatioF())
            self._painter.paint_over(painter, picture)
            if self._backing.is_due:
                self._rest.start()
        painter.end()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep in the middle what was there, across: a pane beside cuts nothing off."""
        super().resizeEvent(event)
        if event.oldSize().isValid():
            self.look(self.camera.panned((self.width() - event.oldSize().width()) / 2, 0.0))
        self.update()

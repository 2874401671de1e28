"""The keys of trace viewers for a chart: W and S zoom at the pointer, A and D move, F fits."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QEvent, QObject, QPointF, Qt
from PySide6.QtGui import QKeySequence, QShortcut

from ui.plots.chart import Chart

_ZOOM, _STEP = 1.3, 0.15


class ViewKeys(QObject):
    """Keys that look at other parts of a chart along x.

    They work while the pointer is over the chart, and while the keyboard is in it.
    """

    def __init__(self, chart: Chart) -> None:
        super().__init__(chart)
        self._chart = chart
        self._ends = (0.0, 1.0)
        self._pointer: QPointF | None = None
        deeds = {
            "W": partial(self.zoom, 1 / _ZOOM), "S": partial(self.zoom, _ZOOM),
            "A": partial(self.move, -_STEP), "D": partial(self.move, _STEP), "F": self.fit,
        }  # fmt: skip
        self._shortcuts = []
        for key, deed in deeds.items():
            shortcut = QShortcut(QKeySequence(key), chart)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(deed)
            self._shortcuts.append(shortcut)
        chart.view.scene().sigMouseMoved.connect(self._on_moved)
        chart.view.installEventFilter(self)

    def set_ends(self, low: float, high: float) -> None:
        """Set what there is to be seen, and show all of it."""
        self._ends = (low, high)
        self._chart.set_run(low, high)

    def zoom(self, factor: float) -> None:
        """Show ``factor`` as much; what is under the pointer stays there."""
        left, right, _, _ = self._chart.reach()
        fixed = self._pointed(left, right)
        self._show(fixed - (fixed - left) * factor, (right - left) * factor)

    def move(self, share: float) -> None:
        """Show what lies further right by a share of what is shown; further left below 0."""
        left, right, _, _ = self._chart.reach()
        self._show(left + share * (right - left), right - left)

    def fit(self) -> None:
        """Show all."""
        low, high = self._ends
        self._show(low, high - low)

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.Enter, QEvent.Type.Leave):
            is_over = event.type() == QEvent.Type.Enter
            self._pointer = self._pointer if is_over else None
            context = (
                Qt.ShortcutContext.WindowShortcut if is_over
                else Qt.ShortcutContext.WidgetWithChildrenShortcut
            )  # fmt: skip
            for shortcut in self._shortcuts:
                shortcut.setContext(context)
        return False

    def _show(self, left: float, width: float) -> None:
        low, high = self._ends
        width = min(max(width, min(3.0, high - low)), high - low)
        left = min(max(left, low), high - width)
        self._chart.box.setXRange(left, left + width, padding=0)

    def _pointed(self, left: float, right: float) -> float:
        if self._pointer is None:
            return (left + right) / 2
        place = float(self._chart.box.mapSceneToView(self._pointer).x())
        return min(max(place, left), right)

    def _on_moved(self, position: QPointF) -> None:
        self._pointer = position

"""A form that is as high as it needs, unless the screen is lower: then it scrolls."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QSize, Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget

# What a dialog has above and below its form, and what a desktop keeps for itself [px].
_REST_PX = 210
_LEAST_PX = 240


class TallForm(QScrollArea):
    """Keeps the buttons of a dialog on the screen."""

    def __init__(self, form: QWidget, parent: QWidget) -> None:
        super().__init__(parent)
        self._form = form
        self.setObjectName("TallForm")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWidgetResizable(True)
        self.setWidget(form)
        form.setAutoFillBackground(False)

    def sizeHint(self) -> QSize:
        return self._bounded(self._form.sizeHint())

    def minimumSizeHint(self) -> QSize:
        return self._bounded(self._form.minimumSizeHint())

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:
            self.updateGeometry()
        return super().eventFilter(watched, event)

    def _bounded(self, size: QSize) -> QSize:
        most = max(self.screen().availableSize().height() - _REST_PX, _LEAST_PX)
        if size.height() <= most:
            return size
        return QSize(size.width() + self.verticalScrollBar().sizeHint().width(), most)

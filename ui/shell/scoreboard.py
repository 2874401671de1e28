"""The scoreboard: the figures that matter, each compared with a pinned run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QHBoxLayout, QMenu, QSizePolicy, QToolButton, QWidget

from ui.shared.labels import literal
from ui.shared.theme import Theme, icon
from ui.shell.panels import SCOREBOARD_PX
from ui.state.run_history import RunHistory
from ui.state.scores import Pin, Score, ScoreId, Scores

if TYPE_CHECKING:
    from workbench.history.runs import Run

_LEAST_PX = 92
_FADED = 0.5
_LISTED = 15
_STRETCH: dict[ScoreId, int] = {"quality": 3, "cycles": 3}


class ScoreTile(QAbstractButton):
    """One figure: its title and difference above, its value below."""

    def __init__(self, score: Score, theme: Callable[[], Theme], parent: QWidget) -> None:
        super().__init__(parent)
        self._score, self._theme = score, theme
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.render_score(score, "")

    @property
    def score(self) -> Score:
        """The shown figure."""
        return self._score

    def render_score(self, score: Score, pinned: str) -> None:
        """Show a figure; ``pinned`` names the run that it is compared with."""
        self._score = score
        state = "outdated, " if score.is_stale and score.value != "\u2013" else ""
        compared = f"{score.delta} against {score.compared or pinned}" if score.delta else ""
        self.setAccessibleName(f"{score.title}: {state}{score.value} {compared}".strip())
        lines = [f"{score.title}: {score.value}", score.origin]
        lines += [compared] if compared else []
        lines += ["Outdated: run again to refresh it."] if state else []
        self.setToolTip(literal("\n".join(lines)))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        value = QFontMetricsF(self._font(14, bold=True)).horizontalAdvance(self._score.value)
        small = QFontMetricsF(self._font(11))
        above = small.horizontalAdvance(self._score.title + "   " + self._score.delta)
        return QSize(max(_LEAST_PX, round(max(value, above)) + 20), SCOREBOARD_PX)

    def minimumSizeHint(self) -> QSize:
        return QSize(_LEAST_PX, SCOREBOARD_PX)

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        theme, score = self._theme(), self._score
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_ground(painter, theme)
        rect = QRectF(self.rect()).adjusted(10, 5, -10, -4)
        above = QRectF(rect.left(), rect.top(), rect.width(), 15)
        below = QRectF(rect.left(), rect.top() + 15, rect.width(), rect.height() - 15)
        left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        if score.is_stale:
            painter.setOpacity(_FADED)
        small = self._font(11)
        painter.setFont(small)
        painter.setPen(QColor(theme.muted))
        painter.drawText(above, left, _elided(score.title, small, above.width()))
        self._paint_delta(painter, above, small)
        painter.setPen(QColor(theme.bad if score.is_bad else theme.text))
        font = self._font(14, bold=True)
        painter.setFont(font)
        painter.drawText(below, left, _elided(score.value, font, below.width()))
        painter.end()

    def _paint_ground(self, painter: QPainter, theme: Theme) -> None:
        rect = QRectF(self.rect()).adjusted(1.5, 1.5, -1.5, -1.5)
        if self.isDown() or self.underMouse():
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(theme.raised))
            painter.drawRoundedRect(rect, 5, 5)
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(theme.accent), 1.0))
            painter.drawRoundedRect(rect, 5, 5)

    def _paint_delta(self, painter: QPainter, rect: QRectF, font: QFont) -> None:
        theme, score = self._theme(), self._score
        title = QFontMetricsF(font).horizontalAdvance(score.title) + 8
        room = rect.adjusted(title, 0, 0, 0)
        if not score.delta or QFontMetricsF(font).horizontalAdvance(score.delta) > room.width():
            return
        colour = {True: theme.good, False: theme.bad, None: theme.muted}[score.is_better]
        painter.setPen(QColor(colour))
        painter.drawText(room, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, score.delta)

    def _font(self, pixels: int, *, bold: bool = False) -> QFont:
        font = QFont(self.font())
        font.setPixelSize(pixels)
        if bold:
            font.setWeight(QFont.Weight.DemiBold)
        return font


class Scoreboard(QWidget):
    """A row of figures and the choice of the run that they are compared with.

    Signals:
        details_asked: the ``Score`` whose details are to be shown.
    """

    details_asked = Signal(object)

    def __init__(
        self, scores: Scores, history: RunHistory, theme: Callable[[], Theme], parent: QWidget
    ) -> None:
        super().__init__(parent)
        self._scores, self._history, self._theme = scores, history, theme
        self.tiles: dict[ScoreId, ScoreTile] = {}
        self.pin = QToolButton(self)
        self.pin.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.pin.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.pin.setToolTip("What the figures are compared with: the float model, or a run")
        self._menu = QMenu(self.pin)
        self._menu.aboutToShow.connect(self._fill_menu)
        self.pin.setMenu(self._menu)
        self._layout = QHBoxLayout(self)
        self._layout.setContentsMargins(2, 0, 4, 0)
        self._layout.setSpacing(0)
        self._layout.addStretch(0)
        self._layout.addWidget(self.pin)
        self.setFixedHeight(SCOREBOARD_PX)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        scores.changed.connect(self.refresh)
        scores.pin.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show the present figures."""
        pinned = run_name(self._scores.pin.run)
        values = {score.id: score for score in self._scores.values}
        if list(values) != list(self.tiles):
            self._replace(self._scores.values)
        for score_id, tile in self.tiles.items():
            tile.render_score(values[score_id], pinned)
        compared = ["float"] if self._scores.pin.is_float else []
        compared += [pinned] if pinned else []
        self.pin.setText(f"vs. {', '.join(compared)}" if compared else "No comparison")
        self.pin.setAccessibleName(self.pin.text())

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        self.pin.setIcon(icon("pin", theme.muted))
        self.update()

    def _replace(self, values: Sequence[Score]) -> None:
        for tile in self.tiles.values():
            self._layout.removeWidget(tile)
            tile.hide()
            tile.deleteLater()
        self.tiles = {}
        for index, score in enumerate(values):
            tile = ScoreTile(score, self._theme, self)
            tile.clicked.connect(partial(self._on_tile_clicked, score.id))
            self._layout.insertWidget(index, tile, _STRETCH.get(score.id, 2))
            self.tiles[score.id] = tile
            tile.show()

    def _on_tile_clicked(self, score_id: ScoreId) -> None:
        self.details_asked.emit(self.tiles[score_id].score)

    def _fill_menu(self) -> None:
        pin, menu = self._scores.pin, self._menu
        menu.clear()
        self._add(menu, "Float model, cost: first run", None, pin)
        self._add(menu, "No comparison", 0, pin)
        runs = self._history.runs
        if runs:
            menu.addSeparator()
        for run in reversed(runs[-_LISTED:]):
            self._add(menu, run_words(run), run.number, pin)
        if len(runs) > _LISTED:
            menu.addSeparator()
            menu.addAction("Older runs are in the panel Runs").setEnabled(False)

    def _add(self, menu: QMenu, text: str, number: int | None, pin: Pin) -> None:
        action = menu.addAction(text)
        action.setCheckable(True)
        action.setChecked(pin.number == number)
        action.triggered.connect(lambda: pin.choose(number))


def run_name(run: Run | None) -> str:
    """Return a run in a word or two; "" for none."""
    return f"run {run.number}" if run is not None else ""


def run_words(run: Run) -> str:
    """Return a run with its figures in one line."""
    from ui.shared.number_format import accuracy_text, count
    from workbench.history.comparison import rules_line

    parts = [f"Run {run.number}", f"{run.accuracy_name} {accuracy_text(run)}"]
    if run.cost is not None:
        parts.append(f"{count(run.cost.cycles)} cycles")
    rules = rules_line(run)
    parts.append(rules if len(rules) <= 48 else f"{rules[:47]}\u2026")
    return "  \u00b7  ".join(parts)


def _elided(text: str, font: QFont, width: float) -> str:
    return QFontMetricsF(font).elidedText(text, Qt.TextElideMode.ElideRight, width)

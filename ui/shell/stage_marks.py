"""The stages in the bar: a mark for each, groups with a label, and their state in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QAbstractButton, QHBoxLayout, QVBoxLayout, QWidget

from ui.shared.labels import Label, literal
from ui.shared.theme import Theme
from ui.state.jobs import duration
from ui.state.session import StageView
from workbench.ids import StageId
from workbench.pipeline.stages import STAGES_BY_ID

STATE_WORDS = {
    "unknown": "\u2013",
    "stale": "not run",
    "cached": "done",
    "queued": "queued",
    "running": "running",
    "failed": "failed",
    "blocked": "blocked",
    "unavailable": "not available",
}
_DOT_PX = 16
# What a person calls the stages. Those of a group share a label with their time or progress.
GROUPS: tuple[tuple[str, tuple[StageId, ...]], ...] = (
    ("Load", ("import_model", "export")),
    ("Calibrate", ("prepare", "calibrate")),
    ("Quantize", ("convert", "evaluate")),
    ("Compile", ("lower",)),
    ("Verify", ("verify", "run")),
    ("Package", ("package",)),
)
# Width of the label of a group of stages.
_GROUP_PX = 58


class StageButton(QAbstractButton):
    """A dot with the state of a stage. Its name and state are in the tooltip."""

    def __init__(self, view: StageView, theme: Callable[[], Theme], parent: QWidget) -> None:
        super().__init__(parent)
        self._view = view
        self._theme = theme
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFixedSize(_DOT_PX, 28)
        self.render_stage(view)

    @property
    def view(self) -> StageView:
        """The stage view that is shown."""
        return self._view

    def render_stage(self, view: StageView) -> None:
        """Show the present state of a stage."""
        self._view = view
        self.setEnabled(view.state != "unavailable")
        self.setAccessibleName(f"{view.title}: {self.second_line()}")
        self.setToolTip(literal(self._explanation()))
        self.update()

    def second_line(self) -> str:
        """Return the state as text, with progress and time."""
        view = self._view
        if view.differs:
            return _REFUSED.get(view.id, "differs")
        match view.state:
            case "running":
                if view.fraction is not None:
                    return f"{100 * view.fraction:.0f} % \u00b7 {duration(view.elapsed_s)}"
                return f"{duration(view.elapsed_s)} \u2026"
            case "cached":
                return duration(view.elapsed_s) if view.elapsed_s is not None else "done"
            case _:
                return STATE_WORDS[view.state]

    def sizeHint(self) -> QSize:
        return QSize(_DOT_PX, 28)

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        theme = self._theme()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        rect = QRectF(self.rect()).adjusted(0.5, 1.5, -0.5, -1.5)
        if self.isDown() or self.underMouse():
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(theme.raised))
            painter.drawRoundedRect(rect, 4, 4)
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QPen(QColor(theme.accent), 1.0))
            painter.drawRoundedRect(rect, 4, 4)
        paint_state(painter, rect.center(), self._view, theme)
        painter.end()

    def _explanation(self) -> str:
        view = self._view
        state = self.second_line() if view.state == "running" else STATE_WORDS[view.state]
        lines = [f"{view.title}: {state}"]
        if view.state == "cached" and view.elapsed_s is not None:
            lines[0] += f" in {duration(view.elapsed_s)}"
        lines += [part for part in (view.differs, view.low, view.reason, view.message) if part]
        lines += [info.message for info in view.infos]
        if view.state in {"stale", "failed"}:
            lines.append(f"Click to run all stages up to {view.title}.")
        elif view.state == "cached":
            lines.append("Up to date. Click to show its result.")
        return "\n".join(lines)


# What a stage is called whose program breaks a limit; others differ.
_REFUSED: dict[str, str] = {"evaluate": "not accurate enough"}


def is_bad(view: StageView) -> bool:
    """Return whether a stage failed, or its program breaks a limit."""
    return view.state == "failed" or bool(view.differs)


def paint_state(painter: QPainter, centre: QPointF, view: StageView, theme: Theme) -> None:
    """Paint the mark of a stage's state, which has its own shape and colour."""
    state = "failed" if is_bad(view) else view.state
    colour = QColor(
        {
            "cached": theme.warning if view.low else theme.good,
            "running": theme.accent,
            "failed": theme.bad,
            "blocked": theme.warning,
            "queued": theme.accent,
        }.get(state, theme.muted)
    )
    painter.setPen(QPen(colour, 1.6, c=Qt.PenCapStyle.RoundCap))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    match state:
        case "cached":
            painter.setBrush(colour)
            painter.drawEllipse(centre, 5.0, 5.0)
            painter.setPen(QPen(QColor(theme.background), 1.5, c=Qt.PenCapStyle.RoundCap))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawPolyline(_shape(centre, (-2.4, 0.2), (-0.6, 2.0), (2.6, -1.8)))
        case "failed":
            painter.drawLine(centre + QPointF(-3.5, -3.5), centre + QPointF(3.5, 3.5))
            painter.drawLine(centre + QPointF(-3.5, 3.5), centre + QPointF(3.5, -3.5))
        case "running":
            ring = QRectF(centre.x() - 5.0, centre.y() - 5.0, 10.0, 10.0)
            painter.setPen(QPen(QColor(theme.border), 2.4))
            painter.drawEllipse(ring)
            painter.setPen(QPen(colour, 2.4, c=Qt.PenCapStyle.FlatCap))
            share = view.fraction if view.fraction is not None else 0.3
            painter.drawArc(ring, 90 * 16, -round(360 * 16 * share))
        case "blocked":
            painter.drawPolygon(_shape(centre, (0.0, -4.5), (4.8, 3.8), (-4.8, 3.8)))
        case "unavailable" | "unknown":
            painter.drawLine(centre + QPointF(-3.5, 0), centre + QPointF(3.5, 0))
        case "queued":
            painter.drawEllipse(centre, 4.6, 4.6)
            painter.drawPoint(centre)
        case _:
            painter.drawEllipse(centre, 4.6, 4.6)


def _shape(centre: QPointF, *points: tuple[float, float]) -> QPolygonF:
    return QPolygonF([centre + QPointF(x, y) for x, y in points])


class StageGroup(QWidget):
    """The dots of some stages, with what they do together below a label of two lines."""

    def __init__(
        self, title: str, buttons: Sequence[StageButton], theme: Callable[[], Theme], parent: QWidget
    ) -> None:
        super().__init__(parent)
        self._title, self._buttons, self._theme = title, tuple(buttons), theme
        self.label, self.state = Label(title, self), Label("", self)
        # Room for the widest text: the bar does not move under the pointer.
        self.state.setFixedWidth(_GROUP_PX)
        for label in (self.label, self.state):
            label.setObjectName("StageLabel")
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        texts = QVBoxLayout()
        texts.setSpacing(0)
        texts.addWidget(self.label)
        texts.addWidget(self.state)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        for button in buttons:
            layout.addWidget(button)
        layout.addLayout(texts)
        self.set_labelled(on=False)
        self.render_state()

    def render_state(self) -> None:
        """Show the time of the stages, or the progress of the one that runs."""
        views = [button.view for button in self._buttons if button.view.state != "unavailable"]
        self.setVisible(bool(views))
        self.state.setText(group_text(views))
        theme = self._theme()
        worst = next((v for v in views if is_bad(v)), None)
        running = any(v.state == "running" for v in views)
        colour = theme.bad if worst else theme.accent if running else theme.muted
        look = f"color: {colour};"
        if self.state.styleSheet() != look:
            self.state.setStyleSheet(look)

    @property
    def label_px(self) -> int:
        """The width that the label takes; 0 without one."""
        return self.minimumSizeHint().width() - len(self._buttons) * _DOT_PX

    def set_labelled(self, *, on: bool) -> None:
        """Show the label, or the dots alone."""
        self.label.setVisible(on)
        self.state.setVisible(on)


def group_text(views: Sequence[StageView]) -> str:
    """Return the state of a group of stages in a word: progress, failure, or their time."""
    for view in views:
        if view.state == "running":
            return f"{100 * view.fraction:.0f} %" if view.fraction is not None else duration(view.elapsed_s)
    if any(is_bad(view) for view in views):
        return "failed" if any(view.state == "failed" for view in views) else "not met"
    for state in ("queued", "blocked"):
        if any(view.state == state for view in views):
            return STATE_WORDS[state]
    if views and all(view.state == "cached" for view in views):
        times = [view.elapsed_s for view in views if view.elapsed_s is not None]
        return duration(sum(times)) if times else "done"
    return "\u2013"


def status_text(views: Sequence[StageView]) -> str:
    """Return what runs, else what failed, else how far the results are up to date."""
    for view in views:
        if view.state == "running":
            share = f" {100 * view.fraction:.0f} %" if view.fraction is not None else "\u2026"
            return f"{STAGES_BY_ID[view.id].verb}{share}"
    for view in views:
        if is_bad(view):
            words = _REFUSED.get(view.id, "differs") if view.differs else "failed"
            return f"{view.title}: {words}" if view.id in _REFUSED else f"{view.title} {words}"
    for view in views:
        if view.state == "blocked":
            return f"{view.title} cannot run"
    if any(view.state == "queued" for view in views):
        return "Waiting for the engine"
    offered = [view for view in views if view.state != "unavailable"]
    done = [view for view in offered if view.state == "cached"]
    if len(done) == len(offered):
        return "Up to date"
    return f"{len(done)} of {len(offered)} stages done" if done else "Not run"

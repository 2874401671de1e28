"""SRAM budget: a slider over Vela's estimates with less SRAM."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QSlider, QWidget

from ui.shared.labels import Label
from ui.shared.number_format import milliseconds, size
from workbench.project.model import TargetChoice
from workbench.studies.sweep import SweepPoint

_SLIDER_PX = 220
_HINT = "Estimate this program with less SRAM (only Vela compiles it again)"


class SramBudget(QWidget):
    """A row with Estimate, a slider from least to most SRAM, its figures and Apply.

    Signals:
        estimate_asked: the estimates are to be started or stopped.
        chosen: the ``TargetChoice`` of the position to apply.
    """

    estimate_asked = Signal()
    chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._points: list[SweepPoint] = []
        self._present: TargetChoice | None = None
        self._tool = ""
        self.estimate = QPushButton("Estimate less SRAM", self)
        self.estimate.setToolTip(_HINT)
        self.estimate.clicked.connect(self.estimate_asked)
        self.caption = Label("SRAM budget", self)
        self.slider = QSlider(Qt.Orientation.Horizontal, self)
        self.slider.setAccessibleName("SRAM budget")
        self.slider.setMinimumWidth(_SLIDER_PX)
        self.slider.setPageStep(1)
        self.slider.setTickPosition(QSlider.TickPosition.TicksBelow)
        self.slider.valueChanged.connect(self._show_position)
        self.figures = Label(self)
        self.figures.setWordWrap(True)
        self.take = QPushButton("Apply", self)
        self.take.clicked.connect(self._on_take)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(self.estimate)
        layout.addWidget(self.caption)
        layout.addWidget(self.slider)
        layout.addWidget(self.figures, 1)
        layout.addWidget(self.take)
        self.render_points([], None, "")

    @property
    def point(self) -> SweepPoint | None:
        """The shown position."""
        return self._points[self.slider.value()] if self._points else None

    def render_points(
        self,
        points: Sequence[SweepPoint],
        present: TargetChoice | None,
        tool: str,
        *,
        working: str = "",
        problem: str = "",
    ) -> None:
        """Show the positions in order of SRAM.

        Args:
            points: The estimated points; the last one uses the most SRAM.
            present: The project's complete choice.
            tool: Name and version of the estimator.
            working: Progress text while estimating; "" otherwise.
            problem: Reason why there are no positions.
        """
        moved = list(points) != self._points
        before = self.point
        self._points, self._present, self._tool = list(points), present, tool
        self.estimate.setText("Stop" if working else "Estimate less SRAM")
        self.estimate.setVisible(bool(working) or not points)
        for widget in (self.caption, self.slider, self.take):
            widget.setVisible(bool(points))
        if moved and points:
            self.slider.setRange(0, len(points) - 1)
            targets = [point.target for point in points]
            wanted = present if present in targets else before.target if before else None
            self.slider.setValue(targets.index(wanted) if wanted in targets else len(points) - 1)
        self._show_position()
        if not points:
            self.figures.setText(working or problem)

    def _show_position(self) -> None:
        point = self.point
        if point is None or point.totals is None:
            return
        totals, quickest = (point.totals, min(p.totals.cycles_total for p in self._points if p.totals))
        more = totals.cycles_total / quickest - 1 if quickest else 0.0
        limit = point.target.options.get("arena_cache_bytes")
        way = "optimised for size"
        if point.target.options["optimise"] != "Size":
            way = f"limit {size(limit)}" if isinstance(limit, int) else "no limit"
        is_present = point.target == self._present
        self.figures.setText(
            f"SRAM {size(totals.sram_bytes)}, {milliseconds(totals.inference_ms)} "
            f"({f'+{100 * more:.1f} % cycles' if more else 'fastest'}), {way}"
            f"{', current' if is_present else ''}; estimated ({self._tool})"
        )
        self.take.setEnabled(not is_present)

    def _on_take(self) -> None:
        if self.point is not None:
            self.chosen.emit(self.point.target)

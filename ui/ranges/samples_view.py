"""Which samples made a range what it is, and leaving them out."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from ui.figures import figure, percent
from ui.plots.coverage_plot import CoveragePlot
from ui.plots.series import SampleView
from ui.theme import Theme

NOTHING = "Calibration kept no samples of this tensor."


class SamplesView(QWidget):
    """The range as it grew, who set its ends, and buttons to leave those samples out.

    Signals:
        drop_asked: numbers of samples.
        restore_asked: numbers of samples.
    """

    drop_asked = Signal(object)
    restore_asked = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.told = QLabel(NOTHING, self)
        self.told.setWordWrap(True)
        self.plot = CoveragePlot(self)
        self.drops = [QPushButton(self) for _ in range(2)]
        self._setters: list[int] = []
        for place, button in enumerate(self.drops):
            button.setToolTip("Leave it out of calibration; undoable")
            button.clicked.connect(lambda _=False, at=place: self._on_drop(at))
        self.dropped = QLabel(self)
        self.dropped.setObjectName("Hint")
        self.dropped.setWordWrap(True)
        self.restore = QPushButton("Take back", self)
        self.restore.clicked.connect(lambda: self.restore_asked.emit(self._out))
        self._out: tuple[int, ...] = ()
        self._arrange()

    def render_samples(self, view: SampleView, dropped: Sequence[int], *, can_drop: bool) -> None:
        """Show another tensor's samples, and those the project leaves out."""
        self._out = tuple(dropped)
        self.plot.setVisible(view.is_known)
        self._setters = (
            sorted({s for s in view.setters() if s is not None}) if view.is_known else []
        )
        self.told.setText(_sentences(view) if view.is_known else NOTHING)
        if view.is_known:
            self.plot.render_samples(view)
        for place, button in enumerate(self.drops):
            there = place < len(self._setters)
            button.setVisible(there and can_drop and view.numbers.size > 1)
            button.setText(f"Leave out sample {self._setters[place]}" if there else "")
        self.dropped.setText(f"Left out: {', '.join(map(str, dropped))}" if dropped else "")
        self.dropped.setVisible(bool(dropped))
        self.restore.setVisible(bool(dropped))

    def set_theme(self, theme: Theme) -> None:
        """Take on the colours of a theme."""
        self.plot.set_theme(theme)

    def _arrange(self) -> None:
        row = QHBoxLayout()
        for button in self.drops:
            row.addWidget(button)
        row.addStretch(1)
        out = QHBoxLayout()
        out.addWidget(self.dropped, 1)
        out.addWidget(self.restore)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 4, 0, 0)
        layout.setSpacing(4)
        layout.addWidget(self.told)
        layout.addWidget(self.plot, 1)
        layout.addLayout(row)
        layout.addLayout(out)

    def _on_drop(self, place: int) -> None:
        self.drop_asked.emit([self._setters[place]])


def _sentences(view: SampleView) -> str:
    least, greatest = view.setters()
    low, high = figure(float(view.running_low[-1])), figure(float(view.running_high[-1]))
    if least is not None and least == greatest:
        first = f"Sample {least} set both ends, {low} and {high}."
    else:
        first = (
            f"{_setter(least)} the minimum {low}, {_setter(greatest).lower()} the maximum {high}."
        )
    if view.numbers.size < 4:
        return f"{first} {view.numbers.size} samples say little about others."
    late = view.widened_late()
    share = "did not widen the range" if late <= 0 else f"widened the range by {percent(late)}"
    return f"{first} The last quarter of the samples {share}."


def _setter(sample: int | None) -> str:
    return "Several samples share" if sample is None else f"Sample {sample} set"

"""One sample at one tensor: float, quantized and integer side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QCheckBox,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSpinBox,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from ui.figures import decibel, figure
from ui.panel import Panel
from ui.selection import Selected
from ui.study_desk import StudyDesk
from ui.theme import Theme
from workbench.results import EvaluateResult
from workbench.studies.documents import SampleTensor, load_values, study_folder

if TYPE_CHECKING:
    from numpy.typing import NDArray

STUDY = "sample"
SIDES = ("float", "quantized", "integer")
TITLES = {
    "float": "Float", "quantized": "Quantized (PyTorch)", "integer": "Integer (TOSA model)",
}  # fmt: skip
EMPTY_TEXT = "Choose a tensor in the graph, the tree or a table, and press Show."
_MOST_SAMPLES = 1_000_000


class SamplePanel(Panel):
    """Asks the engine for one tensor of one sample, and draws what it finds."""

    panel_id = "sample"

    def build(self) -> None:
        from ui.plots.heat_map import HeatMap
        from ui.plots.sides_plot import SidesPlot

        context = self.context
        self.desk = StudyDesk(STUDY, SampleTensor, context.document, context.runner,
                              context.session.cache, self)  # fmt: skip
        self.desk.changed.connect(lambda: self._mark("state"))
        self._tensor = ""
        self._values: dict[str, NDArray[Any]] = {}
        self.sample = QSpinBox(self)
        self.sample.setRange(0, _MOST_SAMPLES)
        self.sample.setAccessibleName("Number of the sample")
        self.channel = QSpinBox(self)
        self.channel.setRange(-1, 0)
        self.channel.setSpecialValueText("all")
        self.channel.setValue(-1)
        self.channel.setAccessibleName("Channel")
        self.channel.valueChanged.connect(self._draw)
        self.difference = QCheckBox("Difference to float", self)
        self.difference.clicked.connect(self._draw)
        self.chosen = QLabel(EMPTY_TEXT, self)
        self.chosen.setWordWrap(True)
        self.show_button = QPushButton("Show", self)
        self.show_button.clicked.connect(self._on_show)
        self.note = QLabel(self)
        self.note.setObjectName("Hint")
        self.note.setWordWrap(True)
        self.note.setContentsMargins(8, 0, 8, 0)
        self.maps = {side: HeatMap(TITLES[side], self) for side in SIDES}
        self.titles = {side: QLabel(TITLES[side], self) for side in SIDES}
        self.histogram = SidesPlot(SIDES, self)
        self._arrange()

    def refresh(self) -> None:
        if self.desk.options:
            self.desk.look()
        job, found = self.desk.job, self.desk.found
        self._show_ready()
        self.show_button.setText("Running\u2026" if job is not None else "Show")
        if found is None:
            self.note.setText("")
            self._values = {}
        else:
            folder = study_folder(self.context.session.cache, self.desk.key)
            self._values = load_values(folder)
            shape = "\u00d7".join(map(str, found.shape))
            text = f"{found.tensor} of sample {found.sample}, {shape}. {found.note}"
            former = "" if self.desk.is_current else " Of a former configuration."
            self.note.setText(text.strip() + former)
            channels = int(np.prod(found.shape[1:-2])) if len(found.shape) > 3 else 1
            self.channel.setRange(-1, max(channels - 1, 0))
        self._draw()

    def render_selection(self, selected: Selected) -> None:
        node = self._node_of(selected)
        name = self._tensor_of(node) if node else ""
        if name and name != self._tensor:
            self._tensor = name
            self.chosen.setText(f"Tensor {self._tensor}")
        self._show_ready()

    def _show_ready(self) -> None:
        self.show_button.setEnabled(bool(self._tensor) and self.desk.job is None)
        self.show_button.setToolTip("" if self._tensor else EMPTY_TEXT)

    def _node_of(self, selected: Selected) -> str:
        """Return the chosen operation, or the last one of the chosen modules; "" for none."""
        outline = self.context.outline
        if selected.nodes or outline.snapshot is None:
            return min(selected.nodes, default="")
        inside = outline.nodes_of(selected.modules - {""})
        calls = (n.id for n in outline.snapshot.nodes if n.id in inside and n.kind == "call")
        return max(enumerate(calls), default=(0, ""))[1]

    def _tensor_of(self, node: str) -> str:
        """Return the tensor that an operation of the float program makes."""
        measured = self.context.load(EvaluateResult, "evaluate")
        tensors = measured.tensors if measured is not None else ()
        found = [tensor.tensor for tensor in tensors if tensor.origin == node]
        return found[-1] if found else node

    def look_at(self, sample: int) -> None:
        """Show a sample at the chosen tensor, or at the last one compared if none is chosen."""
        self.sample.setValue(sample)
        measured = self.context.load(EvaluateResult, "evaluate")
        if not self._tensor and measured is not None and measured.tensors:
            self.context.selection.choose_nodes([measured.tensors[-1].origin])
            self.render_selection(self.context.selection.value)
        if self.show_button.isEnabled():
            self._on_show()

    def set_theme(self, theme: Theme) -> None:
        from ui.plots.sides_plot import colours_of

        for side, colour in colours_of(theme).items():
            self.maps[side].set_theme(theme)
            self.titles[side].setStyleSheet(f"color: {colour};")
        self.histogram.set_theme(theme)

    def _arrange(self) -> None:
        bar = QHBoxLayout()
        bar.setContentsMargins(8, 4, 8, 2)
        bar.setSpacing(8)
        left: tuple[QWidget, ...] = (QLabel("Sample", self), self.sample, self.show_button)
        right: tuple[QWidget, ...] = (QLabel("Channel", self), self.channel, self.difference)
        for part in left:
            bar.addWidget(part)
        bar.addWidget(self.chosen, 1)
        for part in right:
            bar.addWidget(part)
        sides = QWidget(self)
        row = QHBoxLayout(sides)
        row.setContentsMargins(8, 0, 8, 0)
        for side in SIDES:
            column = QVBoxLayout()
            column.addWidget(self.titles[side])
            column.addWidget(self.maps[side], 1)
            row.addLayout(column, 1)
        split = QSplitter(Qt.Orientation.Vertical, self)
        for number, half in enumerate((sides, self.histogram)):
            split.addWidget(half)
            split.setStretchFactor(number, 2 - number)
            split.setCollapsible(number, False)
        split.setSizes([430, 210])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.setSpacing(2)
        layout.addLayout(bar)
        layout.addWidget(self.note)
        layout.addWidget(split, 1)

    def _draw(self) -> None:
        from ui.plots.heat_map import picture_of

        values = self._values
        is_difference = self.difference.isChecked() and "float" in values
        shown = {s: v - values["float"] if is_difference else v for s, v in values.items()}
        drawn = [v for s, v in shown.items() if not (is_difference and s == "float")]
        limits = (
            (min(float(v.min()) for v in drawn), max(float(v.max()) for v in drawn))
            if drawn else (0.0, 1.0)
        )  # fmt: skip
        channel = self.channel.value() if self.channel.value() >= 0 else None
        for side in SIDES:
            is_reference = is_difference and side == "float"
            self.maps[side].setVisible(side in shown and not is_reference)
            self.titles[side].setVisible(bool(values) and not is_reference)
            self.titles[side].setText(self._title(side))
            if side in shown:
                picture = picture_of(shown[side], channel)
                self.maps[side].render_values(picture, limits, is_square=min(picture.shape) > 1)
        self.histogram.setVisible(bool(values))
        self.histogram.render_sides(shown, limits)

    def _title(self, side: str) -> str:
        values = self._values
        if side not in values:
            return f"{TITLES[side]}: none"
        if side == "float" or "float" not in values:
            return TITLES[side]
        error = (values[side] - values["float"]).astype(np.float64)
        signal, noise = (
            float(np.square(values["float"], dtype=np.float64).sum()),
            float(np.square(error).sum()),
        )
        sqnr = 10 * np.log10(signal / noise) if noise > 0 and signal > 0 else None
        return f"{TITLES[side]}: {decibel(sqnr)}, max error {figure(float(np.abs(error).max()))}"

    def _on_show(self) -> None:
        lowered = self.context.result("lower") is not None
        self.desk.options = {
            "sample": self.sample.value(), "tensor": self._tensor, "integer": lowered,
        }  # fmt: skip
        self.desk.start()
        self._mark("state")

"""The Sample panel: one tensor of one sample in float, quantized, integer and compiled."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QLinearGradient, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QGridLayout,
    QHBoxLayout,
    QPushButton,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from ui.shared.chart import COUNTS_LOG, Chart, pen
from ui.shared.empty_states import StudyNote
from ui.shared.forms import SpinBox, WrappedLabel
from ui.shared.labels import Label
from ui.shared.number_format import count, decibel, figure
from ui.shared.panel import Panel
from ui.shared.study_controller import StudyController
from ui.shared.theme import Theme
from ui.shared.wrapping_row import FlowRow
from ui.state.selection import Selected
from workbench.ids import StudyId
from workbench.project.pictures import pixels_of
from workbench.results import EvaluateResult, ExportResult
from workbench.studies.documents import study_folder
from workbench.studies.sample import INPUT, SampleTensor, load_values

if TYPE_CHECKING:
    from numpy.typing import NDArray


STUDY: StudyId = "sample"
# The most values that are written as numbers.
_READ = 8
SIDES = ("float", "quantized", "integer", "compiled")
TITLES = {
    "float": "Float",
    "quantized": "Quantized (PyTorch)",
    "integer": "Integer (TOSA model)",
    "compiled": "Compiled (executed on the simulator)",
}
EMPTY_TEXT = "Evaluate to choose a tensor, or select one in the graph, and press Show."
SHOW_TEXT = (
    "See {} of one sample in the float, the quantized and the compiled program, with "
    "the input, its label, and what each of them predicts."
)
_MOST_SAMPLES = 1_000_000
_INPUT_PX = 190
# Curves of an input that is no picture: more of them are not told apart.
_MOST_CURVES = 6
_SCALE_PX = 22


class SamplePanel(Panel):
    """Computes one tensor of one sample in the engine and shows its values."""

    panel_id = "sample"

    def build(self) -> None:

        context = self.context
        self.study = StudyController(STUDY, SampleTensor, context.document, context.runner,
                              context.session.cache, self)  # fmt: skip
        self.study.changed.connect(lambda: self._mark("state"))
        self._tensor = ""
        self._listed: list[str] = []
        self._values: dict[str, NDArray[Any]] = {}
        self.tensors = QComboBox(self)
        self.tensors.setAccessibleName("Tensor")
        self.tensors.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.tensors.activated.connect(self._on_tensor_chosen)
        self.sample = SpinBox(self)
        self.sample.setRange(0, _MOST_SAMPLES)
        self.sample.setAccessibleName("Sample index")
        self.sample.valueChanged.connect(self._show_ready)
        self.channel = SpinBox(self)
        self.channel.setRange(-1, 0)
        self.channel.setSpecialValueText("all")
        self.channel.setValue(-1)
        self.channel.setAccessibleName("Channel")
        self.channel.valueChanged.connect(self._draw)
        self.difference = QCheckBox("Difference from float", self)
        self.difference.clicked.connect(self._draw)
        self.show_button = QPushButton("Show", self)
        self.show_button.clicked.connect(self._on_show)
        self._make_empty()
        self.note = StudyNote("", self)
        self.note.setContentsMargins(8, 0, 8, 0)
        self.note.place_asked.connect(context.notices.place_asked)
        self.maps = {side: HeatMap(TITLES[side], self) for side in SIDES}
        self.titles = {side: WrappedLabel(TITLES[side], self) for side in SIDES}
        for title in self.titles.values():
            # Titles of one and of two lines begin at one height.
            title.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        self.scale = ColourScale(self)
        self.input = InputView(self)
        self.answers = WrappedLabel(parent=self)
        self.histogram = SidesPlot(SIDES, self)
        self._arrange()

    def _make_empty(self) -> None:
        """Create what is shown without a result: a text, and a button below it that says what it shows."""
        self.chosen = Label(EMPTY_TEXT, self)
        self.chosen.setWordWrap(True)
        self.chosen.setObjectName("Hint")
        self.begin = QPushButton(self)
        self.begin.setProperty("primary", True)
        self.begin.clicked.connect(self.show_button.click)

    def refresh(self) -> None:
        if self.study.options:
            self.study.look()
        job, result = self.study.job, self.study.result
        self._fill_tensors()
        self._show_ready()
        state = "Show" if job is None else "Queued\u2026" if job.state == "waiting" else "Running\u2026"
        self.show_button.setText(state)
        text = ""
        if result is None:
            self._values = {}
        else:
            folder = study_folder(self.context.session.cache, self.study.key)
            self._values = load_values(folder)
            self.input.render_input(self._values.pop(INPUT, None))
            self.answers.setText("\n".join(answer_lines(result)))
            shape = "\u00d7".join(map(str, result.shape))
            text = f"{result.tensor} of sample {result.sample}, {shape}. {result.note}"
            if result.compiled_apart is not None:
                text = f"{text}{_compared(result.compiled_apart, math.prod(result.shape))}"
            channels = int(np.prod(result.shape[1:-2])) if len(result.shape) > 3 else 1
            self.channel.setRange(-1, max(channels - 1, 0))
        self.note.render_study(self.study, text.strip())
        for chart in (*self.maps.values(), self.histogram):
            chart.set_stale(result is not None and not self.study.is_current)
        self._draw()

    def _fill_tensors(self) -> None:
        """List the compared tensors; the last one is chosen where none is."""
        measured = self.context.load(EvaluateResult, "evaluate")
        tensors = measured.tensors if measured is not None else ()
        names = [tensor.tensor for tensor in tensors]
        exported = self.context.load(ExportResult, "export")
        outputs = exported.named_outputs() if exported is not None else {}
        if names != self._listed:
            self._listed = names
            self.tensors.clear()
            for tensor in tensors:
                output = f"output {outputs[tensor.origin]}" if tensor.origin in outputs else ""
                title = "  ".join(filter(None, (tensor.tensor, tensor.module, output)))
                self.tensors.addItem(title, tensor.tensor)
            self._tensor = self._tensor if self._tensor in names else ""
        if self._tensor or names:
            self._choose_tensor(self._tensor or names[-1])

    def _choose_tensor(self, name: str) -> None:
        self._tensor = name
        if self.tensors.findData(name) < 0:
            self.tensors.addItem(name, name)
        self.tensors.setCurrentIndex(self.tensors.findData(name))

    def _on_tensor_chosen(self, index: int) -> None:
        self._choose_tensor(str(self.tensors.itemData(index)))
        self._show_ready()
        measured = self.context.load(EvaluateResult, "evaluate")
        if measured is not None and index < len(measured.tensors):
            origin = measured.tensors[index].origin
            self.context.selection.choose_nodes({origin} - {""}, self.panel_id)

    def render_selection(self, selected: Selected) -> None:
        node = self._node_of(selected)
        name = self._tensor_of(node) if node else ""
        if name and name != self._tensor:
            self._choose_tensor(name)
        self._show_ready()

    def _show_ready(self) -> None:
        is_empty = self.study.result is None
        self.chosen.setVisible(is_empty)
        text = SHOW_TEXT.format(self._tensor) if self._tensor else EMPTY_TEXT
        is_busy = self.study.job is not None
        self.chosen.setText(f"Computing sample {self.sample.value()}\u2026" if is_busy else text)
        self._split.setVisible(not is_empty)
        can_show = bool(self._tensor) and self.study.job is None
        self.show_button.setEnabled(can_show)
        self.begin.setVisible(is_empty and can_show)
        self.begin.setText(f"Show sample {self.sample.value()}")
        side = Qt.AlignmentFlag.AlignBottom if can_show else Qt.AlignmentFlag.AlignVCenter
        self.chosen.setAlignment(side | Qt.AlignmentFlag.AlignHCenter)
        self.show_button.setToolTip("" if self._tensor else EMPTY_TEXT)

    def _node_of(self, selected: Selected) -> str:
        """Return the selected operation, or the last one of the selected modules; "" for none."""
        model_index = self.context.model_index
        if selected.nodes or model_index.snapshot is None:
            return min(selected.nodes, default="")
        inside = model_index.nodes_of(selected.modules - {""})
        calls = (n.id for n in model_index.snapshot.nodes if n.id in inside and n.kind == "call")
        return max(enumerate(calls), default=(0, ""))[1]

    def _tensor_of(self, node: str) -> str:
        """Return the output tensor of an operation, or of the one after it that it is fused into."""
        measured = self.context.load(EvaluateResult, "evaluate")
        tensors = measured.tensors if measured is not None else ()
        names = {tensor.origin: tensor.tensor for tensor in tensors}
        snapshot, last = self.context.model_index.snapshot, node
        while snapshot is not None and last not in names:
            consumers = snapshot.consumers(last)
            if len(consumers) != 1:
                return node
            last = consumers[0].id
        return names.get(last, node)

    def look_at(self, sample: int) -> None:
        """Show a sample at the selected tensor, or at the last compared one."""
        self.sample.setValue(sample)
        self._fill_tensors()
        self._show_ready()
        if self.show_button.isEnabled():
            self._on_show()

    def set_theme(self, theme: Theme) -> None:

        for side, colour in colours_of(theme).items():
            self.maps[side].set_theme(theme)
            self.titles[side].setStyleSheet(f"color: {colour};")
        self.histogram.set_theme(theme)
        self.input.set_theme(theme)

    def _arrange(self) -> None:
        controls = FlowRow(self)
        controls.add_field("Tensor", self.tensors)
        controls.add_field("Sample", self.sample)
        controls.add(self.show_button)
        controls.add_field("Channel", self.channel)
        controls.add(self.difference)
        bar = QHBoxLayout()
        bar.setContentsMargins(8, 4, 8, 2)
        bar.addWidget(controls)
        self.chosen.setContentsMargins(8, 0, 8, 0)
        sides = QWidget(self)
        self._pictures = QGridLayout(sides)
        self._pictures.setContentsMargins(8, 0, 8, 0)
        self._pictures.setRowStretch(1, 1)
        split = self._split = QSplitter(Qt.Orientation.Vertical, self)
        top = QWidget(self)
        row = QHBoxLayout(top)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self._built_input())
        row.addWidget(sides, 1)
        for number, half in enumerate((top, self.histogram)):
            split.addWidget(half)
            split.setStretchFactor(number, 2 - number)
            split.setCollapsible(number, False)
        split.setSizes([430, 210])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.setSpacing(2)
        layout.addLayout(bar)
        layout.addWidget(self.chosen, 1)
        layout.addWidget(self.begin, 1, Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop)
        layout.addWidget(self.note)
        layout.addWidget(split, 1)

    def _built_input(self) -> QWidget:
        """Return the input of the sample, with what the programs predict below it."""
        beside = QWidget(self)
        beside.setFixedWidth(_INPUT_PX)
        column = QVBoxLayout(beside)
        column.setContentsMargins(8, 0, 0, 0)
        column.addWidget(Label("Input", beside))
        column.addWidget(self.input, 1)
        column.addWidget(self.answers)
        return beside

    def _draw(self) -> None:
        values = self._values
        is_difference = self.difference.isChecked() and "float" in values
        shown = {s: v - values["float"] if is_difference else v for s, v in values.items()}
        drawn = [v for s, v in shown.items() if not (is_difference and s == "float")]
        limits = (
            (min(float(v.min()) for v in drawn), max(float(v.max()) for v in drawn)) if drawn else (0.0, 1.0)
        )
        channel = self.channel.value() if self.channel.value() >= 0 else None
        sides = [s for s in SIDES if s in shown and not (is_difference and s == "float")]
        self._arrange_pictures(sides)
        missing = [TITLES[side] for side in SIDES if values and side not in values]
        self.scale.render_limits(limits, f"not computed: {', '.join(missing)}" if missing else "")
        self.scale.setVisible(bool(drawn))
        for side in SIDES:
            self.titles[side].setText(self._title(side))
            if side in shown:
                picture = picture_of(shown[side], channel)
                self.maps[side].render_values(picture, limits, is_square=min(picture.shape) > 1)
        self.histogram.setVisible(bool(values))
        self.histogram.render_sides(shown, limits)

    def _arrange_pictures(self, sides: Sequence[str]) -> None:
        """Put the pictures of some sides beside one another, all of the same size."""
        grid = self._pictures
        for part in (*self.titles.values(), *self.maps.values(), self.scale):
            grid.removeWidget(part)
            part.setVisible(False)
        for column in range(len(SIDES)):
            grid.setColumnStretch(column, 1 if column < len(sides) else 0)
        for column, side in enumerate(sides):
            for row, part in enumerate((self.titles[side], self.maps[side])):
                grid.addWidget(part, row, column)
                part.setVisible(True)
        grid.addWidget(self.scale, 2, 0, 1, max(len(sides), 1))

    def _title(self, side: str) -> str:
        values = self._values
        if side not in values:
            return TITLES[side]
        numbers = values[side].reshape(-1)
        few = ", ".join(figure(float(v)) for v in numbers) if numbers.size <= _READ else ""
        if side == "float" or "float" not in values:
            return f"{TITLES[side]}\n{few}".strip()
        error = (values[side] - values["float"]).astype(np.float64)
        signal, noise = (
            float(np.square(values["float"], dtype=np.float64).sum()),
            float(np.square(error).sum()),
        )
        sqnr = 10 * np.log10(signal / noise) if noise > 0 and signal > 0 else None
        text = f"{TITLES[side]}: {decibel(sqnr)}, max error {figure(float(np.abs(error).max()))}"
        return f"{text}\n{few}".strip()

    def _on_show(self) -> None:
        lowered = self.context.result("lower") is not None
        self.study.options = {"sample": self.sample.value(), "tensor": self._tensor, "integer": lowered}
        self.study.start()
        self._mark("state")


def answer_lines(result: SampleTensor) -> list[str]:
    """Return the label of the sample and the class that each program gives, one per line."""
    lines = [f"Label: {result.label}"] if result.label is not None else []
    lines += [
        f"{TITLES[side].partition(' (')[0]}: class {result.classes[side]}"
        for side in SIDES
        if side in result.classes
    ]
    given = set(result.classes.values())
    if len(given) > 1:
        lines.append("The programs give different classes.")
    elif result.label is not None and given:
        lines.append("All right." if given == {result.label} else "All wrong.")
    return lines


class InputView(Chart):
    """The first input of a sample: a picture, or curves of a signal."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Input of the sample", "", "", parent)
        self._image = pg.ImageItem(axisOrder="row-major")
        self._curves = [pg.PlotCurveItem() for _ in range(_MOST_CURVES)]
        for item in (self._image, *self._curves):
            self.plot.addItem(item)
        self.plot.hideAxis("left")
        self.plot.hideAxis("bottom")
        self.curves = 0

    def render_input(self, values: NDArray[Any] | None) -> None:
        """Show an input [1, ...]; nothing if there is none."""
        self.setVisible(values is not None)
        if values is None:
            return
        values = np.nan_to_num(values)
        pixels = _input_pixels(values) if values.ndim == 4 else None
        self._image.setVisible(pixels is not None)
        series = [] if pixels is not None else series_of(values)
        self.curves = len(series)
        for number, curve in enumerate(self._curves):
            curve.setVisible(number < len(series))
            if number < len(series):
                curve.setData(np.arange(series[number].size), series[number])
        self.box.setAspectLocked(pixels is not None)
        self.box.invertY(pixels is not None)
        if pixels is not None:
            self._image.setImage(pixels)
            self.box.setRange(xRange=(0, pixels.shape[1]), yRange=(0, pixels.shape[0]))
        elif series:
            self.box.setRange(
                xRange=(0, max(s.size for s in series)),
                yRange=(min(float(s.min()) for s in series), max(float(s.max()) for s in series)),
                padding=0.02,
            )

    def restyle(self, theme: Theme) -> None:
        self.view.setBackground(theme.background)
        marks = (theme.accent, theme.good, theme.warning, theme.bad, theme.text, theme.muted)
        for curve, colour in zip(self._curves, marks, strict=True):
            curve.setPen(pen(colour))


# The shorter side of maps that are shown as pictures; other inputs are signals.
_LEAST_MAP = 8


def _input_pixels(values: NDArray[Any]) -> NDArray[np.uint8] | None:
    """Return an input [1, C, H, W] as pixels: a picture, or maps of its channels side by side."""
    pixels = pixels_of(values[0])
    if pixels is not None or min(values.shape[2:]) < _LEAST_MAP:
        return pixels
    return pixels_of(np.nan_to_num(picture_of(values.astype(np.float32), None)))


def series_of(values: NDArray[Any]) -> list[NDArray[Any]]:
    """Return an input [1, ...] as curves: its rows along the longest of the last two axes."""
    inner = values.reshape(-1) if values.ndim < 3 else values.reshape(-1, *values.shape[-2:])[0]
    rows = inner[None] if inner.ndim == 1 else inner
    rows = rows.T if rows.shape[0] > rows.shape[1] else rows
    return [row for row in rows[:_MOST_CURVES] if row.size]


def _compared(apart: int, elements: int) -> str:
    """Return how many elements of the compiled program are not those of its TOSA."""
    if not apart:
        return f"Compiled program and TOSA are equal in {count(elements)} elements."
    return (
        f"Compiled program and TOSA differ in {count(apart)} of {count(elements)} elements; both "
        "get the same input."
    )


# Viridis (van der Walt and Smith, 2015) at nine positions: perceptually uniform, colour-blind-safe.
_VIRIDIS = ("#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725")


def picture_of(values: NDArray[np.float32], channel: int | None) -> NDArray[np.float32]:
    """Return a tensor as an image [H, W]; without a channel, all channels as a mosaic, nearly a square.

    The first axis is the batch. A vector is one row.
    """
    inner = values[0] if values.ndim > 1 and values.shape[0] == 1 else values
    if inner.ndim < 2:
        return inner.reshape(1, -1)
    if inner.ndim == 2:
        return inner
    planes = inner.reshape(-1, *inner.shape[-2:])
    if channel is not None:
        plane: NDArray[np.float32] = planes[min(channel, len(planes) - 1)]
        return plane
    count, height, width = planes.shape
    across = min(math.ceil(math.sqrt(count * max(height, 1) / max(width, 1))), count) or 1
    down = -(-count // across)
    mosaic = np.full((down * across, height, width), np.nan, np.float32)
    mosaic[:count] = planes
    rows = mosaic.reshape(down, across, height, width).transpose(0, 2, 1, 3)
    return rows.reshape(down * height, across * width)


class ColourScale(QWidget):
    """The colours of the pictures with the values at their ends, and a note at the right."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._limits, self._note = (0.0, 1.0), ""
        self.setFixedHeight(_SCALE_PX)

    def render_limits(self, limits: tuple[float, float], note: str) -> None:
        """Show the values of the first and the last colour."""
        self._limits, self._note = limits, note
        self.setAccessibleName(f"Colours from {figure(limits[0])} to {figure(limits[1])}. {note}")
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        painter = QPainter(self)
        low, high = (figure(value) for value in self._limits)
        left = self.fontMetrics().horizontalAdvance(low) + 8
        bar = QRectF(left, 5, min(280.0, self.width() * 0.4), self.height() - 10)
        gradient = QLinearGradient(bar.topLeft(), bar.topRight())
        for step, colour in enumerate(_VIRIDIS):
            gradient.setColorAt(step / (len(_VIRIDIS) - 1), QColor(colour))
        painter.fillRect(bar, gradient)
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.setPen(self.palette().color(QPalette.ColorRole.WindowText))
        painter.drawText(QRectF(0, 0, left, self.height()), middle, low)
        rest = QRectF(bar.right() + 8, 0, self.width() - bar.right() - 8, self.height())
        painter.drawText(rest, middle, f"{high}    {self._note}".rstrip())
        painter.end()


class HeatMap(Chart):
    """An image with a colour scale; ``limits`` are the values at its ends."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(name, "", "", parent)
        self.values = np.zeros((0, 0), np.float32)
        self._image = pg.ImageItem(axisOrder="row-major")
        self._image.setColorMap(pg.ColorMap(np.linspace(0, 1, len(_VIRIDIS)), list(_VIRIDIS)))
        self.plot.addItem(self._image)
        self.plot.hideAxis("left")
        self.plot.hideAxis("bottom")
        self.box.invertY(True)
        self.box.setMouseEnabled(x=True, y=True)
        self.tell = self._tell

    def render_values(
        self, values: NDArray[np.float32], limits: tuple[float, float], *, is_square: bool
    ) -> None:
        """Show values [H, W]."""
        self.values = values
        low, high = limits
        self._image.setImage(values, levels=(low, high if high > low else low + 1.0))
        height, width = values.shape
        self.box.setAspectLocked(is_square)
        self.box.setRange(xRange=(0, width), yRange=(0, height), padding=0.01)

    def restyle(self, theme: Theme) -> None:
        self.view.setBackground(theme.background)

    def _tell(self, point: QPointF) -> str:
        row, column = math.floor(point.y()), math.floor(point.x())
        height, width = self.values.shape
        if not (0 <= row < height and 0 <= column < width):
            return ""
        value = self.values[row, column]
        return "" if np.isnan(value) else f"row {row}, column {column}: {value:.5g}"


BINS = 128


class SidesPlot(Chart):
    """Histograms of all sides as outlines."""

    def __init__(self, sides: tuple[str, ...], parent: QWidget | None = None) -> None:
        super().__init__("Values by side", "value", COUNTS_LOG, parent)
        self._curves = {side: pg.PlotCurveItem([0.0, 1.0], [0.0], stepMode="center") for side in sides}
        for curve in self._curves.values():
            self.plot.addItem(curve, ignoreBounds=True)

    def render_sides(self, values: Mapping[str, NDArray[np.float32]], limits: tuple[float, float]) -> None:
        """Show values."""
        low, high = limits if limits[1] > limits[0] else (limits[0] - 0.5, limits[0] + 0.5)
        most = 1.0
        for side, curve in self._curves.items():
            curve.setVisible(side in values)
            if side in values:
                counts, edges = np.histogram(values[side], BINS, (low, high))
                heights = np.log10(1.0 + counts)
                most = max(most, float(heights.max()))
                curve.setData(edges, heights)
        self.box.setLimits(xMin=low, xMax=high, minXRange=(high - low) / 1e4)
        self.box.setXRange(low, high, padding=0)
        self.box.setYRange(0.0, most * 1.06, padding=0)
        self.show_counts(most * 1.06)

    def restyle(self, theme: Theme) -> None:
        colours = colours_of(theme)
        for side, curve in self._curves.items():
            curve.setPen(pen(colours[side]))


def colours_of(theme: Theme) -> dict[str, str]:
    """Return the colour of each side."""
    return {
        "float": theme.precision_colour("float"),
        "quantized": theme.precision_colour("a8w8"),
        "integer": theme.precision_colour("a16w8"),
        "compiled": theme.precision_colour("a4w4"),
    }

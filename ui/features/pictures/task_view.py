"""What a detector, a segmentation or key points return for samples: label, float and quantized."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QSplitter, QVBoxLayout, QWidget

from ui.shared.forms import WrappedLabel
from ui.shared.labels import Label
from ui.shared.number_format import DASH, count, percent
from ui.shared.pixels import image_of
from ui.shared.sortable_table import Column, FigureTableModel, FigureView
from ui.shared.theme import Theme

if TYPE_CHECKING:
    import numpy as np

    from workbench.results.task_quality import ShownObject, ShownPoint, ShownSample, TaskFigure, TaskQuality

SIDES = ("Label", "Float", "Quantized")
_MARGIN_PX = 4
# How much of a mask's colour covers the picture.
_MASK_ALPHA = 150
# Colours of classes: Okabe and Ito (2008).
_CLASS_COLOURS = ("#e69f00", "#56b4e9", "#009e73", "#f0e442", "#0072b2", "#d55e00", "#cc79a7", "#999999")
_NO_CLASS = 255


def _percentage_loss(row: TaskFigure) -> float | None:
    if row.floating is None or row.quantized is None:
        return None
    return row.floating - row.quantized


def _points(row: TaskFigure) -> str:
    lost = _percentage_loss(row)
    return DASH if lost is None else f"{100 * lost:.2f}".replace("-", "\u2212")


FIGURE_COLUMNS: tuple[Column[TaskFigure], ...] = (
    Column("Figure", lambda r: r.name),
    Column("Float", lambda r: percent(r.floating), lambda r: r.floating),
    Column("Quantized", lambda r: percent(r.quantized), lambda r: r.quantized),
    Column("Lost", _points, _percentage_loss, "In percentage points"),
    Column("Labelled", lambda r: count(r.count), lambda r: r.count, "Labelled objects, pixels or points"),
)
SAMPLE_COLUMNS: tuple[Column[ShownSample], ...] = (
    Column("Sample", lambda r: r.file or str(r.sample), lambda r: r.sample, "Index in the data"),
    Column(
        "Lost",
        lambda r: str(r.lost),
        lambda r: r.lost,
        "Objects of the float model that the quantized model does not find",
    ),
    Column("New", lambda r: str(r.added), lambda r: r.added, "Objects that only the quantized model finds"),
    Column(
        "Worse by",
        lambda r: f"{r.loss:.0f}" if r.loss == round(r.loss) else f"{r.loss:.4f}",
        lambda r: r.loss,
        "Lost and new objects; lost intersection over union; pixels that points moved away",
    ),
)

# Columns that count objects, which only a detection has.
_OF_OBJECTS = (1, 2)


@dataclass(frozen=True)
class Side:
    """What is drawn on a picture."""

    objects: Sequence[ShownObject] = ()
    points: Sequence[ShownPoint] = ()
    mask: np.ndarray[Any, Any] | None = None


class TaskPicture(QWidget):
    """A picture with boxes, key points or a mask."""

    def __init__(self, name: str, parent: QWidget) -> None:
        super().__init__(parent)
        self._name = name
        self._picture: np.ndarray[Any, Any] | None = None
        self._side = Side()
        self._theme: Theme | None = None
        self._size = (1, 1)
        self.setMinimumSize(90, 90)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def render_side(
        self, picture: np.ndarray[Any, Any] | None, side: Side, theme: Theme, size: tuple[int, int]
    ) -> None:
        """Show pixels [H, W, 3] (uint8), and what is in them.

        ``size`` is the width and height that boxes and points refer to.
        """
        self._picture, self._side, self._theme, self._size = picture, side, theme, size
        what = f"{len(side.objects)} objects" if side.objects else f"{len(side.points)} points"
        self.setAccessibleName(f"{self._name}: {what}")
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        del event
        if self._picture is None or self._theme is None:
            return
        width, height = self._size
        scale = min(self.width() / width, self.height() / height)
        left, top = (self.width() - width * scale) / 2, (self.height() - height * scale) / 2
        frame = QRectF(left, top, width * scale, height * scale)
        painter = QPainter(self)
        painter.drawImage(frame, image_of(self._picture))
        if self._side.mask is not None:
            painter.drawImage(frame, _coloured(self._side.mask))
        painter.translate(left, top)
        # What one model alone has is drawn last: nothing covers it.
        for one in sorted(self._side.objects, key=lambda o: o.changed):
            self._draw_object(painter, one, scale)
        painter.setPen(QPen(QColor(self._theme.good), 2))
        for point in self._side.points:
            painter.drawEllipse(QPointF(point.x * scale, point.y * scale), 4, 4)
        painter.end()

    def _draw_object(self, painter: QPainter, one: ShownObject, scale: float) -> None:
        assert self._theme is not None
        colour = QColor(self._theme.bad if one.changed else _CLASS_COLOURS[one.category % 8])
        painter.setPen(QPen(colour, 3 if one.changed else 2))
        left, top, right, bottom = (side * scale for side in one.box)
        if one.corners:
            sides = [side * scale for side in one.corners]
            painter.drawPolygon([QPointF(x, y) for x, y in zip(sides[::2], sides[1::2], strict=True)])
        else:
            painter.drawRect(QRectF(left, top, right - left, bottom - top))
        text = str(one.category) if one.score is None else f"{one.category}  {one.score:.2f}"
        metrics = painter.fontMetrics()
        wide, high = metrics.horizontalAdvance(text) + 6, metrics.height()
        most = self._size[0] * scale - wide
        line = QRectF(max(min(left, most), 0), max(top - high, 0), wide, high)
        painter.fillRect(line, colour)
        painter.setPen(QColor("#000000" if colour.lightness() > 110 else "#ffffff"))
        painter.drawText(line, Qt.AlignmentFlag.AlignCenter, text)


def _coloured(mask: np.ndarray[Any, Any]) -> QImage:
    """Return classes [H, W] as a picture; the class 0 and pixels without one are transparent."""
    height, width = mask.shape
    image = QImage(mask.tobytes(), width, height, width, QImage.Format.Format_Indexed8).copy()
    table = []
    for number in range(256):
        colour = QColor(_CLASS_COLOURS[number % 8])
        colour.setAlpha(0 if number in {0, _NO_CLASS} else _MASK_ALPHA)
        table.append(colour.rgba())
    image.setColorTable(table)
    return image


class TaskView(QWidget):
    """The figures of a task at the left; at the right a sample as both models see it."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme: Theme | None = None
        self._task: TaskQuality | None = None
        self._arrays: Mapping[str, np.ndarray[Any, Any]] = {}
        self.figures = FigureTableModel[Any](FIGURE_COLUMNS, lambda r: r.name, self)
        self.figure_table = FigureView("Figures of the task", self.figures, self)
        self.samples = FigureTableModel[Any](SAMPLE_COLUMNS, _sample_tip, self)
        self.sample_table = FigureView("Samples of the task", self.samples, self)
        self.sample_table.rows_chosen.connect(self._on_rows_chosen)
        self.note = WrappedLabel(parent=self)
        self.note.setObjectName("Hint")
        self.pictures = {side: TaskPicture(side, self) for side in SIDES}
        self._arrange()

    def render_task(
        self, task: TaskQuality, arrays: Mapping[str, np.ndarray[Any, Any]], theme: Theme, *, stale: bool
    ) -> None:
        """Show the figures and the first sample."""
        self._task, self._theme, self._arrays = task, theme, arrays
        self.figures.set_rows([*task.figures, *task.per_class])
        self.samples.set_rows(task.samples)
        for table in (self.figure_table, self.sample_table):
            table.set_look(theme, stale=stale)
        for column in _OF_OBJECTS:
            self.sample_table.setColumnHidden(column, task.metric != "detection")
        self.show_sample(0)

    def show_sample(self, row: int) -> None:
        """Show the sample in a row of the table."""
        if self._task is None or self._theme is None or row >= len(self._task.samples):
            return
        sample = self._task.samples[row]
        self.sample_table.choose_rows([self.samples.shown_at(row)], reveal=False)
        self.note.setText(f"Sample {sample.file or sample.sample} is shown. {_note(self._task)}")
        sides = (
            ("Label", sample.label_objects, sample.label_points, "label"),
            ("Float", sample.float_objects, sample.float_points, "float"),
            ("Quantized", sample.quantized_objects, sample.quantized_points, "quantized"),
        )
        picture = self._arrays.get(f"picture_{sample.sample}")
        for name, objects, points, key in sides:
            side = Side(objects, points, self._arrays.get(f"{key}_{sample.sample}"))
            size = self._task.width or 1, self._task.height or 1
            self.pictures[name].render_side(picture, side, self._theme, size)

    def _on_rows_chosen(self, rows: Sequence[int]) -> None:
        if rows:
            self.show_sample(self.samples.source_row(rows[0]))

    def _arrange(self) -> None:
        tables = QSplitter(Qt.Orientation.Vertical, self)
        tables.addWidget(self.figure_table)
        tables.addWidget(self.sample_table)
        pictures = QWidget(self)
        row = QHBoxLayout()
        for name, picture in self.pictures.items():
            column = QVBoxLayout()
            title = Label(name, pictures)
            title.setAlignment(Qt.AlignmentFlag.AlignCenter)
            column.addWidget(title)
            column.addWidget(picture, 1)
            row.addLayout(column, 1)
        layout = QVBoxLayout(pictures)
        layout.setContentsMargins(_MARGIN_PX, _MARGIN_PX, _MARGIN_PX, _MARGIN_PX)
        layout.addLayout(row, 1)
        layout.addWidget(self.note)
        split = QSplitter(Qt.Orientation.Horizontal, self)
        split.addWidget(tables)
        split.addWidget(pictures)
        split.setSizes([510, 860])
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.addWidget(split)


def _sample_tip(row: ShownSample) -> str:
    return f"Sample {row.sample}: {row.lost} objects lost, {row.added} new"


def _note(task: TaskQuality) -> str:
    if task.metric != "detection":
        loses = any(sample.loss > 0 for sample in task.samples)
        return "The samples that lose most come first." if loses else "No sample loses."
    return (
        f"Over all samples {task.lost} objects of the float model are lost and {task.added} are "
        "new; those are red. Measured in PyTorch."
    )

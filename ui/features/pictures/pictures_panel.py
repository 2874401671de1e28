"""The Pictures panel: samples with their labels and what both models make of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor, QIcon, QPixmap
from PySide6.QtWidgets import QListView, QListWidget, QListWidgetItem, QStackedWidget, QVBoxLayout, QWidget

from ui.features.pictures.task_view import TaskView
from ui.shared.forms import WrappedLabel
from ui.shared.number_format import DASH, decibel
from ui.shared.pixels import image_of
from ui.shared.result_panel import ResultPanel, Shown, StageFrame
from ui.shared.theme import Theme
from ui.state.selection import Selected
from workbench.errors import Place
from workbench.results import ARRAYS_FILE, EvaluateResult, load_arrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from workbench.results import SampleQuality

EMPTY = "Evaluate to see samples as the float and the quantized model see them."
NO_PICTURES = (
    "The first input of this model is no picture with one or three channels. Sample shows any "
    "tensor of a sample."
)

_PICTURE_PX, _CELL_PX = 128, QSize(176, 192)
NOTE = "The samples with the lowest SQNR first. Measured in PyTorch."
CLASS_NOTE = (
    "The samples with another class first, which are red, then those with the lowest SQNR. "
    "Measured in PyTorch."
)


class PicturesPanel(ResultPanel):
    """Shows boxes, points or masks on pictures, or the classes of pictures."""

    panel_id = "pictures"

    def build_frames(self) -> None:
        self._drawn: tuple[object, ...] = ()
        self._folder: Path | None = None
        self._known: Mapping[str, NDArray[np.uint8]] = {}
        self.frames["evaluate"] = StageFrame("Pictures", EMPTY, self._make_content, self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.addWidget(self.frames["evaluate"])

    def _make_content(self, content: QWidget) -> None:
        self.task, self.classes = TaskView(content), ClassView(content)
        self.classes.list.itemActivated.connect(self._on_activated)
        self.classes.list.setToolTip("Double-click a picture to show the sample's tensors.")
        self.views = QStackedWidget(content)
        for view in (self.classes, self.task):
            self.views.addWidget(view)
        layout = QVBoxLayout(content)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.views)

    def show_results(self) -> None:
        evaluated = self.read(EvaluateResult, "evaluate")
        arrays = self._arrays(evaluated)
        is_absent = evaluated is not None and not arrays
        absent, outdated = (NO_PICTURES, f"Outdated: {NO_PICTURES}") if is_absent else ("", "")
        self.frames["evaluate"].note.set_absent(absent, outdated)
        self._show_stage("evaluate")
        shown = evaluated if arrays else None
        self.show_frame("evaluate", shown)
        if shown is None:
            return
        news = (shown.folder, shown.current, self.context.theme)
        if news == self._drawn:
            return
        self._drawn = news
        value, theme = shown.value, self.context.theme
        if value.task is not None:
            self.task.render_task(value.task, arrays, theme, stale=not shown.current)
        else:
            self.classes.render_samples(value.worst, arrays, theme)
        self.views.setCurrentWidget(self.task if value.task is not None else self.classes)

    def _arrays(self, shown: Shown[EvaluateResult] | None) -> Mapping[str, NDArray[np.uint8]]:
        """Return the pictures of a result; none if it has none."""
        if shown is None:
            return {}
        if shown.folder != self._folder:
            self._folder = shown.folder
            there = os.path.exists(shown.folder / ARRAYS_FILE)
            self._known = load_arrays(shown.folder) if there else {}
        return self._known

    def set_theme(self, theme: Theme) -> None:
        if self.has("evaluate") and self._drawn:
            self.show_results()

    def render_selection(self, selected: Selected) -> None:
        del selected

    def _on_activated(self, item: QListWidgetItem) -> None:
        sample = item.data(Qt.ItemDataRole.UserRole)
        self.context.notices.place_asked.emit(Place(kind="sample", id=str(sample)))


class ClassView(QWidget):
    """Pictures of samples; each says its label and what both models give."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.note = WrappedLabel(NOTE, self)
        self.note.setObjectName("Hint")
        self.list = QListWidget(self)
        self.list.setAccessibleName("Pictures of the worst samples")
        self.list.setViewMode(QListView.ViewMode.IconMode)
        self.list.setResizeMode(QListView.ResizeMode.Adjust)
        self.list.setMovement(QListView.Movement.Static)
        self.list.setIconSize(QSize(_PICTURE_PX, _PICTURE_PX))
        self.list.setGridSize(_CELL_PX)
        self.list.setWordWrap(True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 6, 8, 4)
        layout.addWidget(self.note)
        layout.addWidget(self.list, 1)

    def render_samples(
        self, samples: Sequence[SampleQuality], arrays: Mapping[str, NDArray[np.uint8]], theme: Theme
    ) -> None:
        """Show the samples that have a picture."""
        has_classes = any(sample.float_class is not None for sample in samples)
        self.note.setText(CLASS_NOTE if has_classes else NOTE)
        self.list.clear()
        for sample in samples:
            picture = arrays.get(f"picture_{sample.sample}")
            if picture is None:
                continue
            pixels = QPixmap.fromImage(image_of(picture)).scaled(
                _PICTURE_PX,
                _PICTURE_PX,
                Qt.AspectRatioMode.KeepAspectRatio,
                Qt.TransformationMode.FastTransformation,
            )
            item = QListWidgetItem(QIcon(pixels), caption(sample), self.list)
            item.setData(Qt.ItemDataRole.UserRole, sample.sample)
            if sample.float_class != sample.quantized_class:
                item.setForeground(QColor(theme.bad))


def caption(sample: SampleQuality) -> str:
    """Return what is known of a sample in two or three short lines."""
    first = f"Sample {sample.sample}, {decibel(sample.sqnr_db)}"
    if sample.label is None:
        return first
    names = [DASH if c is None else str(c) for c in (sample.float_class, sample.quantized_class)]
    return f"{first}\nlabel {sample.label}, float {names[0]}\nquantized {names[1]}"

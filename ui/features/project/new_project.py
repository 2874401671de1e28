"""The dialog New project: model, inputs, data and target."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QHBoxLayout,
    QLineEdit,
    QVBoxLayout,
    QWidget,
)

from ui.features.project.data_preview import (
    PICTURE_PX,
    DataPreview,
    DataSummary,
    differences,
    lacking_labels,
    other_shapes,
    summary_of,
)
from ui.features.project.draft import Draft, build, callables_of, is_class, samples_functions_of
from ui.shared.file_dialogs import DATA, MODEL_FORMS, MODELS, WEIGHT_SUFFIXES, WEIGHTS
from ui.shared.forms import FRAME_PX, PathField, SpinBox, TallForm, make_primary
from ui.shared.labels import Label
from ui.shared.setting_names import in_window
from ui.shared.tab_order import put_after, reading_order
from ui.shared.target_form import BAR_OPTIONS, LABELS_PX, BoardBox, TargetForm
from ui.state.assigner import preset_ids, preset_title
from workbench.deploy import boards
from workbench.deploy.boards import load
from workbench.errors import WorkbenchError
from workbench.project.model import TargetChoice, Tokenization
from workbench.project.sources import MODEL_SUFFIXES, TEXT_SUFFIX
from workbench.studies.training import WEIGHTS_STEM

SHAPES_HINT = "e.g. 1x3x224x224; empty if the model defines them"
_WIDTH_PX, _ROW_GAP_PX = 640, 7
FIRST_TARGET = TargetChoice(id="ethos-u55-128")


def _column(widget: QWidget) -> QVBoxLayout:
    column = QVBoxLayout(widget)
    column.setContentsMargins(0, 0, 0, 0)
    return column


def _row(parent: QWidget, *fields: QWidget) -> QWidget:
    row = QWidget(parent)
    layout = QHBoxLayout(row)
    layout.setContentsMargins(0, 0, 0, 0)
    for field in fields:
        layout.addWidget(field)
    return row


def _with_function(field: PathField, box: QComboBox) -> str:
    """Return a data source; that of a Python file has the chosen function."""
    text, function = field.text(), box.currentText()
    return f"{text}:{function}" if text.endswith(".py") and function else text


class NewProjectDialog(QDialog):
    """Dialog for a new project. Shows errors at once.

    Signals:
        made: the new ``OpenProject``.
        drafted: the present ``OpenProject``, or None if it is not complete.
    """

    made = Signal(object)
    drafted = Signal(object)

    def __init__(self, model: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("New project")
        self.setAcceptDrops(True)
        self._touched, self._board = bool(model), ""
        self._model_seen, self._proposed = Path(), ""
        self._summaries: dict[str, DataSummary] = {}
        self._data_summary = self._evaluation_summary = DataSummary("")
        self._build()
        self.target.render_choice(FIRST_TARGET)
        self.target.chosen.connect(lambda _: self.check())
        if model:
            self.model.set_text(model)
        self.check()
        # A minimum width of the dialog would hide that of its form.
        self.resize((self.sizeHint() + QSize(0, self._room_px())).expandedTo(QSize(_WIDTH_PX, 0)))
        self.model.setFocus(Qt.FocusReason.OtherFocusReason)

    def _room_px(self) -> int:
        """Return the height of the rows that a model and data add, as far as it fits."""
        rows = [box for box in (self.attribute, self.data_function) if box.isHidden()]
        rows_px = sum(box.sizeHint().height() + _ROW_GAP_PX for box in rows)
        hint_px = 2 * self.fontMetrics().lineSpacing() + _ROW_GAP_PX
        previews_px = 2 * (PICTURE_PX + _ROW_GAP_PX)
        free = self.screen().availableSize().height() - self.sizeHint().height() - FRAME_PX
        return max(min(rows_px + hint_px + previews_px, free), 0)

    @property
    def folder(self) -> Path:
        """The folder that paths are relative to: the folder of the model file, if there is one."""
        path = Path(self.model.text().rpartition(".py:")[0] or self.model.text())
        return path.parent if path.is_absolute() else Path.cwd()

    def draft(self) -> Draft:
        """Return the texts of the form."""
        return Draft(
            folder=self.folder,
            board=self._board,
            target=self.target.choice or FIRST_TARGET,
            name=self.name.text().strip(),
            model=self.model.text(),
            attribute=self.attribute.currentText(),
            shapes=self.shapes.text().strip() or self._inferred_shapes(),
            weights=self.weights.text(),
            data=_with_function(self.data, self.data_function),
            evaluation=_with_function(self.evaluation, self.evaluation_function),
            has_classes=self._evaluation_summary.has_labels,
            size=self.picture_size.text().strip() if self._wants_pictures() else "",
            crop=self.crop.text().strip(),
            mean=self.mean.text().strip(),
            std=self.std.text().strip(),
            labels=self.labels.text(),
            tokenizer=self.tokenizer.text() if self._wants_text() else "",
            length=self.length.value() if self._wants_text() else 0,
            metric=self.quality_metric.text().strip(),
            preset=str(self.preset.currentData()),
        )

    def _build(self) -> None:
        self.name = self._line("Name", "default: name of the model file")
        self.model = PathField("Model", MODELS, self)
        self.model.line.setPlaceholderText(MODEL_FORMS)
        self.attribute = self._functions("Class or function that returns the model")
        self.weights = PathField("Weights", WEIGHTS, self)
        self.weights.line.setPlaceholderText("optional; empty if the model has its own")
        self.shapes = self._line("Input shapes", SHAPES_HINT)
        self.data = PathField("Calibration data", DATA, self, kind="either")
        self.data.line.setPlaceholderText("optional; empty: the example input")
        self.evaluation = PathField("Evaluation data", DATA, self, kind="either")
        self.evaluation.line.setPlaceholderText("optional; empty: held-out calibration data")
        self.data_function = self._functions("Function that yields the calibration data")
        self.evaluation_function = self._functions("Function that yields the evaluation data")
        self.preview, self.evaluation_preview = DataPreview(self), DataPreview(self)
        self.picture_size = self._line("Picture size", "e.g. 224 or 240x320")
        self.crop = self._line("Centre crop", "optional crop")
        self.mean = self._line("Mean", "mean: 0, or 0.485/0.456/0.406")
        self.std = self._line("Standard deviation", "std: 1, or one each")
        self.tokenizer = PathField("Tokenizer", "Tokenizers (*.json *.py)", self)
        self.tokenizer.line.setPlaceholderText("tokenizer.json or FILE.py:callable; default: bytes")
        self.length = SpinBox(self)
        self.length.setAccessibleName("Sequence length [tokens]")
        self.length.setToolTip("At most the context length of the decoder's caches")
        self.length.setRange(1, 1 << 20)
        self.length.setValue(Tokenization().length)
        self.labels = PathField("Labels", "Labels (*.npy *.npz *.pt)", self)
        self.labels.line.setPlaceholderText("optional, for top-1 and top-5")
        self.quality_metric = self._line("Metric", "optional: FILE.py:callable")
        self.preset = QComboBox(self)
        self.preset.setAccessibleName("Initial precision")
        self.board = BoardBox(self)
        self.board.chosen.connect(self._on_board_chosen)
        self.target = TargetForm(self, only=())
        for path in (self.model, self.weights, self.data, self.evaluation, self.labels, self.tokenizer):
            path.edited.connect(self._on_edited)
            # Files are dropped on the dialog.
            path.line.setAcceptDrops(False)
        self._arrange()

    def _arrange(self) -> None:
        self._build_parts()
        self._rows: dict[QWidget, QFormLayout] = {}
        body = QWidget(self)
        column = QVBoxLayout(body)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        self._add_step(column, "1  Model", (
            ("Model", self.model), ("Class or function", self.attribute), ("Weights", self.weights),
            ("Input shapes", self.shapes), ("", self.export),
        ))  # fmt: skip
        self._add_step(column, "2  Data", (
            ("Calibration data", self.data), ("Function", self.data_function), ("", self.preview),
            ("Evaluation data", self.evaluation), ("Function", self.evaluation_function),
            ("", self.evaluation_preview),
            ("Size, crop", self._sizes),
            ("Mean, std", self._scales), ("Tokenizer", self.tokenizer),
            ("Sequence length [tokens]", self.length), ("Labels", self.labels),
        ))  # fmt: skip
        self._add_step(column, "3  Board or device", (("Board", self.board),))
        column.addWidget(self.target)
        self.advanced = QCheckBox("Advanced", self)
        self.advanced.toggled.connect(self._show_advanced)
        column.addWidget(self.advanced)
        self._more = QWidget(self)
        self._add_step(_column(self._more), "", (
            ("Name", self.name), ("Metric", self.quality_metric),
            ("Initial precision", self.preset),
        ))  # fmt: skip
        column.addWidget(self._more)
        self._more.hide()
        column.addWidget(self._drop_hint, 1)
        column.addStretch(0)
        self._build_bottom()
        self._lay_out(body)

    def _build_parts(self) -> None:
        self._sizes = _row(self, self.picture_size, self.crop)
        self._scales = _row(self, self.mean, self.std)
        self.export = Label(self)
        self.export.setObjectName("Hint")
        self.export.setWordWrap(True)
        self.export.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.export.setMinimumHeight(2 * self.fontMetrics().lineSpacing())
        self._drop_hint = Label(self)
        self._drop_hint.setObjectName("DropHint")
        self._drop_hint.setAlignment(Qt.AlignmentFlag.AlignCenter)

    def _lay_out(self, body: QWidget) -> None:
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 16, 18, 14)
        layout.setSpacing(10)
        layout.addWidget(TallForm(body, self), 1)
        layout.addWidget(self.problems)
        row = QHBoxLayout()
        row.addWidget(self.run)
        row.addWidget(self.buttons, 1)
        layout.addLayout(row)
        order = reading_order(self)
        put_after(order[0], order[1:])

    def _add_step(self, column: QVBoxLayout, title: str, rows: Sequence[tuple[str, QWidget]]) -> None:
        if title:
            heading = Label(title, self)
            heading.setObjectName("Subheading")
            column.addWidget(heading)
        form = QFormLayout()
        form.setVerticalSpacing(_ROW_GAP_PX)
        form.setHorizontalSpacing(10)
        form.setLabelAlignment(Qt.AlignmentFlag.AlignLeft)
        for name, widget in rows:
            form.addRow(self._label(name), widget)
            self._rows[widget] = form
        column.addLayout(form)

    def _show_advanced(self, on: bool) -> None:
        self._more.setVisible(on)
        self.target.show_options(BAR_OPTIONS if on else ())

    def _build_bottom(self) -> None:
        self.problems = Label(self)
        self.problems.setObjectName("Reason")
        self.problems.setWordWrap(True)
        self.problems.setMinimumHeight(36)
        self.problems.setAlignment(Qt.AlignmentFlag.AlignTop)
        kinds = QDialogButtonBox.StandardButton
        self.buttons = QDialogButtonBox(kinds.Ok | kinds.Cancel, self)
        self.buttons.button(kinds.Ok).setText("Create")
        self.run = QCheckBox("Run at once", self)
        self.run.setToolTip("Run all stages when the project is created")
        self.run.setChecked(True)
        make_primary(self.buttons.button(kinds.Ok))
        self.buttons.accepted.connect(self._on_accepted)
        self.buttons.rejected.connect(self.reject)

    def _label(self, title: str) -> Label:
        label = Label(title, self)
        label.setMinimumWidth(LABELS_PX)
        return label

    def _functions(self, title: str) -> QComboBox:
        box = QComboBox(self)
        box.setAccessibleName(title)
        box.activated.connect(lambda _: self.check())
        return box

    def _line(self, title: str, hint: str) -> QLineEdit:
        line = QLineEdit(self)
        line.setAccessibleName(title)
        line.setPlaceholderText(hint)
        line.textEdited.connect(self._on_edited)
        return line

    def _wants_pictures(self) -> bool:
        path = Path(self.data.text())
        return bool(self.data.text()) and os.path.isdir(self.folder / path)

    def _wants_text(self) -> bool:
        return self.data.text().endswith(TEXT_SUFFIX)

    def _on_edited(self) -> None:
        self._touched = True
        self.check()

    def check(self) -> None:
        """Show what the present texts mean, and what is wrong with them."""
        path = self.folder / self.model.text()
        self.target.set_folder(self.folder)
        if self.model.text() and os.path.isdir(self.folder):
            for field in (self.weights, self.data, self.evaluation, self.labels, self.tokenizer):
                field.start = self.folder
        self.board.render_board(self._board, self.folder)
        is_code = self.model.text().endswith(".py")
        self._drop_hint.setText(f"or drop {'' if self.model.text() else 'a model, '}weights and data here")
        self._drop_hint.setVisible(not (self.model.text() and self.data.text()))
        for row in (self._sizes, self._scales):
            self._show_row(row, self._wants_pictures())
        for row in (self.tokenizer, self.length):
            self._show_row(row, self._wants_text())
        self._show_row(self.labels, not self._wants_text())
        self._show_row(self.weights, not self.model.text().endswith(MODEL_SUFFIXES))
        if is_code and path != self._model_seen:
            self._model_seen = path
            self._propose_weights(path.parent)
        self._offer_functions()
        self._offer_presets()
        self._show_data()
        problem = ""
        draft = None
        try:
            draft = build(self.draft())
        except WorkbenchError as error:
            problem = "\n".join(info.message for info in error.infos)
        self.problems.setText((problem or "\n".join(self._remarks())) if self._touched else "")
        self.buttons.button(QDialogButtonBox.StandardButton.Ok).setEnabled(not problem)
        self.drafted.emit(draft)

    def _offer_functions(self) -> None:
        """List the callables of the Python files of the model and of the data."""
        for field, box, names_of in (
            (self.model, self.attribute, callables_of),
            (self.data, self.data_function, samples_functions_of),
            (self.evaluation, self.evaluation_function, samples_functions_of),
        ):
            is_code = field.text().endswith(".py")
            names = names_of(self.folder / field.text()) if is_code else []
            if names != [box.itemText(row) for row in range(box.count())]:
                box.clear()
                box.addItems(names)
            self._show_row(box, bool(names))

    def _remarks(self) -> list[str]:
        """Return what a project that can be created will probably fail or mislead with."""
        texts = [differences(self._data_summary, self._evaluation_summary)]
        if (shapes := self.shapes.text().strip()) and not self._wants_pictures():
            texts.append(other_shapes(self._data_summary, shapes))
        labelled = self._evaluation_summary if self.evaluation.text() else self._data_summary
        if self.labels.text():
            texts.append(lacking_labels(self.folder / self.labels.text(), labelled))
        name = self.attribute.currentText()
        if name and not self.weights.text() and is_class(self.folder / self.model.text(), name):
            texts.append(f"No weights are chosen: those of {name} are random unless it loads its own.")
        return [text for text in texts if text]

    def _propose_weights(self, folder: Path) -> None:
        """Name the file of weights beside the model, if there is one and no other was named."""
        if self.weights.text() and self.weights.text() != self._proposed:
            return
        files = [file for file in folder.glob("*") if file.suffix in WEIGHT_SUFFIXES]
        # What a project trained for its precisions is not the model's own.
        weights = [file for file in files if not file.name.startswith(f"{WEIGHTS_STEM}-")]
        self._proposed = str(weights[0]) if len(weights) == 1 else ""
        self.weights.line.setText(self._proposed)

    def _show_row(self, widget: QWidget, on: bool) -> None:
        self._rows[widget].setRowVisible(widget, on)

    def _summary(self, path: PathField, preview: DataPreview) -> DataSummary:
        """Show what a data source holds, and return it."""
        file = self.folder / path.text()
        known = self._summaries.get(str(file)) if path.text() else DataSummary("")
        if known is None:
            known = summary_of(file) if os.path.exists(file) else DataSummary("")
            self._summaries[str(file)] = known
        preview.render_summary(known)
        self._show_row(preview, bool(known.text))
        return known

    def _inferred_shapes(self) -> str:
        """Return the input shapes that follow from the data; "" if the model has its own."""
        if not self.model.text().endswith(".py"):
            return ""
        shapes = self._data_summary.shapes
        if self._wants_pictures() and (size := self.crop.text() or self.picture_size.text()):
            sides = re.split(r"[\s,/x]+", size.strip())
            return f"1x3x{sides[0]}x{sides[-1]}"
        return "; ".join("x".join(map(str, shape)) for shape in shapes)

    def _show_data(self) -> None:
        self._data_summary = self._summary(self.data, self.preview)
        self._evaluation_summary = self._summary(self.evaluation, self.evaluation_preview)
        hint = f"{shapes}, from the data" if (shapes := self._inferred_shapes()) else SHAPES_HINT
        self.shapes.setPlaceholderText(hint)
        has_labels = self._evaluation_summary.has_labels or self._data_summary.has_labels
        hint = "in the data" if has_labels else "optional, for top-1 and top-5"
        self.labels.line.setPlaceholderText(hint)

    def show_export(self, text: str, ok: bool | None) -> None:
        """Show whether the model can be exported; None is not known."""
        text = in_window(text, "above")
        self.export.setText(f"\u2713 {text}" if ok else f"\u2717 {text}" if ok is False else text)
        create = self.buttons.button(QDialogButtonBox.StandardButton.Ok)
        create.setText("Create anyway" if ok is False else "Create")
        self.export.setProperty("state", {True: "good", False: "bad", None: ""}[ok])
        self.export.style().polish(self.export)
        # It keeps its lines while a model is named: the rows below would move under the pointer.
        self._show_row(self.export, bool(text or self.model.text()))

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if event.mimeData().hasUrls():
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        paths = [Path(url.toLocalFile()) for url in event.mimeData().urls() if url.isLocalFile()]
        for path in paths:
            self.take_file(path, self.childAt(event.position().toPoint()))
        event.acceptProposedAction()

    def take_file(self, path: Path, over: QWidget | None = None) -> None:
        """Put a dropped file into its field, or into the field of data below the cursor."""
        is_model = path.suffix in MODEL_SUFFIXES or (path.suffix == ".py" and not self.model.text())
        for field in (self.data, self.evaluation, self.labels, self.weights):
            if over is not None and not is_model and (field is over or field.isAncestorOf(over)):
                field.set_text(str(path))
                return
        if is_model:
            self.model.set_text(str(path))
        elif path.suffix in WEIGHT_SUFFIXES:
            self.weights.set_text(str(path))
        elif not self.data.text():
            self.data.set_text(str(path))
        else:
            self.evaluation.set_text(str(path))

    def _offer_presets(self) -> None:
        """List the presets that the target accepts."""
        choice = self.target.choice or FIRST_TARGET
        names = preset_ids(None, device=choice.id)
        if names != [self.preset.itemData(row) for row in range(self.preset.count())]:
            self.preset.clear()
            for name in names:
                self.preset.addItem(preset_title(name), name)

    def _on_board_chosen(self, name: str) -> None:
        self._touched = True
        try:
            if name:
                choice = self.target.choice or FIRST_TARGET
                result = boards.choice_for(name, load(name, self.folder), self.folder, choice)
                self.target.render_choice(result, self.folder)
        except WorkbenchError as error:
            self.problems.setText("\n".join(info.message for info in error.infos))
            return
        self._board = name
        self.board.render_board(name, self.folder)
        self.check()

    def _on_accepted(self) -> None:
        self.made.emit(build(self.draft()))
        self.accept()

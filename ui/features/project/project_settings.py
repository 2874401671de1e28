"""The dialog Project settings: every single setting of the project, as one undo step."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLineEdit,
    QVBoxLayout,
    QWidget,
)

from ui.features.project.data_preview import (
    DataPreview,
    DataSummary,
    Shapes,
    differences,
    lacking_labels,
    other_shapes,
    summary_of,
)
from ui.features.project.draft import callables_of
from ui.features.project.setting_sections import SettingSections
from ui.shared.file_dialogs import DATA, MODELS, WEIGHTS
from ui.shared.forms import PathField, make_primary, resize_on_screen
from ui.shared.labels import Label, literal
from ui.shared.setting_names import PREPROCESS, SECTIONS, TOKENS, Rows, in_window, titles
from ui.shared.target_form import LABELS_PX, BoardBox, TargetForm
from ui.state.document import Document
from ui.state.relocate import relative_to
from workbench.deploy import boards
from workbench.errors import ErrorInfo, Place, WorkbenchError
from workbench.project import edits, settings
from workbench.project.model import Project
from workbench.project.sources import TEXT_SUFFIX, missing
from workbench.targets import target_of
from workbench.text import listed
from workbench.toolchains import choice

_LABELS = "Labels (*.npy *.npz *.pt)"
_TOKENIZERS = "Tokenizers (*.json *.py)"
# Settings that are paths, with the file names they take; "either" also takes a folder.
_PATHS = {
    "model.spec": MODELS,
    "model.weights": WEIGHTS,
    "model.inputs": "Inputs (*.npz)",
    "calibration.spec": DATA,
    "calibration.labels": _LABELS,
    "evaluation.data.spec": DATA,
    "calibration.tokens.tokenizer": _TOKENIZERS,
    "evaluation.data.tokens.tokenizer": _TOKENIZERS,
    "evaluation.data.labels": _LABELS,
    "training_function": "Python (*.py)",
    "trained_weights": WEIGHTS,
}
# What an empty field means, or an example of what it takes.
_WHEN_EMPTY = {
    "toolchain": "the program's own",
    "evaluation.class_output": "position from 0; empty: the output that can be one",
    "model.inputs": "optional; .npz",
    "model.input_shapes": "e.g. 1x3x224x224; empty: the model's",
    "model.weights": "optional; the model's own",
    "calibration.limit": "all",
    "evaluation.data.limit": "all",
    "evaluation.metric": "FILE.py:callable, detection, segmentation or key_points",
    "evaluation.decode": "optional; FILE.py:callable",
    "calibration.preprocess.letterbox": "none; the border's pixel, e.g. 114",
    "evaluation.data.preprocess.letterbox": "none; the border's pixel, e.g. 114",
    "calibration.labels": "optional",
    "evaluation.data.labels": "optional; with the data, if any",
    "evaluation.data.spec": "a quarter of the calibration data",
    "calibration.spec": "the example input",
    "training_function": "built in; FILE.py:callable",
    "trained_weights": "optional",
    "gate.fail_if": "e.g. top1<0.9, cycles>100000",
    "notes": "",
    "calibration.tokens.tokenizer": "bytes",
    "evaluation.data.tokens.tokenizer": "bytes",
}
_MOST_PROBLEMS = 4
_PATHS_HINT = "Relative paths begin at the folder of the project, {}"
_ON, _OFF = "on", "off"
# The last section, and the words by which a search finds it.
_TARGET = "Target"
_TARGET_WORDS = "board device npu mac units clock system configuration memory mode vela compiler optimise"
_FOLDERS = frozenset({"calibration.spec", "evaluation.data.spec"})


def text_of(value: Any) -> str:
    """Return the value of a setting as its text; "none" is a value that is absent."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return _ON if value else _OFF
    if isinstance(value, list):
        if value and isinstance(value[0], list):
            return ",".join("x".join(map(str, shape)) for shape in value)
        is_float = any(isinstance(part, float) for part in value)
        is_text = any(isinstance(part, str) for part in value)
        return ("/" if is_float else "," if is_text else "x").join(map(_short, value))
    return _short(value)


def _short(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


class ProjectSettingsDialog(QDialog):
    """Edits the settings of the open project. Problems are shown at once; OK is one undo step."""

    def __init__(self, document: Document, parent: QWidget, field: str = "") -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Project settings")
        opened = document.opened_project
        assert opened is not None
        self._document, self._opened = document, opened
        self._board, self._choice = opened.project.board, opened.project.target
        self.fields: dict[str, QWidget] = {}
        self.previews: dict[str, DataPreview] = {}
        self._before: dict[str, str] = {}
        # The input shapes that follow from the calibration data.
        self._data_shapes: Shapes = ()
        # The input shapes that were written for other data.
        self._followed = ""
        # Settings that messages name; their rows are shown even where they have no use yet.
        self._named: set[str] = set()
        self._soon = QTimer(self, interval=250, singleShot=True)
        self._soon.timeout.connect(self.check)
        self._build()
        self.check()
        resize_on_screen(self, 880, 620)
        QTimer.singleShot(0, self, lambda: self.show_field(field))

    def texts(self) -> dict[str, str]:
        """Return the changed settings as texts, by key."""
        values = {key: _read(widget) for key, widget in self.fields.items()}
        return {key: text for key, text in values.items() if text != self._before[key]}

    def edited(self, project: Project) -> Project:
        """Return a project with the settings of the form.

        Raises:
            WorkbenchError: a value is invalid.
        """
        if texts := self._changed_settings():
            project = settings.changed(project, texts)
        if self._board != self._opened.project.board:
            project = boards.put(replace(self._opened, project=project), self._board)
        if self._choice != self._opened.project.target:
            project = edits.set_target(project, self._choice)
        return project

    def show_field(self, field: str) -> None:
        """Give the focus to the field of a setting, or of the nearest one."""
        widget = self.field_of(field)
        if widget is not None:
            self._named |= {key for key in self.fields if key == field or key.startswith(f"{field}.")}
            self.check()
            self.sections.show_row(self._row_of(widget), widget)
            widget.setFocus(Qt.FocusReason.OtherFocusReason)

    def field_of(self, field: str) -> QWidget | None:
        """Return the field of a setting, of the first setting in a group, or of the group."""
        if field == "board":
            return self.board
        if field.startswith("target"):
            return self.target.fields.get(field.rpartition(".")[2], self.target.device)
        fitting = [key for key in self.fields if key == field]
        fitting += [key for key in self.fields if key.startswith(f"{field}.")]
        fitting += [key for key in self.fields if field.startswith(f"{key}.")]
        return self.fields[fitting[0]] if fitting else None

    def _row_of(self, widget: QWidget) -> str:
        """Return the setting of a field; the section of the target for its fields."""
        return next((key for key, field in self.fields.items() if field is widget), _TARGET)

    def set_text(self, key: str, text: str) -> None:
        """Set a field as if the user had typed it."""
        widget = self.fields[key]
        if isinstance(widget, PathField):
            widget.set_text(text)
        elif isinstance(widget, QComboBox):
            widget.setCurrentText(text)
        elif isinstance(widget, QCheckBox):
            widget.setChecked(text == _ON)
        elif isinstance(widget, QLineEdit):
            widget.setText(text)
        self.check()

    def check(self) -> None:
        """Show what is wrong with the present values."""
        infos, doubts = list[ErrorInfo](), list[ErrorInfo]()
        summaries = self._summaries()
        self._follow_data(summaries["calibration.spec"].shapes)
        try:
            opened = self._opened.edited(self.edited)
        except WorkbenchError as error:
            infos = list(error.infos)
        else:
            lacking = missing(opened)
            infos = list(lacking.infos) if lacking is not None else []
            infos += target_of(opened.project.target.id).check(opened.project.target, opened.folder)
            doubts = [*choice.problems(opened.project), *self._remarks(summaries)]
        self._show_problems(infos or doubts)
        self.buttons.button(QDialogButtonBox.StandardButton.Ok).setEnabled(not infos)
        self.sections.use(self._unused())

    def _unused(self) -> set[str]:
        """Return the settings of pictures and of text that the present data have no use for."""
        unused = set()
        for group in ("calibration", "evaluation.data"):
            spec = _read(self.fields[f"{group}.spec"])
            is_folder = bool(spec) and os.path.isdir(self._opened.folder / spec)
            for kinds, part, first, is_wanted in (
                (PREPROCESS, "preprocess", "size", is_folder),
                (TOKENS, "tokens", "length", spec.endswith(TEXT_SUFFIX)),
            ):
                is_set = bool(_read(self.fields[f"{group}.{part}.{first}"]))
                if not is_wanted and not is_set:
                    unused |= {f"{group}.{part}.{name}" for name, _ in kinds}
        return unused - self._named

    def _summaries(self) -> dict[str, DataSummary]:
        """Show what the data sources hold, and return it by their settings."""
        summaries = {}
        for key, preview in self.previews.items():
            text = _read(self.fields[key])
            is_there = bool(text) and os.path.exists(self._opened.folder / text)
            summaries[key] = summary_of(self._opened.folder / text) if is_there else DataSummary("")
            preview.render_summary(summaries[key])
        return summaries

    def _follow_data(self, shapes: Shapes) -> None:
        """Write the input shapes of other data, where the present ones are those of the data before."""
        field = self.fields["model.input_shapes"]
        if shapes and shapes != self._data_shapes:
            if self._data_shapes and _read(field) == _shapes_text(self._data_shapes):
                _write(field, _shapes_text(shapes))
                self._followed = _shapes_text(shapes)
            self._data_shapes = shapes

    def _remarks(self, summaries: Mapping[str, DataSummary]) -> Iterator[ErrorInfo]:
        """Yield what settings that can be taken will probably fail with."""
        folder, texts = self._opened.folder, {key: _read(field) for key, field in self.fields.items()}
        file, _, name = texts["model.spec"].rpartition(":")
        names = callables_of(folder / file) if file.endswith(".py") else []
        if names and name not in names:
            yield _remark("model.spec", f"{Path(file).name} has no {name}, but {listed(names)}.")
        data, evaluation = summaries["calibration.spec"], summaries["evaluation.data.spec"]
        shapes = texts["model.input_shapes"]
        if shapes and shapes == self._followed != self._before["model.input_shapes"]:
            yield _remark("model.input_shapes", f"Set to {shapes}, the shape of the calibration data.")
        is_resized = bool(texts["calibration.preprocess.size"])
        if shapes and not is_resized and (text := other_shapes(data, shapes)):
            yield _remark("model.input_shapes", text)
        if text := differences(data, evaluation):
            yield _remark("evaluation.data.spec", text)
        for group, summary in (("calibration", data), ("evaluation.data", evaluation)):
            labels = texts[f"{group}.labels"]
            if labels and (text := lacking_labels(folder / labels, summary)):
                yield _remark(f"{group}.labels", text)

    def _show_problems(self, infos: Sequence[ErrorInfo]) -> None:
        """Show problems, each with a link to its field."""
        lines, wrong = [], set()
        for info in infos:
            key = info.where.id if info.where is not None else ""
            if (field := self.field_of(key)) is not None:
                wrong.add(self._row_of(field))
        self.sections.mark(wrong)
        for info in infos[:_MOST_PROBLEMS]:
            text = escape(f"{info.message} {in_window(info.hint)}".strip())
            key = info.where.id if info.where is not None else ""
            if self.field_of(key) is not None:
                text = f'<a href="{escape(key)}">{escape(titles().get(key, key))}</a>: {text}'
            lines.append(text)
        self.problems.setText("<br>".join(lines))

    def _changed_settings(self) -> dict[str, Any]:
        """Return the changed settings; an emptied data source takes its parts with it."""
        texts: dict[str, Any] = self.texts()
        for group in ("calibration", "evaluation.data"):
            if texts.get(f"{group}.spec") == "":
                texts = {k: v for k, v in texts.items() if not k.startswith(f"{group}.")}
                texts[group] = None
                continue
            for part, first in (("preprocess", "size"), ("tokens", "length")):
                if texts.get(f"{group}.{part}.{first}") == "":
                    inside = f"{group}.{part}."
                    texts = {k: v for k, v in texts.items() if not k.startswith(inside)}
                    texts[f"{group}.{part}"] = None
        return texts

    def _build(self) -> None:
        self.problems = Label(self)
        self.problems.setObjectName("Reason")
        self.problems.setTextFormat(Qt.TextFormat.RichText)
        self.problems.linkActivated.connect(self.show_field)
        self.problems.setWordWrap(True)
        self.problems.setMinimumHeight(40)
        self.problems.setAlignment(Qt.AlignmentFlag.AlignTop)
        kinds = QDialogButtonBox.StandardButton
        self.buttons = QDialogButtonBox(kinds.Ok | kinds.Cancel, self)
        make_primary(self.buttons.button(kinds.Ok))
        self.buttons.accepted.connect(self._on_accepted)
        self.buttons.rejected.connect(self.reject)
        self.sections = SettingSections(self)
        values = settings.values(self._opened.project)
        for number, (title, rows) in enumerate(SECTIONS):
            page = self.sections.add(title)
            page.addLayout(self._form(title, rows, values))
            if not number:
                hint = Label(_PATHS_HINT.format(self._opened.folder), self.sections)
                hint.setObjectName("Hint")
                hint.setWordWrap(True)
                page.addWidget(hint)
        column = self.sections.add(_TARGET)
        column.addLayout(self._target_form())
        column.addWidget(self.target)
        self.sections.add_words(_TARGET, _TARGET_WORDS)
        self.sections.finish()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 16, 18, 14)
        layout.setSpacing(10)
        layout.addWidget(self.sections, 1)
        layout.addWidget(self.problems)
        layout.addWidget(self.buttons)

    def _form(self, section: str, rows: Rows, values: dict[str, Any]) -> QFormLayout:
        form, parent = _form_layout(), self.sections
        known = settings.keys()
        for key, title in rows:
            field = known[key]
            text = text_of(values[key])
            # Only a limit differs from its default where it is absent.
            is_optional = text == "none" and not key.startswith(("gate.", "accuracy."))
            widget = self._field(key, title, field.annotation, parent)
            self.fields[key] = widget
            _write(widget, "" if is_optional else text)
            self._before[key] = _read(widget)
            form.addRow(_row_label(title, parent), widget)
            self.sections.add_row(section, key, title, widget, form)
            if key in _FOLDERS:
                preview = self.previews[key] = DataPreview(parent)
                form.addRow("", preview)
        return form

    def _field(self, key: str, title: str, kind: Any, parent: QWidget) -> QWidget:
        if key in _PATHS:
            takes = "either" if key in _FOLDERS else "file"
            path = PathField(title, _PATHS[key], parent, kind=takes)  # type: ignore[arg-type]
            path.start = self._opened.folder
            path.line.setPlaceholderText(_WHEN_EMPTY.get(key, ""))
            path.edited.connect(lambda _text: self._soon.start())
            path.setToolTip(literal(key))
            return path
        if kind is bool:
            switch = QCheckBox(parent)
            switch.setAccessibleName(title)
            switch.setToolTip(literal(key))
            switch.toggled.connect(lambda _on: self._soon.start())
            return switch
        choices = [str(value) for value in get_args(kind)] if get_origin(kind) is Literal else []
        if choices:
            box = QComboBox(parent)
            box.addItems(["", *choices] if "preprocess" in key else choices)
            box.setAccessibleName(title)
            box.setToolTip(literal(key))
            box.currentIndexChanged.connect(lambda _row: self._soon.start())
            return box
        line = QLineEdit(parent)
        line.setAccessibleName(title)
        line.setPlaceholderText(_WHEN_EMPTY.get(key, settings.described(kind)))
        line.setToolTip(literal(key))
        line.textEdited.connect(lambda _text: self._soon.start())
        return line

    def _target_form(self) -> QFormLayout:
        parent = self.sections
        self.board = BoardBox(parent)
        self.board.render_board(self._board, self._opened.folder)
        self.board.chosen.connect(self._on_board_chosen)
        self.target = TargetForm(parent)
        self.target.render_choice(self._choice, self._opened.folder)
        self.target.chosen.connect(self._on_target_chosen)
        form = _form_layout()
        form.addRow(_row_label("Board", parent), self.board)
        return form

    def _on_board_chosen(self, board: str) -> None:
        try:
            project = boards.put(self._opened, board)
        except WorkbenchError as error:
            self._show_problems(error.infos)
            return
        self._board, self._choice = board, project.target
        self.board.render_board(board, self._opened.folder)
        self.target.render_choice(self._choice, self._opened.folder)
        self.check()

    def _on_target_chosen(self, choice: Any) -> None:
        self._choice = choice
        self.check()

    def _on_accepted(self) -> None:
        changed = [*self._changed_settings()]
        if self._board != self._opened.project.board or self._choice != self._opened.project.target:
            changed.append("target")
        if changed:
            what = changed[0] if len(changed) == 1 else "project settings"
            for key, widget in self.fields.items():
                if isinstance(widget, PathField) and Path(widget.text()).is_absolute():
                    self.set_text(key, relative_to(Path(widget.text()), self._opened.folder))
            self._document.apply(f"Change {what}", self.edited)
        self.accept()


def _read(widget: QWidget) -> str:
    if isinstance(widget, PathField):
        return widget.text()
    if isinstance(widget, QComboBox):
        return widget.currentText()
    if isinstance(widget, QCheckBox):
        return _ON if widget.isChecked() else _OFF
    assert isinstance(widget, QLineEdit)
    return widget.text().strip()


def _write(widget: QWidget, text: str) -> None:
    if isinstance(widget, PathField):
        widget.line.setText(text)
    elif isinstance(widget, QComboBox):
        widget.setCurrentText(text)
    elif isinstance(widget, QCheckBox):
        widget.setChecked(text == _ON)
    elif isinstance(widget, QLineEdit):
        widget.setText(text)


def _form_layout() -> QFormLayout:
    form = QFormLayout()
    form.setVerticalSpacing(7)
    form.setHorizontalSpacing(10)
    form.setLabelAlignment(Qt.AlignmentFlag.AlignLeft)
    return form


def _row_label(title: str, parent: QWidget) -> Label:
    label = Label(title, parent)
    label.setMinimumWidth(LABELS_PX)
    return label


def _shapes_text(shapes: Shapes) -> str:
    return text_of([list(shape) for shape in shapes])


def _remark(option: str, message: str) -> ErrorInfo:
    return ErrorInfo(message=message, where=Place(kind="option", id=option), code="settings-doubtful")

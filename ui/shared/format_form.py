"""The form of a number format: its parameters for data, weight and bias."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QGridLayout,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from ui.shared.labels import Label, literal
from ui.shared.tab_order import put_after
from ui.shared.text_question import ask_text
from workbench.errors import WorkbenchError
from workbench.project.configs import FormatConfig
from workbench.targets.formats.parameters import PREFIXES, ROLES, ParameterSpec, Role
from workbench.targets.formats.schemes import SPECS, spec_of

Refusal = Callable[[FormatConfig], str]
_HEADS: Mapping[Role, str] = {"data": "Data", "weight": "Weight", "bias": "Bias"}
_OFFERED = tuple(spec for spec in SPECS if spec.operand)
FIRST = FormatConfig(scheme="integer", parameters={"width": 8, "frac_width": 4})


def typed(text: str) -> Any:
    """Return the value of a parameter field: parsed JSON, or else the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def allowed_values(parameter: ParameterSpec) -> tuple[Any, ...]:
    """Return the values that a parameter can have, if they are few; () for numbers."""
    return (True, False) if parameter.kind == "bool" else parameter.choices


def _unset(parameter: ParameterSpec) -> str:
    """Return what a field without a value says."""
    if parameter.required:
        return "needed"
    return "auto" if parameter.default is None else value_words(parameter.default)


def value_words(value: Any) -> str:
    """Return a value as it is shown: a text without quotes."""
    return value if isinstance(value, str) else json.dumps(value)


class AllowedValues(QComboBox):
    """A list of the values of a parameter, with the same calls as a text field.

    Signals:
        textEdited: the chosen value as JSON; "" for the default.
    """

    textEdited = Signal(str)

    def __init__(self, parameter: ParameterSpec, parent: QWidget) -> None:
        super().__init__(parent)
        # The default is the value of a field without a text.
        self._usual = "" if parameter.default is None else json.dumps(parameter.default)
        if not self._usual:
            self.addItem(_unset(parameter), "")
        for value in allowed_values(parameter):
            text = json.dumps(value)
            self.addItem(value_words(value), "" if text == self._usual else text)
        self.setMinimumContentsLength(6)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.activated.connect(lambda row: self.textEdited.emit(str(self.itemData(row))))

    def text(self) -> str:
        """Return the chosen value as JSON; "" for the default."""
        return str(self.currentData())

    def setText(self, text: str) -> None:
        """Choose a value. One that the parameter cannot have is listed too, so that it can be seen."""
        text = "" if text == self._usual else text
        if self.findData(text) < 0:
            self.addItem(text, text)
        self.setCurrentIndex(self.findData(text))


class Switch(QCheckBox):
    """A check box for a parameter that is true or false, with the same calls as a text field.

    Signals:
        textEdited: the chosen value as JSON; "" for the default.
    """

    textEdited = Signal(str)

    def __init__(self, parameter: ParameterSpec, parent: QWidget) -> None:
        super().__init__(parent)
        self._usual = bool(parameter.default)
        self._wrong = ""
        self.setText("")
        self.clicked.connect(self._on_clicked)

    def text(self) -> str:
        """Return the value as JSON; "" for the default."""
        if self._wrong:
            return self._wrong
        return "" if self.isChecked() == self._usual else json.dumps(self.isChecked())

    def setText(self, text: str) -> None:
        """Show a value. One that is neither true nor false stands beside the box."""
        value = typed(text) if text else self._usual
        self._wrong = "" if isinstance(value, bool) else text
        self.setChecked(value is True)
        super().setText(self._wrong)

    def _on_clicked(self) -> None:
        self._wrong = ""
        self.textEdited.emit(self.text())


class FormatForm(QWidget):
    """Edits one format.

    Signals:
        changed: the edited ``FormatConfig``.
        save_asked: the name of a preset to save.
    """

    changed = Signal(object)
    save_asked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._config = FIRST
        self._refusal: Refusal = lambda _: ""
        self.fields: dict[tuple[str, Role], QLineEdit | AllowedValues | Switch] = {}
        self._shown = ""
        self._build()
        self.render_config(self._config, self._refusal)

    @property
    def config(self) -> FormatConfig:
        """The present format."""
        return self._config

    def render_config(self, config: FormatConfig, refusal: Refusal) -> None:
        """Show a format. ``refusal`` returns why the target rejects it, or ""."""
        self._config, self._refusal = config, refusal
        try:
            spec = spec_of(config.scheme)
        except WorkbenchError:
            spec = _OFFERED[0]
        self.scheme.setCurrentIndex(self.scheme.findData(spec.name))
        self.mase.setChecked(config.mase_compatible)
        self.mase.setEnabled(spec.mase)
        self.mase.setToolTip(literal("\n".join(spec.differences) or "MASE computes the same values."))
        if self._shown != spec.name:
            self._lay_out(spec.parameters)
            self._shown = spec.name
        for (name, role), field in self.fields.items():
            if isinstance(field, AllowedValues | Switch) or not field.hasFocus():
                value = config.parameters.get(f"{PREFIXES[role]}{name}", config.parameters.get(name))
                field.setText("" if value is None else json.dumps(value))
        reason = refusal(config)
        self.reason.setText(reason)
        self.reason.setVisible(bool(reason))

    def _build(self) -> None:
        self.scheme = QComboBox(self)
        self.scheme.setAccessibleName("Number format")
        for spec in _OFFERED:
            self.scheme.addItem(spec.name, spec.name)
            row = self.scheme.count() - 1
            self.scheme.setItemData(row, spec.title, Qt.ItemDataRole.ToolTipRole)
        self.scheme.activated.connect(self._on_scheme_activated)
        self.mase = QCheckBox("MASE implementation", self)
        self.mase.toggled.connect(self._on_mase_toggled)
        self.reason = Label(self)
        self.reason.setObjectName("Reason")
        self.reason.setWordWrap(True)
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(8)
        self._grid.setVerticalSpacing(6)
        save = QPushButton("Save as preset\u2026", self)
        save.clicked.connect(self._on_save_clicked)
        bottom = QHBoxLayout()
        bottom.addWidget(save)
        bottom.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        top = QHBoxLayout()
        top.setSpacing(8)
        top.addWidget(self.scheme, 1)
        top.addWidget(self.mase)
        layout.addLayout(top)
        layout.addLayout(self._grid)
        layout.addWidget(self.reason)
        layout.addLayout(bottom)

    def _lay_out(self, parameters: tuple[ParameterSpec, ...]) -> None:
        """Create a row for each parameter of a scheme and a column for each operand."""
        while (item := self._grid.takeAt(0)) is not None:
            if (old := item.widget()) is not None:
                old.hide()
                old.deleteLater()
        self.fields = {}
        for column, role in enumerate(ROLES, 1):
            head = Label(_HEADS[role], self)
            head.setObjectName("Hint")
            self._grid.addWidget(head, 0, column)
            self._grid.setColumnStretch(column, 1)
        for row, parameter in enumerate(parameters, 1):
            words = parameter.name.replace("frac_", "fraction ").replace("_", " ")
            label = Label(words.capitalize(), self)
            label.setToolTip(literal(f"{parameter.name}: {parameter.meaning}"))
            self._grid.addWidget(label, row, 0)
            for column, role in enumerate(ROLES, 1):
                self._grid.addWidget(self._field(parameter, role), row, column)
        put_after(self.mase, list(self.fields.values()))

    def _field(self, parameter: ParameterSpec, role: Role) -> QWidget:
        field: QLineEdit | AllowedValues | Switch
        if parameter.kind == "bool" and isinstance(parameter.default, bool):
            field = Switch(parameter, self)
        elif allowed_values(parameter):
            field = AllowedValues(parameter, self)
        else:
            field = self._number(parameter)
        field.setAccessibleName(f"{parameter.name} of {role}")
        field.setToolTip(literal(parameter.meaning))
        field.textEdited.connect(partial(self._on_edited, parameter.name, role))
        self.fields[parameter.name, role] = field
        return field

    def _number(self, parameter: ParameterSpec) -> QLineEdit:
        field = QLineEdit(self)
        field.setPlaceholderText(_unset(parameter))
        field.setMinimumWidth(64)
        return field

    def _on_edited(self, name: str, role: Role, text: str) -> None:
        given = {
            f"{PREFIXES[field_key]}{key}": typed(field.text())
            for (key, field_key), field in self.fields.items()
            if field.text().strip() and (key, field_key) != (name, role)
        }
        if text.strip():
            given[f"{PREFIXES[role]}{name}"] = typed(text)
        kept = {k: v for k, v in self._config.parameters.items() if k.startswith("data_out_")}
        self._take(self._config.model_copy(update={"parameters": {**given, **kept}}))

    def _on_scheme_activated(self, row: int) -> None:
        spec = _OFFERED[row]
        known = {p.name for p in spec.parameters}
        kept = {key: value for key, value in self._config.parameters.items() if _bare(key) in known}
        mase = self._config.mase_compatible and spec.mase
        self._take(FormatConfig(scheme=spec.name, parameters=kept, mase_compatible=mase))

    def _on_mase_toggled(self, on: bool) -> None:
        self._take(self._config.model_copy(update={"mase_compatible": on}))

    def _on_save_clicked(self) -> None:
        ask_text(self, "Save as preset", "Preset name", self.save_asked.emit)

    def _take(self, config: FormatConfig) -> None:
        if config == self._config:
            return
        self.render_config(config, self._refusal)
        self.changed.emit(config)


def _bare(key: str) -> str:
    for prefix in PREFIXES.values():
        if key.startswith(prefix):
            return key.removeprefix(prefix)
    return key

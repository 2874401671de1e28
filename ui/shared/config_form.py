"""The form of a quantization config. Options that the target rejects are disabled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pydantic import ValidationError
from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QStandardItemModel
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QDoubleSpinBox,
    QFormLayout,
    QHBoxLayout,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from ui.shared.format_form import FormatForm
from ui.shared.forms import DecimalBox, make_primary
from ui.shared.labels import Label, literal
from ui.shared.text_question import ask_text
from workbench.errors import invalid_values
from workbench.project.configs import (
    Activation,
    Config,
    DynamicConfig,
    Observer,
    QuantConfig,
    Weight,
    is_reference,
)
from workbench.project.plugins import PluginItem
from workbench.text import listed

Refusal = Callable[[QuantConfig], str]


@dataclass(frozen=True)
class _Option:
    """One option of a field."""

    title: str
    value: Any


def _with_dtype(config: QuantConfig, dtype: Any) -> QuantConfig:
    symmetric = dtype == "int16" or config.activation.symmetric
    return _with_activation(config, dtype=dtype, symmetric=symmetric)


def _with_activation(config: QuantConfig, **changes: Any) -> QuantConfig:
    activation = {**config.activation.model_dump(), **changes}
    return QuantConfig(activation=Activation(**activation), weight=config.weight)


def _with_symmetry(config: QuantConfig, symmetric: Any) -> QuantConfig:
    return _with_activation(config, symmetric=symmetric)


def _observer_of(config: QuantConfig) -> str:
    """Return the kind of observer, or the reference of a plug-in observer."""
    observer = config.activation.observer
    return observer.plugin or observer.kind


def _with_observer(config: QuantConfig, kind: Any) -> QuantConfig:
    if is_reference(kind):
        return _with_activation(config, observer=Observer(kind="plugin", plugin=kind))
    limits = {"minimum": -1.0, "maximum": 1.0} if kind == "fixed" else {}
    return _with_activation(config, observer=Observer(kind=kind, **limits))


def _with_bits(config: QuantConfig, bits: Any) -> QuantConfig:
    weight = Weight(bits=bits, per_channel=config.weight.per_channel)
    return QuantConfig(activation=config.activation, weight=weight)


def _with_granularity(config: QuantConfig, per_channel: Any) -> QuantConfig:
    weight = Weight(bits=config.weight.bits, per_channel=per_channel)
    return QuantConfig(activation=config.activation, weight=weight)


@dataclass(frozen=True)
class _Field:
    """One combo box: its options, and how to read from and write to the config."""

    title: str
    options: tuple[_Option, ...]
    read: Callable[[QuantConfig], Any]
    change: Callable[[QuantConfig, Any], QuantConfig]


FIELDS: tuple[_Field, ...] = (
    _Field(
        "Activations",
        (_Option("int8", "int8"), _Option("int16", "int16"), _Option("uint8", "uint8")),
        lambda c: c.activation.dtype,
        _with_dtype,
    ),
    _Field(
        "Zero point",
        (_Option("Symmetric (0)", True), _Option("Affine (any)", False)),
        lambda c: c.activation.symmetric,
        _with_symmetry,
    ),
    _Field(
        "Range from",
        (
            _Option("Histogram", "histogram"),
            _Option("Minimum and maximum", "minmax"),
            _Option("Moving average", "moving_average"),
            _Option("Percentile", "percentile"),
            _Option("Fixed", "fixed"),
        ),
        _observer_of,
        _with_observer,
    ),
    _Field("Weights", (_Option("8 bit", 8), _Option("4 bit", 4)), lambda c: c.weight.bits, _with_bits),
    _Field(
        "Weight scales",
        (_Option("One per channel", True), _Option("One per tensor", False)),
        lambda c: c.weight.per_channel,
        _with_granularity,
    ),
)


def _with_own(form_field: _Field, observers: Sequence[PluginItem]) -> _Field:
    """Return a field with the observers of plug-ins added to its options, if it has observers."""
    if form_field.read is not _observer_of:
        return form_field
    own = tuple(_Option(item.words, item.reference) for item in observers)
    return replace(form_field, options=form_field.options + own)


class ConfigForm(QWidget):
    """Edits one config.

    Signals:
        changed: the edited ``QuantConfig``.
        save_asked: the name of a preset to save.
    """

    changed = Signal(object)
    save_asked = Signal(str)

    def __init__(self, parent: QWidget | None = None, observers: Sequence[PluginItem] = ()) -> None:
        super().__init__(parent)
        self._config = QuantConfig()
        self._refusal: Refusal = lambda _: ""
        self._fields = [_with_own(f, observers) for f in FIELDS]
        self.combos: list[QComboBox] = []
        self._build()
        self.render_config(self._config, self._refusal)

    @property
    def config(self) -> QuantConfig:
        """The present config."""
        return self._config

    def render_config(self, config: QuantConfig, refusal: Refusal) -> None:
        """Show a config. ``refusal`` returns why the target rejects a config, or ""."""
        self._config, self._refusal = config, refusal
        # One line for each reason: a target that takes none of the options has one for all.
        refused: dict[str, list[str]] = {}
        for form_field, combo in zip(self._fields, self.combos, strict=True):
            now = form_field.read(config)
            combo.setCurrentIndex([o.value for o in form_field.options].index(now))
            for row, option in enumerate(form_field.options):
                reason = refusal(form_field.change(config, option.value))
                _offer(combo, row, reason)
                if reason and option.value != now:
                    refused.setdefault(reason, []).append(option.title)
        own = refusal(config)
        refused.pop(own, None)
        reasons = [f"Current: {own}"] if own else []
        reasons += [f"Not available: {listed(t)}: {why}" for why, t in refused.items()]
        self.reason.setText("\n".join(reasons))
        self.reason.setProperty("state", "" if own else "quiet")
        self.reason.style().polish(self.reason)
        self.reason.setVisible(bool(reasons))
        self._render_observer(config.activation.observer)

    def _build(self) -> None:
        form = QFormLayout()
        form.setContentsMargins(0, 0, 0, 0)
        form.setVerticalSpacing(7)
        form.setHorizontalSpacing(10)
        for form_field in self._fields:
            combo = QComboBox(self)
            combo.setAccessibleName(form_field.title)
            for option in form_field.options:
                combo.addItem(option.title)
            combo.activated.connect(partial(self._on_activated, form_field))
            self.combos.append(combo)
            form.addRow(form_field.title, combo)
        self._percentile = self._number("Percentile kept [%]", 50.01, 100.0, 3)
        self.minimum = self._number("Minimum", -1e9, 0.0, 6)
        self._maximum = self._number("Maximum", 0.0, 1e9, 6)
        for box in (self._percentile, self.minimum, self._maximum):
            form.addRow(box.accessibleName(), box)
        self._form = form
        self.reason = Label(self)
        self.reason.setObjectName("Reason")
        self.reason.setWordWrap(True)
        save = QPushButton("Save as preset\u2026", self)
        save.clicked.connect(self._on_save_clicked)
        row = QHBoxLayout()
        row.addWidget(save)
        row.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(form)
        layout.addWidget(self.reason)
        layout.addLayout(row)

    def _number(self, title: str, low: float, high: float, decimals: int) -> QDoubleSpinBox:
        box = DecimalBox(self)
        box.setAccessibleName(title)
        box.setDecimals(decimals)
        box.setRange(low, high)
        box.editingFinished.connect(self._on_numbers_edited)
        return box

    def _render_observer(self, observer: Observer) -> None:
        self._form.setRowVisible(self._percentile, observer.kind == "percentile")
        for box, value in ((self.minimum, observer.minimum), (self._maximum, observer.maximum)):
            self._form.setRowVisible(box, observer.kind == "fixed")
            if value is not None and not box.hasFocus():
                box.setValue(value)
        if not self._percentile.hasFocus():
            self._percentile.setValue(observer.percentile)

    def _on_activated(self, form_field: _Field, row: int) -> None:
        self._take(form_field.change(self._config, form_field.options[row].value))

    def _on_numbers_edited(self) -> None:
        observer = self._config.activation.observer
        changes: dict[str, Any] = {}
        if observer.kind == "percentile":
            changes = {"kind": "percentile", "percentile": self._percentile.value()}
        elif observer.kind == "fixed":
            limits = {"minimum": self.minimum.value(), "maximum": self._maximum.value()}
            changes = {"kind": "fixed", **limits}
        try:
            self._take(_with_activation(self._config, observer=Observer(**changes)))
        except ValidationError as error:
            self.reason.setText(next(invalid_values(error)).message)
            self.reason.show()

    def _on_save_clicked(self) -> None:
        ask_text(self, "Save as preset", "Preset name", self.save_asked.emit)

    def _take(self, config: QuantConfig) -> None:
        if config == self._config:
            return
        self.render_config(config, self._refusal)
        self.changed.emit(config)


def _offer(combo: QComboBox, row: int, reason: str) -> None:
    """Enable an entry of a combo box, or disable it with the reason as its tooltip."""
    model = combo.model()
    assert isinstance(model, QStandardItemModel)
    item = model.item(row)
    item.setEnabled(not reason)
    item.setToolTip(literal(reason))


DynamicRefusal = Callable[[DynamicConfig], str]

_EXPLANATION = (
    "Weights are quantized to int8 once, with one scale per tensor. Activations are quantized "
    "to int8 at every call, with the range of that call. A target option sets symmetric or "
    "asymmetric activations for the whole program."
)


class DynamicForm(QWidget):
    """Shows the dynamic config, which has no options.

    Signals:
        changed: never emitted.
        save_asked: never emitted.
    """

    changed = Signal(object)
    save_asked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._config = DynamicConfig()
        text = Label(_EXPLANATION, self)
        text.setWordWrap(True)
        self.reason = Label(self)
        self.reason.setObjectName("Reason")
        self.reason.setWordWrap(True)
        self.reason.hide()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(text)
        layout.addWidget(self.reason)

    @property
    def config(self) -> DynamicConfig:
        """The present config."""
        return self._config

    def render_config(self, config: DynamicConfig, refusal: DynamicRefusal) -> None:
        """Show a config. ``refusal`` returns why the target rejects it, or ""."""
        self._config = config
        reason = refusal(config)
        self.reason.setText(reason)
        self.reason.setVisible(bool(reason))


AnyRefusal = Callable[[Any], str]
Form = ConfigForm | FormatForm | DynamicForm


def form_for(
    config: Config, refusal: AnyRefusal, parent: QWidget, observers: Sequence[PluginItem] = ()
) -> Form:
    """Return the form for a kind of config, with the observers of plug-ins."""
    form: Form
    if isinstance(config, QuantConfig):
        form = ConfigForm(parent, observers)
        form.render_config(config, refusal)
    elif isinstance(config, DynamicConfig):
        form = DynamicForm(parent)
        form.render_config(config, refusal)
    else:
        form = FormatForm(parent)
        form.render_config(config, refusal)
    return form


class ConfigDialog(QDialog):
    """Dialog that asks for a config.

    Signals:
        chosen: the config.
        preset_named: the preset name, and the config.
    """

    chosen = Signal(object)
    preset_named = Signal(str, object)

    def __init__(
        self,
        subject: str,
        config: Config,
        refusal: AnyRefusal,
        parent: QWidget,
        observers: Sequence[PluginItem] = (),
    ) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(f"Precision of {subject}")
        self._refusal = refusal
        self.form = form_for(config, refusal, self, observers)
        self.form.changed.connect(self._on_changed)
        self.form.save_asked.connect(lambda name: self.preset_named.emit(name, self.form.config))
        kinds = QDialogButtonBox.StandardButton
        self.buttons = QDialogButtonBox(kinds.Ok | kinds.Cancel, self)
        self.buttons.button(kinds.Ok).setText("Set")
        make_primary(self.buttons.button(kinds.Ok))
        self.buttons.accepted.connect(self._on_accepted)
        self.buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 14, 16, 14)
        layout.setSpacing(12)
        title = Label(subject, self)
        title.setObjectName("Subheading")
        title.setWordWrap(True)
        layout.addWidget(title)
        layout.addWidget(self.form)
        layout.addWidget(self.buttons)
        self.setMinimumWidth(400)
        self._on_changed(config)

    def _on_changed(self, config: Config) -> None:
        ok = self.buttons.button(QDialogButtonBox.StandardButton.Ok)
        ok.setEnabled(not self._refusal(config))
        QTimer.singleShot(0, self, self.adjustSize)

    def _on_accepted(self) -> None:
        self.chosen.emit(self.form.config)
        self.accept()

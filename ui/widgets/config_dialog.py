"""A config of one's own for what is chosen, in a small dialog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLabel, QVBoxLayout, QWidget

from ui.widgets.config_form import ConfigForm
from ui.widgets.dynamic_form import DynamicForm
from ui.widgets.emphasis import make_primary
from ui.widgets.format_form import FormatForm
from workbench.project.configs import Config, DynamicConfig, QuantConfig
from workbench.project.plugins import PluginItem

Refusal = Callable[[Any], str]
Form = ConfigForm | FormatForm | DynamicForm


def form_for(
    config: Config, refusal: Refusal, parent: QWidget, observers: Sequence[PluginItem] = ()
) -> Form:
    """Return the form for a kind of config, showing it; plug-ins' observers are offered too."""
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
    """Asks for a config.

    Signals:
        chosen: the config.
        preset_named: a name to keep it under, and the config.
    """

    chosen = Signal(object)
    preset_named = Signal(str, object)

    def __init__(
        self, subject: str, config: Config, refusal: Refusal, parent: QWidget,
        observers: Sequence[PluginItem] = (),
    ) -> None:  # fmt: skip
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
        title = QLabel(subject, self)
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

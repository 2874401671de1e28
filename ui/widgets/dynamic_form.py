"""The config with ranges at every call: nothing to set, and where the rest is set."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from workbench.project.configs import DynamicConfig

Refusal = Callable[[DynamicConfig], str]

TOLD = (
    "Weights become int8 once, with one scale each; what flows becomes int8 at every call, with a "
    "range of its own. Symmetric or not is one choice for the whole program: an option of the "
    "target."
)


class DynamicForm(QWidget):
    """Shows the config.

    Signals:
        changed: never; there is nothing to change.
        save_asked: never; there is one config of the kind, and it has a name.
    """

    changed = Signal(object)
    save_asked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._config = DynamicConfig()
        told = QLabel(TOLD, self)
        told.setWordWrap(True)
        self._reason = QLabel(self)
        self._reason.setObjectName("Reason")
        self._reason.setWordWrap(True)
        self._reason.hide()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(told)
        layout.addWidget(self._reason)

    @property
    def config(self) -> DynamicConfig:
        """What is shown."""
        return self._config

    def render_config(self, config: DynamicConfig, refusal: Refusal) -> None:
        """Show a config; ``refusal`` says why the target cannot take it, or ""."""
        self._config = config
        reason = refusal(config)
        self._reason.setText(reason)
        self._reason.setVisible(bool(reason))

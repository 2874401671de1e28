"""The dialog Build a runner."""

from __future__ import annotations

import os
from pathlib import Path

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QCheckBox, QComboBox, QDialog, QDialogButtonBox, QLineEdit, QVBoxLayout, QWidget

from ui.shared.forms import PathField, dialog_form, make_primary
from ui.shared.labels import Label
from workbench.deploy.simulators.runner_build import SCRIPT, SETUP

_PLACEMENTS = (
    ("semihosting", "From a file at run time, for any program (semihosting)"),
    ("embedded", "Built in, for this program only"),
    ("address", "At an address in memory"),
)
_SETUP_MISSING = (
    "The tools are not set up. Run examples/arm/setup.sh in the checkout and accept Arm's licence."
)


class RunnerDialog(QDialog):
    """Asks for the options of a runner build.

    Signals:
        build_asked: the options of the study ``runner``.
    """

    build_asked = Signal(dict)

    def __init__(self, target: str, memory_mode: str, checkout: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Build a runner")
        self.checkout = PathField("ExecuTorch checkout", "", self, kind="folder")
        self.checkout.set_text(checkout)
        self.checkout.edited.connect(self._show_state)
        self.placement = QComboBox(self)
        for name, title in _PLACEMENTS:
            self.placement.addItem(title, name)
        self.placement.currentIndexChanged.connect(self._show_state)
        self.address = QLineEdit("0x62000000", self)
        self.address.setAccessibleName("Address")
        self.address.textEdited.connect(self._show_state)
        self.etdump = QCheckBox("Record events for ExecuTorch's inspector (ETDump)", self)
        self.state = Label(self)
        self.state.setObjectName("Hint")
        self.state.setWordWrap(True)
        kinds = QDialogButtonBox.StandardButton
        self.buttons = QDialogButtonBox(kinds.Ok | kinds.Cancel, self)
        self.build = self.buttons.button(kinds.Ok)
        self.build.setText("Build")
        make_primary(self.build)
        self.buttons.accepted.connect(self._on_accepted)
        self.buttons.rejected.connect(self.reject)
        self._lay_out(target, memory_mode)
        self._show_state()

    def _lay_out(self, target: str, memory_mode: str) -> None:
        title = Label(f"{target}, {memory_mode}", self)
        title.setObjectName("Subheading")
        words = Label(
            "Builds with ExecuTorch's script in the background. Memory pools are sized for the "
            "compiled program. The first build takes several minutes.",
            self,
        )
        words.setWordWrap(True)
        self.form = dialog_form(
            ("ExecuTorch checkout", self.checkout),
            ("Program source", self.placement),
            ("Address", self.address),
            ("", self.etdump),
        )
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 14, 16, 14)
        layout.setSpacing(12)
        for part in (title, words):
            layout.addWidget(part)
        layout.addLayout(self.form)
        layout.addWidget(self.state)
        layout.addWidget(self.buttons)
        self.setMinimumWidth(580)

    def _show_state(self, *_: object) -> None:
        is_address = self.placement.currentData() == "address"
        self.form.setRowVisible(self.address, is_address)
        problem = _problem(self.checkout.text())
        if is_address and not problem and not _is_address(self.address.text()):
            problem = "Enter an address, e.g. 0x62000000."
        self.state.setText(problem)
        self.state.setVisible(bool(problem))
        self.build.setEnabled(not problem)
        QTimer.singleShot(0, self, self.adjustSize)

    def _on_accepted(self) -> None:
        self.build_asked.emit(
            {
                "checkout": self.checkout.text(),
                "wanted": self.placement.currentData(),
                "address": self.address.text().strip(),
                "etdump": self.etdump.isChecked(),
            }
        )
        self.accept()


def _problem(checkout: str) -> str:
    if not checkout:
        return "Enter the folder of an ExecuTorch checkout (git clone, tag v1.5.1)."
    folder = Path(checkout).expanduser()
    if not os.path.isfile(folder / SCRIPT):
        return f"Not an ExecuTorch checkout: {SCRIPT} is missing."
    return "" if os.path.isfile(folder / SETUP) else _SETUP_MISSING


def _is_address(text: str) -> bool:
    try:
        return text.strip().startswith("0x") and 0 < int(text, 16) < 1 << 32
    except ValueError:
        return False

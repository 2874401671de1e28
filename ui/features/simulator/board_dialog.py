"""The dialog Board: the serial port and flash command of the board at this machine."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QDialog, QDialogButtonBox, QLineEdit, QVBoxLayout, QWidget

from ui.shared.forms import DecimalBox, PathField, SpinBox, dialog_form, make_primary
from ui.shared.labels import Label
from workbench.deploy.simulators.board import serial_ports
from workbench.deploy.simulators.discovery import BoardLink

_ABOUT = (
    "The command runs without a shell when Simulate runs on the board. {elf}, {pte}, {bpte}, "
    "{header} and {folder} stand for the firmware and the files of the program, {name} for the "
    "project. The firmware is ExecuTorch's Arm runner built with ET_BUNDLE_IO and "
    "ET_LOG_DUMP_OUTPUT, or prints the same lines."
)


class BoardDialog(QDialog):
    """Asks how the board is flashed and read.

    Signals:
        board_chosen: the ``BoardLink``.
    """

    board_chosen = Signal(object)

    def __init__(self, link: BoardLink | None, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Board")
        self._simulate = link is None or link.simulate
        given = link or BoardLink(port="-")
        self.port = QComboBox(self)
        self.port.setEditable(True)
        self.port.setAccessibleName("Serial port")
        self.port.addItems(serial_ports())
        self.port.setEditText(given.port if link else self.port.itemText(0))
        self.port.editTextChanged.connect(self._show_state)
        self.baud = SpinBox(self)
        self.baud.setRange(1, 10_000_000)
        self.baud.setValue(given.baud)
        self.flash = QLineEdit(given.flash, self)
        self.flash.setPlaceholderText("probe-rs download --chip CHIP {elf}")
        self.elf = PathField("Firmware", "Firmware (*.elf *.axf *.hex *.bin)", self)
        self.elf.set_text(given.elf)
        self.timeout = DecimalBox(self)
        self.timeout.setRange(1, 86_400)
        self.timeout.setDecimals(0)
        self.timeout.setSuffix(" s")
        self.timeout.setValue(given.timeout_s)
        kinds = QDialogButtonBox.StandardButton
        self.buttons = QDialogButtonBox(kinds.Ok | kinds.Cancel, self)
        self.save = self.buttons.button(kinds.Ok)
        self.save.setText("Save")
        make_primary(self.save)
        self.buttons.accepted.connect(self._on_accepted)
        self.buttons.rejected.connect(self.reject)
        self._lay_out()
        self._show_state()

    def _lay_out(self) -> None:
        form = dialog_form(
            ("Serial port", self.port),
            ("Baud", self.baud),
            ("Flash command", self.flash),
            ("Firmware", self.elf),
            ("Time limit", self.timeout),
        )
        about = Label(_ABOUT, self)
        about.setObjectName("Hint")
        about.setWordWrap(True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 14, 16, 14)
        layout.setSpacing(12)
        layout.addLayout(form)
        layout.addWidget(about)
        layout.addWidget(self.buttons)
        self.setMinimumWidth(580)

    def _show_state(self, *_: object) -> None:
        self.save.setEnabled(bool(self.port.currentText().strip()))

    def _on_accepted(self) -> None:
        self.board_chosen.emit(
            BoardLink(
                port=self.port.currentText().strip(),
                baud=self.baud.value(),
                flash=self.flash.text().strip(),
                elf=self.elf.text(),
                timeout_s=self.timeout.value(),
                simulate=self._simulate,
            )
        )
        self.accept()

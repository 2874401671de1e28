"""The dialog Firmware: proves linked firmware on an emulated board, with the packed program."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QHBoxLayout,
    QProgressBar,
    QPushButton,
    QTextBrowser,
    QVBoxLayout,
    QWidget,
)

from ui.shared.forms import PathField, dialog_form, make_primary, resize_on_screen
from ui.shared.labels import Label
from ui.shared.workbench_command import CommandDialog

_ABOUT = (
    "The firmware runs under QEMU on a Cortex-M55 with the memories of the AN547, with Arm's own "
    "NPU driver in it; the functional simulator answers the NPU's registers. Emulated: nothing is "
    "timed or measured. The firmware is code of yours, run inside the emulator only."
)
_SIGNS = {True: "\u2713", False: "\u2717", None: "\u2013"}
_STATES = {True: "passed", False: "failed", None: "not checked"}


class FirmwareDialog(CommandDialog):
    """Asks for firmware, proves it in a process of its own, and shows the checks.

    Signals:
        proved: path of the firmware, and whether it is proven.
    """

    proved = Signal(str, bool)

    def __init__(self, program: Path, target: str, elf: str, parent: QWidget) -> None:
        super().__init__(parent)
        self._program, self._target = program, target
        self.setWindowTitle("Emulated board")
        self.elf = PathField("Firmware", "Firmware (*.elf *.axf)", self)
        self.elf.set_text(elf)
        self.elf.edited.connect(self._show_state)
        self.cache = QCheckBox("Check the maintenance of the data cache", self)
        self.prove = QPushButton("Prove", self)
        make_primary(self.prove)
        self.prove.clicked.connect(self._on_prove_clicked)
        self.close_button = QPushButton("Close", self)
        self.close_button.clicked.connect(self.reject)
        self.progress = QProgressBar(self)
        self.progress.setRange(0, 0)
        self.progress.setAccessibleName("Proving firmware")
        self.progress.hide()
        self.text = QTextBrowser(self)
        self.text.setAccessibleName("Checks of the firmware")
        self.command.changed.connect(self._show_state)
        self.command.succeeded.connect(self._on_succeeded)
        self.command.failed.connect(self.text.setPlainText)
        self._lay_out()
        self._show_state()

    def _lay_out(self) -> None:
        program = Label(f"{self._program.name}, {self._target}", self)
        form = dialog_form(("Program", program), ("Firmware", self.elf), ("", self.cache))
        about = Label(_ABOUT, self)
        about.setObjectName("Hint")
        about.setWordWrap(True)
        row = QHBoxLayout()
        row.addWidget(self.progress, 1)
        row.addStretch(1)
        row.addWidget(self.prove)
        row.addWidget(self.close_button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 14, 16, 14)
        layout.setSpacing(12)
        layout.addLayout(form)
        layout.addWidget(about)
        layout.addWidget(self.text, 1)
        layout.addLayout(row)
        resize_on_screen(self, 720, 640)

    def _show_state(self, *_: object) -> None:
        self.prove.setText("Stop" if self.is_running else "Prove")
        self.prove.setEnabled(self.is_running or bool(self.elf.text()))
        self.progress.setVisible(self.is_running)

    def _on_prove_clicked(self) -> None:
        if self.is_running:
            self.command.stop()
            return
        words = ["--cache"] if self.cache.isChecked() else []
        self.text.clear()
        self.command.run(
            "firmware", "prove", self.elf.text(), str(self._program), "--target", self._target, *words
        )

    def _on_succeeded(self, document: dict[str, Any]) -> None:
        self.text.setHtml(proof_text(document))
        self.proved.emit(self.elf.text(), document["verdict"] == "proven")


def proof_text(document: dict[str, Any]) -> str:
    """Return a proof as rich text: verdict, findings with remedies, and every check."""
    is_proven = document["verdict"] == "proven"
    title = "Proven" if is_proven else "Not proven"
    driver = f", driver {document['driver']}" if document["driver"] else ""
    lines = [f"<h3>{title} on an emulated Cortex-M55 with {escape(document['target'] + driver)}</h3>"]
    for finding in document["findings"]:
        lines.append(f"<p><b>{escape(finding['message'])}</b><br>{escape(finding['remedy'])}</p>")
    lines.append("<table cellspacing='4'>")
    for check in document["checks"]:
        sign, state = _SIGNS[check["held"]], _STATES[check["held"]]
        lines.append(f"<tr><td>{sign}</td><td>{escape(check['title'])}</td><td>{state}</td></tr>")
    lines.append("</table>")
    if document["output"].strip():
        lines.append(f"<p>Printed by the firmware:</p><pre>{escape(document['output'])}</pre>")
    hidden = "; ".join(document["not_proven"])
    lines.append(f"<p>An emulation does not show: {escape(hidden)}.</p>")
    return "".join(lines)

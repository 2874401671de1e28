"""The dialog Check firmware: what linked firmware has of what the packed program needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QPushButton, QTextBrowser, QVBoxLayout, QWidget

from ui.shared.forms import PathField, WrappedLabel, dialog_form, make_primary, resize_on_screen
from ui.shared.labels import Label
from ui.shared.number_format import count
from ui.shared.sortable_table import Column, FigureTableModel, FigureView
from ui.shared.theme import Theme
from ui.shared.workbench_command import CommandDialog
from workbench.pte.description import OutputLife
from workbench.pte.vela_stream import ETHOS_U

_ABOUT = (
    "Reads the linked firmware and compares its pools, kernels and backend with what the program "
    "needs. The firmware is not run."
)
_NOTHING = "Choose the linked firmware, an ELF file with symbols, and press Check."
_HOLDS = "The firmware has all that the program needs, as far as this can be checked without running it."
_SIGNS = {True: "\u2713", False: "\u2717", None: "\u2013"}


@dataclass(frozen=True)
class NeedRow:
    """One thing that a program needs, and what the firmware has of it; ``held`` None: not known."""

    held: bool | None
    kind: str
    name: str
    needed: str
    available: str


COLUMNS: tuple[Column[NeedRow], ...] = (
    Column("", lambda r: _SIGNS[r.held]),
    Column("Kind", lambda r: r.kind),
    Column("Name", lambda r: r.name),
    Column("Program needs", lambda r: r.needed),
    Column("Firmware has", lambda r: r.available),
)


def rows_of(document: dict[str, Any]) -> Iterator[NeedRow]:
    """Yield the rows of the document of ``firmware check --json``; what is missing comes first."""
    pools = [
        NeedRow(
            pool["holds"],
            "pool",
            pool["name"],
            f"{count(pool['needed'])} B",
            "not known" if pool["available"] is None else f"{count(pool['available'])} B",
        )
        for pool in document["pools"]
    ]
    linked = [
        NeedRow(
            is_linked, "backend" if name == ETHOS_U else "kernel", name, "linked",
            "linked" if is_linked else "missing",
        )
        for name, is_linked in document["linked"].items()
    ]  # fmt: skip
    yield from sorted((*pools, *linked), key=lambda row: row.held is not False)


def sentences_of(document: dict[str, Any]) -> str:
    """Return the verdict with its remedies, what was not checked, and until when outputs are valid."""
    lines = [f"\u2717 {problem['message']} {problem['hint']}".strip() for problem in document["problems"]]
    lives = (OutputLife(**life).sentence for life in document["outputs"])
    return "\n".join([*(lines or [_HOLDS]), *document["notes"], *lives])


class FirmwareCheckDialog(CommandDialog):
    """Asks for linked firmware, and shows what it has of what a program needs.

    Signals:
        checked: path of the firmware that was read.
    """

    checked = Signal(str)

    def __init__(self, program: Path, elf: str, theme: Theme, parent: QWidget | None) -> None:
        """Make the dialog.

        Args:
            program: The packed program.
            elf: The firmware that was chosen last; "" for none.
            theme: Colors of the table.
            parent: The panel.
        """
        super().__init__(parent)
        self._program, self._theme = program, theme
        self.setWindowTitle("Check firmware")
        self.elf = PathField("Firmware", "Firmware (*.elf *.axf)", self)
        self.elf.set_text(elf)
        self.elf.edited.connect(self._show_state)
        self.pools = QLineEdit(self)
        self.pools.setAccessibleName("Arrays of pools")
        self.pools.setPlaceholderText("default: those of ExecuTorch's runner; else e.g. method=my_pool")
        self.pools.setToolTip(
            "Arrays of the firmware by kind of pool, with commas between them. Kinds are method, scratch, "
            "fast scratch, planned fast memory and files."
        )
        self.model = FigureTableModel[NeedRow](COLUMNS, lambda r: f"{r.kind} {r.name}", self)
        self.table = FigureView("What the program needs", self.model, self, empty=_NOTHING)
        self.answer = QTextBrowser(self)
        self.answer.setAccessibleName("Answer")
        self.check = QPushButton("Check", self)
        make_primary(self.check)
        self.check.clicked.connect(self._on_check_clicked)
        self.command.changed.connect(self._show_state)
        self.command.succeeded.connect(self._on_succeeded)
        self.command.failed.connect(self._on_failed)
        self._lay_out()
        self._show_state()

    def _lay_out(self) -> None:
        program = Label(self._program.name, self)
        form = dialog_form(("Program", program), ("Firmware", self.elf), ("Arrays of pools", self.pools))
        about = WrappedLabel(_ABOUT, self)
        about.setObjectName("Hint")
        close = QPushButton("Close", self)
        close.clicked.connect(self.reject)
        row = QHBoxLayout()
        row.addStretch(1)
        row.addWidget(self.check)
        row.addWidget(close)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 14, 16, 14)
        layout.setSpacing(12)
        layout.addWidget(about)
        layout.addLayout(form)
        layout.addWidget(self.table, 1)
        layout.addWidget(self.answer, 1)
        layout.addLayout(row)
        resize_on_screen(self, 860, 620)

    def _show_state(self, *_: object) -> None:
        self.check.setText("Checking\u2026" if self.is_running else "Check")
        self.check.setEnabled(not self.is_running and bool(self.elf.text()))

    def _on_check_clicked(self) -> None:
        named = [text.strip() for text in self.pools.text().split(",") if text.strip()]
        pools = [word for text in named for word in ("--pool", text)]
        self.command.run("firmware", "check", self.elf.text(), str(self._program), *pools)

    def _on_succeeded(self, document: dict[str, Any]) -> None:
        self.model.set_rows(rows_of(document))
        self.table.set_look(self._theme, stale=False)
        self.answer.setPlainText(sentences_of(document))
        self.checked.emit(self.elf.text())

    def _on_failed(self, sentences: str) -> None:
        self.model.set_rows(())
        self.answer.setPlainText(sentences)

"""The dialog Toolchains: environments with other releases of ExecuTorch, torch and Vela."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QFormLayout,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from ui.shared.forms import PathField, WrappedLabel, dialog_form, resize_on_screen
from ui.shared.labels import Label
from ui.shared.sortable_table import Column, FigureTableModel, FigureView
from ui.shared.theme import Theme
from ui.shared.workbench_command import CommandDialog
from ui.shell.toolchain_comparison_dialog import ToolchainComparisonDialog
from workbench.toolchains.registry import OWN_TITLE, title_of

Row = dict[str, Any]
_ABOUT = (
    "A project runs in the program's own toolchain, or in one of these. Results of different "
    "toolchains are kept apart."
)
_EXISTING = "A virtual environment with ExecuTorch and Vela. Its interpreter is started once."
_CREATED = "Installed by pip from the package index: minutes, and some GB on the disk."
_STATES = {"proven": "proven", "unproven": "runs, unproven", "unusable": "cannot run"}
COLUMNS: tuple[Column[Row], ...] = (
    Column("Name", lambda r: r["name"] or OWN_TITLE),
    Column("State", lambda r: _STATES[r["state"]]),
    Column("Versions", lambda r: title_of(r["tools"])),
    Column("Python", lambda r: r["python_version"]),
    Column("Note", lambda r: r["reason"]),
)


class ToolchainsDialog(CommandDialog):
    """Lists toolchains, adds, makes and removes them, and chooses that of the project.

    Signals:
        chosen: name of the project's toolchain; "" is the program's own.
    """

    chosen = Signal(str)

    def __init__(
        self, used: str | None, theme: Theme, parent: QWidget | None, saved: Path | None = None
    ) -> None:
        """Make the dialog.

        Args:
            used: The toolchain of the open project; None without one.
            theme: Colors of the table.
            parent: The window.
            saved: The file of the project; None where it does not have the project as it is.
        """
        super().__init__(parent)
        self.setWindowTitle("Toolchains")
        self._used, self._theme, self._saved = used, theme, saved
        self.note = WrappedLabel(parent=self)
        self.present = Label(self)
        self.command.changed.connect(self._show_state)
        self.command.succeeded.connect(self._on_succeeded)
        self.command.failed.connect(self.note.setText)
        self.command.line_printed.connect(self.note.setText)
        self.model = FigureTableModel[Row](COLUMNS, lambda r: r["reason"] or r["python"], self)
        self.table = FigureView("Toolchains", self.model, self, empty="Reading the toolchains\u2026")
        self.table.rows_chosen.connect(self._show_state)
        self.use = self._button("Use in this project", self._on_use_clicked)
        self.compare = self._button("Compare\u2026", self._on_compare_clicked)
        self.remove = self._button("Remove", self._on_remove_clicked)
        self.name, self.new_name = QLineEdit(self), QLineEdit(self)
        self.name.setAccessibleName("Name of the environment to add")
        self.new_name.setAccessibleName("Name of the environment to create")
        for line in (self.name, self.new_name):
            line.setPlaceholderText("e.g. sdk-1.4")
        self.python = PathField("Interpreter", "", self)
        self.python.line.setPlaceholderText("e.g. env/bin/python")
        self.add = self._button("Add", self._on_add_clicked)
        self.spec = QLineEdit(self)
        self.spec.setAccessibleName("Release")
        self.spec.setPlaceholderText("e.g. executorch==1.4.1")
        self.create_button = self._button("Create", self._on_create_clicked)
        for line in (self.name, self.new_name, self.python.line, self.spec):
            line.textChanged.connect(self._show_state)
        self.stop = self._button("Stop", self.command.stop)
        self.progress = QProgressBar(self)
        self.progress.setRange(0, 0)
        self.progress.setTextVisible(False)
        self._lay_out()
        self._list()

    def _button(self, text: str, pressed: Any) -> QPushButton:
        button = QPushButton(text, self)
        button.clicked.connect(lambda _checked: pressed())
        return button

    def _lay_out(self) -> None:
        about = Label(_ABOUT, self)
        about.setObjectName("Hint")
        about.setWordWrap(True)
        chosen = QHBoxLayout()
        chosen.addWidget(self.present, 1)
        chosen.addWidget(self.use)
        chosen.addWidget(self.compare)
        chosen.addWidget(self.remove)
        ways = QHBoxLayout()
        ways.setSpacing(12)
        existing = dialog_form(("Name", self.name), ("Interpreter", self.python))
        created = dialog_form(("Name", self.new_name), ("Release", self.spec))
        ways.addWidget(self._way("Add an environment that exists", _EXISTING, existing, self.add), 1)
        ways.addWidget(self._way("Create an environment", _CREATED, created, self.create_button), 1)
        last = QHBoxLayout()
        last.addWidget(self.progress, 1)
        last.addWidget(self.stop)
        last.addStretch(1)
        last.addWidget(self._button("Close", self.reject))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 14, 16, 14)
        layout.setSpacing(10)
        layout.addWidget(about)
        layout.addWidget(self.table, 1)
        layout.addLayout(chosen)
        layout.addLayout(ways)
        layout.addWidget(self.note)
        layout.addLayout(last)
        resize_on_screen(self, 900, 600)

    def _way(self, title: str, words: str, form: QFormLayout, button: QPushButton) -> QFrame:
        """Return the frame of one way to a toolchain."""
        frame = QFrame(self)
        frame.setObjectName("Card")
        heading, hint = Label(title, frame), Label(words, frame)
        heading.setObjectName("Subheading")
        hint.setObjectName("Hint")
        hint.setWordWrap(True)
        layout = QVBoxLayout(frame)
        layout.setContentsMargins(12, 10, 12, 10)
        layout.setSpacing(8)
        layout.addWidget(heading)
        layout.addWidget(hint)
        layout.addLayout(form)
        layout.addStretch(1)
        layout.addWidget(button, 0, Qt.AlignmentFlag.AlignRight)
        return frame

    def _row(self) -> Row | None:
        rows = self.table.chosen_rows()
        return self.model.row_at(rows[0]) if len(rows) == 1 else None

    def _show_state(self, *_: object) -> None:
        row, idle = self._row(), not self.is_running
        self.present.setText("" if self._used is None else f"This project uses: {self._used or OWN_TITLE}")
        is_other = row is not None and self._used is not None and row["name"] != self._used
        is_usable = idle and is_other and row is not None and row["state"] != "unusable"
        self.use.setEnabled(is_usable)
        self.compare.setEnabled(is_usable)
        self.remove.setEnabled(idle and row is not None and bool(row["name"]))
        self.add.setEnabled(idle and bool(self.name.text().strip() and self.python.text()))
        is_named = bool(self.new_name.text().strip() and self.spec.text().strip())
        self.create_button.setEnabled(idle and is_named)
        self.stop.setVisible(not idle)
        self.progress.setVisible(not idle)

    def _list(self) -> None:
        self.command.run("toolchain", "list")

    def _on_succeeded(self, document: dict[str, Any]) -> None:
        if "toolchains" not in document:
            self.note.setText("")
            self.name.clear()
            self.new_name.clear()
            self._list()
            return
        self.model.set_rows(document["toolchains"])
        self.table.set_look(self._theme, stale=False)
        self._show_state()

    def _on_use_clicked(self) -> None:
        row = self._row()
        if row is not None:
            self._used, self._saved = str(row["name"]), None
            self.chosen.emit(self._used)
            self.note.setText(f"The project uses {row['name'] or OWN_TITLE}.")
            self._show_state()

    def _on_compare_clicked(self) -> None:
        row = self._row()
        if row is None or self._used is None:
            return
        if self._saved is None:
            self.note.setText("Save the project first: both toolchains read its file.")
            return
        names = self._used, str(row["name"])
        dialog = ToolchainComparisonDialog(self._saved, names, self._theme, self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()
        dialog.compare()

    def _on_remove_clicked(self) -> None:
        row = self._row()
        if row is not None:
            self.command.run("toolchain", "remove", str(row["name"]))

    def _on_add_clicked(self) -> None:
        name, python = self.name.text().strip(), self.python.text()
        self.command.run("toolchain", "add", name, "--python", python)

    def _on_create_clicked(self) -> None:
        name, spec = self.new_name.text().strip(), self.spec.text().strip()
        self.command.run("toolchain", "add", name, "--create", spec)

"""The dialog Compare toolchains: the project in its toolchain and in another one, side by side."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from typing import Any

from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QPushButton, QVBoxLayout, QWidget

from ui.shared.forms import WrappedLabel, resize_on_screen
from ui.shared.sortable_table import Column, FigureTableModel, FigureView
from ui.shared.theme import Theme
from ui.shared.workbench_command import CommandDialog
from workbench.api.toolchain_comparison import TITLES
from workbench.errors import TrustRequiredError, WorkbenchError
from workbench.project import store
from workbench.project.opened import OpenProject
from workbench.project.trust import TrustStore, demand
from workbench.toolchains.registry import OWN_TITLE

Row = tuple[str, str, str, str]
_ABOUT = (
    "Runs all stages in both toolchains, which takes as long as two runs. Results that the cache holds "
    "are not computed again. Nothing is kept in the project or its runs."
)
_NOT_ALLOWED = (
    "The Python code of the project is not allowed yet. Load the model in the window, which asks, and "
    "compare then."
)


def rows_of(document: dict[str, Any]) -> list[Row]:
    """Return the rows of a comparison, from the document of ``toolchain compare``."""
    rows = [
        (TITLES.get(figure["name"], figure["name"]), *map(_text, figure["values"]), figure["note"])
        for figure in document["figures"]
    ]
    if document["outputs"] is not None:
        total, different = document["outputs"]
        rows.append(
            ("Outputs that differ", "", f"{different:,} of {total:,}", "elements of the test vectors")
        )
    rows += [
        (f"Correction {name}", *(f"{count:,}" if count else "-" for count in counts), "places")
        for name, counts in document["corrections"].items()
    ]
    return rows


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


class ToolchainComparisonDialog(CommandDialog):
    """Compares a project in two toolchains.

    Args:
        path: The file of the project.
        names: The project's toolchain, and the other one; "" is the program's own.
        theme: Colors of the table.
        parent: The window.
    """

    def __init__(self, path: Path, names: tuple[str, str], theme: Theme, parent: QWidget | None) -> None:
        super().__init__(parent)
        titles = [name or OWN_TITLE for name in names]
        self.setWindowTitle(f"{path.stem}: {titles[0]} and {titles[1]}")
        self._path, self._titles, self._other, self._theme = path, titles, names[1] or OWN_TITLE, theme
        self.command.changed.connect(self._show_state)
        self.command.succeeded.connect(self._on_succeeded)
        self.command.line_printed.connect(self._on_line_printed)
        heads = ("", *titles, "Note")
        columns = [Column[Row](title, itemgetter(at)) for at, title in enumerate(heads)]
        self.model = FigureTableModel[Row](columns, lambda r: r[3] or r[0], self)
        self.table = FigureView("Comparison", self.model, self, empty="Nothing was compared yet.")
        self.note = WrappedLabel(parent=self)
        self.note.setText(_ABOUT)
        self.command.failed.connect(self.note.setText)
        self.progress = QProgressBar(self)
        self.progress.setRange(0, 0)
        self.progress.setTextVisible(False)
        self.start = QPushButton("Compare", self)
        self.start.clicked.connect(self.compare)
        self.stop = QPushButton("Stop", self)
        self.stop.clicked.connect(self.command.stop)
        self._lay_out()
        self._show_state()

    def _lay_out(self) -> None:
        close = QPushButton("Close", self)
        close.clicked.connect(self.reject)
        last = QHBoxLayout()
        last.addWidget(self.progress, 1)
        last.addWidget(self.stop)
        last.addStretch(1)
        last.addWidget(self.start)
        last.addWidget(close)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 14, 16, 14)
        layout.setSpacing(10)
        layout.addWidget(self.note)
        layout.addWidget(self.table, 1)
        layout.addLayout(last)
        resize_on_screen(self, 820, 560)

    def compare(self) -> None:
        """Run the project in both toolchains, if its code is allowed."""
        try:
            demand(OpenProject(store.load(self._path), self._path.parent, self._path), TrustStore())
        except TrustRequiredError:
            self.note.setText(_NOT_ALLOWED)
            return
        except WorkbenchError as error:
            self.note.setText(str(error))
            return
        self.command.run("toolchain", "compare", str(self._path), "--with", self._other)

    def _show_state(self) -> None:
        self.start.setEnabled(not self.is_running)
        self.stop.setVisible(self.is_running)
        self.progress.setVisible(self.is_running)

    def _on_line_printed(self, line: str) -> None:
        self.note.setText(line)

    def _on_succeeded(self, document: dict[str, Any]) -> None:
        self.model.set_rows(rows_of(document))
        self.table.set_look(self._theme, stale=False)
        errors = zip(self._titles, document["errors"], strict=True)
        sentences = [f"{title} cannot compile it: {error}" for title, error in errors if error]
        versions = zip(self._titles, document["titles"], strict=True)
        sentences += [*document["remarks"], *(f"{title}: {text}." for title, text in versions)]
        self.note.setText("\n".join(sentences))

"""The dialogs that show the code of a project: before it is allowed to run, and a line of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontDatabase, QPalette, QTextCursor, QTextFormat
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QListWidget,
    QPlainTextEdit,
    QSplitter,
    QTextEdit,
    QVBoxLayout,
    QWidget,
)

from ui.shared.forms import make_primary, resize_on_screen
from ui.shared.labels import Label
from workbench.project.project_code import Code
from workbench.project.trust import Changes, unread_files

_MAX_SHOWN_BYTES = 1 << 20
# Files of a kind of change that a question names.
_MAX_NAMED = 4


def question_text(code: Code, changes: Changes) -> str:
    """Return what is asked about: why code runs, its places and files, and what changed in them."""
    reasons = list(dict.fromkeys(use.why for use in code.uses))
    count = len(code.files)
    files = f"{count} file{'' if count == 1 else 's'}"
    runs = f"Will {reasons[0]}".replace("Will runs ", "Will run ")
    runs = runs.replace("Will unpickles ", "Will unpickle ")
    runs = runs if len(reasons) == 1 else _listed("What it does", reasons)
    text = f"{runs}\n{_listed(f'Code ({files})', list(code.places))}"
    if since := _since_allowed(changes):
        text = f"{text}\nSince you allowed it: {since}."
    unread = [info.message for info in unread_files(code)]
    return f"{text}\n{_listed('Left out', unread)}" if unread else text


def _listed(title: str, lines: Sequence[str]) -> str:
    """Return a title with one line after it, or with several below it."""
    if len(lines) == 1:
        return f"{title}: {lines[0]}"
    return "\n".join([f"{title}:", *(f"\u2022 {line}" for line in lines)])


def _since_allowed(changes: Changes) -> str:
    """Return which files changed, were added and removed, in words; "" if none."""
    words = []
    for title, paths in (
        ("changed", changes.changed),
        ("added", changes.added),
        ("removed", changes.removed),
    ):
        names = [path.name for path in paths[:_MAX_NAMED]]
        more = [f"{len(paths) - _MAX_NAMED} more"] if len(paths) > _MAX_NAMED else []
        if paths:
            words.append(f"{', '.join([*names, *more])} {title}")
    return "; ".join(words)


class CodeDialog(QDialog):
    """Shows every file that may run, as it was read; that is also what runs."""

    def __init__(self, code: Code, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Code of the project")
        self._code = code
        self._paths = list(code.files)
        self.places = Label("\n".join(code.places), self)
        self.places.setTextFormat(Qt.TextFormat.PlainText)
        self.places.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.files = QListWidget(self)
        self.files.setAccessibleName("Files")
        self.files.addItems([self._shown(path) for path in self._paths])
        self.text = QPlainTextEdit(self)
        self.text.setReadOnly(True)
        self.text.setAccessibleName("Code")
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.files.currentRowChanged.connect(self._on_row_changed)
        split = QSplitter(self)
        split.addWidget(self.files)
        split.addWidget(self.text)
        split.setStretchFactor(1, 1)
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.addWidget(self.places)
        layout.addWidget(split, 1)
        layout.addWidget(self.buttons)
        resize_on_screen(self, 900, 600)
        if self._paths:
            self.files.setCurrentRow(0)

    def show_line(self, path: Path, number: int) -> None:
        """Show a file, and mark a line of it (the first is 1)."""
        self.files.setCurrentRow(self._paths.index(path))
        cursor = QTextCursor(self.text.document().findBlockByNumber(number - 1))
        marked = QTextEdit.ExtraSelection()
        marked.cursor = cursor
        marked.format.setBackground(self.palette().color(QPalette.ColorRole.Highlight))
        marked.format.setForeground(self.palette().color(QPalette.ColorRole.HighlightedText))
        marked.format.setProperty(QTextFormat.Property.FullWidthSelection, True)
        self.text.setExtraSelections([marked])
        self.text.setTextCursor(cursor)
        self.text.centerCursor()

    def _shown(self, path: Path) -> str:
        """Return a path relative to the folder that is asked about."""
        for folder in self._code.folders:
            if path.is_relative_to(folder.path):
                return path.relative_to(folder.path).as_posix()
        return str(path)

    def _on_row_changed(self, row: int) -> None:
        self.text.setPlainText(self._content(self._paths[row]) if row >= 0 else "")

    def _content(self, path: Path) -> str:
        for folder in self._code.folders:
            if path.is_relative_to(folder.path):
                content = folder.files.get(path.relative_to(folder.path).as_posix())
                if content is not None and path.suffix == ".py":
                    return content[:_MAX_SHOWN_BYTES].decode(errors="replace")
        return f"{path}\n\nThis file is not Python source. It runs code when it is loaded."


class TrustDialog(CodeDialog):
    """Asks whether the shown code may run.

    Args:
        code: The code that is asked about.
        changes: What changed since it was allowed: these files are marked, the first is shown.
        allow: Called when the user allows it.
        parent: The window.
    """

    def __init__(self, code: Code, changes: Changes, allow: Callable[[], None], parent: QWidget) -> None:
        super().__init__(code, parent)
        marked = [*changes.changed, *changes.added]
        for row, path in enumerate(self._paths):
            if path in marked:
                word = "changed" if path in changes.changed else "new"
                self.files.item(row).setText(f"{self._shown(path)}   ({word})")
        if shown := [path for path in self._paths if path in marked]:
            self.files.setCurrentRow(self._paths.index(shown[0]))
        kinds = QDialogButtonBox.StandardButton
        self.buttons.setStandardButtons(kinds.Ok | kinds.Cancel)
        self.allow = self.buttons.button(kinds.Ok)
        self.allow.setText("Allow and run")
        # Enter, pressed once more than meant, runs no code.
        self.allow.setAutoDefault(False)
        make_primary(self.buttons.button(kinds.Cancel))
        self.accepted.connect(allow)

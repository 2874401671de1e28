"""The box that finds operations: a query, how many it means, one after the other or all at once."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QToolButton, QWidget

from ui.icons import icon
from ui.theme import Theme
from workbench.errors import WorkbenchError
from workbench.graph.query import find
from workbench.graph.snapshot import GraphSnapshot

SYNTAX = """<table cellspacing="3">
<tr><td><b>conv</b></td><td>in a name, operator, module, kind or type</td></tr>
<tr><td><b>"conv2d"</b></td><td>exactly this name or part of a dotted one</td></tr>
<tr><td><b>op:</b>add <b>module:</b>enc.* <b>dtype:</b>int8</td><td>one field; also
  kind:, name:, source:; * is anything</td></tr>
<tr><td><b>1,3,224,224</b></td><td>a shape; * is any size</td></tr>
<tr><td><b>sqnr&lt;20</b> <b>cycles&gt;1e5</b></td><td>a number, after the run: %s</td></tr>
<tr><td><b>-relu</b></td><td>without these; all words must match</td></tr>
</table>Enter and F3 go to the next, with Shift to the one before."""


class GraphSearch(QWidget):
    """Finds operations in a graph.

    Signals:
        chosen: the ids of operations to select, as a frozenset.
        left: Esc was pressed; the keyboard goes back to the graph.
        keep_asked: the text of a search that is to colour the graph from now on.
    """

    chosen = Signal(object)
    left = Signal()
    keep_asked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._snapshot: GraphSnapshot | None = None
        self._numbers: Mapping[str, Mapping[str, float]] = {}
        self._found: tuple[str, ...] = ()
        self._position = -1
        self.box = QLineEdit(self)
        self.box.setPlaceholderText("Find:  conv   op:add   sqnr<20   1,*,8,8")
        self.box.setAccessibleName("Find in the graph")
        self.box.setClearButtonEnabled(True)
        self.box.setMinimumWidth(120)
        self.box.textEdited.connect(self._on_edited)
        self.box.textChanged.connect(self._on_changed)
        self.box.installEventFilter(self)
        self.count = QLabel(self)
        self.count.setObjectName("Hint")
        self._buttons: dict[str, QToolButton] = {}
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(3)
        row.addWidget(self.box, 1)
        row.addWidget(self.count)
        self._add("up", "The one before (Shift+Enter)", lambda: self.step(-1))
        self._add("down", "The next (Enter, F3)", lambda: self.step(1))
        words = "Keep this search: what it finds is coloured from now on"
        self._add("keep", words, lambda: self.keep_asked.emit(self.box.text().strip()))
        self._all = QToolButton(self)
        self._all.setText("Select all")
        self._all.setToolTip("Select everything found, to give it a precision with the keys 1 to 9")
        self._all.clicked.connect(self.choose_all)
        row.addWidget(self._all)
        self._show_hint()
        self._render()

    def set_theme(self, theme: Theme) -> None:
        """Draw the buttons in the colours of a theme."""
        for name, button in self._buttons.items():
            button.setIcon(icon(name, theme.text))

    def set_ground(
        self, snapshot: GraphSnapshot | None, numbers: Mapping[str, Mapping[str, float]]
    ) -> None:
        """Search this graph, with these numbers per operation."""
        if snapshot is self._snapshot and numbers == self._numbers:
            return
        self._snapshot, self._numbers = snapshot, numbers
        self._show_hint()
        if self.box.text():
            self._search()

    def ask(self) -> None:
        """Take the keyboard, with the old query ready to be overwritten."""
        self.box.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.box.selectAll()

    def look_for(self, text: str) -> None:
        """Search for a text as if it had been typed."""
        self.box.setText(text)
        self._search()
        self.box.setFocus()

    def step(self, direction: int) -> None:
        """Choose the next or the former operation; after the last comes the first."""
        if not self._found:
            return
        if self._position < 0:
            self._position = 0 if direction > 0 else len(self._found) - 1
        else:
            self._position = (self._position + direction) % len(self._found)
        self._render()
        self.chosen.emit(frozenset({self._found[self._position]}))

    def choose_all(self) -> None:
        """Choose everything that was found."""
        if self._found:
            self._position = -1
            self._render()
            self.chosen.emit(frozenset(self._found))
            self.left.emit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            key = event.key()
            shifted = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self.step(-1 if shifted else 1)
                return True
            if key == Qt.Key.Key_Escape:
                self.left.emit()
                return True
        return super().eventFilter(watched, event)

    def _add(self, name: str, words: str, act: object) -> None:
        button = QToolButton(self)
        button.setToolTip(words)
        button.setAccessibleName(words)
        button.clicked.connect(act)
        self._buttons[name] = button
        layout = self.layout()
        if layout is not None:
            layout.addWidget(button)

    def _on_edited(self, text: str) -> None:
        del text
        self._search()

    def _on_changed(self, text: str) -> None:
        # The button that clears the box is no edit for Qt.
        if not text:
            self._search()

    def _search(self) -> None:
        self._found, self._position = (), -1
        problem = ""
        if self._snapshot is not None:
            try:
                self._found = find(self.box.text(), self._snapshot, self._numbers)
            except WorkbenchError as error:
                problem = f"{error.infos[0].message} {error.infos[0].hint}".strip()
        self._render(problem)

    def _render(self, problem: str = "") -> None:
        total = len(self._found)
        if problem:
            self.count.setText(problem.partition(". ")[0])
        elif not self.box.text().strip():
            self.count.setText("")
        elif self._position >= 0:
            self.count.setText(f"{self._position + 1} of {total:,}")
        else:
            self.count.setText(f"{total:,} found" if total else "nothing found")
        self.count.setToolTip(problem)
        for widget in (*self._buttons.values(), self._all):
            widget.setVisible(total > 0)

    def _show_hint(self) -> None:
        self.box.setToolTip(SYNTAX % (", ".join(sorted(self._numbers)) or "none yet"))

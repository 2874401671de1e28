"""The bar above the graph: levels, tools, search, overlay and saved searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from html import escape

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal, SignalInstance
from PySide6.QtGui import QActionGroup, QColor, QIcon, QKeyEvent, QPainter, QPixmap, QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLineEdit,
    QMenu,
    QSizePolicy,
    QTabBar,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from ui.features.graph.graph_results import LEVELS
from ui.features.graph.palette import HITS, LETTERS, ink_on
from ui.shared.forms import FittingCombo
from ui.shared.labels import Label, literal
from ui.shared.tabs import name_scroll_buttons
from ui.shared.theme import Theme, icon
from workbench.errors import WorkbenchError
from workbench.graph.labels import elide
from workbench.graph.query import find
from workbench.graph.snapshot import GraphSnapshot
from workbench.project.model import SavedQuery

TEXT_LENGTH = 28
_PX = 14
_SPACING = 4


class SavedSearches(QWidget):
    """A button for each saved search; hidden if there is none.

    Signals:
        shown_asked: the text of a search and whether its hits are to be coloured.
        forget_asked: the text of a search to delete.
        find_asked: the text of a search to put into the box.
    """

    shown_asked = Signal(str, bool)
    forget_asked = Signal(str)
    find_asked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._queries: tuple[SavedQuery, ...] = ()
        self._counts: tuple[str, ...] = ()
        self.buttons: list[QToolButton] = []
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(6, 0, 6, 2)
        self._row.setSpacing(4)
        label = Label("Saved searches:", self)
        label.setObjectName("Hint")
        self._row.addWidget(label)
        self._row.addStretch(1)
        self.hide()

    def show_queries(self, queries: Sequence[SavedQuery], counts: Sequence[str]) -> None:
        """Show the searches with their counts of hits, or the reason why there is none."""
        if (tuple(queries), tuple(counts)) == (self._queries, self._counts):
            return
        self._queries, self._counts = tuple(queries), tuple(counts)
        for button in self.buttons:
            self._row.removeWidget(button)
            button.deleteLater()
        self.buttons = [self._button(k, q) for k, q in enumerate(self._queries)]
        for position, button in enumerate(self.buttons):
            self._row.insertWidget(1 + position, button)
        self.setVisible(bool(queries))

    def _button(self, number: int, query: SavedQuery) -> QToolButton:
        button = QToolButton(self)
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        button.setIcon(letter_icon(number))
        button.setText(f"{elide(query.text, TEXT_LENGTH)}  {self._counts[number]}")
        button.setCheckable(True)
        button.setChecked(query.shown)
        button.setToolTip(literal(f"{query.text}\nClick to show or hide its colour"))
        button.setAccessibleName(f"Saved search {LETTERS[number]}: {query.text}")
        button.clicked.connect(lambda on, text=query.text: self.shown_asked.emit(text, on))
        menu = QMenu(button)
        find = menu.addAction("Search again")
        find.triggered.connect(lambda _=False, text=query.text: self.find_asked.emit(text))
        forget = menu.addAction("Delete")
        forget.triggered.connect(lambda _=False, text=query.text: self.forget_asked.emit(text))
        button.setMenu(menu)
        button.setPopupMode(QToolButton.ToolButtonPopupMode.MenuButtonPopup)
        return button


def letter_icon(number: int) -> QIcon:
    """Return the icon of a saved search: its letter on its colour."""
    pixmap = QPixmap(2 * _PX, 2 * _PX)
    pixmap.setDevicePixelRatio(2)
    colour = QColor(HITS[number % len(HITS)])
    pixmap.fill(colour)
    painter = QPainter(pixmap)
    painter.setPen(ink_on(colour))
    painter.drawText(0, 0, _PX, _PX, Qt.AlignmentFlag.AlignCenter, LETTERS[number % len(LETTERS)])
    painter.end()
    return QIcon(pixmap)


PLAIN = "No overlay"


class OverlayBar(QWidget):
    """Selects the number that colours the graph.

    Signals:
        changed: the number or the scale changed.
    """

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._logs: dict[str, bool] = {}
        self._chosen_title = ""
        self.combo = FittingCombo(self)
        self.combo.setAccessibleName("Overlay")
        self.combo.setToolTip("Overlay: colour operations by a number")
        self.combo.addItem(PLAIN, "")
        self.combo.activated.connect(self._on_activated)
        self.log = QToolButton(self)
        self.log.setText("log")
        self.log.setCheckable(True)
        self.log.setToolTip("Logarithmic colour scale")
        self.log.setAccessibleName("Logarithmic colours")
        self.log.clicked.connect(self._on_log)
        self.log.hide()
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(3)
        row.addWidget(self.log)
        row.addWidget(self.combo)

    @property
    def chosen(self) -> str:
        """The id of the selected number; "" for none."""
        return str(self.combo.currentData() or "")

    @property
    def is_log(self) -> bool:
        """Whether the scale of the selected number is logarithmic."""
        return self._logs.get(self.chosen, False)

    def offer(self, choices: Sequence[tuple[str, str, str, bool | None]]) -> None:
        """Set the numbers: id, title, origin, and whether the initial scale is logarithmic.

        The scale is None if a logarithmic scale makes no sense. The selected number stays selected
        while it is missing during a new run.
        """
        ids = [choice[0] for choice in choices]
        if ids != [self.combo.itemData(i) for i in range(1, self.combo.count())]:
            while self.combo.count() > 1:
                self.combo.removeItem(1)
            for number, (name, title, how, _) in enumerate(choices, 1):
                self.combo.addItem(f"{title} ({how})", name)
                tip = Qt.ItemDataRole.ToolTipRole
                self.combo.setItemData(number, literal(f"{title}, {how}"), tip)
        for name, _, _, scale in choices:
            if scale is not None:
                self._logs.setdefault(name, scale)
        self.combo.setCurrentIndex(ids.index(self._chosen_title) + 1 if self._chosen_title in ids else 0)
        self._show_log()

    def prefer(self, title: str) -> None:
        """Select a number by its id as soon as it is offered."""
        self._chosen_title = title

    def _on_activated(self, index: int) -> None:
        self._chosen_title = str(self.combo.itemData(index) or "")
        self._show_log()
        self.changed.emit()

    def _on_log(self, checked: bool) -> None:
        self._logs[self.chosen] = checked
        self.changed.emit()

    def _show_log(self) -> None:
        self.log.setVisible(self.chosen in self._logs)
        self.log.setChecked(self.is_log)


SYNTAX = """<table cellspacing="3">
<tr><td><b>conv</b></td><td>in a name, operator, module, kind or dtype</td></tr>
<tr><td><b>"conv2d"</b></td><td>exactly this name or part of a dotted name</td></tr>
<tr><td><b>op:</b>add <b>module:</b>enc.* <b>dtype:</b>int8</td><td>one field; also
  kind:, name:, source:; * is anything</td></tr>
<tr><td><b>1,3,224,224</b></td><td>a shape; * is any size</td></tr>
<tr><td><b>sqnr&lt;20</b> <b>cycles&gt;1e5</b></td><td>a number (available: %s)</td></tr>
<tr><td><b>-relu</b></td><td>exclude; all terms must match</td></tr>
</table>Enter or F3: next hit. Shift: previous hit."""


class GraphSearch(QWidget):
    """Searches operations of a graph.

    Signals:
        chosen: the ids of operations to select, as a frozenset.
        left: Esc was pressed; the focus goes back to the graph.
        keep_asked: the text of a search to save.
    """

    chosen = Signal(object)
    left = Signal()
    keep_asked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._snapshot: GraphSnapshot | None = None
        self._numbers: Mapping[str, Mapping[str, float]] = {}
        self._hits: tuple[str, ...] = ()
        self._position = -1
        self.box = QLineEdit(self)
        self.box.setPlaceholderText("Find:  conv   op:add   sqnr<20   1,*,8,8")
        self.box.setAccessibleName("Find in the graph")
        self.box.setClearButtonEnabled(True)
        self.box.setMinimumWidth(120)
        self.box.textEdited.connect(self._on_edited)
        self.box.textChanged.connect(self._on_changed)
        self.box.installEventFilter(self)
        self.count = Label(self)
        self.count.setObjectName("Hint")
        self._buttons: dict[str, QToolButton] = {}
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(3)
        row.addWidget(self.box, 1)
        row.addWidget(self.count)
        self._add("up", "Previous (Shift+Enter)", lambda: self.step(-1))
        self._add("down", "Next (Enter, F3)", lambda: self.step(1))
        words = "Save this search and colour its hits"
        self._add("keep", words, lambda: self.keep_asked.emit(self.box.text().strip()))
        self._all = QToolButton(self)
        self._all.setText("Select all")
        self._all.setToolTip("Select all hits")
        self._all.clicked.connect(self.choose_all)
        row.addWidget(self._all)
        self._show_hint()
        self._render()

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        for name, button in self._buttons.items():
            button.setIcon(icon(name, theme.text))

    def set_ground(self, snapshot: GraphSnapshot | None, numbers: Mapping[str, Mapping[str, float]]) -> None:
        """Set the graph to search, and its numbers per operation."""
        if snapshot is self._snapshot and numbers == self._numbers:
            return
        self._snapshot, self._numbers = snapshot, numbers
        self._show_hint()
        if self.box.text():
            self._search()

    def ask(self) -> None:
        """Focus the search box and select its text."""
        self.box.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.box.selectAll()

    def look_for(self, text: str) -> None:
        """Search for a text."""
        self.box.setText(text)
        self._search()
        self.box.setFocus()

    def step(self, direction: int) -> None:
        """Select the next or the previous hit, cyclically."""
        if not self._hits:
            return
        if self._position < 0:
            self._position = 0 if direction > 0 else len(self._hits) - 1
        else:
            self._position = (self._position + direction) % len(self._hits)
        self._render()
        self.chosen.emit(frozenset({self._hits[self._position]}))

    def choose_all(self) -> None:
        """Select all hits."""
        if self._hits:
            self._position = -1
            self._render()
            self.chosen.emit(frozenset(self._hits))
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
        button.setToolTip(literal(words))
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
        # The clear button does not emit textEdited.
        if not text:
            self._search()

    def _search(self) -> None:
        self._hits, self._position = (), -1
        problem = ""
        if self._snapshot is not None:
            try:
                self._hits = find(self.box.text(), self._snapshot, self._numbers)
            except WorkbenchError as error:
                problem = f"{error.infos[0].message} {error.infos[0].hint}".strip()
        self._render(problem)

    def _render(self, problem: str = "") -> None:
        total = len(self._hits)
        if problem:
            self.count.setText(problem.partition(". ")[0])
        elif not self.box.text().strip():
            self.count.setText("")
        elif self._position >= 0:
            self.count.setText(f"{self._position + 1} of {total:,}")
        else:
            self.count.setText(f"{total:,} found" if total else "no hits")
        self.count.setToolTip(literal(problem))
        for widget in (*self._buttons.values(), self._all):
            widget.setVisible(total > 0)

    def _show_hint(self) -> None:
        numbers = ", ".join(map(escape, sorted(self._numbers)))
        self.box.setToolTip(SYNTAX % (numbers or "none"))


class ToolRow(QWidget):
    """Tool buttons at the right of a row. Buttons without space move into the menu "More".

    Attributes:
        more: The button of the menu; visible if at least one tool does not fit.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._tools: list[QToolButton] = []
        self.more = self._button("More tools")
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._menu = QMenu(self.more)
        self._menu.aboutToShow.connect(self._fill_menu)
        self.more.setMenu(self._menu)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def add_tool(self, text: str) -> QToolButton:
        """Append a button with this tooltip."""
        button = self._button(text)
        self._tools.append(button)
        self.updateGeometry()
        return button

    def add_menu(self, text: str) -> tuple[QToolButton, QMenu]:
        """Append a button that opens a menu."""
        button = self.add_tool(text)
        menu = QMenu(text, button)
        button.setMenu(menu)
        button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        return button, menu

    def sizeHint(self) -> QSize:
        widths = [tool.sizeHint().width() for tool in self._tools]
        return QSize(sum(widths) + _SPACING * len(widths), self._height())

    def minimumSizeHint(self) -> QSize:
        return QSize(self.more.sizeHint().width(), self._height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        count = len(self._tools)
        if self.sizeHint().width() > self.width():
            free = self.width() - self.more.sizeHint().width()
            count = 0
            for tool in self._tools:
                free -= tool.sizeHint().width() + _SPACING
                if free < 0:
                    break
                count += 1
        self.more.setVisible(count < len(self._tools))
        right = self.width()
        shown = [*self._tools[:count], *([self.more] if count < len(self._tools) else [])]
        for button in reversed(shown):
            size = button.sizeHint()
            right -= size.width()
            button.setGeometry(right, (self.height() - size.height()) // 2, size.width(), size.height())
            right -= _SPACING
        for number, tool in enumerate(self._tools):
            tool.setVisible(number < count)

    def _fill_menu(self) -> None:
        self._menu.clear()
        for tool in self._tools:
            if tool.isVisible():
                continue
            if tool.menu() is not None:
                self._menu.addMenu(tool.menu())
            else:
                action = self._menu.addAction(tool.icon(), tool.toolTip())
                action.triggered.connect(tool.click)

    def _height(self) -> int:
        return max((tool.sizeHint().height() for tool in self._tools), default=0)

    def _button(self, text: str) -> QToolButton:
        button = QToolButton(self)
        button.setToolTip(literal(text))
        button.setAccessibleName(text)
        return button


TOOLS = (
    ("back", "Back (Alt+Left)"),
    ("forward", "Forward (Alt+Right)"),
    ("fit", "Fit (F)"),
    ("expand", "Open all groups"),
    ("collapse", "Close all groups"),
)
MENUS = (
    ("nest", "Grouping"),
    ("flow", "Direction"),
    ("beside", "Compare side by side"),
    ("bookmark", "Bookmarks"),
    ("save", "Save image"),
)
SHAPES = (
    ("modules", "Group by module"),
    ("folded", "Group by module, fold repeated blocks"),
    ("flat", "No grouping"),
)
FIRST_SHAPE = "folded"
FLOWS = (("down", "Top to bottom"), ("right", "Left to right"), ("wrapped", "Wrapped into columns"))


class GraphBar(QWidget):
    """Three rows: levels and tools, search and overlay, and saved searches if there are any.

    Signals:
        picture_asked: ``png`` or ``svg``.
        shape_asked: ``modules``, ``folded`` or ``flat``.
        flow_asked: ``down``, ``right`` or ``wrapped``.
    """

    picture_asked = Signal(str)
    shape_asked = Signal(str)
    flow_asked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.tabs = QTabBar(self)
        self.tabs.setAccessibleName("Graph level")
        self.tabs.setExpanding(False)
        self.tabs.setDrawBase(False)
        # Tabs keep their full width; the tools beside them make room.
        self.tabs.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        name_scroll_buttons(self.tabs)
        for level in LEVELS:
            self.tabs.addTab(level.title)
            self.tabs.setTabToolTip(self.tabs.count() - 1, level.words)
        # The Tab key follows the order in which widgets are made.
        self.tool_row = ToolRow(self)
        self.search = GraphSearch(self)
        self.overlay = OverlayBar(self)
        self.tools = {name: self.tool_row.add_tool(text) for name, text in TOOLS}
        self.menus: dict[str, QMenu] = {}
        for name, text in MENUS:
            self.tools[name], self.menus[name] = self.tool_row.add_menu(text)
        self._fill_menus()
        self.saved = SavedSearches(self)
        self._arrange()

    @property
    def level(self) -> str:
        """The id of the selected level."""
        return LEVELS[self.tabs.currentIndex()].id

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        self.search.set_theme(theme)
        for name, button in self.tools.items():
            button.setIcon(icon(name, theme.text))
        self.tool_row.more.setIcon(icon("more", theme.text))

    def _arrange(self) -> None:
        first, second = QHBoxLayout(), QHBoxLayout()
        for row in (first, second):
            row.setContentsMargins(6, 2, 6, 2)
            row.setSpacing(_SPACING)
        first.addWidget(self.tabs)
        first.addWidget(self.tool_row, 1)
        second.addWidget(self.search, 1)
        second.addSpacing(8)
        second.addWidget(self.overlay)
        rows = QVBoxLayout(self)
        rows.setContentsMargins(0, 0, 0, 0)
        rows.setSpacing(0)
        rows.addLayout(first)
        rows.addLayout(second)
        rows.addWidget(self.saved)

    def _fill_menus(self) -> None:
        for suffix in ("png", "svg"):
            action = self.menus["save"].addAction(f"Save as {suffix.upper()}\u2026")
            action.triggered.connect(lambda _=False, s=suffix: self.picture_asked.emit(s))
        for name, choices, asked in (("nest", SHAPES, self.shape_asked), ("flow", FLOWS, self.flow_asked)):
            group = QActionGroup(self)
            for value, words in choices:
                action = group.addAction(words)
                action.setCheckable(True)
                action.setData(value)
                action.triggered.connect(partial(_emit, asked, value))
                self.menus[name].addAction(action)
        self.render_choices(FIRST_SHAPE, FLOWS[0][0])

    def render_choices(self, shape: str, flow: str) -> None:
        """Check the actions of the present grouping and direction."""
        for name, present in (("nest", shape), ("flow", flow)):
            for action in self.menus[name].actions():
                action.setChecked(action.data() == present)


def _emit(signal: SignalInstance, value: str, _checked: bool = False) -> None:
    signal.emit(value)

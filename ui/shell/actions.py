"""The action table: one row per action of the menus, shortcuts and the command palette."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QSize, Qt
from PySide6.QtGui import QKeyEvent, QPainter, QPalette
from PySide6.QtWidgets import (
    QFrame,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from ui.shared.chip import AnyIndex
from ui.shell.panels import PANELS, WORKSPACES


@dataclass(frozen=True)
class ActionRow:
    """One action. ``menu`` is its menu; an id of "-" is a separator."""

    id: str
    menu: str
    text: str = ""
    keys: str = ""
    icon: str = ""


MENUS = ("&File", "&Edit", "&Run", "&View", "&Help")
LINE = "-"

ACTIONS: tuple[ActionRow, ...] = (
    ActionRow("new", "&File", "&New project\u2026", "Ctrl+N", "new"),
    ActionRow("recipe", "&File", "New from a &recipe\u2026"),
    ActionRow("open", "&File", "&Open\u2026", "Ctrl+O", "open"),
    ActionRow("sample", "&File", "Open a &sample\u2026"),
    ActionRow("import_command", "&File", "&Import aot_arm_compiler command\u2026"),
    ActionRow(LINE, "&File"),
    ActionRow("save", "&File", "&Save", "Ctrl+S", "save"),
    ActionRow("save_as", "&File", "Save &as\u2026", "Ctrl+Shift+S"),
    ActionRow("close", "&File", "&Close project", "Ctrl+W"),
    ActionRow(LINE, "&File"),
    ActionRow("preferences", "&File", "&Preferences\u2026", "Ctrl+,"),
    ActionRow("toolchains", "&File", "&Toolchains\u2026"),
    ActionRow("quit", "&File", "&Quit", "Ctrl+Q"),
    ActionRow("palette", "&Edit", "&Command palette\u2026", "Ctrl+K", "palette"),
    ActionRow("settings", "&Edit", "Project &settings\u2026", "Ctrl+E", "settings"),
    ActionRow("target", "&Edit", "&Target options\u2026"),
    ActionRow("plugins", "&Edit", "&Plug-ins\u2026"),
    ActionRow(LINE, "&Edit"),
    ActionRow("import_mase", "&Edit", "&Import MASE pass_args\u2026"),
    ActionRow("export_mase", "&Edit", "&Export MASE pass_args\u2026"),
    ActionRow("run_all", "&Run", "Run &all", "F5", "run"),
    ActionRow("run_evaluate", "&Run", "Run to &Evaluate", "F6"),
    ActionRow("run_lower", "&Run", "Run to Com&pile", "F7"),
    ActionRow("live", "&Run", "E&valuate automatically", "F8"),
    ActionRow("cancel", "&Run", "&Cancel all jobs", "Ctrl+.", "stop"),
    ActionRow("blame", "&Run", "&Find rejected operators"),
    ActionRow("deliver", "&Run", "Export &deliverables\u2026", "", "save"),
    ActionRow("inside", "&Run", "&Inspect the .pte"),
    ActionRow("report", "&Run", "Export &report\u2026"),
    ActionRow("overlays", "&Run", "Export for &Model Explorer and Perfetto\u2026"),
    ActionRow("theme", "&View", "Toggle &dark theme", "Ctrl+Shift+L", "moon"),
    *(
        ActionRow(f"workspace_{row.id}", "&View", f"Workspace {row.title}", f"Ctrl+{number}")
        for number, row in enumerate(WORKSPACES)
    ),
    ActionRow(LINE, "&View"),
    ActionRow("sides", "&View", "Side &panels", "Ctrl+B", "beside"),
    ActionRow("default_layout", "&View", "&Reset layout"),
    ActionRow("save_layout", "&View", "&Save layout\u2026"),
    ActionRow("help", "&Help", "&Help for this panel", "F1", "question"),
    ActionRow("guide", "&Help", "&Guide"),
    ActionRow("shortcuts", "&Help", "&Keyboard shortcuts"),
    ActionRow("glossary", "&Help", "G&lossary"),
    ActionRow(LINE, "&Help"),
    ActionRow("doctor", "&Help", "&System check\u2026"),
    ActionRow("about", "&Help", "&About"),
)


_SHOWN = 60
_WIDTH_PX = 560


@dataclass(frozen=True)
class Entry:
    """One entry of the command palette: an action, a module or a node; ``words`` find it, too."""

    text: str
    kind: str
    run: Callable[[], None]
    words: str = ""

    def rank(self, query: str) -> int | None:
        """Return how well the entry matches what was typed; see ``rank``."""
        sought = query.lower().strip()
        is_known = bool(sought) and any(word.startswith(sought) for word in self.words.split())
        return 0 if is_known else rank(self.text, query)


# What the field calls the content of a panel, by the action that shows it.
OTHER_WORDS = {
    "go_training": "qat fine-tuning retraining",
    "go_weight_transforms": "gptq adaround smoothquant awq equalization rounding",
    "go_search": "nas optuna mixed-precision pareto",
    "go_ranges": "calibration histogram observer minmax percentile",
    "go_accuracy": "sqnr top-1 verify error",
    "go_cost": "cycles latency macs performance",
    "go_graph": "tosa edge exported",
    "go_timeline": "profile perfetto trace",
    "go_memory": "sram arena allocation",
    "go_devices": "sweep boards",
    "go_deliverables": "pte firmware export files",
    "go_simulator": "fvp corstone",
    "target": "board device memory clock",
}


# From this rank on the letters of a text are scattered over it.
_SCATTERED = 1000


def rank(text: str, query: str) -> int | None:
    """Return how well ``text`` matches what was typed: smaller is better, None is no match.

    All letters must occur in order. Whole words and early positions rank better.
    """
    low, sought = text.lower(), query.lower().strip()
    if not sought:
        return 0
    at = low.find(sought)
    if at >= 0:
        return at if at == 0 or not low[at - 1].isalnum() else 20 + at
    position, cost = 0, _SCATTERED
    for letter in sought.replace(" ", ""):
        index = low.find(letter, position)
        if index < 0:
            return None
        cost += index - position
        position = index + 1
    return cost


class _EntryDelegate(QStyledItemDelegate):
    """Paints the kind of an entry at the right in a muted colour."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: AnyIndex) -> None:
        super().paint(painter, option, index)
        entry = index.data(Qt.ItemDataRole.UserRole)
        if isinstance(entry, Entry):
            painter.save()
            painter.setPen(option.palette.color(QPalette.ColorRole.PlaceholderText))
            right = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            painter.drawText(option.rect.adjusted(0, 0, -10, 0), right, entry.kind)
            painter.restore()


class CommandPalette(QFrame):
    """A search line and a list over the window. Enter runs the current entry, Esc closes."""

    def __init__(self, parent: QWidget) -> None:
        # A window of its own: a floated panel would cover it and keep the keys.
        super().__init__(parent, Qt.WindowType.Popup)
        self.setObjectName("Palette")
        self._over = parent
        self._entries: Sequence[Entry] = ()
        self.line = QLineEdit(self)
        self.line.setPlaceholderText("Search actions, modules and nodes")
        self.line.setAccessibleName("Search actions, modules and nodes")
        self.line.textEdited.connect(self._show)
        self.line.installEventFilter(self)
        self.list = QListWidget(self)
        self.list.setAccessibleName("Matches")
        self.list.setUniformItemSizes(True)
        self.list.setItemDelegate(_EntryDelegate(self.list))
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.itemClicked.connect(self._on_item_chosen)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(6, 6, 6, 6)
        layout.addWidget(self.line)
        layout.addWidget(self.list)
        self.hide()

    def ask(self, entries: Sequence[Entry]) -> None:
        """Open with these entries."""
        self._entries = entries
        self.line.clear()
        self._show("")
        window = self._over
        height = min(420, window.height() - 120)
        corner = window.mapToGlobal(QPoint((window.width() - _WIDTH_PX) // 2, 60))
        self.setGeometry(QRect(corner, QSize(_WIDTH_PX, height)))
        self.show()
        self.line.setFocus(Qt.FocusReason.PopupFocusReason)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() != QEvent.Type.KeyPress or not isinstance(event, QKeyEvent):
            return super().eventFilter(watched, event)
        match event.key():
            case Qt.Key.Key_Escape:
                self.hide()
            case Qt.Key.Key_Down | Qt.Key.Key_Up:
                step = 1 if event.key() == Qt.Key.Key_Down else -1
                row = self.list.currentRow() + step
                self.list.setCurrentRow(max(0, min(row, self.list.count() - 1)))
            case Qt.Key.Key_Return | Qt.Key.Key_Enter:
                if (item := self.list.currentItem()) is not None:
                    self._on_item_chosen(item)
            case _:
                return False
        return True

    def _show(self, text: str) -> None:
        ranked = ((entry.rank(text), entry) for entry in self._entries)
        fitting = [(cost, entry) for cost, entry in ranked if cost is not None]
        if any(cost < _SCATTERED for cost, _ in fitting):
            # Single letters in order say little beside a word.
            fitting = [(cost, entry) for cost, entry in fitting if cost < _SCATTERED]
        fitting.sort(key=lambda pair: (pair[0], len(pair[1].text) if text else 0))
        self.list.clear()
        for _, entry in fitting[:_SHOWN]:
            item = QListWidgetItem(entry.text, self.list)
            item.setData(Qt.ItemDataRole.UserRole, entry)
            item.setData(Qt.ItemDataRole.AccessibleTextRole, f"{entry.text}, {entry.kind}")
        if not fitting:
            QListWidgetItem("No matches", self.list).setFlags(Qt.ItemFlag.NoItemFlags)
        self.list.setCurrentRow(0)

    def _on_item_chosen(self, item: QListWidgetItem) -> None:
        entry = item.data(Qt.ItemDataRole.UserRole)
        self.hide()
        if isinstance(entry, Entry):
            entry.run()


def shortcut_pages() -> dict[str, str]:
    """Return the guide's page of keyboard shortcuts, by file name."""
    from workbench.guide import NOTE, table

    lines = ["# Keyboard shortcuts", "", NOTE.format("ui.shell.actions")]
    lines += [
        "On macOS, Ctrl is the command key. Shortcuts of a single panel are listed on the "
        "page of that panel.",
        "",
        "## Menus",
        "",
    ]
    rows = [row for row in ACTIONS if row.id != LINE]
    lines += table(
        ("menu", "action", "keys"),
        [(_plain(row.menu), _plain(row.text), f"`{row.keys}`" if row.keys else "") for row in rows],
    )
    lines += ["## Panels", ""]
    lines += table(
        ("panel", "keys"),
        [
            (f"[{row.title}](../user/{row.id}.md)", f"`Alt+{number}`" if number <= 9 else "")
            for number, row in enumerate(PANELS, 1)
        ],
    )
    return {"shortcuts.md": "\n".join(lines).rstrip() + "\n"}


def _plain(text: str) -> str:
    """Return a menu text without the ampersand of its access key."""
    return text.replace("&", "")


def main(arguments: Sequence[str]) -> int:
    """Write the page of shortcuts with ``--write``; without it return 1 if it is out of date."""
    from workbench.guide import write_or_compare

    return write_or_compare(shortcut_pages(), write="--write" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

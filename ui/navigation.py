"""Going to places: from a problem, a notice or the palette to where a thing is shown."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QUrl
from PySide6.QtGui import QDesktopServices

from ui.main_window import MainWindow
from ui.panel import PanelContext
from ui.widgets.command_palette import Entry
from workbench.errors import Place


class Navigation(QObject):
    """Knows which panel shows what."""

    def __init__(self, context: PanelContext, window: MainWindow) -> None:
        super().__init__(window)
        self._context, self._window = context, window
        context.notices.place_asked.connect(self.go)

    def go(self, place: Place) -> None:
        """Show a place."""
        selection = self._context.selection
        match place.kind:
            case "module":
                self._window.reveal("modules")
                selection.choose_modules([place.id])
            case "node" | "tensor":
                panel = self._window.reveal("graph")
                if (show := getattr(panel, "show_node", None)) is not None:
                    show(place.id)
                selection.choose_nodes([place.id])
            case "rule":
                self._window.reveal("rules")
                selection.choose_rule(place.id)
            case "sample" if place.id.isdigit():
                panel = self._window.reveal("sample")
                if (look_at := getattr(panel, "look_at", None)) is not None:
                    look_at(int(place.id))
            case "file":
                folder = (self._context.document.folder / Path(place.id)).parent
                QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))
            case "stage" | "tool":
                self._window.reveal("log")
            case _:
                self._window.reveal("problems")

    def ask(self) -> None:
        """Open the palette."""
        self._window.palette_box.ask(list(self._entries()))

    def _entries(self) -> Iterator[Entry]:
        for action in self._window.actions_by_id.values():
            if action.isEnabled():
                text = action.text().replace("&", "").rstrip("\u2026")
                keys = action.shortcut().toString()
                yield Entry(text, keys or "action", action.trigger)
        for module in self._context.outline.modules:
            if module.path:
                place = Place(kind="module", id=module.path)
                name = module.type_name.rpartition(".")[2]
                yield Entry(module.path, name, partial(self.go, place))
        snapshot = self._context.outline.snapshot
        for node in snapshot.nodes if snapshot else ():
            if node.kind == "call":
                yield Entry(node.id, node.op, partial(self.go, Place(kind="node", id=node.id)))

"""Where to save the picture of the graph, asked of the user."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog

from workbench.errors import WorkbenchError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ui.graph.view import GraphView


def ask_picture_file(
    view: GraphView, folder: Path, name: str, failed: Callable[[WorkbenchError], object]
) -> None:
    """Ask for a file and write what the view shows; the name's suffix says in which form."""
    dialog = QFileDialog(view, "Save the picture", str(folder))
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setDefaultSuffix(Path(name).suffix.removeprefix("."))
    dialog.selectFile(name)
    dialog.fileSelected.connect(lambda chosen: save_picture(view, Path(chosen), failed))
    dialog.open()


def save_picture(view: GraphView, path: Path, failed: Callable[[WorkbenchError], object]) -> None:
    """Write what the view shows as SVG or PNG; tell what went wrong."""
    export = view.export_svg if path.suffix.lower() == ".svg" else view.export_png
    try:
        export(path)
    except WorkbenchError as error:
        failed(error)

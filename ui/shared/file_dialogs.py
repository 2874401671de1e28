"""File dialogs that open in the folder of the last choice, and the files that projects take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, QSize, Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QDialogButtonBox,
    QFileDialog,
    QHeaderView,
    QLineEdit,
    QPushButton,
    QToolButton,
    QTreeView,
    QWidget,
)

from ui.shared.theme import icon
from ui.state.settings import Settings
from workbench.files import make_output_folder

Chosen = Callable[[str], object]

# Name filters of files that projects take.
MODELS = "Models (*.pt2 *.onnx *.py)"
MODEL_FORMS = ".pt2, .onnx, .py or package.module:callable"
WEIGHTS = "Weights (*.safetensors *.pt *.pth *.ckpt)"
DATA = "Data (*.npz *.npy *.pt *.txt *.py)"
# Names of files that hold nothing but weights; a .pt file may be data.
WEIGHT_SUFFIXES = frozenset({".safetensors", ".pth", ".ckpt"})

_WIDE_PX, _HIGH_PX = 860, 520
# Where a dialog of a title began, beside the folder that was chosen from there.
_START = "{}, began in"
# The buttons of Qt's file dialog, by their object names, and their icons.
_ARROWS = {"backButton": "back", "forwardButton": "forward", "toParentButton": "up"}


def ask_to_open(
    parent: QWidget,
    title: str,
    chosen: Chosen,
    *,
    start: Path | None = None,
    filters: Sequence[str] = (),
    folder: bool = False,
) -> QFileDialog:
    """Open a dialog for an existing file or folder, and return it.

    Args:
        parent: The widget it belongs to.
        title: The title. Dialogs of one title and one ``start`` share the remembered folder.
        chosen: Called with the chosen path.
        start: Where it opens the first time, e.g. the project's folder; None is the home folder.
        filters: Name filters.
        folder: Whether a folder is chosen rather than a file.
    """
    mode = QFileDialog.FileMode
    dialog = _prepared(QFileDialog(parent, title), title, start, filters)
    dialog.setFileMode(mode.Directory if folder else mode.ExistingFile)
    _remember(dialog, title, start, chosen, is_inside=folder)
    return dialog


class _OutputFolderDialog(QFileDialog):
    """A dialog for a folder to write into. A folder that is not there is made."""

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        box = self.findChild(QDialogButtonBox)
        if box is not None:
            for button in box.buttons():
                if box.buttonRole(button) == QDialogButtonBox.ButtonRole.AcceptRole:
                    button.installEventFilter(self)
                    button.setEnabled(True)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        # Qt disables the button for a name that is not there yet.
        if (
            event.type() == QEvent.Type.EnabledChange
            and isinstance(watched, QPushButton)
            and not watched.isEnabled()
        ):
            name = self.findChild(QLineEdit)
            watched.setEnabled(name is not None and bool(name.text().strip()))
        return super().eventFilter(watched, event)

    def accept(self) -> None:
        for path in map(Path, self.selectedFiles()):
            if not path.exists() and path.parent.is_dir():
                # Where it cannot be made, the dialog says that it is not there.
                with suppress(OSError):
                    make_output_folder(path)
        super().accept()


def ask_for_output_folder(
    parent: QWidget, title: str, chosen: Chosen, name: str, *, start: Path | None = None
) -> QFileDialog:
    """Open a dialog for a folder to write into, and return it.

    ``name`` is the proposed name of a new folder; "" proposes none. See ``ask_to_open``.
    """
    dialog = _prepared(_OutputFolderDialog(parent, title), title, start, ())
    dialog.setFileMode(QFileDialog.FileMode.Directory)
    if name:
        dialog.selectFile(name)
    _remember(dialog, title, start, chosen, is_inside=not name)
    return dialog


def ask_to_save(
    parent: QWidget,
    title: str,
    chosen: Chosen,
    name: str,
    *,
    filters: Sequence[str],
    start: Path | None = None,
) -> QFileDialog:
    """Open a dialog for a file to write, and return it.

    ``name`` is the proposed name; its suffix is added to names without one. See ``ask_to_open``.
    """
    dialog = _prepared(QFileDialog(parent, title), title, start, filters)
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setDefaultSuffix(Path(name).suffix.removeprefix("."))
    dialog.selectFile(name)
    _remember(dialog, title, start, chosen, is_inside=False)
    return dialog


def _prepared(dialog: QFileDialog, title: str, start: Path | None, filters: Sequence[str]) -> QFileDialog:
    settings = Settings()
    # What was chosen from another project's folder is no place for this one's files.
    is_same = start is None or settings.folder_of(_START.format(title)) == start
    last = settings.folder_of(title) if is_same else None
    dialog.setDirectory(str(last or start or Path.home()))
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    if filters:
        dialog.setNameFilters(list(filters))
    dialog.resize(QSize(_WIDE_PX, _HIGH_PX).boundedTo(dialog.screen().availableSize()))
    if (files := dialog.findChild(QTreeView, "treeView")) is not None:
        # Size, type and date take what they need: Qt cuts them and lets the date leave the dialog.
        header = files.header()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
    # Qt's own arrows are black in every theme. A dialog of the system has no such buttons.
    colour = dialog.palette().text().color().name()
    for name, picture in _ARROWS.items():
        for button in dialog.findChildren(QToolButton, name):
            button.setIcon(icon(picture, colour))
    return dialog


def _remember(
    dialog: QFileDialog, title: str, start: Path | None, chosen: Chosen, *, is_inside: bool
) -> None:
    """Open the dialog; the next one opens in the chosen folder, or in that of the chosen path."""

    def take(path: str) -> None:
        settings = Settings()
        settings.remember_folder(title, Path(path) if is_inside else Path(path).parent)
        if start is not None:
            settings.remember_folder(_START.format(title), start)
        chosen(path)

    dialog.fileSelected.connect(take)
    dialog.open()

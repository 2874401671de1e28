"""The board of the project, chosen from those that are known or from a file."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QStandardItemModel
from PySide6.QtWidgets import QComboBox, QFileDialog, QWidget

from ui.relocate import relative_to
from workbench.deploy.boards import Board, all_boards
from workbench.errors import WorkbenchError
from workbench.project.board_files import SUFFIX

_OTHER = "\n"
_TITLE_CHARACTERS = 44


class BoardBox(QComboBox):
    """A combo box of boards; it reads their files only when it is opened.

    Signals:
        chosen: id of a board or path of its file, relative to the project; "" is no board.
    """

    chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._board, self._folder = "", Path()
        self.setAccessibleName("Board")
        self.setToolTip("The board that the program is for: sets device, memory mode and limits")
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.activated.connect(self._on_activated)
        self.render_board("", Path())

    def render_board(self, board: str, folder: Path) -> None:
        """Show the project's board; ``folder`` is where its relative paths start."""
        self._board, self._folder = board, folder
        self.clear()
        self.addItem(_spoken(board), board)

    def showPopup(self) -> None:
        self.fill()
        super().showPopup()

    def fill(self) -> None:
        """Offer no board, every board that is known, and a file."""
        self.clear()
        self.addItem(_spoken(""), "")
        for name, board in all_boards().items():
            self._add(name, board)
        if self._board.endswith(SUFFIX):
            self.addItem(_spoken(self._board), self._board)
        self.insertSeparator(self.count())
        self.addItem("From a file\u2026", _OTHER)
        self.setCurrentIndex(max(self.findData(self._board), 0))
        self.view().setMinimumWidth(self.view().sizeHintForColumn(0) + 24)

    def _add(self, name: str, board: Board | WorkbenchError) -> None:
        self.addItem(board.title[:_TITLE_CHARACTERS] if isinstance(board, Board) else name, name)
        row = self.count() - 1
        if isinstance(board, Board):
            self.setItemData(row, _described(board), Qt.ItemDataRole.ToolTipRole)
            return
        told = "\n".join(info.message for info in board.infos)
        self.setItemText(row, f"{name}: cannot be used")
        self.setItemData(row, told, Qt.ItemDataRole.ToolTipRole)
        model = self.model()
        assert isinstance(model, QStandardItemModel)
        model.item(row).setEnabled(False)

    def _on_activated(self, row: int) -> None:
        board = str(self.itemData(row) or "")
        self.render_board(self._board, self._folder)
        if board == _OTHER:
            self._ask()
        elif board != self._board:
            self.chosen.emit(board)

    def _ask(self) -> None:
        dialog = QFileDialog(self, "Description of a board", str(self._folder))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.setNameFilter(f"Boards (*{SUFFIX})")
        dialog.fileSelected.connect(
            lambda name: self.chosen.emit(relative_to(Path(name), self._folder))
        )
        dialog.open()


def _spoken(board: str) -> str:
    return Path(board).stem if board else "No board"


def _described(board: Board) -> str:
    def doubt(confirmed: bool) -> str:
        return "" if confirmed else " (not confirmed)"

    lines = [board.title]
    lines += [f"{', '.join(npu.devices)}{doubt(npu.confirmed)}" for npu in board.npu]
    lines += [
        f"{m.name}: {f'{m.bytes / 1024:,.0f} KiB' if m.bytes else 'size not known'}"
        f"{doubt(m.confirmed) if m.bytes else ''}"
        for m in board.memory
    ]
    return "\n".join(lines)

"""Form of the target and its options. Offers only valid combinations."""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import partial
from pathlib import Path

from pydantic import JsonValue
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QStandardItemModel
from PySide6.QtWidgets import QCheckBox, QComboBox, QFormLayout, QLineEdit, QWidget

from ui.shared.file_dialogs import ask_to_open
from ui.shared.forms import PathField
from ui.shared.labels import Label, literal
from ui.state.relocate import relative_to
from workbench.deploy.boards import Board, all_boards, load
from workbench.errors import WorkbenchError
from workbench.project.board_files import SUFFIX
from workbench.project.model import TargetChoice
from workbench.targets import TARGETS, target_of
from workbench.targets.base import Choice, OptionSpec
from workbench.text import whole_number

LABELS_PX = 148
BAR_OPTIONS = ("system_config", "memory_mode")


class TargetForm(QWidget):
    """Combo boxes for a device and its options.

    ``only`` are the names of the options to show, without headings; None shows all in groups.

    Signals:
        chosen: the edited ``TargetChoice``, complete and valid.
    """

    chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None, *, only: Collection[str] | None = None) -> None:
        super().__init__(parent)
        self._only = only
        self._sought = ""
        self._folder: Path | None = None
        self._choice: TargetChoice | None = None
        self.device = QComboBox(self)
        self.device.setAccessibleName("Target")
        self.device.setToolTip("Device that the model is quantized and compiled for")
        for target in TARGETS:
            for variant in target.variants:
                self.device.addItem(variant.title, variant.id)
        self.device.activated.connect(self._on_device_activated)
        self.fields: dict[str, QWidget] = {}
        self._groups: dict[str, Label] = {}
        self._layout = QFormLayout(self)
        self._layout.setHorizontalSpacing(10)
        self._layout.setVerticalSpacing(7)
        device = Label("Device", self)
        device.setMinimumWidth(LABELS_PX)
        self._layout.addRow(device, self.device)
        self._layout.setContentsMargins(0, 0, 0, 0)

    @property
    def choice(self) -> TargetChoice | None:
        """The present choice."""
        return self._choice

    def offer_devices(self, board: str, devices: Collection[str] | None) -> None:
        """Offer the devices of a board only; None is no board, which offers all."""
        model = self.device.model()
        assert isinstance(model, QStandardItemModel)
        for row in range(self.device.count()):
            is_offered = devices is None or self.device.itemData(row) in devices
            model.item(row).setEnabled(is_offered)
            why = "" if is_offered else f"{board} has no such NPU. Choose another board first."
            self.device.setItemData(row, literal(why), Qt.ItemDataRole.ToolTipRole)
        present = self._choice.id if self._choice is not None else ""
        self.device.setProperty("invalid", devices is not None and present not in devices)
        self.device.style().polish(self.device)

    def set_folder(self, folder: Path) -> None:
        """Set the folder that the project's paths are relative to."""
        self._folder = folder

    def show_options(self, only: Collection[str] | None) -> None:
        """Show other options of the target: these, or all of them if None."""
        self._only = only
        if self._choice is not None:
            self.render_choice(self._choice)

    def find_options(self, text: str) -> None:
        """Show the options alone whose title, name or description contains a text."""
        self._sought = text.strip().casefold()
        if self._choice is not None:
            self.render_choice(self._choice)

    def _is_shown(self, option: OptionSpec) -> bool:
        is_chosen = self._only is None or option.name in self._only
        return is_chosen and any(
            self._sought in text.casefold() for text in (option.title, option.name, option.description)
        )

    def render_choice(self, choice: TargetChoice, folder: Path | None = None) -> None:
        """Show a choice, completed with defaults.

        ``folder`` is the folder that paths are relative to; None keeps the former one.
        """
        self._folder = folder or self._folder
        try:
            target = target_of(choice.id)
        except WorkbenchError:
            self.device.setCurrentIndex(-1)
            return
        complete = target.complete(choice, self._folder)
        self._choice = complete
        self.device.setCurrentIndex(self.device.findData(complete.id))
        options = target.options(complete, self._folder)
        shown = [option for option in options if self._is_shown(option)]
        self._show_only({o.name for o in shown}, {o.group for o in shown})
        for option in shown:
            self._show(option, complete.options.get(option.name, option.default))

    def _show_only(self, names: set[str], groups: set[str]) -> None:
        """Show only the fields of the present target."""
        for name, field in self.fields.items():
            self._layout.setRowVisible(field, name in names)
        for group, heading in self._groups.items():
            heading.setVisible(group in groups)

    def _show(self, option: OptionSpec, value: JsonValue) -> None:
        field = self.fields.get(option.name) or self._make(option)
        if isinstance(field, QComboBox):
            field.clear()
            for choice in option.choices:
                field.addItem(short_title(choice), choice.value)
                field.setItemData(field.count() - 1, choice.title, 3)
            field.setCurrentIndex(field.findData(value))
            titles = {c.value: c.title for c in option.choices if isinstance(c.value, str)}
            text = titles.get(value, "") if isinstance(value, str) else ""
            field.setToolTip(literal(f"{option.title}: {text}\n{option.description}"))
        elif isinstance(field, QCheckBox):
            field.setChecked(bool(value))
        elif not field.hasFocus():
            line = field.line if isinstance(field, PathField) else field
            assert isinstance(line, QLineEdit)
            text = f"{value:g}" if isinstance(value, float) else str(value)
            line.setText("" if value is None else text)

    def _make(self, option: OptionSpec) -> QWidget:
        field: QWidget
        if option.kind == "choice":
            combo = QComboBox(self)
            combo.activated.connect(partial(self._on_option_activated, option.name, combo))
            field = combo
        elif option.kind == "switch":
            box = QCheckBox(option.title, self)
            box.clicked.connect(partial(self._on_switched, option.name, box))
            field = box
        elif option.kind == "file":
            path = PathField(option.title, option.patterns, self)
            path.edited.connect(partial(self._on_path_edited, option.name))
            field = path
        else:
            line = QLineEdit(self)
            line.editingFinished.connect(partial(self._on_line_edited, option, line))
            field = line
        field.setAccessibleName(option.title)
        field.setToolTip(literal(option.description))
        self.fields[option.name] = field
        if option.group and option.group not in self._groups and self._only is None:
            heading = self._groups[option.group] = Label(option.group, self)
            heading.setObjectName("Subheading")
            self._layout.addRow(heading)
        self._layout.addRow("" if option.kind == "switch" else option.title, field)
        return field

    def _on_device_activated(self, row: int) -> None:
        options = self._choice.options if self._choice else {}
        device = str(self.device.itemData(row))
        choice = TargetChoice(id=device, options=options)
        self._tell(target_of(device).complete(choice, self._folder))

    def _on_option_activated(self, name: str, combo: QComboBox, row: int) -> None:
        self._take(name, combo.itemData(row))

    def _on_switched(self, name: str, box: QCheckBox) -> None:
        self._take(name, box.isChecked())

    def _on_line_edited(self, option: OptionSpec, line: QLineEdit) -> None:
        text = line.text().strip()
        if option.kind not in {"number", "real"}:
            self._take(option.name, text)
            return
        is_number = not text or (
            whole_number(text) is not None if option.kind == "number" else _is_real(text)
        )
        line.setProperty("invalid", not is_number)
        if is_number:
            self._take(option.name, _number(option, text))
        line.style().polish(line)

    def _on_path_edited(self, name: str, text: str) -> None:
        path = Path(text.strip())
        if path.is_absolute() and self._folder is not None:
            text = relative_to(path, self._folder)
        self._take(name, text.strip())

    def _take(self, name: str, value: JsonValue) -> None:
        if self._choice is None:
            return
        options = {**self._choice.options, name: value}
        choice = TargetChoice(id=self._choice.id, options=options)
        self._tell(target_of(choice.id).complete(choice, self._folder))

    def _tell(self, choice: TargetChoice) -> None:
        if choice != self._choice:
            self.render_choice(choice)
            self.chosen.emit(choice)


def short_title(choice: Choice) -> str:
    """Return the title of a choice without its explanation."""
    return choice.title.split(" (")[0].split(": ")[0]


def _is_real(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _number(option: OptionSpec, text: str) -> JsonValue:
    if not text:
        return option.default
    return int(text) if option.kind == "number" else float(text)


_OTHER = "\n"
_NO_BOARD = "No board"
_TITLE_CHARACTERS = 44


class BoardBox(QComboBox):
    """A combo box of boards. Reads the board files when it is opened.

    Signals:
        chosen: id of a board or path of its file, relative to the project; "" is no board.
    """

    chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._board, self._folder = "", Path()
        self.setAccessibleName("Board")
        self.setToolTip("Board of the program; sets device, memory mode and limits")
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.activated.connect(self._on_activated)
        self.render_board("", Path())

    def render_board(self, board: str, folder: Path) -> None:
        """Show the project's board; its paths are relative to ``folder``."""
        self._board, self._folder = board, folder
        self.clear()
        self.addItem(board_title(board, folder), board)

    def showPopup(self) -> None:
        self.fill()
        super().showPopup()

    def fill(self) -> None:
        """Fill the list: no board, all known boards, and a file."""
        self.clear()
        self.addItem(_NO_BOARD, "")
        for name, board in all_boards().items():
            self._add(name, board)
        if self._board.endswith(SUFFIX):
            self.addItem(board_title(self._board, self._folder), self._board)
        self.insertSeparator(self.count())
        self.addItem("From a file\u2026", _OTHER)
        self.setCurrentIndex(max(self.findData(self._board), 0))
        self.view().setMinimumWidth(self.view().sizeHintForColumn(0) + 24)

    def _add(self, name: str, board: Board | WorkbenchError) -> None:
        self.addItem(board.title[:_TITLE_CHARACTERS] if isinstance(board, Board) else name, name)
        row = self.count() - 1
        if isinstance(board, Board):
            self.setItemData(row, literal(_described(board)), Qt.ItemDataRole.ToolTipRole)
            return
        text = "\n".join(info.message for info in board.infos)
        self.setItemText(row, f"{name}: cannot be used")
        self.setItemData(row, literal(text), Qt.ItemDataRole.ToolTipRole)
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
        window = self.window()
        is_popup = window.windowType() == Qt.WindowType.Popup
        if is_popup:
            window.hide()
        ask_to_open(
            (window.parentWidget() if is_popup else None) or self,
            "Board description",
            lambda name: self.chosen.emit(relative_to(Path(name), self._folder)),
            start=self._folder,
            filters=[f"Boards (*{SUFFIX})"],
        )


def board_title(board: str, folder: Path) -> str:
    """Return a board's title, as the list has it; its id or file where it cannot be read."""
    if not board:
        return _NO_BOARD
    try:
        return load(board, folder).title[:_TITLE_CHARACTERS]
    except (OSError, WorkbenchError):
        return Path(board).stem


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

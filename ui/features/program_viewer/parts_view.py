"""The parts of a program as a tree: inputs, outputs, delegates and named data."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHeaderView, QTreeWidget, QTreeWidgetItem, QWidget

from ui.features.program_viewer.program_contents import Contents
from ui.features.program_viewer.program_tables import shape_text
from ui.shared.labels import literal
from ui.shared.number_format import count
from workbench.errors import WorkbenchError
from workbench.pte import npu_commands, vela_stream
from workbench.pte.description import in_words
from workbench.pte.npu_commands import region_name
from workbench.pte.program import Delegate, Method, Value

_MOST = 500
# With more delegates their parts are collapsed at first.
_OPENED = 3
_BLOCKS = {
    "cmd_data": "NPU commands",
    "weight_data": "weights and biases, encoded by Vela",
    "scratch_size": "size of the scratch memory",
    "inputs": "input locations",
    "outputs": "output locations",
}
Row = tuple[str, str, str]


class PartsView(QTreeWidget):
    """A read-only tree. Every branch lists at most a few hundred parts."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Program parts")
        self.setHeaderLabels(["Part", "Size [B]", "Description"])
        self.setUniformRowHeights(True)
        self.setEditTriggers(QTreeWidget.EditTrigger.NoEditTriggers)
        header = self.header()
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionsMovable(False)

    def render_method(self, contents: Contents, method: Method) -> None:
        """Show the parts of one method, and the data shared by all methods."""
        self.clear()
        for title, indices in (("Inputs", method.inputs), ("Outputs", method.outputs)):
            self._branch(title, [_value_row(n, v) for n, v in enumerate(method.tensors(indices))])
        title = f"Delegates ({len(method.delegates)})" if method.delegates else "Delegates"
        delegates = self._add(None, (title, "", "" if method.delegates else "none (CPU only)"))
        for number, delegate in enumerate(method.delegates[:_MOST]):
            self._add_delegate(delegates, number, delegate)
        named = contents.program.named
        if named:
            self._branch("Named data", [(name, count(n), "") for name, n in named.items()])
        self.expandToDepth(0 if len(method.delegates) > _OPENED else 1)

    def _add_delegate(self, under: QTreeWidgetItem, number: int, delegate: Delegate) -> None:
        held = count(len(delegate.data))
        parts, what = _delegate_parts(delegate)
        item = self._add(under, (f"{number}: {delegate.backend or '(no name)'}", held, what))
        for row in parts[:_MOST]:
            self._add(item, row)
        if delegate.specs:
            specs = self._add(item, ("Compile options", "", f"{len(delegate.specs)}"))
            for key, value in list(delegate.specs.items())[:_MOST]:
                self._add(specs, (key, "", value[:_MOST].decode("utf-8", "replace")))

    def _branch(self, title: str, rows: Iterable[Row]) -> None:
        listed = list(rows)
        item = self._add(None, (f"{title} ({len(listed)})", "", "" if listed else "none"))
        for row in listed[:_MOST]:
            self._add(item, row)
        if len(listed) > _MOST:
            self._add(item, (f"and {len(listed) - _MOST:,} more", "", ""))

    def _add(self, under: QTreeWidgetItem | None, row: Row) -> QTreeWidgetItem:
        item = QTreeWidgetItem(list(row))
        item.setTextAlignment(1, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        for column, text in enumerate(row):
            item.setToolTip(column, literal(text))
        if under is None:
            self.addTopLevelItem(item)
        else:
            under.addChild(item)
        return item


def _value_row(number: int, value: Value) -> Row:
    return (str(number), count(value.bytes) if value.bytes else "", in_words(value))


def _delegate_parts(delegate: Delegate) -> tuple[list[Row], str]:
    """Return the rows of a delegate, and its description."""
    if delegate.backend != vela_stream.ETHOS_U:
        return [], "other backend than Ethos-U; data not decoded"
    blocks = vela_stream.blocks(delegate.data)
    rows = [
        (name, count(len(block.data)), _block_words(block))
        for name, block in blocks.items()
        if not name.startswith("vela_")
    ]
    for side in ("inputs", "outputs"):
        for number, port in enumerate(vela_stream.ports(blocks, side)):
            address = f"{region_name(port.region)} at {port.offset:#x}"
            rows.append(
                (f"{side[:-1]} {number}", count(port.bytes), f"{shape_text(port.shape)} in {address}")
            )
    rows.append(("scratch", count(vela_stream.scratch_bytes(blocks)), "allocated at run time"))
    return rows, _target_text(vela_stream.commands(blocks))


def _block_words(block: vela_stream.Block) -> str:
    if block.external:
        return f"stored in the separate data as {block.key}"
    return _BLOCKS.get(block.name, "")


def _target_text(commands: memoryview | None) -> str:
    if commands is None:
        return "Ethos-U; commands in a separate file"
    try:
        head = npu_commands.target_of_commands(commands)
    except WorkbenchError as error:
        return error.infos[0].message
    return f"{head[0]}-{head[1]}" if head[0] else f"Ethos-U, {count(len(commands))} bytes"

"""The lineage rail: the selected operation at every level, in one row."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QToolButton, QVBoxLayout, QWidget

from ui.features.graph.graph_results import DEVICE, EDGE, CompiledRow, how_to_make
from ui.shared.labels import Label, literal
from ui.shared.wrapping_row import FlowRow
from workbench.graph.labels import elide, local_name
from workbench.graph.lineage import How, Lineage

ARROW = "\u2192"
HERE = "LineageHere"
_SIDE_PX, _EDGE_PX = 4, 3
# Two lines with the gap between them.
_MOST_LINES = 2.5


@dataclass(frozen=True)
class Stop:
    """One stop of the rail. ``target`` is emitted on a click; "" is not clickable."""

    title: str
    text: str
    tip: str = ""
    target: str = ""
    is_here: bool = False


class LineageRail(QWidget):
    """Shows a chain of stops, in two lines where it is too narrow for one.

    A stop with the name of the one before it shows its level only; so do all but the present one
    where two lines are too narrow.

    Signals:
        asked: the target of the stop that was clicked.
    """

    asked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("LineageRail")
        self.setAccessibleName("Lineage of the selection")
        self._stops: tuple[Stop, ...] = ()
        # What is shortened: the stop, its title, its button and the whole text of that.
        self._long: list[tuple[QWidget, Label, QToolButton, str]] = []
        self._chain = FlowRow(self)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(_SIDE_PX, _EDGE_PX, _SIDE_PX, _EDGE_PX)
        self._column.addWidget(self._chain)
        self.hide()

    def show_stops(self, stops: Sequence[Stop]) -> None:
        """Show a chain of stops; an empty chain hides the rail."""
        if self._stops == tuple(stops):
            return
        self._stops = tuple(stops)
        former, self._chain = self._chain, FlowRow(self)
        self._column.replaceWidget(former, self._chain)
        former.hide()
        former.deleteLater()
        self._long, before = [], ""
        for number, stop in enumerate(self._stops):
            self._chain.add(self._part(stop, is_first=not number, is_same=stop.text == before))
            before = stop.text
        self._chain.show()
        # The graph above gets its size at once.
        home = self if self.isVisible() else self.parentWidget() or self
        self._take_room(home.width())
        self.setVisible(bool(self._stops))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._take_room(self.width())

    def _take_room(self, width: int) -> None:
        room = width - 2 * _SIDE_PX
        self._shorten(on=False)
        if self._chain.heightForWidth(room) > _MOST_LINES * self._chain.sizeHint().height():
            self._shorten(on=True)
        self.setFixedHeight(self._chain.heightForWidth(room) + 2 * _EDGE_PX)

    def _shorten(self, *, on: bool) -> None:
        for part, title, button, text in self._long:
            title.setVisible(not on)
            button.setText(title.text() if on else text)
            # Its line is computed from its present width, not after the next event.
            part.updateGeometry()

    def texts(self) -> list[str]:
        """Return the text of each stop."""
        return [f"{stop.title} {stop.text}".strip() for stop in self._stops]

    def _part(self, stop: Stop, *, is_first: bool, is_same: bool) -> QWidget:
        """Return a stop with the arrow to it."""
        is_short = is_same and bool(stop.target and stop.title)
        part = QWidget(self._chain)
        row = QHBoxLayout(part)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(4)
        arrow, title = Label(ARROW, part), Label(stop.title, part)
        for hint, is_shown in ((arrow, not is_first), (title, bool(stop.title) and not is_short)):
            hint.setObjectName("Hint")
            hint.setVisible(is_shown)
            row.addWidget(hint)
        if stop.target:
            button = self._button(stop, part, stop.title if is_short else stop.text)
            row.addWidget(button)
            if stop.title and not is_short and not stop.is_here:
                self._long.append((part, title, button, button.text()))
            return part
        label = Label(stop.text, part)
        label.setTextFormat(Qt.TextFormat.PlainText)
        label.setToolTip(literal(stop.tip))
        label.setEnabled(False)
        row.addWidget(label)
        return part

    def _button(self, stop: Stop, part: QWidget, text: str) -> QToolButton:
        button = QToolButton(part)
        button.setText(elide(text))
        button.setToolTip(literal(stop.tip or stop.text))
        button.setAccessibleName(f"{stop.title} {stop.text}".strip())
        button.setObjectName(HERE if stop.is_here else "")
        font = button.font()
        font.setBold(stop.is_here)
        button.setFont(font)
        button.clicked.connect(lambda _=False, target=stop.target: self.asked.emit(target))
        return button


SOURCE = "source"
MANY = 200
NAME_LENGTH = 19
_NAMES_SHOWN = 2
_WEIGHTS = {"parameter", "constant"}
_HOW: dict[How, str] = {
    "same": "chosen",
    "origin": "matched by the recorded origin",
    "name": "matched by name, operator and module",
    "order": "matched by module, operator and position",
    "owner": "exists only at other levels; this is its parent operation",
    "inside": "the operations inside the NPU part",
}
_UNMATCHED = "No counterpart at this level: fused into another operation, or removed."


def stops(
    lineage: Lineage,
    level: str,
    chosen: Collection[str],
    titles: Sequence[tuple[str, str]],
    rows: Sequence[CompiledRow] | None,
    here: str = "",
) -> list[Stop]:
    """Return the chain of the selected operations; empty if none or too many are selected.

    Args:
        lineage: The lineage of all levels.
        level: The level of the selection.
        chosen: Ids of operations of that level.
        titles: Id and title of every level.
        rows: Vela's rows; None if not compiled.
        here: The shown level.
    """
    if not chosen or len(chosen) > MANY or level not in lineage.levels:
        return []
    # Weights of the module are skipped.
    known = lineage.levels[level].nodes_by_id
    chosen = [n for n in chosen if n not in known or known[n].kind not in _WEIGHTS] or chosen
    stop_list = [_stop(lineage, level, chosen, other, title) for other, title in titles]
    stop_list = [replace(stop, is_here=bool(here) and stop.target == here) for stop in stop_list]
    roots = lineage.translate(level, chosen, lineage.first)
    stop_list.append(_compiled(roots, chosen if level == DEVICE else (), rows))
    stop_list.extend(_source(lineage, roots or chosen))
    return stop_list


def _stop(lineage: Lineage, level: str, chosen: Collection[str], other: str, title: str) -> Stop:
    if other not in lineage.levels:
        return Stop(title, "not run", how_to_make(other))
    matches = [lineage.counterparts(level, node_id, other) for node_id in sorted(chosen)]
    nodes = tuple(dict.fromkeys(node for match in matches for node in match.nodes))
    lost = sum(not match.nodes for match in matches)
    if not nodes:
        return Stop(title, "none", _UNMATCHED)
    hows = list(dict.fromkeys(match.how for match in matches if match.nodes))
    text = ", ".join(elide(local_name(node), NAME_LENGTH) for node in nodes)
    if len(nodes) > _NAMES_SHOWN:
        text = f"{len(nodes)} operations"
    if hows == ["owner"]:
        text = f"({text})"
    if lost:
        text += f", {lost} fused"
    tip = "; ".join(_HOW[how] for how in hows if how)
    return Stop(title, text, f"{', '.join(nodes[:12])}\n{tip}", other)


def _compiled(roots: Collection[str], chosen: Collection[str], rows: Sequence[CompiledRow] | None) -> Stop:
    """Return Vela's rows of the selected operations."""
    if rows is None:
        return Stop("Vela", "not run", "Not compiled yet.")
    mine = [row for row in rows if row.device in chosen] if chosen else []
    how = "matched by the name of the TOSA operator" if mine else ("matched by TOSA operator or module")
    mine = mine or [row for row in rows if row.owner in roots]
    if not mine:
        tip = "No row in Vela's table: fused, removed or on the CPU."
        return Stop("Vela", "none", tip)
    cycles = sum(row.row.cycles for row in mine)
    named = ", ".join(row.row.operator for row in mine)
    text = named if len(mine) <= _NAMES_SHOWN else f"{len(mine)} operations"
    tip = f"{named}\nestimated by Vela; {how}"
    target = DEVICE if any(row.device for row in mine) else EDGE
    return Stop("Vela", f"{text}, {cycles:,} cycles", tip, target)


def _source(lineage: Lineage, roots: Collection[str]) -> Iterator[Stop]:
    nodes = lineage.levels[lineage.first].nodes_by_id
    lines = dict.fromkeys(nodes[r].source for r in sorted(roots) if r in nodes and nodes[r].source)
    if lines:
        first = next(iter(lines))
        more = f" and {len(lines) - 1} more" if len(lines) > 1 else ""
        yield Stop(
            "",
            first.partition(" ")[0] + more,
            "\n".join(list(lines)[:12]) + "\nClick to copy the location",
            f"{SOURCE}:{first.partition(' ')[0]}",
        )

"""Functions over scenes: arrow keys, traces, connections and tooltips."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt

from ui.features.graph.marks import number_text
from workbench.graph.hierarchy import ROOT

if TYPE_CHECKING:
    from ui.features.graph.marks import Marks
    from ui.features.graph.scene import Scene
    from workbench.graph.hierarchy import Hierarchy
    from workbench.graph.snapshot import QParams, TensorInfo


JOINTS_SHOWN = 400
TURNED = {
    Qt.Key.Key_Right: Qt.Key.Key_Down,
    Qt.Key.Key_Left: Qt.Key.Key_Up,
    Qt.Key.Key_Down: Qt.Key.Key_Right,
    Qt.Key.Key_Up: Qt.Key.Key_Left,
}


def walk(scene: Scene, current: str | None, key: Qt.Key) -> str | None:
    """Return the item that an arrow key moves to.

    Down and up follow edges. Down on an open group enters it; up from its first child leaves
    it. Left and right move to neighbours in the same row and group. In a flow to the right, the
    keys are turned: right follows edges.
    """
    if scene.flow == "right":
        key = TURNED[key]
    if current is None or not scene.has(current):
        return next(iter(scene.hierarchy.groups[ROOT].children), None)
    if key == Qt.Key.Key_Down:
        if scene.is_open(current):
            return scene.hierarchy.groups[current].children[0]
        return _follow(scene, current, forwards=True)
    if key == Qt.Key.Key_Up:
        followed = _follow(scene, current, forwards=False)
        parent = scene.hierarchy.parent.get(current)
        return followed or (parent if scene.has(parent) else None)
    return _neighbour(scene, current, 1 if key == Qt.Key.Key_Right else -1)


def _follow(scene: Scene, current: str, *, forwards: bool) -> str | None:
    """Return the item at the other end of the first edge; if there is none, leave the group."""
    item: str | None = current
    while item is not None and scene.has(item):
        for route in scene.routes_of(item):
            if forwards and route.source == item:
                return route.target
            if not forwards and route.target == item:
                return route.source
        if not forwards:
            return None
        item = scene.hierarchy.parent.get(item)
    return None


def _neighbour(scene: Scene, current: str, direction: int) -> str | None:
    rect = scene.rect(current)
    siblings = scene.hierarchy.groups[scene.hierarchy.parent[current]].children
    best: tuple[float, str] | None = None
    for sibling in siblings:
        other = scene.rect(sibling)
        if scene.flow == "right":
            distance = (other.center().y() - rect.center().y()) * direction
            in_row = other.left() < rect.right() and rect.left() < other.right()
        else:
            distance = (other.center().x() - rect.center().x()) * direction
            in_row = other.top() < rect.bottom() and rect.top() < other.bottom()
        if sibling != current and in_row and distance > 0 and (not best or distance < best[0]):
            best = (distance, sibling)
    return best[1] if best else None


def joints(scene: Scene, selected: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """Return the pairs of visible items that edges of selected operations connect."""
    hierarchy, expanded = scene.hierarchy, scene.placement.insides
    snapshot = hierarchy.snapshot
    pairs: dict[tuple[str, str], None] = {}
    for node_id in selected:
        edges = (*snapshot.inputs_of.get(node_id, ()), *snapshot.outputs_of.get(node_id, ()))
        for edge in edges:
            if hierarchy.owner.get(edge.source) != edge.source:
                continue
            source = hierarchy.shown(edge.source, expanded)
            target = hierarchy.shown(edge.target, expanded)
            if source and target and source != target:
                pairs[source, target] = None
        if len(pairs) > JOINTS_SHOWN:
            break
    return tuple(pairs)


def trace(scene: Scene, selected: frozenset[str], *, forwards: bool) -> frozenset[str]:
    """Return a selection with all its descendants, or with all its ancestors."""
    snapshot = scene.hierarchy.snapshot
    edges = snapshot.outputs_of if forwards else snapshot.inputs_of
    reached, waiting = set(selected), list(selected)
    while waiting:
        for edge in edges.get(waiting.pop(), ()):
            other = edge.target if forwards else edge.source
            if other not in reached:
                reached.add(other)
                waiting.append(other)
    return frozenset(reached)


LONGEST = 200
ATTRIBUTES_SHOWN = 8
OUTPUTS_SHOWN = 4
_HIDDEN = ("origin", "debug_handle", "target")


def grid_text(grid: QParams) -> str:
    """Return a quantization grid as text, e.g. ``8 bit, scale 0.0078, zero point -3``."""
    if len(grid.scale) == 1:
        steps = f"scale {grid.scale[0]:.4g}, zero point {grid.zero_point[0]}"
    else:
        low, high = min(grid.scale), max(grid.scale)
        steps = f"scale {low:.3g} to {high:.3g} in {len(grid.scale)} channels of axis {grid.axis}"
    return f"{grid.bits} bit, codes {grid.qmin} to {grid.qmax}, {steps}"


def tensor_line(info: TensorInfo) -> str:
    """Return a tensor's shape, type and grid in one line."""
    grid = f" ({grid_text(info.qparams)})" if info.qparams else ""
    return f"{info.shape_text} {info.dtype}{grid}"


def lines(item: str, hierarchy: Hierarchy, marks: Marks) -> list[str]:
    """Return the tooltip lines of an item, most important first."""
    node = hierarchy.node(item)
    if node is None:
        group = hierarchy.groups[item]
        texts = [f"{group.label}: {hierarchy.subtitle(item)}"]
        texts += [f"module {group.module}"] if group.module else []
        twins = len(hierarchy.twins(item))
        texts += [f"one of {twins} equal blocks"] if twins > 1 else []
    else:
        texts = [f"{node.op} ({node.id})"]
        texts += [f"module {node.module}"] if node.module else []
        texts += [f"output {tensor_line(info)}" for info in node.outputs[:OUTPUTS_SHOWN]]
        shown = [(k, v) for k, v in node.attrs.items() if k not in _HIDDEN]
        texts += [f"{name}: {value}" for name, value in shown[:ATTRIBUTES_SHOWN]]
        texts += [node.source] if node.source else []
    chip = marks.chip(item, hierarchy)
    if item in marks.tooltips:
        texts.append(marks.tooltips[item])
    elif chip is not None:
        texts.append(f"precision {chip.text}")
    amount = marks.amount(item, hierarchy)
    if amount is not None and marks.overlay is not None:
        texts.append(f"{marks.overlay.title}: {number_text(amount)}")
    if sign := marks.difference(item, hierarchy):
        kind = marks.differences.get(item)
        texts.append(marks.words.get(item) or f"{kind or sign} compared with the other graph")
    reason = marks.reason(item, hierarchy)
    texts += [reason] if reason else []
    return [line if len(line) <= LONGEST else line[:LONGEST] + "…" for line in texts]


def tooltip(item: str, hierarchy: Hierarchy, marks: Marks) -> str:
    """Return the tooltip of an item as rich text, with names from the model escaped."""
    first, *others = (escape(line) for line in lines(item, hierarchy, marks))
    return f"<b>{first}</b>" + "".join(f"<br>{line}" for line in others)

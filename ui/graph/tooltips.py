"""What a tooltip and a screen reader say about an item."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from ui.graph.overlay import number_text

if TYPE_CHECKING:
    from ui.graph.marks import Marks
    from workbench.graph.hierarchy import Hierarchy
    from workbench.graph.snapshot import QParams, TensorInfo

LONGEST = 200
ATTRIBUTES_SHOWN = 8
OUTPUTS_SHOWN = 4
_HIDDEN = ("origin", "debug_handle", "target")


def grid_text(grid: QParams) -> str:
    """Return a quantization grid in words, e.g. ``8 bit, scale 0.0078, zero point -3``."""
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
    """Return everything there is to say about an item, most important first."""
    node = hierarchy.node(item)
    if node is None:
        group = hierarchy.groups[item]
        found = [f"{group.label}: {hierarchy.subtitle(item)}"]
        found += [f"module {group.module}"] if group.module else []
        twins = len(hierarchy.twins(item))
        found += [f"one of {twins} blocks of the same structure"] if twins > 1 else []
    else:
        found = [f"{node.op} ({node.id})"]
        found += [f"module {node.module}"] if node.module else []
        found += [f"output {tensor_line(info)}" for info in node.outputs[:OUTPUTS_SHOWN]]
        shown = [(k, v) for k, v in node.attrs.items() if k not in _HIDDEN]
        found += [f"{name}: {value}" for name, value in shown[:ATTRIBUTES_SHOWN]]
        found += [node.source] if node.source else []
    chip = marks.chip(item, hierarchy)
    if item in marks.tooltips:
        found.append(marks.tooltips[item])
    elif chip is not None:
        found.append(f"precision {chip.text}")
    amount = marks.amount(item, hierarchy)
    if amount is not None and marks.overlay is not None:
        found.append(f"{marks.overlay.title}: {number_text(amount)}")
    if sign := marks.difference(item, hierarchy):
        kind = marks.differences.get(item)
        found.append(marks.words.get(item) or f"{kind or sign} against the graph beside")
    reason = marks.reason(item, hierarchy)
    found += [reason] if reason else []
    return [line if len(line) <= LONGEST else line[:LONGEST] + "…" for line in found]


def tooltip(item: str, hierarchy: Hierarchy, marks: Marks) -> str:
    """Return the tooltip as rich text; nothing of the model is taken for markup."""
    first, *others = (escape(line) for line in lines(item, hierarchy, marks))
    return f"<b>{first}</b>" + "".join(f"<br>{line}" for line in others)

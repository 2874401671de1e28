"""What the rail says about the chosen operations: their counterparts at every level, in words."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from ui.graph.levels import DEVICE, EDGE
from ui.graph.measures import CompiledRow
from ui.widgets.lineage_rail import Stop
from workbench.graph.labels import elide, local_name
from workbench.graph.lineage import How, Lineage

SOURCE = "source"
MANY = 200
NAME_LENGTH = 19
_NAMES_SHOWN = 2
_WEIGHTS = {"parameter", "constant"}
_HOW: dict[How, str] = {
    "same": "chosen",
    "origin": "told by the origin that the exporter recorded",
    "name": "told by its name, operator and module",
    "order": "told by its module, its operator and its place among them",
    "owner": "exists only at other levels: this is the operation that it belongs to",
    "inside": "the operations inside of the delegate",
}
_UNMATCHED = (
    "Nothing at this level has it as its origin: it was fused into another operation, or removed."
)


def stops(
    lineage: Lineage,
    level: str,
    chosen: Collection[str],
    titles: Sequence[tuple[str, str]],
    rows: Sequence[CompiledRow] | None,
    here: str = "",
) -> list[Stop]:
    """Return the chain of the chosen operations; empty if nothing is chosen, or far too much.

    Args:
        lineage: The levels there are.
        level: The level that the choice was made at.
        chosen: Ids of operations of that level.
        titles: Every level and what to call it.
        rows: The compiled program; None if there is none yet.
        here: The level that shows now.
    """
    if not chosen or len(chosen) > MANY or level not in lineage.levels:
        return []
    # A module's weights are not what became of it.
    known = lineage.levels[level].nodes_by_id
    chosen = [n for n in chosen if n not in known or known[n].kind not in _WEIGHTS] or chosen
    found = [_stop(lineage, level, chosen, other, title) for other, title in titles]
    found = [replace(stop, is_here=bool(here) and stop.target == here) for stop in found]
    roots = lineage.translate(level, chosen, lineage.first)
    found.append(_compiled(roots, chosen if level == DEVICE else (), rows))
    found.extend(_source(lineage, roots or chosen))
    return found


def _stop(lineage: Lineage, level: str, chosen: Collection[str], other: str, title: str) -> Stop:
    if other not in lineage.levels:
        return Stop(title, "not yet", "Run that far.")
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
        text += f", {lost} without"
    tip = "; ".join(_HOW[how] for how in hows if how)
    return Stop(title, text, f"{', '.join(nodes[:12])}\n{tip}", other)


def _compiled(
    roots: Collection[str], chosen: Collection[str], rows: Sequence[CompiledRow] | None
) -> Stop:
    """Return what Vela made of it: of chosen operators of the device these rows alone."""
    if rows is None:
        return Stop("Vela", "not yet", "Lower the program first.")
    mine = [row for row in rows if row.device in chosen] if chosen else []
    how = "named as the TOSA operator" if mine else "told by their TOSA operators or their module"
    mine = mine or [row for row in rows if row.owner in roots]
    if not mine:
        tip = (
            "No row of the compiler's table can be told to be of it: fused, removed or on the CPU."
        )
        return Stop("Vela", "none of its own", tip)
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
            "", first.partition(" ")[0] + more,
            "\n".join(list(lines)[:12]) + "\nA click copies the line's place.",
            f"{SOURCE}:{first.partition(' ')[0]}",
        )  # fmt: skip

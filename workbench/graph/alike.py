"""Blocks of equal structure anywhere in a program, to be configured together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.graph.groups import ROOT

if TYPE_CHECKING:
    from workbench.graph.hierarchy import Hierarchy


def alike_anywhere(hierarchy: Hierarchy, group: str, *, any_shape: bool = False) -> tuple[str, ...]:
    """Return the groups anywhere in a program with the structure of one of them.

    Their operators and how these are wired are the same, down to the last group inside; so are the
    shapes and types of all tensors, unless ``any_shape``. Of a run of repeated blocks, its blocks
    are meant.
    """
    own = hierarchy.groups[group]
    wanted = own.children[0] if own.is_run else group
    if wanted == ROOT or wanted not in hierarchy.groups:
        return (group,)
    forms = _forms(hierarchy, any_shape=any_shape)
    return tuple(key for key in hierarchy.groups if key != ROOT and forms[key] == forms[wanted])


def _forms(hierarchy: Hierarchy, *, any_shape: bool) -> dict[str, int]:
    """Return a number for every item, the same for the same structure."""
    nodes, groups = hierarchy.snapshot.nodes_by_id, hierarchy.groups
    numbers: dict[object, int] = {}
    forms: dict[str, int] = {}
    for key in reversed(list(hierarchy.groups_below(ROOT))):
        group = groups[key]
        for child in group.children:
            if child not in groups:
                node = nodes[child]
                tensors = tuple((info.shape, info.dtype) for info in node.outputs)
                content: object = (node.op, () if any_shape else tensors)
                forms[child] = numbers.setdefault(content, len(numbers))
        place = {child: position for position, child in enumerate(group.children)}
        wiring = tuple(sorted((place[a], place[b]) for a, b in group.links))
        content = (tuple(forms[child] for child in group.children), wiring)
        forms[key] = numbers.setdefault(content, len(numbers))
    return forms

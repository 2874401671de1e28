"""The tree of groups that is drawn, and the edges between the children of each group.

An item is an operator, identified by its node id, or a group, identified by its path with a
trailing slash: ``layers/0/``. The whole graph is the group ``/``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from workbench.graph.labels import elide, local_name, node_title, type_label

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from workbench.graph.snapshot import GraphSnapshot, Node


ROOT = "/"
SECTION_FROM = 1000
SECTION_SIZE = 250
RUN_FROM = 3
DEPTH_LIMIT = 64


def group_key(path: tuple[str, ...]) -> str:
    """Return the item name of a group path."""
    return "/".join(path) + "/"


# The operator that produces a tensor, and the index of the output.
Tensor = tuple[str, int]


@dataclass(slots=True)
class Link:
    """The tensors on an edge between two children of a group."""

    tensors: list[Tensor]


@dataclass(slots=True)
class Ports:
    """The tensors that cross the border of a group.

    ``entries`` has the children that read each tensor from outside, ``exits`` the child that
    produces each tensor that is read outside.
    """

    entries: dict[Tensor, list[str]] = field(default_factory=dict)
    exits: dict[Tensor, str] = field(default_factory=dict)

    def enter(self, tensor: Tensor, child: str) -> None:
        """Note that a child reads a tensor from outside."""
        readers = self.entries.setdefault(tensor, [])
        if child not in readers:
            readers.append(child)


@dataclass(slots=True)
class Group:
    """A module call, a branch, a delegate, a section of a long list, or a run of blocks."""

    key: str
    label: str
    children: list[str] = field(default_factory=list)
    links: dict[tuple[str, str], Link] = field(default_factory=dict)
    ports: Ports = field(default_factory=Ports)
    module: str = ""
    size: int = 0
    signature: int = -1
    is_run: bool = False


class Growth:
    """Creates groups from paths: ``groups``, and ``alias`` for groups drawn as their only child.

    ``titles`` has the names of groups that were replaced by a single operator.
    """

    def __init__(self, snapshot: GraphSnapshot, owner: dict[str, str], *, flat: bool) -> None:
        self._flat = flat
        self.groups: dict[str, Group] = {ROOT: Group(ROOT, "")}
        self.alias: dict[str, str] = {}
        self.titles: dict[str, str] = {}
        self._grow(snapshot, owner)
        self._flatten(ROOT)
        for key in list(self.groups):
            self._cut(key)

    def _grow(self, snapshot: GraphSnapshot, owner: dict[str, str]) -> None:
        """Create a group for every path of an operator."""
        chains: dict[tuple[str, ...], str] = {(): ROOT}
        for node in snapshot.nodes:
            if owner.get(node.id) != node.id:
                continue
            path = () if self._flat else node.group[:DEPTH_LIMIT]
            if path not in chains:
                for depth in range(len(path)):
                    self._open(path[: depth + 1], chains)
            self.groups[chains[path]].children.append(node.id)

    def _open(self, path: tuple[str, ...], chains: dict[tuple[str, ...], str]) -> None:
        if path in chains:
            return
        key = group_key(path)
        chains[path] = key
        self.groups[key] = Group(key, path[-1])
        self.groups[chains[path[:-1]]].children.append(key)

    def _flatten(self, key: str) -> str:
        """Replace groups with a single child, at and below ``key``; return the result."""
        group = self.groups[key]
        group.children = [self._flatten(child) if child in self.groups else child for child in group.children]
        if key == ROOT or len(group.children) != 1:
            return key
        (child,) = group.children
        if child in self.groups:
            self.groups[child].label = f"{group.label}.{self.groups[child].label}"
        else:
            title = self.titles.get(child)
            self.titles[child] = f"{group.label}.{title}" if title else group.label
        self.alias[key] = child
        del self.groups[key]
        return child

    def _cut(self, key: str) -> None:
        """Divide a very long list of children into sections, in execution order."""
        group = self.groups[key]
        total = len(group.children)
        if total <= SECTION_FROM:
            return
        size = max(SECTION_SIZE, math.isqrt(total))
        sections = []
        for start in range(0, total, size):
            part = group.children[start : start + size]
            name = f"{'' if key == ROOT else key}#{start // size + 1}/"
            label = f"{start + 1:,} to {start + len(part):,} of {total:,}"
            self.groups[name] = Group(name, label, part)
            sections.append(name)
        group.children = sections


def fold_runs(groups: dict[str, Group]) -> bool:
    """Group consecutive children of equal structure; return whether any were grouped.

    Groups must have signatures. A run has at least three blocks.
    """
    is_folded = False
    for group in list(groups.values()):
        children: list[str] = []
        for run in _runs(group, groups):
            if len(run) < RUN_FROM:
                children += run
                continue
            if len(run) == len(group.children) and group.key != ROOT:
                group.is_run = True
                children += run
                continue
            first, last = groups[run[0]], groups[run[-1]]
            key = f"{'' if group.key == ROOT else group.key}#{first.label}-{last.label}/"
            label = f"{first.label} to {last.label} \u00d7 {len(run)}"
            groups[key] = Group(key, label, run, is_run=True)
            children.append(key)
            is_folded = True
        group.children = children
    return is_folded


def _runs(group: Group, groups: dict[str, Group]) -> list[list[str]]:
    """Return the children of a group, with consecutive ones of equal structure in one list."""
    runs: list[list[str]] = []
    before: int | None = None
    for child in group.children:
        inner = groups.get(child)
        sign = inner.signature if inner is not None else None
        if runs and sign is not None and sign == before:
            runs[-1].append(child)
        else:
            runs.append([child])
        before = sign
    return runs


_OPERANDS = ("parameter", "constant")
_PREPARING = ("quantize", "dequantize", "observer")


def fold_operands(snapshot: GraphSnapshot) -> dict[str, str]:
    """Return the drawn operator of every operator, itself if it is drawn.

    Parameters, constants, and the observers, quantize and dequantize operators that only apply to
    them are drawn with their first user. An unused operand is absent.
    """
    folded: set[str] = set()
    for node in snapshot.nodes:
        inputs = snapshot.inputs_of.get(node.id, ())
        prepares = node.kind in _PREPARING and bool(inputs)
        if node.kind in _OPERANDS or (prepares and all(e.source in folded for e in inputs)):
            folded.add(node.id)
    owner = {node.id: node.id for node in snapshot.nodes if node.id not in folded}
    # The second pass handles hand-written files, where an operand may follow its user.
    for node in (*reversed(snapshot.nodes), *snapshot.nodes):
        if node.id not in owner:
            users = snapshot.outputs_of.get(node.id, ())
            user = next((edge.target for edge in users if edge.target in owner), None)
            if user is not None:
                owner[node.id] = owner[user]
    return owner


Shape = Literal["modules", "folded", "flat"]

SHOWN_AT_FIRST = (10, 100)
SHOWN_AT_MOST = 300
SUBTITLE_LENGTH = 40


class Hierarchy:
    """Groups, their children in execution order and the edges between them.

    Parameters, constants and their preparation are folded into the operator that uses them. A group
    with a single child is drawn as that child. More than 1,000 children are divided into sections.
    Built once per snapshot and shape: ``modules`` groups by module, ``folded`` also groups runs of
    equal blocks, and ``flat`` has only sections.
    """

    def __init__(self, snapshot: GraphSnapshot, shape: Shape = "modules") -> None:
        self.snapshot, self.shape = snapshot, shape
        self.owner: dict[str, str] = fold_operands(snapshot)
        self._borders: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._words: dict[str, tuple[str, str]] = {}
        growth = Growth(snapshot, self.owner, flat=shape == "flat")
        self.groups: dict[str, Group] = growth.groups
        self.titles: dict[str, str] = growth.titles
        self._alias: dict[str, str] = growth.alias
        self._connect()
        while containers := self._interleaved():
            for container in containers:
                self._dissolve(container)
            self._connect()
        if shape == "folded" and fold_runs(self.groups):
            self._connect()

    def _interleaved(self) -> list[str]:
        """Return containers whose parts run before and after a sibling that they exchange with.

        One of the links between the two would run upwards. Containers inside of others that are
        returned are left for later.
        """
        containers: dict[str, None] = {}
        order = self._order
        for group in self.groups.values():
            position = {child: index for index, child in enumerate(group.children)}
            for ends in group.links:
                if position[ends[0]] < position[ends[1]]:
                    continue
                for item, other in (ends, ends[::-1]):
                    first, last = (order[leaf] for leaf in self._ends(item))
                    runs_between = first < order[self._ends(other)[0]] < last
                    if runs_between and self._is_container(item):
                        containers[item] = None
                        break
        return [item for item in containers if self.parent[item] not in containers]

    @cached_property
    def _order(self) -> dict[str, int]:
        """The position of every operator in execution order."""
        return {node.id: index for index, node in enumerate(self.snapshot.nodes)}

    def _is_container(self, item: str) -> bool:
        """Return whether an item is a group whose operators all belong to parts of it."""
        group = self.groups.get(item)
        return group is not None and all(
            child in self.groups or child in self.titles for child in group.children
        )

    def _ends(self, item: str) -> tuple[str, str]:
        """Return the first and the last operator of an item."""
        first = last = item
        while first in self.groups:
            first = self.groups[first].children[0]
        while last in self.groups:
            last = self.groups[last].children[-1]
        return first, last

    def _dissolve(self, key: str) -> None:
        """Draw the parts of a container in its place, in execution order."""
        container = self.groups.pop(key)
        group = self.groups[self.parent[key]]
        for child in container.children:
            if child in self.groups:
                self.groups[child].label = f"{container.label}.{self.groups[child].label}"
            else:
                self.titles[child] = f"{container.label}.{self.titles[child]}"
        parts = [*(child for child in group.children if child != key), *container.children]
        group.children = sorted(parts, key=lambda item: self._order[self._ends(item)[0]])
        self._alias[key] = group.key

    def _connect(self) -> None:
        """Compute everything that depends on the groups and their children."""
        self.parent: dict[str, str] = {
            child: group.key for group in self.groups.values() for child in group.children
        }
        self.__dict__.pop("depth", None)
        for group in self.groups.values():
            group.links, group.ports = {}, Ports()
        self._project()
        self._sign(ROOT)

    @cached_property
    def depth(self) -> dict[str, int]:
        """Number of levels between an item and the whole graph."""
        depths = {ROOT: 0}
        waiting = [ROOT]
        while waiting:
            key = waiting.pop()
            for child in self.groups[key].children:
                depths[child] = depths[key] + 1
                if child in self.groups:
                    waiting.append(child)
        return depths

    def _project(self) -> None:
        """Project every edge onto the two children of the lowest group that contains both ends.

        In the groups between them and its ends the edge becomes a port.
        """
        depth, parent, owner, groups = self.depth, self.parent, self.owner, self.groups
        for edge in self.snapshot.edges:
            source, target = owner.get(edge.source), owner.get(edge.target)
            if source is None or target is None or source == target:
                continue
            if source != edge.source:
                continue
            tensor = (edge.source, edge.output_index)
            while depth[source] > depth[target]:
                groups[parent[source]].ports.exits[tensor] = source
                source = parent[source]
            while depth[target] > depth[source]:
                groups[parent[target]].ports.enter(tensor, target)
                target = parent[target]
            while parent[source] != parent[target]:
                groups[parent[source]].ports.exits[tensor] = source
                groups[parent[target]].ports.enter(tensor, target)
                source, target = parent[source], parent[target]
            links = groups[parent[source]].links
            link = links.get((source, target))
            if link is None:
                links[source, target] = Link([tensor])
            elif tensor not in link.tensors:
                link.tensors.append(tensor)

    def _sign(self, root: str) -> None:
        """Compute the structure ids, operator counts and modules of all groups."""
        numbers: dict[object, int] = {}
        signs: dict[str, int] = {}
        nodes = self.snapshot.nodes_by_id
        for key in reversed(list(self.groups_below(root))):
            group = self.groups[key]
            for child in group.children:
                if child not in self.groups:
                    node = nodes[child]
                    tensors = tuple((info.shape, info.dtype) for info in node.outputs)
                    signs[child] = numbers.setdefault((node.op, tensors), len(numbers))
            positions = {child: position for position, child in enumerate(group.children)}
            wiring = tuple(sorted((positions[a], positions[b]) for a, b in group.links))
            content = (tuple(signs[child] for child in group.children), wiring)
            group.signature = signs[key] = numbers.setdefault(content, len(numbers))
            group.size = sum(
                self.groups[child].size if child in self.groups else 1 for child in group.children
            )
            group.module = self._module_of(group)

    def _module_of(self, group: Group) -> str:
        """Return the module of a group: the longest common prefix of its operators' modules."""
        nodes = self.snapshot.nodes_by_id
        wanted = group.key.rstrip("/").rpartition("/")[2].partition("@")[0]
        shared: list[str] | None = None
        for child in group.children:
            name = self.groups[child].module if child in self.groups else nodes[child].module
            parts = name.split(".") if name else []
            if shared is None:
                shared = parts
            while shared != parts[: len(shared)]:
                shared = shared[:-1]
        path = shared or []
        while path and wanted in path and path[-1] != wanted:
            path = path[:-1]
        return ".".join(path)

    def groups_below(self, key: str) -> Iterator[str]:
        """Yield a group and all groups inside it, outer groups first."""
        waiting = [key]
        while waiting:
            top = waiting.pop()
            yield top
            waiting.extend(child for child in self.groups[top].children if child in self.groups)

    def resolve(self, group: str) -> str | None:
        """Return the item of a group path, with or without a trailing slash."""
        key = group if group.endswith("/") else f"{group}/"
        while key in self._alias:
            key = self._alias[key]
        return key if key in self.groups or key in self.parent else None

    def words(self, item: str) -> tuple[str, str]:
        """Return title and subtitle of an item, elided to be drawn."""
        texts = self._words.get(item)
        if texts is None:
            title, subtitle = elide(self.title(item)), elide(self.subtitle(item), SUBTITLE_LENGTH)
            texts = self._words[item] = (title, subtitle)
        return texts

    def title(self, item: str) -> str:
        """Return the title of an item: its operator, or the group's name."""
        if item in self.groups:
            return self.groups[item].label
        return node_title(self.snapshot.nodes_by_id[item], self._weight_shape(item))

    def _weight_shape(self, node_id: str) -> tuple[int, ...]:
        """Return the shape of the constant that is an operator's second input; () without one."""
        for edge in self.snapshot.inputs_of.get(node_id, ()):
            source = self.snapshot.nodes_by_id[edge.source]
            if edge.input_index == 1 and self.owner.get(edge.source) != edge.source:
                shape = source.outputs[edge.output_index].shape if source.outputs else ()
                return tuple(size for size in shape if isinstance(size, int))
        return ()

    def subtitle(self, item: str) -> str:
        """Return the subtitle: the module's class and size, or the module's name."""
        group = self.groups.get(item)
        if group is None:
            node = self.snapshot.nodes_by_id[item]
            return self.titles.get(item) or local_name(node.id)
        is_module = group.module and "#" not in item
        module = self.snapshot.modules_by_path.get(group.module) if is_module else None
        name = type_label(module.type_name) if module is not None else ""
        count = f"{group.size:,} operations"
        if group.is_run:
            return f"{len(group.children)} alike, {count}"
        return f"{name}, {count}" if name else count

    def twins(self, group: str) -> tuple[str, ...]:
        """Return the siblings with the structure of a group, including itself.

        For a run of repeated blocks, its blocks are returned.
        """
        own = self.groups[group]
        if group == ROOT:
            return (group,)
        if own.is_run:
            return tuple(own.children)
        siblings = (self.groups.get(key) for key in self.groups[self.parent[group]].children)
        return tuple(g.key for g in siblings if g and g.signature == own.signature)

    def border(self, group: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the operators outside a group that it reads, and those that read its outputs."""
        border = self._borders.get(group)
        if border is None:
            inside, snapshot = set(self.leaves(group)), self.snapshot
            reads: dict[str, None] = {}
            written: dict[str, None] = {}
            for leaf in self.leaves(group):
                for edge in snapshot.inputs_of.get(leaf, ()):
                    if self.owner.get(edge.source) == edge.source and edge.source not in inside:
                        reads[edge.source] = None
                for edge in snapshot.outputs_of.get(leaf, ()):
                    target = self.owner.get(edge.target)
                    if target is not None and target not in inside:
                        written[target] = None
            border = self._borders[group] = (tuple(reads), tuple(written))
        return border

    def leaves(self, item: str) -> tuple[str, ...]:
        """Return the drawn operators of an item: for a group all of them, in order."""
        if item not in self.groups:
            return (item,)
        operators: list[str] = []
        waiting = [item]
        while waiting:
            top = waiting.pop()
            if top in self.groups:
                waiting.extend(reversed(self.groups[top].children))
            else:
                operators.append(top)
        return tuple(operators)

    def ancestors(self, item: str) -> list[str]:
        """Return the groups that contain an item, the whole graph first."""
        groups: list[str] = []
        while item in self.parent:
            item = self.parent[item]
            groups.append(item)
        return groups[::-1]

    def shown(self, node_id: str, expanded: Collection[str]) -> str | None:
        """Return the visible item that contains an operator while some groups are open."""
        item = self.owner.get(node_id)
        if item is None:
            return None
        for group in self.ancestors(item):
            if group != ROOT and group not in expanded:
                return group
        return item

    def visible(self, expanded: Collection[str]) -> list[str]:
        """Return the visible items while the given groups are open."""
        items: list[str] = []
        waiting = list(reversed(self.groups[ROOT].children))
        while waiting:
            item = waiting.pop()
            items.append(item)
            if item in expanded and item in self.groups:
                waiting.extend(reversed(self.groups[item].children))
        return items

    def opening(self) -> frozenset[str]:
        """Return the groups that are open at first, for a readable number of items."""
        least, most = SHOWN_AT_FIRST
        expanded: set[str] = set()
        level = self._to_open(ROOT)
        shown = len(self.groups[ROOT].children)
        while level and shown < least:
            added = sum(len(self.groups[key].children) for key in level)
            if shown + added > (most if shown >= least // 2 else SHOWN_AT_MOST):
                break
            expanded.update(level)
            shown += added
            level = [child for key in level for child in self._to_open(key)]
        return frozenset(expanded)

    def _to_open(self, key: str) -> list[str]:
        """Return the child groups that may open by default: repeated blocks stay closed."""
        inside = (self.groups.get(child) for child in self.groups[key].children)
        return [group.key for group in inside if group is not None and not group.is_run]

    def node(self, item: str) -> Node | None:
        """Return the operator of an item; None for a group."""
        return None if item in self.groups else self.snapshot.nodes_by_id.get(item)


def isolate(snapshot: GraphSnapshot, node_ids: Collection[str]) -> GraphSnapshot:
    """Return these operators with their operands, inputs and outputs."""
    kept = set(node_ids)
    border: set[str] = set()
    for node_id in kept:
        border.update(edge.source for edge in snapshot.inputs_of.get(node_id, ()))
        border.update(edge.target for edge in snapshot.outputs_of.get(node_id, ()))
    shown = kept | border
    waiting = [n for n in border - kept if snapshot.nodes_by_id[n].kind == "dequantize"]
    for node_id in waiting:
        # The preparation of a weight is drawn with its user, so its parameter is included.
        for edge in snapshot.inputs_of.get(node_id, ()):
            if snapshot.nodes_by_id[edge.source].kind in {"parameter", "constant"}:
                shown.add(edge.source)
    nodes = tuple(node for node in snapshot.nodes if node.id in shown)
    edges = tuple(
        edge
        for edge in snapshot.edges
        if edge.source in shown
        and edge.target in shown
        and (edge.source in kept or edge.target in kept or edge.target in waiting)
    )
    return replace(snapshot, nodes=nodes, edges=edges)

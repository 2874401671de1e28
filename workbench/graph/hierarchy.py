"""The tree of groups behind the drawing: who stands where, and which edges each group draws.

An item is an operation, named by its node id, or a group, named by its path with a slash at its
end: ``layers/0/``. The whole graph is the group ``/``.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Literal

from workbench.graph.folding import fold_operands
from workbench.graph.groups import ROOT, Group, Growth, Link, fold_runs
from workbench.graph.wording import elide, local_name, node_title, type_label

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from workbench.graph.snapshot import GraphSnapshot, Node

Shape = Literal["modules", "folded", "flat"]

SHOWN_AT_FIRST = (10, 100)
SHOWN_AT_MOST = 300
SUBTITLE_LENGTH = 40


class Hierarchy:
    """Groups, their children in execution order and the edges projected onto them.

    Parameters, constants and what only prepares them are folded into the operation that uses
    them. A group with a single child is drawn as that child. More than 1,000 children are cut
    into sections. All of this is built once per snapshot and shape: ``modules`` groups as the
    model nests, ``folded`` puts runs of blocks of the same structure into a group of their own,
    and ``flat`` has no groups but the sections.
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
        if shape == "folded" and fold_runs(self.groups):
            self._connect()

    def _connect(self) -> None:
        """Work out all that follows from the groups and their children."""
        self.parent: dict[str, str] = {
            child: group.key for group in self.groups.values() for child in group.children
        }
        self.__dict__.pop("depth", None)
        for group in self.groups.values():
            group.links = {}
        self._project()
        self._sign(ROOT)

    @cached_property
    def depth(self) -> dict[str, int]:
        """Levels between an item and the whole graph."""
        found = {ROOT: 0}
        waiting = [ROOT]
        while waiting:
            key = waiting.pop()
            for child in self.groups[key].children:
                found[child] = found[key] + 1
                if child in self.groups:
                    waiting.append(child)
        return found

    def _project(self) -> None:
        """Lift every edge to the two children of the lowest group that holds both ends."""
        depth, parent, owner = self.depth, self.parent, self.owner
        for edge in self.snapshot.edges:
            source, target = owner.get(edge.source), owner.get(edge.target)
            if source is None or target is None or source == target:
                continue
            if source != edge.source:
                continue
            while depth[source] > depth[target]:
                source = parent[source]
            while depth[target] > depth[source]:
                target = parent[target]
            while parent[source] != parent[target]:
                source, target = parent[source], parent[target]
            links = self.groups[parent[source]].links
            tensor = (edge.source, edge.output_index)
            link = links.get((source, target))
            if link is None:
                links[source, target] = Link([tensor])
            elif tensor not in link.tensors:
                link.tensors.append(tensor)

    def _sign(self, root: str) -> None:
        """Number the structures, count the operations and find the module of every group."""
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
            place = {child: position for position, child in enumerate(group.children)}
            wiring = tuple(sorted((place[a], place[b]) for a, b in group.links))
            content = (tuple(signs[child] for child in group.children), wiring)
            group.signature = signs[key] = numbers.setdefault(content, len(numbers))
            group.size = sum(
                self.groups[child].size if child in self.groups else 1 for child in group.children
            )
            group.module = self._module_of(group)

    def _module_of(self, group: Group) -> str:
        """Return the module that a group shows: the longest name its operations share."""
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
        found = shared or []
        while found and wanted in found and found[-1] != wanted:
            found = found[:-1]
        return ".".join(found)

    def groups_below(self, key: str) -> Iterator[str]:
        """Yield a group and every group inside of it, the outer ones first."""
        waiting = [key]
        while waiting:
            top = waiting.pop()
            yield top
            waiting.extend(child for child in self.groups[top].children if child in self.groups)

    def resolve(self, group: str) -> str | None:
        """Return the item that stands for a group path, given with or without its slash."""
        key = group if group.endswith("/") else f"{group}/"
        while key in self._alias:
            key = self._alias[key]
        return key if key in self.groups or key in self.parent else None

    def words(self, item: str) -> tuple[str, str]:
        """Return both lines to write on an item, short enough to draw."""
        found = self._words.get(item)
        if found is None:
            title, subtitle = elide(self.title(item)), elide(self.subtitle(item), SUBTITLE_LENGTH)
            found = self._words[item] = (title, subtitle)
        return found

    def title(self, item: str) -> str:
        """Return the first line to write on an item: its operator, or the group's name."""
        if item in self.groups:
            return self.groups[item].label
        return node_title(self.snapshot.nodes_by_id[item])

    def subtitle(self, item: str) -> str:
        """Return the second line: the module's class and size, or the module's name."""
        group = self.groups.get(item)
        if group is None:
            node = self.snapshot.nodes_by_id[item]
            return self.titles.get(item) or local_name(node.id)
        module = self.snapshot.modules_by_path.get(group.module)
        is_own = module is not None and not item.rpartition("#")[1]
        name = type_label(module.type_name) if module and is_own and group.module else ""
        count = f"{group.size:,} operations"
        if group.is_run:
            return f"{len(group.children)} alike, {count}"
        return f"{name}, {count}" if name else count

    def twins(self, group: str) -> tuple[str, ...]:
        """Return the siblings with the same structure as a group, itself included.

        Of a run of repeated blocks they are the blocks in it.
        """
        own = self.groups[group]
        if group == ROOT:
            return (group,)
        if own.is_run:
            return tuple(own.children)
        siblings = (self.groups.get(key) for key in self.groups[self.parent[group]].children)
        return tuple(g.key for g in siblings if g and g.signature == own.signature)

    def border(self, group: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the operations outside of a group that it reads, and those that read from it."""
        found = self._borders.get(group)
        if found is None:
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
            found = self._borders[group] = (tuple(reads), tuple(written))
        return found

    def leaves(self, item: str) -> tuple[str, ...]:
        """Return the drawn operations of an item: of a group all of them, in order."""
        if item not in self.groups:
            return (item,)
        found: list[str] = []
        waiting = [item]
        while waiting:
            top = waiting.pop()
            if top in self.groups:
                waiting.extend(reversed(self.groups[top].children))
            else:
                found.append(top)
        return tuple(found)

    def ancestors(self, item: str) -> list[str]:
        """Return the groups that hold an item, the whole graph first."""
        found: list[str] = []
        while item in self.parent:
            item = self.parent[item]
            found.append(item)
        return found[::-1]

    def shown(self, node_id: str, expanded: Collection[str]) -> str | None:
        """Return the item that stands for an operation while only some groups are open."""
        item = self.owner.get(node_id)
        if item is None:
            return None
        for group in self.ancestors(item):
            if group != ROOT and group not in expanded:
                return group
        return item

    def visible(self, expanded: Collection[str]) -> list[str]:
        """Return every item that is drawn while the given groups are open."""
        found: list[str] = []
        waiting = list(reversed(self.groups[ROOT].children))
        while waiting:
            item = waiting.pop()
            found.append(item)
            if item in expanded and item in self.groups:
                waiting.extend(reversed(self.groups[item].children))
        return found

    def opening(self) -> frozenset[str]:
        """Return the groups to open at first, so that a readable number of items shows."""
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
        """Return the groups of a group that may open unasked: repeated blocks stay folded."""
        inside = (self.groups.get(child) for child in self.groups[key].children)
        return [group.key for group in inside if group is not None and not group.is_run]

    def node(self, item: str) -> Node | None:
        """Return the operation behind an item; None for a group."""
        return None if item in self.groups else self.snapshot.nodes_by_id.get(item)

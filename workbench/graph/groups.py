"""The groups that the operations' paths make, before any edge is drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.graph.snapshot import GraphSnapshot

ROOT = "/"
SECTION_FROM = 1000
SECTION_SIZE = 250
RUN_FROM = 3
DEPTH_LIMIT = 64


def group_key(path: tuple[str, ...]) -> str:
    """Return the item name of a group path."""
    return "/".join(path) + "/"


@dataclass(slots=True)
class Link:
    """The tensors (node id, output index) that flow between two children of a group."""

    tensors: list[tuple[str, int]]


@dataclass(slots=True)
class Group:
    """A module's call, a branch, a delegate, a section of a very long list, or a run of blocks."""

    key: str
    label: str
    children: list[str] = field(default_factory=list)
    links: dict[tuple[str, str], Link] = field(default_factory=dict)
    module: str = ""
    size: int = 0
    signature: int = -1
    is_run: bool = False


class Growth:
    """Makes groups from paths: ``groups`` and, for groups drawn as their only child, ``alias``.

    ``titles`` has the names of groups that became a single operation.
    """

    def __init__(
        self, snapshot: GraphSnapshot, owner: dict[str, str], *, flat: bool = False
    ) -> None:
        self._flat = flat
        self.groups: dict[str, Group] = {ROOT: Group(ROOT, "")}
        self.alias: dict[str, str] = {}
        self.titles: dict[str, str] = {}
        self._grow(snapshot, owner)
        self._flatten(ROOT)
        for key in list(self.groups):
            self._cut(key)

    def _grow(self, snapshot: GraphSnapshot, owner: dict[str, str]) -> None:
        """Make a group for every path that an operation names."""
        chains: dict[tuple[str, ...], str] = {(): ROOT}
        for node in snapshot.nodes:
            if owner.get(node.id) != node.id:
                continue
            path = () if self._flat else node.group[:DEPTH_LIMIT]
            if path not in chains:
                for depth in range(1, len(path) + 1):
                    self._open(path[:depth], chains)
            self.groups[chains[path]].children.append(node.id)

    def _open(self, path: tuple[str, ...], chains: dict[tuple[str, ...], str]) -> None:
        if path in chains:
            return
        key = group_key(path)
        chains[path] = key
        self.groups[key] = Group(key, path[-1])
        self.groups[chains[path[:-1]]].children.append(key)

    def _flatten(self, key: str) -> str:
        """Replace groups with a single child, below ``key`` and itself; return what is left."""
        group = self.groups[key]
        group.children = [
            self._flatten(child) if child in self.groups else child for child in group.children
        ]
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
        """Cut a very long list of children into sections, in execution order."""
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
    """Put neighbours of the same structure into a group of their own; return whether any was.

    Groups must bear their signatures. Three and more make a run.
    """
    found = False
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
            label = f"{first.label} to {last.label}"
            groups[key] = Group(key, label, run, is_run=True)
            children.append(key)
            found = True
        group.children = children
    return found


def _runs(group: Group, groups: dict[str, Group]) -> list[list[str]]:
    """Return the children of a group, those of one structure that follow each other together."""
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

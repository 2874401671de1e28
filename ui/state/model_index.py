"""Index of the model for rules: its modules and nodes, and the effective config of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from ui.state.background import Background
from ui.state.document import Document
from ui.state.results import ResultCache
from ui.state.session import Session
from workbench.errors import WorkbenchError
from workbench.graph.snapshot import GraphSnapshot, Module, Node
from workbench.project.model import PLUGIN_KINDS, Project, RuleKind
from workbench.project.rules import Effective, ModuleRef, NodeRef, Resolution, is_within, resolve

if TYPE_CHECKING:
    from workbench.results import PrepareResult


@dataclass(frozen=True)
class FusedGroup:
    """The modules of one fused operator in order, and their parent if it has no other modules.

    ``nodes`` are its operations, a layer first.
    """

    members: tuple[str, ...]
    parent: str | None
    nodes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the group."""
        return self.parent or " + ".join(self.members)

    @property
    def matches(self) -> list[str]:
        """The module names that a rule for the whole group must match."""
        return [self.parent] if self.parent else list(self.members)

    def is_within(self, path: str) -> bool:
        """Return whether a rule for a module reaches the whole group."""
        return all(is_within(member, path) for member in self.members)


def fused_groups(snapshot: GraphSnapshot) -> Mapping[str, FusedGroup]:
    """Return the fused group of every module that is fused with others.

    A group is a convolution or linear operator, the batch normalisation after it and the
    activation after that. Each is the only reader of the former, in a module of its own.

    Source: ExecuTorch 1.5.1, fusing patterns of the Arm backend's quantizer.
    """
    groups: dict[str, FusedGroup] = {}
    for node in snapshot.nodes:
        if _starts(node):
            chain = _chain(snapshot, node)
            members = list(dict.fromkeys(n.module for n in chain))
            if len(members) > 1 and all(members):
                group = FusedGroup(tuple(members), _own_parent(snapshot, members), tuple(n.id for n in chain))
                groups.update(dict.fromkeys(members, group))
    return groups


def _base(node: Node) -> str:
    """Return the bare name of an operator: ``aten.relu_.default`` is ``relu``."""
    parts = node.op.split(".")
    return parts[1 if len(parts) > 1 else 0].strip("_") if node.kind == "call" else ""


def _starts(node: Node) -> bool:
    return _base(node).startswith(("conv", "linear", "addmm"))


def _normalises(node: Node) -> bool:
    return "batch_norm" in _base(node)


def _activates(node: Node) -> bool:
    return _base(node) in {"relu", "relu6", "hardtanh", "clamp"}


def _chain(snapshot: GraphSnapshot, start: Node) -> list[Node]:
    chain = [start]
    for belongs in (_normalises, _activates):
        readers = [n for n in snapshot.consumers(chain[-1].id) if n.kind == "call"]
        if len(readers) == 1 and belongs(readers[0]):
            chain.append(readers[0])
    return chain


def _own_parent(snapshot: GraphSnapshot, members: list[str]) -> str | None:
    parents = {member.rpartition(".")[0] for member in members}
    parent = parents.pop()
    inside = {m.path for m in snapshot.modules if m.path.startswith(f"{parent}.")}
    return parent if parent and not parents and inside == set(members) else None


GRAPH_FILE = "graph.json"


class ModelIndex(QObject):
    """Reads the exported graph once, and resolves the rules after every change of the project.

    Signals:
        model_changed: the modules or nodes changed, and with them the configs.
        resolved: the effective configs changed.
    """

    model_changed = Signal()
    resolved = Signal()

    def __init__(self, document: Document, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._document, self._session = document, session
        self._background = Background(self)
        self._requested = _Sources()
        self._is_reading = False
        self._index = _Index(_Sources())
        self.resolution = Resolution()
        document.project_changed.connect(self._on_project_changed)
        session.results_changed.connect(self.refresh)
        self._background.done.connect(self._on_read)

    @property
    def snapshot(self) -> GraphSnapshot | None:
        """The exported graph; None before the first export."""
        return self._index.snapshot

    @property
    def groups(self) -> Mapping[str, FusedGroup]:
        """The fused group of every module that is fused with others."""
        return self._index.groups

    @property
    def modules(self) -> tuple[Module, ...]:
        """All modules of the model; empty before the first export."""
        return self.snapshot.modules if self.snapshot else ()

    def names(self) -> Mapping[RuleKind, Sequence[str]]:
        """Return the names that rules can match, by kind of rule; empty before the first export."""
        if self.snapshot is None:
            return {}
        calls = [node for node in self.snapshot.nodes if node.kind == "call"]
        return {
            "module_name": [module.path for module in self.modules if module.path],
            "module_type": sorted({module.type_name for module in self.modules}),
            "node_target": sorted({node.op for node in calls}),
            "node_name": [node.id for node in calls],
        }

    def effective(self, path: str) -> Effective | None:
        """Return the effective config of a module; None for an unknown module."""
        return self.resolution.modules.get(path)

    def fused_nodes(self) -> set[tuple[str, ...]]:
        """Return the operations of each fused group, a layer first."""
        return {group.nodes for group in self.groups.values()}

    def operations(self) -> Iterator[tuple[str, Effective]]:
        """Yield the innermost module and the effective config of each operation."""
        nodes, configs = self.snapshot.nodes if self.snapshot else (), self.resolution.nodes
        for node in nodes:
            if node.kind in {"call", "control"} and node.id in configs:
                yield node.module, configs[node.id]

    def nodes_of(self, paths: frozenset[str]) -> frozenset[str]:
        """Return the nodes inside any of these modules."""
        if self.snapshot is None or not paths:
            return frozenset()
        return frozenset(node.id for node in self.snapshot.nodes if inside(node.module, paths))

    def modules_of(self, nodes: frozenset[str]) -> frozenset[str]:
        """Return the innermost modules of these nodes."""
        if self.snapshot is None:
            return frozenset()
        known = self.snapshot.nodes_by_id
        return frozenset(known[n].module for n in nodes if n in known and known[n].module)

    def refresh(self) -> None:
        """Read the current graph if it changed. Without a current graph the former one stays.

        Files are read and parsed in a worker thread. The nodes that plug-in rules match are known
        after the stage Prepare.
        """
        project = self._document.project
        has_plugins = project is not None and _has_plugins(project)
        prepared = self._session.result("prepare") if has_plugins else None
        wanted = _Sources(self._session.former("export"), prepared)
        is_known = wanted.graph is None or self.snapshot is not None or self._is_reading
        if wanted == self._requested and is_known:
            return
        self._requested = wanted
        if wanted.graph is None:
            self._take(_Index(wanted))
            return
        self._is_reading = True
        parsed, before = self._session.parsed, self._index
        self._background.submit(_TOPIC, lambda _outdated: _read(wanted, before, parsed))

    def stop(self) -> None:
        """End the thread that reads; returns when it has ended."""
        self._background.stop()

    def _on_read(self, _topic: str, index: object) -> None:
        if isinstance(index, _Index) and index.sources == self._requested:
            self._take(index)

    def _take(self, index: _Index) -> None:
        self._is_reading = False
        is_same = index.snapshot is self.snapshot
        self._index = index
        self._resolve()
        if is_same:
            self.resolved.emit()
        else:
            self.model_changed.emit()

    def _on_project_changed(self, project: object) -> None:
        if project is None:
            self._requested = _Sources()
            self._take(_Index(_Sources()))
        else:
            self.refresh()
        self._resolve()
        self.resolved.emit()

    def _resolve(self) -> None:
        project, index = self._document.project, self._index
        if project is None:
            self.resolution = Resolution()
        else:
            taken = self._taken(project)
            self.resolution = resolve(project, index.modules, index.nodes, taken)

    def _taken(self, project: Project) -> dict[str, str] | None:
        """Return the plug-in rule that matched each node; None before the stage Prepare."""
        if self._index.prepared is None or not _has_plugins(project):
            return None
        from workbench.pipeline.resolution import taken_by_plugins

        return taken_by_plugins(project, self._index.prepared)


@dataclass(frozen=True)
class _Sources:
    """The folders of the results that the index is made of."""

    graph: Path | None = None
    prepared: Path | None = None


@dataclass(frozen=True)
class _Index:
    """What was read of the model, and what follows from it."""

    sources: _Sources
    snapshot: GraphSnapshot | None = None
    groups: Mapping[str, FusedGroup] = field(default_factory=dict)
    modules: tuple[ModuleRef, ...] = ()
    nodes: tuple[NodeRef, ...] = ()
    prepared: PrepareResult | None = None


_TOPIC = "model"


def _read(sources: _Sources, before: _Index, parsed: ResultCache) -> _Index:
    """Return the index of some results; what cannot be read is left out."""
    from workbench.results import PrepareResult

    snapshot = prepared = None
    if sources.graph is not None:
        with suppress(WorkbenchError):
            snapshot = parsed.graph(sources.graph / GRAPH_FILE)
    if sources.prepared is not None:
        with suppress(WorkbenchError):
            prepared = parsed.load(PrepareResult, sources.prepared)
    if snapshot is None:
        return _Index(sources, prepared=prepared)
    if snapshot is before.snapshot:
        return replace(before, sources=sources, prepared=prepared)
    refs = {m.path: ModuleRef(m.path, m.type_name) for m in snapshot.modules}
    nodes = tuple(
        NodeRef(n.id, n.op, _ancestors(n.module, refs), n.kind in {"input", "output"})
        for n in snapshot.nodes
        if n.kind in {"input", "output", "call", "control"}
    )
    return _Index(sources, snapshot, fused_groups(snapshot), tuple(refs.values()), nodes, prepared)


def _has_plugins(project: Project) -> bool:
    return any(rule.kind in PLUGIN_KINDS for rule in project.rules)


def inside(module: str, paths: frozenset[str]) -> bool:
    """Return whether a module is one of these or inside one; "" is the whole model."""
    while module not in paths:
        if not module:
            return False
        module = module.rpartition(".")[0]
    return True


def _ancestors(path: str, refs: Mapping[str, ModuleRef]) -> tuple[ModuleRef, ...]:
    parts = path.split(".") if path else []
    names = ["", *(".".join(parts[: i + 1]) for i in range(len(parts)))]
    return tuple(refs[name] for name in names if name in refs)

"""Index of the model for rules: its modules and nodes, and the effective config of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from ui.state.document import Document
from ui.state.session import Session
from workbench.errors import WorkbenchError
from workbench.graph.snapshot import GraphSnapshot, Module, Node
from workbench.project.model import PLUGIN_KINDS, Project
from workbench.project.rules import Effective, ModuleRef, NodeRef, Resolution, resolve


@dataclass(frozen=True)
class FusedGroup:
    """The modules of one fused operator in order, and their parent if it has no other modules."""

    members: tuple[str, ...]
    parent: str | None

    @property
    def name(self) -> str:
        """Name of the group."""
        return self.parent or " + ".join(self.members)

    @property
    def matches(self) -> list[str]:
        """The module names that a rule for the whole group must match."""
        return [self.parent] if self.parent else list(self.members)


def fused_groups(snapshot: GraphSnapshot) -> Mapping[str, FusedGroup]:
    """Return the fused group of every module that is fused with others.

    A group is a convolution or linear operator, the batch normalisation after it and the
    activation after that. Each is the only reader of the former, in a module of its own.

    Source: ExecuTorch 1.5.1, fusing patterns of the Arm backend's quantizer.
    """
    found: dict[str, FusedGroup] = {}
    for node in snapshot.nodes:
        if _starts(node):
            members = list(dict.fromkeys(n.module for n in _chain(snapshot, node)))
            if len(members) > 1 and all(members):
                group = FusedGroup(tuple(members), _own_parent(snapshot, members))
                found.update(dict.fromkeys(members, group))
    return found


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
        self._folder: Path | None = None
        self._prepared: Path | None = None
        self.snapshot: GraphSnapshot | None = None
        self.groups: Mapping[str, FusedGroup] = {}
        self.resolution = Resolution()
        self._modules: list[ModuleRef] = []
        self._nodes: list[NodeRef] = []
        document.project_changed.connect(self._on_project_changed)
        session.results_changed.connect(self.refresh)

    @property
    def modules(self) -> tuple[Module, ...]:
        """All modules of the model; empty before the first export."""
        return self.snapshot.modules if self.snapshot else ()

    def effective(self, path: str) -> Effective | None:
        """Return the effective config of a module; None for an unknown module."""
        return self.resolution.modules.get(path)

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

        The nodes that plug-in rules match are known after the stage Prepare.
        """
        prepared = self._session.result("prepare")
        if prepared != self._prepared:
            self._prepared = prepared
            self._resolve()
            self.resolved.emit()
        folder = self._session.former("export")
        if folder == self._folder and (folder is None) == (self.snapshot is None):
            return
        self._folder = folder
        self.snapshot = _load(folder)
        self._take_apart()
        self._resolve()
        self.model_changed.emit()

    def _take_apart(self) -> None:
        snapshot = self.snapshot
        self.groups = fused_groups(snapshot) if snapshot else {}
        if snapshot is None:
            self._modules, self._nodes = [], []
            return
        refs = {m.path: ModuleRef(m.path, m.type_name) for m in snapshot.modules}
        self._modules = list(refs.values())
        self._nodes = [
            NodeRef(n.id, n.op, _ancestors(n.module, refs), n.kind in {"input", "output"})
            for n in snapshot.nodes
            if n.kind in {"input", "output", "call", "control"}
        ]

    def _on_project_changed(self, project: object) -> None:
        if project is None:
            self._folder, self.snapshot = None, None
            self._take_apart()
            self.model_changed.emit()
        self._resolve()
        self.resolved.emit()

    def _resolve(self) -> None:
        project = self._document.project
        if project is None:
            self.resolution = Resolution()
        else:
            taken = self._taken(project)
            self.resolution = resolve(project, self._modules, self._nodes, taken)

    def _taken(self, project: Project) -> dict[str, str] | None:
        """Return the plug-in rule that matched each node; None before the stage Prepare."""
        if self._prepared is None or not any(r.kind in PLUGIN_KINDS for r in project.rules):
            return None
        from workbench.pipeline.resolution import taken_by_plugins
        from workbench.results import PrepareResult, load_result

        try:
            return taken_by_plugins(project, load_result(PrepareResult, self._prepared))
        except WorkbenchError:
            return None


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


def _load(folder: Path | None) -> GraphSnapshot | None:
    if folder is None:
        return None
    try:
        return GraphSnapshot.load(folder / GRAPH_FILE)
    except WorkbenchError:
        return None

"""The model as rules see it: its modules and nodes, and which config each one gets."""

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
    """The modules of one fused operator in order, and their parent if it holds nothing else."""

    members: tuple[str, ...]
    parent: str | None

    @property
    def name(self) -> str:
        """What to call it."""
        return self.parent or " + ".join(self.members)

    @property
    def matches(self) -> list[str]:
        """The module names that a rule for the whole group must speak of."""
        return [self.parent] if self.parent else list(self.members)


def fused_groups(snapshot: GraphSnapshot) -> Mapping[str, FusedGroup]:
    """Return for every module that is fused with others the group it belongs to.

    A group is a convolution or linear operator, the batch normalisation behind it and the
    activation behind that, each the only reader of the one before, in modules of their own.

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


class Outline(QObject):
    """Reads the exported graph once and resolves the rules on every change of the project.

    Signals:
        model_changed: other modules or nodes than before, and with them other configs.
        resolved: the resolution is other than before.
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
        """Return what a module gets; None for one that is not known."""
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
        """Read the graph if another one is current; keep the former one while there is none.

        What rules of plug-ins take is known once the program has been prepared.
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
        """Return the rule of a plug-in that took each node; None while that is not known."""
        if self._prepared is None or not any(r.kind in PLUGIN_KINDS for r in project.rules):
            return None
        from workbench.pipeline.resolution import taken_by_plugins
        from workbench.results import PrepareResult, load_result

        try:
            return taken_by_plugins(project, load_result(PrepareResult, self._prepared))
        except WorkbenchError:
            return None


def inside(module: str, paths: frozenset[str]) -> bool:
    """Tell whether a module is one of these or lies in one; "" is the whole model."""
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

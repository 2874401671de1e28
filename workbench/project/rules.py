"""Predicts which config each module and node gets, and from which rule.

Source: ExecuTorch 1.5.1 ``EthosUQuantizer`` (composable): every setter inserts its quantizer
at the front, so the last matching call wins regardless of its kind, and the global config is
always last. A module name covers all modules below it; a module type is compared as
``module.qualname``, or as the name of the class alone, and does not match subclasses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from workbench.errors import ErrorInfo, Place
from workbench.project.patterns import fault, fits

if TYPE_CHECKING:
    from workbench.project.model import Project, Rule


@dataclass(frozen=True)
class ModuleRef:
    """The attributes of a module that rules match: dotted name and fully qualified class."""

    path: str
    type_name: str


@dataclass(frozen=True)
class NodeRef:
    """The attributes of a node that rules match: name, operator, modules, border or not."""

    id: str
    target: str
    modules: tuple[ModuleRef, ...]
    is_io: bool = False


@dataclass(frozen=True)
class Effective:
    """The result for a module or node: config label, deciding rule and overridden rules.

    ``cpu_only`` is the rule that keeps it off the NPU; precision and placement are independent.
    ``wish`` is the label that the rule asks for, if the target applied ``label`` instead.
    """

    label: str
    rule: str | None
    overridden: tuple[str, ...] = ()
    cpu_only: str | None = None
    wish: str = ""

    @property
    def chip(self) -> str:
        """The config label, with "CPU" if the node is kept off the NPU."""
        return f"{self.label} {ON_CPU}" if self.cpu_only else self.label


@dataclass(frozen=True)
class RuleCount:
    """The number of modules or nodes that a rule decides, and that it loses to other rules."""

    wins: int
    loses: int

    @property
    def matched(self) -> int:
        """The number of matches of the rule."""
        return self.wins + self.loses


@dataclass(frozen=True)
class Resolution:
    """The effective config of every module and node, and the counts of every rule.

    Plug-in rules have counts only after their code has run.
    """

    modules: Mapping[str, Effective] = field(default_factory=dict)
    nodes: Mapping[str, Effective] = field(default_factory=dict)
    counts: Mapping[str, RuleCount] = field(default_factory=dict)


ON_CPU = "CPU"
UNASSIGNED = Effective(label="float", rule=None)


def is_within(path: str, ancestor: str) -> bool:
    """Return whether ``path`` names ``ancestor`` or something inside it."""
    return path == ancestor or path.startswith(f"{ancestor}.")


def is_class(type_name: str, match: str) -> bool:
    """Return whether a fully qualified class is the one that is named, in full or by its name."""
    return match in {type_name, type_name.rpartition(".")[2]}


def ambiguous_classes(project: Project, types: Iterable[str]) -> Iterator[ErrorInfo]:
    """Yield the rules for a class of whose name the model has several.

    Args:
        project: Its enabled rules are read.
        types: The fully qualified classes of the model's modules.
    """
    known = sorted(set(types))
    for rule in project.rules:
        classes = [name for name in known if is_class(name, rule.match)]
        if rule.enabled and rule.kind == "module_type" and len(classes) > 1:
            yield ErrorInfo(
                message=f"module_type {rule.match}: the model has several classes of that name.",
                hint=f"Write {' or '.join(classes)}.",
                where=Place(kind="rule", id=rule.id),
                code="rule-class-ambiguous",
            )


def unusable_patterns(project: Project) -> Iterator[ErrorInfo]:
    """Yield the enabled rules whose pattern is invalid, or may take too long, and so unused."""
    for rule in project.rules:
        if rule.enabled and rule.kind == "pattern" and (reason := fault(rule.match)):
            yield ErrorInfo(
                message=f"pattern {rule.match[:60]} matches nothing. {reason}",
                hint="Write a simpler pattern, or name the modules.",
                where=Place(kind="rule", id=rule.id),
                code="rule-pattern-invalid",
            )


def matches_module(rule: Rule, chain: Sequence[ModuleRef]) -> bool:
    """Return whether the rule matches a module, given the modules from the root to it."""
    if rule.kind == "global":
        return True
    if rule.kind == "module_name":
        return any(is_within(module.path, rule.match) for module in chain)
    if rule.kind == "module_type":
        return any(is_class(module.type_name, rule.match) for module in chain)
    if rule.kind == "pattern":
        path = chain[-1].path if chain else ""
        return any(fits(rule.match, name) for name in (path, path.replace(".", "_")) if name)
    return False


def matches_node(rule: Rule, node: NodeRef) -> bool:
    """Return whether the rule matches a node."""
    if rule.kind == "io":
        return node.is_io
    if rule.kind == "node_name":
        return node.id == rule.match
    if rule.kind == "node_target":
        return node.target == rule.match
    if rule.kind == "pattern" and fits(rule.match, node.id):
        return True
    return matches_module(rule, node.modules)


def by_strength(rules: Iterable[Rule]) -> list[Rule]:
    """Return the enabled rules, strongest first."""
    enabled = [rule for rule in rules if rule.enabled]
    specific = [rule for rule in enabled if rule.kind != "global"]
    general = [rule for rule in enabled if rule.kind == "global"]
    return specific[::-1] + general[::-1]


def module_chains(modules: Sequence[ModuleRef]) -> dict[str, tuple[ModuleRef, ...]]:
    """Return the modules from the root to each module."""
    known = {module.path: module for module in modules}
    chains: dict[str, tuple[ModuleRef, ...]] = {}
    for module in modules:
        parts = module.path.split(".") if module.path else []
        prefixes = ["", *(".".join(parts[: i + 1]) for i in range(len(parts)))]
        chains[module.path] = tuple(known[p] for p in prefixes if p in known)
    return chains


def resolve(
    project: Project,
    modules: Sequence[ModuleRef],
    nodes: Sequence[NodeRef] = (),
    taken: Mapping[str, str] | None = None,
) -> Resolution:
    """Return the effective config of every module and node.

    Args:
        project: Its rules are applied in order.
        modules: All modules of the model.
        nodes: The nodes of the exported graph, if available.
        taken: The plug-in rule that matched each node; such a rule decides a module if it
            matched all of the module's own nodes. None if not known yet.
    """
    tally = _Tally(project, unknown=_OF_CODE if taken is None else frozenset())
    taken = taken or {}
    ordered = by_strength(project.rules)
    takers: dict[str, set[str]] = {}
    for node in nodes:
        owner = node.modules[-1].path if node.modules else ""
        takers.setdefault(owner, set()).add(taken.get(node.id, ""))
    by_module = {
        path: tally.decide(
            [r for r in ordered if matches_module(r, chain) or takers.get(path) == {r.id}], _OF_MODULES
        )
        for path, chain in module_chains(modules).items()
    }
    by_node = {
        node.id: tally.decide(
            [r for r in ordered if matches_node(r, node) or taken.get(node.id) == r.id], _OF_NODES
        )
        for node in nodes
    }
    return Resolution(by_module, by_node, tally.counts())


_OF_CODE = frozenset({"finder", "quantizer"})
_OF_NODES = frozenset({"io", "node_name", "node_target", "pattern"}) | _OF_CODE
_OF_MODULES = frozenset({"global", "module_type", "module_name", "pattern"})


class _Tally:
    """Applies the rules to modules and nodes, and counts wins and losses."""

    def __init__(self, project: Project, unknown: frozenset[str]) -> None:
        self._labels = {rule.id: project.label_of(rule) for rule in project.rules}
        self._known = [rule.id for rule in project.rules if rule.kind not in unknown]
        self._wins = dict.fromkeys(self._labels, 0)
        self._loses = dict(self._wins)

    def decide(self, matching: Sequence[Rule], counted: frozenset[str]) -> Effective:
        """Return the result; ``matching`` is sorted strongest first."""
        precise = [rule for rule in matching if not rule.keeps_off]
        keeping = [rule for rule in matching if rule.keeps_off]
        for rules in (precise, keeping):
            for position, rule in enumerate(rules):
                if rule.kind in counted:
                    (self._loses if position else self._wins)[rule.id] += 1
        effective = UNASSIGNED
        if precise:
            beaten = tuple(rule.id for rule in precise[1:])
            effective = Effective(self._labels[precise[0].id], precise[0].id, beaten)
        return replace(effective, cpu_only=keeping[0].id) if keeping else effective

    def counts(self) -> dict[str, RuleCount]:
        """Return the counts of every rule, where known."""
        return {name: RuleCount(self._wins[name], self._loses[name]) for name in self._known}

"""Which config each module and node gets, and by which rule: the quantizer's own order, predicted.

Source: ExecuTorch 1.5.1 ``EthosUQuantizer`` (composable): every setter call inserts its quantizer
in front, so the last call that matches wins whatever its kind, and the global config is always
behind all others. A module name covers all modules below it; a module type is compared as
``module.qualname`` and does not match subclasses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.project.model import Project, Rule


@dataclass(frozen=True)
class ModuleRef:
    """A module as a rule sees it: dotted name and fully qualified class."""

    path: str
    type_name: str


@dataclass(frozen=True)
class NodeRef:
    """A node as a rule sees it: name, operator, enclosing modules, and whether it is a border."""

    id: str
    target: str
    modules: tuple[ModuleRef, ...]
    is_io: bool = False


@dataclass(frozen=True)
class Effective:
    """The outcome for one thing: label of the config, the rule that won, the rules it beat."""

    label: str
    rule: str | None
    overridden: tuple[str, ...] = ()


@dataclass(frozen=True)
class RuleCount:
    """What a rule does: how many modules or nodes it decides, and how many it loses to others."""

    wins: int = 0
    loses: int = 0

    @property
    def matched(self) -> int:
        """How many things the rule speaks of at all."""
        return self.wins + self.loses


@dataclass(frozen=True)
class Resolution:
    """The effective config of every module and node, and the tally of every rule."""

    modules: Mapping[str, Effective] = field(default_factory=dict)
    nodes: Mapping[str, Effective] = field(default_factory=dict)
    counts: Mapping[str, RuleCount] = field(default_factory=dict)


UNASSIGNED = Effective(label="float", rule=None)


def is_within(path: str, ancestor: str) -> bool:
    """Return whether ``path`` names ``ancestor`` or something inside it."""
    return path == ancestor or path.startswith(f"{ancestor}.")


def matches_module(rule: Rule, chain: Sequence[ModuleRef]) -> bool:
    """Return whether the rule speaks of a module, given the modules from the root down to it."""
    if rule.kind == "global":
        return True
    if rule.kind == "module_name":
        return any(is_within(module.path, rule.match) for module in chain)
    if rule.kind == "module_type":
        return any(module.type_name == rule.match for module in chain)
    return False


def matches_node(rule: Rule, node: NodeRef) -> bool:
    """Return whether the rule speaks of a node."""
    if rule.kind == "io":
        return node.is_io
    if rule.kind == "node_name":
        return node.id == rule.match
    if rule.kind == "node_target":
        return node.target == rule.match
    return matches_module(rule, node.modules)


def by_strength(rules: Iterable[Rule]) -> list[Rule]:
    """Return the enabled rules, strongest first."""
    enabled = [rule for rule in rules if rule.enabled]
    specific = [rule for rule in enabled if rule.kind != "global"]
    general = [rule for rule in enabled if rule.kind == "global"]
    return specific[::-1] + general[::-1]


def module_chains(modules: Sequence[ModuleRef]) -> dict[str, tuple[ModuleRef, ...]]:
    """Return for every module the modules from the root down to itself."""
    known = {module.path: module for module in modules}
    chains: dict[str, tuple[ModuleRef, ...]] = {}
    for module in modules:
        parts = module.path.split(".") if module.path else []
        prefixes = ["", *(".".join(parts[: i + 1]) for i in range(len(parts)))]
        chains[module.path] = tuple(known[p] for p in prefixes if p in known)
    return chains


def resolve(
    project: Project, modules: Sequence[ModuleRef], nodes: Sequence[NodeRef] = ()
) -> Resolution:
    """Return what every module and node gets, and why.

    Args:
        project: Its rules are read in order.
        modules: All modules of the model.
        nodes: The nodes of the exported graph, if there is one yet.
    """
    ordered = by_strength(project.rules)
    labels = {rule.id: project.label_of(rule) for rule in ordered}
    wins = dict.fromkeys((rule.id for rule in project.rules), 0)
    loses = dict(wins)

    def decide(matching: list[Rule], *, count: bool) -> Effective:
        if not matching:
            return UNASSIGNED
        winner, *beaten = matching
        if count:
            wins[winner.id] += 1
            for rule in beaten:
                loses[rule.id] += 1
        return Effective(labels[winner.id], winner.id, tuple(rule.id for rule in beaten))

    chains = module_chains(modules)
    by_module = {
        path: decide([r for r in ordered if matches_module(r, chain)], count=True)
        for path, chain in chains.items()
    }
    by_node: dict[str, Effective] = {}
    for node in nodes:
        matching = [rule for rule in ordered if matches_node(rule, node)]
        by_node[node.id] = decide(matching, count=False)
        for position, rule in enumerate(matching):
            if rule.kind in {"io", "node_name", "node_target"}:
                tally = loses if position else wins
                tally[rule.id] += 1
    counts = {rule.id: RuleCount(wins[rule.id], loses[rule.id]) for rule in project.rules}
    return Resolution(by_module, by_node, counts)

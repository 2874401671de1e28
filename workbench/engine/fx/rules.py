"""A project's rules on an exported graph, for targets without a quantizer of their own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workbench.engine.fx import modules, programs
from workbench.errors import ErrorInfo, Place, WorkbenchError
from workbench.project.rules import ModuleRef, NodeRef, by_strength, matches_node
from workbench.targets import target_of

if TYPE_CHECKING:
    from torch import fx

    from workbench.project.model import Project, Rule
    from workbench.project.opened import OpenProject
    from workbench.targets.base import Reason


@dataclass
class GraphRules:
    """The project's rules and their results: the deciding rule of a node, and the quantizing one.

    ``reasons`` holds the reason why a matched node is not quantized, or notes on a quantized one;
    ``cpu_only`` are the nodes that rules keep off the device.
    """

    project: Project
    won: dict[fx.Node, Rule] = field(default_factory=dict)
    placed: dict[fx.Node, Rule] = field(default_factory=dict)
    reasons: dict[fx.Node, Reason] = field(default_factory=dict)
    cpu_only: set[fx.Node] = field(default_factory=set)

    def decide(self, graph: fx.Graph) -> None:
        """Find the strongest matching rule for every operator."""
        rules = by_strength(self.project.rules)
        for node in graph.nodes:
            if node.op != "call_function":
                continue
            frames = modules.frames(node.meta.get("nn_module_stack"))
            refs = tuple(ModuleRef(path, type_name) for path, _, type_name in frames)
            seen = NodeRef(node.name, programs.op_of(node), refs)
            matching = [rule for rule in rules if matches_node(rule, seen)]
            if any(rule.keeps_off for rule in matching):
                self.cpu_only.add(node)
            if precise := [rule for rule in matching if not rule.keeps_off]:
                self.won[node] = precise[0]


def rules_of(opened: OpenProject) -> GraphRules:
    """Return the project's rules for a graph; plug-ins are not supported.

    Raises:
        WorkbenchError: rules assign configs that the target does not support.
    """
    project = opened.project
    target, problems = target_of(project.target.id), []
    for rule in (r for r in project.rules if r.enabled and not r.keeps_off):
        if refusal := target.refusal(project.target, project.config_of(rule), rule.kind):
            problems.append(
                ErrorInfo(message=refusal, where=Place(kind="rule", id=rule.id), code="rule-not-supported")
            )
    if problems:
        raise WorkbenchError(problems)
    return GraphRules(project)

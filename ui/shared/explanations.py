"""Texts that explain rules and effective configs, shared by all panels."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from workbench.errors import WorkbenchError
from workbench.project.configs import PRESETS_BY_ID
from workbench.project.model import KEEPING_CALLS, RULE_CALLS, Project, Rule, RuleKind, name_of
from workbench.project.rules import Effective
from workbench.targets import target_of

if TYPE_CHECKING:
    from workbench.results import NodeAnnotation, PrepareResult

FLOAT = "float"


def rule_numbers(rules: Sequence[Rule]) -> dict[str, int]:
    """Return the number of each rule: its position in the call order, from 1."""
    return {rule.id: number for number, rule in enumerate(rules, 1)}


KIND_WORDS: Mapping[RuleKind, str] = {
    "global": "Whole model",
    "io": "Inputs and outputs",
    "module_type": "Module type",
    "module_name": "Module",
    "node_target": "Operator",
    "node_name": "Node",
    "pattern": "Pattern",
    "finder": "Node matcher",
    "quantizer": "Quantizer",
}


def rule_words(rule: Rule) -> str:
    """Return the kind and the match of a rule, e.g. ``Module encoder.3``, ``Module type SiLU``."""
    is_torch = rule.kind == "module_type" and rule.match.startswith("torch.nn.")
    match = rule.match.rpartition(".")[2] if is_torch else rule.match
    return f"{KIND_WORDS[rule.kind]} {name_of(match)}".strip()


def rule_name(rule: Rule) -> str:
    """Return a rule's match, or the name of its kind if it has no match."""
    plain = {"global": "whole model", "io": "inputs and outputs", "quantizer": "plug-in quantizer"}
    return name_of(rule.match) or plain[rule.kind]


def why(effective: Effective, rules: Sequence[Rule], module: str = "") -> str:
    """Return why a module has its config: ``a16w8 from rule 3 encoder.*, overrides rule 1``."""
    numbers = rule_numbers(rules)
    known = {rule.id: rule for rule in rules}
    winner = known.get(effective.rule or "")
    keeping = known.get(effective.cpu_only or "")
    exclusion = f"; rule {numbers[keeping.id]} keeps it on the CPU" if keeping else ""
    if winner is None:
        return f"{effective.label}: no rule matches{exclusion}"
    deeper = ".*" if winner.kind == "module_name" and module != winner.match else ""
    asked = effective.wish or effective.label
    text = f"{asked} from rule {numbers[winner.id]} {rule_name(winner)}{deeper}"
    beaten = [str(numbers[r]) for r in effective.overridden if r in numbers]
    if beaten:
        text += f", overrides rule{'s' if len(beaten) > 1 else ''} {', '.join(beaten)}"
    if effective.wish:
        text = f"{effective.label}; not applied: {text}"
    return text + exclusion


def call_text(rule: Rule, label: str) -> str:
    """Return the quantizer call of a rule, e.g. ``set_module_name("encoder", a16w8)``."""
    if rule.keeps_off:
        quoted = f'"{rule.match}"' if rule.match else ""
        return f"{KEEPING_CALLS[rule.kind]}({quoted})"
    match = f'"{rule.match}", ' if rule.match else ""
    return f"{RULE_CALLS[rule.kind]}({match}{label})"


def differences(annotations: Sequence[NodeAnnotation], predicted: Mapping[str, Effective]) -> dict[str, str]:
    """Return by module why the quantizer left nodes in float that a rule quantizes."""
    rows: dict[str, str] = {}
    for note in annotations:
        wanted = predicted.get(note.node)
        has_reason = bool(note.reason) and not note.quantized and not note.never
        if wanted is None or wanted.label == "float" or not has_reason:
            continue
        rows.setdefault(note.module, f"{note.node} ({note.op}): {note.reason}")
    return rows


def applied(
    annotations: Sequence[NodeAnnotation],
    predicted: Mapping[str, Effective],
    fused: Iterable[Sequence[str]] = (),
) -> dict[str, Effective]:
    """Return the configs of nodes, with their wish where the quantizer applied another, or none.

    Args:
        annotations: The quantizer's report.
        predicted: What the rules ask for, by node of the exported graph.
        fused: Nodes that become one operation, a layer first. What of them is not in the report is
            folded into the layer, and has its config.
    """
    others = _others(annotations, predicted)
    shown = {
        name: replace(config, label=others[name], wish=config.label) if others.get(name) else config
        for name, config in predicted.items()
    }
    for first, *rest in fused:
        for name in (n for n in rest if first in others and n not in others and n in shown):
            label = shown[first].label
            if label not in {FLOAT, shown[name].label}:
                shown[name] = replace(shown[name], label=label, wish=shown[name].label)
    return shown


def applied_to_modules(
    annotations: Sequence[NodeAnnotation],
    predicted: Mapping[str, Effective],
    modules: Mapping[str, Effective],
    fused: Iterable[Sequence[str]] = (),
) -> dict[str, Effective]:
    """Return the configs of modules, with their wish where none of their nodes has it.

    Args:
        annotations: The quantizer's report.
        predicted: What the rules ask for, by node of the exported graph.
        modules: What the rules ask for, by module.
        fused: Modules that become one operation, a layer first. What of them is not in the report is
            folded into the layer, and has its config.
    """
    own: dict[str, list[str]] = {}
    names = {_origin(note, predicted): note.module for note in annotations}
    for name, label in _others(annotations, predicted).items():
        own.setdefault(names[name], []).append(label)
    configs = dict(modules)
    for path, labels in own.items():
        if all(labels) and path in configs and configs[path].label != FLOAT:
            configs[path] = replace(configs[path], label=labels[0], wish=configs[path].label)
    for members in fused:
        first, *others = (path for path in members if path in configs)
        for path in others:
            is_folded = bool(own.get(first)) and path not in own and configs[first].label != FLOAT
            if is_folded and configs[path].label != configs[first].label:
                configs[path] = replace(configs[path], label=configs[first].label, wish=configs[path].label)
    return configs


def _origin(note: NodeAnnotation, predicted: Mapping[str, Effective]) -> str:
    return note.node if note.node in predicted else note.origin


def _others(annotations: Sequence[NodeAnnotation], predicted: Mapping[str, Effective]) -> dict[str, str]:
    """Return the label that the quantizer applied in place of what is asked for; "" for the same."""
    notes: dict[str, list[NodeAnnotation]] = {}
    for note in annotations:
        if (name := _origin(note, predicted)) in predicted:
            notes.setdefault(name, []).append(note)
    return {name: _other(own, predicted[name].label) for name, own in notes.items()}


def _other(notes: Sequence[NodeAnnotation], asked: str) -> str:
    labels = [note.config for note in notes if note.quantized]
    if asked == FLOAT or not labels:
        return FLOAT if asked != FLOAT and all(note.reason for note in notes) else ""
    # The quantizer has one name for configs that differ in how ranges are found.
    is_other = asked in PRESETS_BY_ID and all(label in PRESETS_BY_ID for label in labels)
    return labels[0] if is_other and asked not in labels else ""


def without_effect(
    annotations: Sequence[NodeAnnotation],
    predicted: Mapping[str, Effective],
    fused: Collection[Sequence[str]],
) -> set[str]:
    """Return the rules that decide nothing but nodes whose config a layer before them decides.

    Args:
        annotations: The quantizer's report.
        predicted: What the rules ask for, by node of the exported graph.
        fused: Nodes that become one operation, a layer first.
    """
    behind = {name for nodes in fused for name in nodes[1:]}
    vain: dict[str, bool] = {}
    for name, config in applied(annotations, predicted, fused).items():
        if config.rule is not None:
            vain[config.rule] = vain.get(config.rule, True) and name in behind and bool(config.wish)
    return {rule for rule, is_vain in vain.items() if is_vain}


def of_operations(
    operations: Iterable[tuple[str, Effective]], modules: Mapping[str, Effective]
) -> tuple[dict[str, Effective], dict[str, tuple[str, ...]]]:
    """Return the configs of modules, and the chips of operations where those of a module have several.

    A module whose operations all have another config than itself, by rules for operations or for
    modules inside it, has theirs.

    Args:
        operations: The innermost module and the config of each operation.
        modules: The configs that rules give to modules.
    """
    own: dict[str, dict[str, Effective]] = {}
    for module, config in operations:
        own.setdefault(module, {}).setdefault(config.chip, config)
    inside = {path: dict(chips) for path, chips in own.items()}
    for path, chips in own.items():
        for above in _above(path):
            inside.setdefault(above, {}).update(chips)
    configs = dict(modules)
    for path, chips in inside.items():
        if len(chips) == 1 and path in configs and configs[path].chip not in chips:
            (configs[path],) = chips.values()
    return configs, {path: tuple(chips) for path, chips in own.items() if len(chips) > 1}


def _above(path: str) -> Iterator[str]:
    """Yield the names of the modules around a module, the whole model last."""
    while path:
        path = path.rpartition(".")[0]
        yield path


def _labels(predicted: Mapping[str, Effective]) -> dict[str, str]:
    return {name: config.label for name, config in predicted.items()}


class QuantizerReport:
    """The quantizer's annotations that still belong to the rules of the project.

    Rules are edited before the quantizer runs again: what is asked for then has no report yet.
    """

    def __init__(self) -> None:
        self._prepared: PrepareResult | None = None
        self._asked: dict[str, str] = {}

    def update(self, prepared: PrepareResult | None, predicted: Mapping[str, Effective]) -> None:
        """Take over the result of the stage Prepare, which is that of the present rules if new."""
        if prepared is not self._prepared:
            self._prepared = prepared
            self._asked = _labels(predicted)

    def notes(self, predicted: Mapping[str, Effective]) -> list[NodeAnnotation]:
        """Return the annotations of nodes whose config is the one that was asked for."""
        # The result may be there before the graph that the rules are resolved on.
        self._asked = self._asked or _labels(predicted)
        return [
            note
            for note in (self._prepared.annotations if self._prepared else ())
            for name in (note.node if note.node in predicted else note.origin,)
            if name in predicted and predicted[name].label == self._asked.get(name)
        ]


MEASURED = "measured in PyTorch"


COMPUTED = "computed (TOSA model)"


def quality_origin(project: Project | None) -> str:
    """Return the origin of a project's quality figures."""
    try:
        return (target_of(project.target.id).emulation if project else "") or MEASURED
    except WorkbenchError:
        return MEASURED

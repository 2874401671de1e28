"""Suggestions that move operators from the CPU to the NPU."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from workbench.graph.labels import operator_name
from workbench.pipeline.resolution import resolve_graph
from workbench.project import edits
from workbench.suggestions.suggestion import ExpectedGain, Suggestion, with_option
from workbench.targets import target_of
from workbench.targets.ethos_u.corrections import CORRECTIONS_BY_ID, is_enabled
from workbench.text import listed, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from workbench.graph.snapshot import GraphSnapshot, Node
    from workbench.project.model import Project, Rule, RuleKind
    from workbench.project.rules import Effective
    from workbench.results import CpuNode, LowerResult, PrepareResult
    from workbench.suggestions.suggestion import Edit


_EIGHT_BIT = "a8w8"
_SIXTEEN_BIT = "a16w8"
_INTEGER_IO = "integer_io"


# The operators, as named in the float program, that a correction writes with others.
_CORRECTED = {
    "written_out_cells": ("gru_cell", "lstm_cell", "rnn_tanh_cell", "rnn_relu_cell"),
    "linears_from_addmm": ("addmm",),
    "plain_operators": (
        "relu6",
        "adaptive_avg_pool1d",
        "avg_pool1d",
        "max_pool1d",
        "adaptive_max_pool1d",
        "adaptive_max_pool2d",
        "instance_norm",
        "softplus",
        "mish",
        "log_sigmoid",
        "logsumexp",
        "roll",
    ),
}


def switch_on_corrections(project: Project, left: Left) -> Iterator[Suggestion]:
    """Yield suggestions to switch on the corrections that write operators without a pattern."""
    for correction, operators in _CORRECTED.items():
        chosen = [
            operator
            for operator in left.operators
            if operator.cpu.cause == "pattern"
            and operator.origin is not None
            and operator_name(operator.origin.op) in operators
        ]
        if not chosen or is_enabled(correction, project.target.options):
            continue
        row = CORRECTIONS_BY_ID[correction]
        yield _of_config(
            left,
            chosen,
            f"correction:{correction}",
            f"Switch on: {row.title}",
            f"{row.fault} The correction is off.",
            partial(with_option, name=correction, value=True),
        )


def run_on_npu(project: Project, left: Left) -> Iterator[Suggestion]:
    """Yield suggestions to remove rules that keep something off the NPU."""
    for rule in project.rules:
        chosen = [operator for operator in left.operators if _keeps(rule, operator)]
        if chosen:
            yield _of_config(
                left,
                chosen,
                f"off:{rule.id}",
                f"Run {_named(rule)} on the NPU",
                f"Rule {_number(project, rule)} keeps {_named(rule)} off the NPU.",
                partial(edits.remove_rule, rule_id=rule.id),
            )


def _keeps(rule: Rule, operator: Operator) -> bool:
    return operator.effective is not None and operator.effective.cpu_only == rule.id


def quantize_floats(project: Project, left: Left) -> Iterator[Suggestion]:
    """Yield suggestions to quantize operators that are in float by a rule, or without a rule."""
    groups: dict[str | None, list[Operator]] = defaultdict(list)
    for operator in left.operators:
        effective = operator.effective
        if effective is None or effective.cpu_only or effective.label != "float":
            continue
        if not _loses_its_clamp(project, operator):
            groups[effective.rule].append(operator)
    rules = {rule.id: rule for rule in project.rules}
    for rule_id, chosen in groups.items():
        rule = rules.get(rule_id or "")
        kind, match = (rule.kind, rule.match) if rule else ("global", "")
        what = _named(rule) if rule else "what no rule covers"
        why = (
            (f"Rule {_number(project, rule)} leaves {what} in float; the NPU needs integers.")
            if rule
            else "Without a rule it stays in float; the NPU needs integers."
        )
        yield _of_config(
            left,
            chosen,
            f"float:{rule_id or ''}",
            f"Assign {_EIGHT_BIT} to {what}",
            why,
            partial(edits.assign, kind=kind, match=match, config=_EIGHT_BIT),
        )


def _loses_its_clamp(project: Project, operator: Operator) -> bool:
    """Return whether an operator is better kept in float: quantized, it may lose its clamp."""
    origin = operator.origin
    is_clamp = origin is not None and operator_name(origin.op) in _CLAMPS
    return is_clamp and not is_enabled("keep_relu_clamps", project.target.options)


_CLAMPS = ("relu", "relu_", "relu6", "hardtanh", "hardtanh_", "clamp")


def narrow_to_8_bits(project: Project, left: Left) -> Iterator[Suggestion]:
    """Yield suggestions for operators that the device supports only in 8 bits."""
    groups: dict[str, list[Operator]] = defaultdict(list)
    for operator in left.operators:
        if operator.cpu.cause == "int16":
            groups[operator.module].append(operator)
    for module, chosen in groups.items():
        what = module or "the whole model"
        kind: RuleKind = "module_name" if module else "global"
        yield _of_config(
            left,
            chosen,
            f"int16:{module}",
            f"Assign {_EIGHT_BIT} to {what}",
            f"This device supports that operation in 8 bits only. All of {what} becomes "
            "8-bit, except where a stronger rule applies.",
            partial(edits.assign, kind=kind, match=module, config=_EIGHT_BIT),
        )


# What reads complex numbers and needs 16 bits, by ``WIDE`` of the engine's complex operators.
_OF_SPECTRA = ("abs", "fft_irfft", "fft_irfft2", "fft_irfftn", "fft_hfft", "istft")


def widen_magnitudes(project: Project, left: Left, program: GraphSnapshot) -> Iterator[Suggestion]:
    """Yield the suggestion of 16 bits for spectra whose magnitude or inverse transform is taken.

    8 bits do not hold the squares of a spectrum, nor its zero frequency beside the others, so that
    such a transform stays in float on the CPU.
    """
    if not is_enabled("plain_operators", project.target.options):
        return
    names = dict[str, None]()
    for operator in left.operators:
        origin, effective = operator.origin, operator.effective
        is_kept = effective is None or effective.cpu_only or effective.label in {"float", _SIXTEEN_BIT}
        if origin is None or is_kept or not _is_complex(origin):
            continue
        spectrum, readers = _spectrum_of(program, origin.id)
        if readers and all(
            operator_name(program.nodes_by_id[reader].op) in _OF_SPECTRA for reader in readers
        ):
            names.update(dict.fromkeys((*spectrum, *readers)))
    if not names:
        return
    transforms = [name for name in names if "fft" in operator_name(program.nodes_by_id[name].op)]
    yield _of_config(
        left,
        [operator for operator in left.operators if operator.origin and operator.origin.id in names],
        "magnitudes",
        f"Assign {_SIXTEEN_BIT} to {listed(transforms or list(names))}, with what is computed from them",
        "8 bits do not hold a spectrum's squares, nor its zero frequency beside the others. In 16 bits "
        "the transforms are products with constants on the NPU.",
        partial(edits.assign_many, kind="node_name", matches=list(names), config=_SIXTEEN_BIT),
    )


def _is_complex(node: Node) -> bool:
    return any(output.dtype.startswith("complex") for output in node.outputs)


def _spectrum_of(program: GraphSnapshot, name: str) -> tuple[list[str], list[str]]:
    """Return the complex values that are computed with one, and what reads them as real numbers."""
    spectrum, readers = {name: None}, dict[str, None]()
    waiting = [name]
    while waiting:
        for reader in program.consumers(waiting.pop()):
            if not _is_complex(reader):
                readers[reader.id] = None
            elif reader.id not in spectrum:
                spectrum[reader.id] = None
                waiting.append(reader.id)
    return list(spectrum), list(readers)


def integer_io(project: Project, left: Left) -> Iterator[Suggestion]:
    """Yield the suggestion of integer inputs and outputs if each has a single conversion."""
    choice = target_of(project.target.id).complete(project.target)
    if choice.options.get(_INTEGER_IO) is not False or not left.border or not _convertible(left):
        return
    number = len(left.border)
    yield Suggestion(
        id=_INTEGER_IO,
        title="Use integer inputs and outputs",
        evidence="The program has float inputs and outputs, which it converts on the CPU. "
        "With integers, the application converts them with the scale and zero point "
        "in the manifest.",
        expected=f"{_removes(number, left.total)} (counted in the graph).",
        gain=ExpectedGain(cpu_operators=number),
        nodes=left.border,
        edit=partial(with_option, name=_INTEGER_IO, value=True),
    )


def _convertible(left: Left) -> bool:
    """Return whether ExecuTorch's passes support the border: one conversion per tensor.

    Source: ExecuTorch 1.5.1, ``exir/passes/quantize_io_pass.py``.
    """
    edge, border = left.edge, set(left.border)
    for node in edge.nodes:
        if "/" in node.id:
            continue
        if node.kind == "input":
            users = edge.consumers(node.id)
            if len(users) != 1 or users[0].id not in border:
                return False
        elif node.kind == "output" and any(maker.id not in border for maker in edge.producers(node.id)):
            return False
    return True


def _of_config(
    left: Left, chosen: Sequence[Operator], identity: str, title: str, why: str, edit: Edit
) -> Suggestion:
    nodes = left.with_followers(chosen)
    names = listed([operator.name for operator in left.operators if operator.cpu.node in nodes])
    fewer = left.fewer(nodes)
    stays = "stays" if len(nodes) == 1 else "stay"
    return Suggestion(
        id=identity,
        title=title,
        evidence=f"{names} {stays} on the CPU. {why}",
        expected=f"Removes up to {fewer} of {left.total} CPU operators, including conversions "
        "(counted in the graph)."
        if fewer > 0
        else (f"{plural(len(nodes), 'operator')} move off the CPU, but as many conversions are added."),
        gain=ExpectedGain(cpu_operators=fewer),
        nodes=nodes,
        edit=edit,
    )


def _named(rule: Rule) -> str:
    if rule.kind == "module_type":
        return rule.match.rpartition(".")[2]
    return rule.match or {"global": "the whole model", "io": "inputs and outputs"}[rule.kind]


def _number(project: Project, rule: Rule) -> int:
    return project.rules.index(rule) + 1


# Reasons caused by a neighbour; its suggestion then covers these operators too.
_BORROWED = frozenset({"beside", "empty", "rule"})
_CONVERSIONS = frozenset({"quantize", "dequantize"})


@dataclass(frozen=True)
class Operator:
    """A CPU operator, its float operation, and its effective config.

    ``origin`` and ``effective`` are None if unknown.
    """

    cpu: CpuNode
    origin: Node | None
    effective: Effective | None
    module: str

    @property
    def name(self) -> str:
        """The display name: that of the float program if known."""
        return self.origin.id if self.origin else operator_name(self.cpu.op)


class Left:
    """CPU operators and conversions, in their graph."""

    def __init__(
        self, operators: tuple[Operator, ...], total: int, border: tuple[str, ...], edge: GraphSnapshot
    ) -> None:
        self.operators, self.total, self.border, self.edge = operators, total, border, edge
        self._ids = {operator.cpu.node for operator in operators}
        ends = (node.id for node in edge.nodes if node.kind in ("input", "output"))
        self._ends = {end for end in ends if "/" not in end}

    def with_followers(self, chosen: Iterable[Operator]) -> tuple[str, ...]:
        """Return operators together with those that are on the CPU only because of them."""
        nodes = dict.fromkeys(operator.cpu.node for operator in chosen)
        following = {
            operator.cpu.node
            for operator in self.operators
            if operator.cpu.cause in _BORROWED and not _is_decided(operator)
        }
        waiting = list(nodes)
        while waiting:
            for near in self._near(waiting.pop()):
                if near in following and near not in nodes:
                    nodes[near] = None
                    waiting.append(near)
        return tuple(operator.cpu.node for operator in self.operators if operator.cpu.node in nodes)

    def fewer(self, leaving: Iterable[str]) -> int:
        """Return the reduction of CPU operators and conversions.

        Conversions used only by the removed operators are removed too; where a removed one is next
        to an operator that stays, or to an end of the program, a conversion is added. Counted in
        the graph.
        """
        gone, edge = set(leaving), self.edge
        freed = came = 0
        for node in edge.nodes:
            if node.kind == "dequantize" and node.id not in self.border:
                users = edge.consumers(node.id)
                freed += bool(users) and all(user.id in gone for user in users)
            elif node.kind == "quantize" and node.id not in self.border:
                freed += any(maker.id in gone for maker in edge.producers(node.id))
            elif node.id in self._ids or node.id in self._ends:
                makers = {m.id for m in edge.producers(node.id)} & (self._ids | self._ends)
                came += sum((maker in gone) != (node.id in gone) for maker in makers)
        return len(gone) + freed - came

    def _near(self, node: str) -> Iterator[str]:
        """Yield the CPU operators next to a node, skipping conversions."""
        for step in (self.edge.producers, self.edge.consumers):
            waiting = list(step(node))
            while waiting:
                operator = waiting.pop()
                if operator.kind in _CONVERSIONS:
                    waiting += step(operator.id)
                elif operator.id in self._ids:
                    yield operator.id


def _is_decided(operator: Operator) -> bool:
    effective = operator.effective
    return effective is not None and (effective.label == "float" or bool(effective.cpu_only))


def left_on_cpu(
    project: Project,
    lowered: LowerResult,
    program: GraphSnapshot,
    edge: GraphSnapshot,
    prepared: PrepareResult | None,
) -> Left:
    """Return the CPU operators; the arguments are those of ``suggest``."""
    resolution = resolve_graph(project, program)
    notes = {note.node: note for note in prepared.annotations} if prepared else {}
    operators = []
    for cpu in lowered.cpu_nodes:
        node = edge.nodes_by_id.get(cpu.node)
        if node is None or node.kind in _CONVERSIONS:
            continue
        name = node.attrs.get("origin", "")
        note = notes.get(name)
        origin = program.nodes_by_id.get(name)
        if origin is None and note is not None:
            origin = program.nodes_by_id.get(note.origin)
        module = origin.module if origin else cpu.module or (note.module if note else "")
        effective = resolution.nodes.get(origin.id) if origin else None
        if effective is None and module:
            effective = resolution.modules.get(module)
        operators.append(Operator(cpu, origin, effective, module))
    border = tuple(node.node for node in lowered.cpu_nodes if node.cause == "border")
    return Left(tuple(operators), len(lowered.cpu_nodes), border, edge)


def _removes(number: int, total: int) -> str:
    if number == total:
        whole = {1: "the CPU operator", 2: "both CPU operators"}
        return f"Removes {whole.get(total, f'all {total} CPU operators')}"
    return f"Removes {number} of {total} CPU operators"

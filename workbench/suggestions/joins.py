"""Suggestions for tensors of unlike size that the network joins or adds inside."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from workbench.graph.labels import operator_name
from workbench.project import edits
from workbench.suggestions.suggestion import ExpectedGain, Suggestion
from workbench.text import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from workbench.graph.snapshot import GraphSnapshot, Node
    from workbench.project.configs import ImproverId
    from workbench.project.model import Project
    from workbench.results import EvaluateResult, TensorQuality

_WIDE = "a16w8"
_EQUALIZE: ImproverId = "equalize"
_JOINED = frozenset(("cat", "concat", "concatenate", "stack"))
_ADDED = frozenset(("add", "add_", "sub", "sub_"))
# Operators that only move elements.
_MOVES = frozenset(
    (
        "alias",
        "chunk",
        "clone",
        "contiguous",
        "detach",
        "dropout",
        "dropout_",
        "expand",
        "flatten",
        "getitem",
        "movedim",
        "permute",
        "reshape",
        "select",
        "slice",
        "split",
        "split_with_sizes",
        "squeeze",
        "t",
        "transpose",
        "unbind",
        "unsqueeze",
        "view",
    )
)
# Operators whose result has the size of their input; the quantizer gives both the same kind of grid.
_PASSES = _MOVES | frozenset(
    (
        "avg_pool2d",
        "batch_norm",
        "clamp",
        "hardtanh",
        "hardtanh_",
        "leaky_relu",
        "leaky_relu_",
        "max_pool2d",
        "pad",
        "relu",
        "relu_",
        "relu6",
        "upsample_bilinear2d",
        "upsample_nearest2d",
    )
)
# A tensor below the first figure on the grid of the join is worth a suggestion where a grid of its own
# gains the second [dB].
_LOW_DB, _LEAST_GAIN_DB = 20.0, 6.0
_STEPS = 255
_SHOWN = 2


@dataclass(frozen=True)
class LossyJoin:
    """A join or sum within the network, and the operand that loses most on its grid.

    ``decibels`` is the predicted SQNR of ``operand`` on that grid, ``alone`` on an 8-bit grid of its
    own [dB]. ``nodes`` are the operations that make the operands, the join, and those that read it.
    """

    node: Node
    quality: TensorQuality
    operands: tuple[TensorQuality, ...]
    operand: TensorQuality
    decibels: float
    alone: float
    nodes: tuple[str, ...]

    @property
    def is_sum(self) -> bool:
        """Whether it adds its operands."""
        return operator_name(self.node.op) in _ADDED


def predicted_db(row: TensorQuality, step: float) -> float:
    """Return the SQNR of a tensor rounded to a grid [dB]; 0 where nothing of it is left.

    Rounding to a step s adds noise of the power s^2 / 12 (Widrow and Kollar, Quantization Noise,
    2008, chapter 4), and none to values that are 0.
    """
    rounded = 1.0 - (row.zeros or 0.0)
    if not row.rms or rounded <= 0.0:
        return 0.0
    return max(0.0, 10.0 * math.log10(12.0 * (row.rms / step) ** 2 / rounded))


def lossy_joins(program: GraphSnapshot, evaluated: EvaluateResult | None) -> list[LossyJoin]:
    """Return the joins and sums on whose grid an operand is nearly lost, the worst first.

    Those that only make an output are left to the suggestions for outputs.

    Args:
        program: The exported float program.
        evaluated: The quality of the quantized model, with the figures of its tensors.
    """
    if evaluated is None:
        return []
    tensors = {(row.origin or row.tensor): row for row in evaluated.tensors}
    losses = (_loss(program, node, tensors) for node in program.nodes)
    return sorted((loss for loss in losses if loss is not None), key=lambda loss: loss.decibels)


def _loss(program: GraphSnapshot, node: Node, tensors: Mapping[str, TensorQuality]) -> LossyJoin | None:
    quality = tensors.get(node.id)
    if operator_name(node.op) not in _JOINED | _ADDED or quality is None or not quality.step:
        return None
    makers = program.producers(node.id)
    operands = tuple(tensors[n.id] for n in makers if n.id in tensors and _size(tensors[n.id]))
    if len(operands) < 2 or _is_output(program, node):
        return None
    operand = min(operands, key=lambda row: row.rms or 0.0)
    alone, decibels = predicted_db(operand, _span(operand) / _STEPS), predicted_db(operand, quality.step)
    if decibels >= _LOW_DB or alone - decibels < _LEAST_GAIN_DB:
        return None
    nodes = [*_reached(makers, program.producers), node.id]
    nodes += _reached(program.consumers(node.id), program.consumers)
    return LossyJoin(node, quality, operands, operand, decibels, alone, tuple(dict.fromkeys(nodes)))


def _size(row: TensorQuality) -> float:
    """Return the largest absolute value of a tensor; 0 if it is unknown."""
    return max(abs(row.minimum or 0.0), abs(row.maximum or 0.0))


def _span(row: TensorQuality) -> float:
    """Return the length of the range of a tensor, which includes 0."""
    return max(row.maximum or 0.0, 0.0) - min(row.minimum or 0.0, 0.0)


def _is_output(program: GraphSnapshot, node: Node) -> bool:
    """Return whether a value is only moved to outputs of the program."""
    waiting, seen = [node], set[str]()
    while waiting:
        for reader in program.consumers(waiting.pop().id):
            if reader.kind == "output" or reader.id in seen:
                continue
            if operator_name(reader.op) not in _MOVES | _JOINED:
                return False
            seen.add(reader.id)
            waiting.append(reader)
    return True


def _reached(starts: Sequence[Node], beside: Callable[[str], tuple[Node, ...]]) -> list[str]:
    """Return operations up to the first on each way that has a grid of its own."""
    waiting, reached = list(starts), dict[str, None]()
    while waiting:
        node = waiting.pop()
        if node.kind != "call" or node.id in reached:
            continue
        reached[node.id] = None
        if operator_name(node.op) in _PASSES:
            waiting += beside(node.id)
    return list(reached)


def widen_joins(program: GraphSnapshot, evaluated: EvaluateResult | None) -> Iterator[Suggestion]:
    """Yield suggestions of 16 bits around the joins and sums that lose an operand.

    Args:
        program: The exported float program.
        evaluated: The quality of the quantized model, with the figures of its tensors.
    """
    for loss in lossy_joins(program, evaluated)[:_SHOWN]:
        yield Suggestion(
            id=f"wide_join:{loss.node.id}",
            title=f"Assign {_WIDE} around {loss.node.id}",
            evidence=_sentence(loss),
            expected=f"{len(loss.nodes)} operations get 16 bits: {loss.node.id}, what makes its operands and "
            "what reads it. The rest of the network stays as it is.",
            gain=ExpectedGain(),
            edit=partial(edits.assign_many, kind="node_name", matches=list(loss.nodes), config=_WIDE),
            improves="sqnr_db",
        )


def equalize_joins(
    project: Project, program: GraphSnapshot, evaluated: EvaluateResult | None
) -> Iterator[Suggestion]:
    """Yield the suggestion to scale the operands of lossy joins in the weights around them.

    Args:
        project: The compiled project.
        program: The exported float program.
        evaluated: The quality of the quantized model, with the figures of its tensors.
    """
    joins = [loss for loss in lossy_joins(program, evaluated) if not loss.is_sum]
    if not joins or _EQUALIZE in project.improvers or project.trained_weights is not None:
        return
    yield Suggestion(
        id="equalize_joins",
        title=f"Equalize the weights around {listed([loss.node.id for loss in joins[:_SHOWN]])}",
        evidence=" ".join(map(_sentence, joins[:_SHOWN])),
        expected="Channels of small operands are multiplied in the layers that make them, and divided "
        "in those that read them: the float model computes the same. All layers are equalized.",
        gain=ExpectedGain(),
        edit=partial(edits.set_improver, improver=_EQUALIZE, on=True),
        improves="sqnr_db",
    )


def _sentence(loss: LossyJoin) -> str:
    """Return the ranges of the operands and what is lost, in two sentences."""
    large = max(loss.operands, key=_size)
    verb = "adds" if loss.is_sum else "joins"
    step = loss.quality.step or 0.0
    steps = _span(loss.operand) / step
    return (
        f"{loss.node.id} {verb} {_ranged(loss.operand)} and {_ranged(large)} in one range with a step of "
        f"{step:.3g}. {_named(loss.operand)} has {steps:.1f} of {_STEPS} steps: {loss.decibels:.1f} dB SQNR, "
        f"{loss.alone:.1f} dB in a range of its own, predicted."
    )


def _named(row: TensorQuality) -> str:
    return row.module or row.origin or row.tensor


def _ranged(row: TensorQuality) -> str:
    """Return a tensor with its node and range."""
    node = f"{row.origin or row.tensor}, " if row.module else ""
    return f"{_named(row)} ({node}{row.minimum or 0.0:.3g} to {row.maximum or 0.0:.3g})"

"""Reasons why the toolchain rejects a whole program, predicted from the float graph.

Source: 120 small networks compiled with Vela 5.1.0 and ExecuTorch 1.5.1 for U55-128, some for
U65-256 and U85-256. A 16-bit convolution whose output is read by an operator that computes in 32
bits and by another operator ends in "Non-passthrough operation (Conv2D) could not run on NPU". With
a ReLU, a pool, a table or a reshape in between it compiles, and so does a linear; U85 supports all
of them. Two consecutive 16-bit products of activations that read the same value end in "TOSA FB
Reader error: Output tensor ... does not have any writers"; more cases of this kind are known only
after partitioning (pass-through partitions). No 16-bit transposed convolution compiles for U55 and
U65. A 16-bit cumulative sum lowers for no device: ExecuTorch converts it to a convolution whose
weights have 16 bits too, which TOSA does not support. ExecuTorch's ``quantization_annotator.py``
corrects the axis of transposed convolutions, but not for 4 bits.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from workbench.errors import ErrorInfo, Place
from workbench.graph.labels import operator_name

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from workbench.graph.snapshot import GraphSnapshot

_CONVOLUTIONS = ("conv2d", "convolution")
# Folded into the convolution, or removed.
_FOLDED = ("batch_norm", "dropout", "dropout_")
_IN_32_BITS = (
    "add",
    "add_",
    "sub",
    "sub_",
    "mul",
    "mul_",
    "div",
    "div_",
    "rsub",
    "pow",
    "maximum",
    "minimum",
    "abs",
    "mean",
    "sum",
)
# Decomposed into several operators that read the value, one of them in 32 bits.
_PRODUCTS = ("matmul", "bmm")
_SHAPING = (
    "view",
    "reshape",
    "transpose",
    "permute",
    "t",
    "expand",
    "unsqueeze",
    "squeeze",
    "flatten",
    "contiguous",
    "clone",
    "dropout",
)
_CONTROL_FLOW = ("cond", "while_loop")
_READING_TWICE = ("softmax", "_softmax", "log_softmax", "_log_softmax", "layer_norm", "var")


def branch_refusals(graph: GraphSnapshot) -> Iterator[ErrorInfo]:
    """Yield a problem for branches and loops, if there are any."""
    for node in graph.nodes:
        if node.kind == "call" and operator_name(node.op) in _CONTROL_FLOW:
            yield ErrorInfo(
                message=f"{node.id}: branches and loops run only on Ethos-U85.",
                hint="Choose an Ethos-U85, or rewrite the model without them.",
                where=Place(kind="node", id=node.id),
                code="branches-not-supported",
            )


class Refused(NamedTuple):
    """Operators that are rejected in any context; texts have ``{}`` for the node."""

    operators: tuple[str, ...]
    message: str
    hint: str


WRONG_AXIS = Refused(
    ("conv_transpose2d",),
    "{}: ExecuTorch scales 4-bit weights of transposed convolutions along the wrong axis; "
    "quantization fails, or the program differs from the quantized model.",
    "Assign 4-bit per-tensor weights or a8w8 to its module.",
)
WIDE_SUMS = Refused(
    ("cumsum",),
    "ExecuTorch cannot lower {} in 16 bits: it becomes a convolution with 16-bit weights, "
    "which no device supports.",
    "Assign a8w8 to its module, or keep {} off the NPU.",
)
WIDE_TRANSPOSED = Refused(
    ("conv_transpose1d", "conv_transpose2d"),
    "{} is a 16-bit transposed convolution: Vela rejects the whole program on U55 and U65.",
    "Assign a8w8 to its module, keep {} off the NPU, or choose an Ethos-U85.",
)


def operator_refusals(graph: GraphSnapshot, nodes: Collection[str], refused: Refused) -> Iterator[ErrorInfo]:
    """Yield the operators that are rejected in any context, with a remedy.

    Args:
        graph: The exported float program.
        nodes: The nodes with the rejected precision.
        refused: The operators and texts.
    """
    for node in graph.nodes:
        if node.id in nodes and operator_name(node.op) in refused.operators:
            yield ErrorInfo(
                message=refused.message.format(node.id),
                hint=refused.hint.format(node.id),
                where=Place(kind="node", id=node.id),
                code="operator-not-supported",
            )


def convolution_refusals(graph: GraphSnapshot, wide: Collection[str]) -> Iterator[ErrorInfo]:
    """Yield the convolutions that Vela would reject, with a remedy.

    Args:
        graph: The exported float program.
        wide: The nodes that get 16-bit activations and may run on the NPU.
    """
    for node, reader in convolutions_read_often(graph, wide):
        yield ErrorInfo(
            message=f"The 16-bit output of {node} is read by several operators, including "
            f"{reader}: Vela rejects the whole program on U55 and U65.",
            hint=f"Assign a8w8 to its module, keep {reader} off the NPU, or choose an Ethos-U85.",
            where=Place(kind="node", id=node),
            code="int16-convolution-shared",
        )


def convolutions_read_often(graph: GraphSnapshot, wide: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the convolutions that Vela would reject, with the operator that causes it.

    Args:
        graph: The exported float program.
        wide: The nodes that get 16-bit activations and may run on the NPU.
    """
    names = {node.id: operator_name(node.op) for node in graph.nodes}
    readers: dict[str, list[str]] = defaultdict(list)
    for edge in graph.edges:
        if edge.target not in readers[edge.source]:
            readers[edge.source].append(edge.target)
    for node in graph.nodes:
        if names[node.id] not in _CONVOLUTIONS or node.id not in wide:
            continue
        value = node.id
        while len(readers[value]) == 1 and names.get(readers[value][0]) in _FOLDED:
            value = readers[value][0]
        often_read = [reader for reader in readers[value] if reader in wide]
        twice = [reader for reader in often_read if names[reader] in _READING_TWICE]
        once = [reader for reader in often_read if names[reader] in _IN_32_BITS]
        if twice or (once and len(readers[value]) > 1):
            yield node.id, (twice or once)[0]


def product_refusals(graph: GraphSnapshot, wide: Collection[str]) -> Iterator[ErrorInfo]:
    """Yield the products of two activations that Vela would reject, with a remedy.

    Args:
        graph: The exported float program.
        wide: The nodes that get 16-bit activations and may run on the NPU.
    """
    for later, earlier, value in values_read_again(graph, wide):
        yield ErrorInfo(
            message=f"{later} and {earlier} both read {value} in 16 bits on the CPU: Vela rejects "
            "the whole program on U55 and U65.",
            hint=f"Keep {later} off the NPU, assign a8w8 to the modules of {earlier} and "
            f"{later}, or choose an Ethos-U85.",
            where=Place(kind="node", id=later),
            code="int16-value-read-again",
        )


def values_read_again(graph: GraphSnapshot, wide: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """Yield a product, an earlier one, and the shared value that Vela would reject.

    Both products run on the CPU with NPU work in between. The shared value would pass through the
    NPU unchanged, for which TOSA has no operator.
    """
    names = {node.id: operator_name(node.op) for node in graph.nodes}
    given: dict[str, list[str]] = defaultdict(list)
    for edge in graph.edges:
        given[edge.target].append(edge.source)
    products = [n.id for n in graph.nodes if names[n.id] in _PRODUCTS and n.id in wide]
    read = {n: [_unshaped(source, names, given) for source in given[n]] for n in products}
    for later in products:
        for earlier in products:
            between = [v for v in read[later] if v != earlier and _is_behind(v, earlier, given)]
            both = [v for v in read[later] if v in read[earlier]]
            if between and both:
                yield later, earlier, both[0]


def _unshaped(value: str, names: Mapping[str, str], inputs_of: Mapping[str, list[str]]) -> str:
    """Return the value before changes of shape only."""
    while names[value] in _SHAPING and inputs_of.get(value):
        value = inputs_of[value][0]
    return value


def _is_behind(value: str, before: str, inputs_of: Mapping[str, list[str]]) -> bool:
    seen, left = set[str](), [value]
    while left:
        node = left.pop()
        if node == before:
            return True
        if node not in seen:
            seen.add(node)
            left += inputs_of.get(node, [])
    return False

"""Corrections of the partitions that ExecuTorch makes for the NPU.

A correction gets the partitioner's result, and yields the names of the nodes that it changed.
"""

from collections.abc import Iterator
from typing import Any

import torch
from executorch.backends.arm.constants import Q_OPS
from executorch.exir.backend.partitioner import PartitionResult
from torch import fx


def quantized_where_computed(result: PartitionResult) -> Iterator[str]:
    """Quantize a value in the part of the program that computes it.

    Fault: Where a delegate's value is read by another one too, behind operators on the CPU, its
        quantization may be put beside the reader. The first delegate then gives integers, and the
        CPU takes them for floats and quantizes them again.
    Instead: The quantization stays with the operator whose value it quantizes.
    Right because: The operator's integers are what its quantization gives.
    Network: q, k, v = linear(x).chunk(3, -1); softmax(q @ k.transpose(1, 2), -1) @ v in a16w8 for
        U55, as in GPT-2
    Tools: executorch 1.5.1
    """
    for node in result.tagged_exported_program.graph.nodes:
        if node.target not in Q_OPS or TAG in node.meta:
            continue
        tag = node.args[0].meta.get(TAG)
        if tag is not None:
            node.meta[TAG] = tag
            yield node.args[0].name


def release_passthrough(result: PartitionResult) -> Iterator[str]:
    """Keep values off the NPU that it would only pass through.

    Fault: A value that a partition takes and returns unchanged has no operator in TOSA, and Vela
        rejects the whole program.
    Instead: Such a value is quantized on the CPU, and the partition takes it from there.
    Right because: Quantizing is the same function on the CPU.
    Network: x @ x.transpose(1, 2) in a16w8 for U55
    Tools: executorch 1.5.1
    """
    graph = result.tagged_exported_program.graph
    while chains := list(passthrough_chains(graph)):
        for node in (node for chain in chains for node in chain):
            if node.meta.pop(TAG, None) is not None:
                yield node.name
    computing = {n.meta.get(TAG) for n in graph.nodes if not _keeps(n)}
    for node in graph.nodes:
        if node.meta.get(TAG) not in computing:
            node.meta.pop(TAG, None)
    for tag in set(result.partition_tags) - computing:
        del result.partition_tags[tag]


TAG = "delegation_tag"
_GRIDS = ("quantize_per_tensor", "dequantize_per_tensor")
_SHAPING = ("view_copy", "expand_copy", "unsqueeze_copy", "squeeze_copy", "clone", "permute_copy")


def passthrough_chains(graph: fx.Graph) -> Iterator[list[fx.Node]]:
    """Yield each chain of nodes through which a partition passes a value unchanged; last first.

    Args:
        graph: Graph of an edge program with the partitioner's tags.
    """
    for node in graph.nodes:
        tag = node.meta.get(TAG)
        if tag is None or all(user.meta.get(TAG) == tag for user in node.users):
            continue
        chain, at = list[Any](), node
        while at.meta.get(TAG) == tag and moves(at):
            chain.append(at)
            at = at.args[0]
        grids = {tuple(member.args[1:]) for member in chain if has_grid(member)}
        if at.meta.get(TAG) != tag and len(grids) <= 1 and _is_in_order(chain):
            yield chain


def has_grid(node: fx.Node) -> bool:
    """Return whether a node quantizes or dequantizes."""
    return any(name in str(node.target) for name in _GRIDS)


def moves(node: fx.Node) -> bool:
    """Return whether a node leaves all values unchanged, in this or in another order."""
    if has_grid(node):
        return True
    op = str(node.target)
    if node.op != "call_function" or not any(name in op for name in _SHAPING):
        return False
    return bool(node.args[0].meta["val"].numel() == node.meta["val"].numel())  # type: ignore[union-attr]


def _keeps(node: fx.Node) -> bool:
    """Return whether a node leaves all values and their order unchanged."""
    return moves(node) and _is_in_order([node])


def _is_in_order(chain: list[Any]) -> bool:
    """Return whether nodes that move values, the last first, leave them in their order."""
    if not any("permute" in str(node.target) for node in chain):
        return True
    first = chain[-1].args[0].meta["val"]
    order = torch.arange(first.numel())
    value = order.reshape(first.shape)
    for node in reversed(chain):
        if "permute" in str(node.target):
            value = value.permute(node.args[1])
        else:
            value = value.reshape(node.meta["val"].shape)
    return bool(torch.equal(value.reshape(-1), order))

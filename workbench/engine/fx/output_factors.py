"""Programs that divide the tensors an output joins, so that all of them have a similar size.

The firmware multiplies the elements again. With factors that are powers of two, neither rounds.

This file stands on torch alone, because a generated script carries it along.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import fx

from workbench.engine.fx.aliases import mode_of
from workbench.engine.fx.output_parts import OutputOrigin, in_order, origins, user_outputs


def joining_edges(node: fx.Node, origin: OutputOrigin) -> list[list[tuple[fx.Node, fx.Node]]]:
    """Return where each part of an output enters the operators that join it.

    Args:
        node: The output.
        origin: Where its elements come from.

    Returns:
        For each part, in the order of ``in_order``, its node and the operators that read it; ``[]``
        where the parts cannot be divided before they are joined: a function is computed of the
        joined tensor, or what joins them is read elsewhere too.
    """
    pieces = in_order(origin)
    roots: dict[fx.Node, int] = {}
    for index, piece in enumerate(pieces):
        for member in piece.members or (piece,):
            if member.source is not None or roots.setdefault(member.node, index) != index:
                return []
    if node in roots or not node.meta["val"].is_floating_point():
        return []
    joining, waiting = {node}, [node]
    edges: list[list[tuple[fx.Node, fx.Node]]] = [[] for _ in pieces]
    while waiting:
        current = waiting.pop()
        for before in current.all_input_nodes:
            if before in roots:
                edges[roots[before]].append((before, current))
            elif before not in joining:
                joining.add(before)
                waiting.append(before)
    moving = joining - {n for n in joining if n.op == "placeholder"}
    readers = {user for n in moving - {node} for user in n.users}
    is_output_alone = all(user.op == "output" for user in node.users)
    return edges if readers <= joining and is_output_alone and all(edges) else []


def with_output_factors(
    program: torch.export.ExportedProgram, factors: Mapping[int, Sequence[float]]
) -> torch.export.ExportedProgram:
    """Return a program whose outputs join parts that are divided by a factor each.

    Args:
        program: The program; it is changed.
        factors: The factors of the parts, in the order of ``in_order``, by position of the output.

    Raises:
        ValueError: An output has other parts, or they cannot be divided.
    """
    known = origins(program)
    for position, divisors in factors.items():
        if position >= len(known):
            raise ValueError(f"there are {len(known)} outputs")
        edges = joining_edges(user_outputs(program)[position], known[position])
        if not edges:
            raise ValueError("its parts cannot be divided before they are joined")
        if len(edges) != len(divisors):
            raise ValueError(f"it has {len(edges)} parts, not {len(divisors)}")
        for readers, divisor in zip(edges, divisors, strict=True):
            for part, reader in readers if divisor != 1.0 else ():
                reader.replace_input_with(part, _divided(part, divisor))
    program.graph_module.recompile()
    return program


def _divided(part: fx.Node, divisor: float) -> fx.Node:
    """Return a new node with a part divided, behind it, with its module and its line."""
    target, graph = torch.ops.aten.mul.Tensor, part.graph
    after = part
    if part.op == "placeholder":
        after = [node for node in graph.nodes if node.op == "placeholder"][-1]
    with graph.inserting_after(after):
        divided = graph.call_function(target, (part, 1.0 / divisor))
    divided.meta = {key: value for key, value in part.meta.items() if key != "val"}
    mode = mode_of(part)
    assert mode is not None
    with torch.no_grad(), mode:
        divided.meta["val"] = target(part.meta["val"], 1.0 / divisor)
    return divided

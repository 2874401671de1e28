"""Parts of a program in which the NPU would only hand a value on: Vela refuses them all.

Source: ExecuTorch 1.5.1 and Vela 5.1.0, tried. The partitioner gives back to the CPU a part that
only changes shapes; where such a chain lies in one part with work of its own, the translation
drops it, and the part's output is its input: "TOSA FB Reader error: Output tensor ... does not
have any writers". It happens around products that 16 bits put on the CPU of U55 and U65.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.engine import programs
from workbench.engine.ordered_partitioner import OrderedPartitioner
from workbench.engine.taking_apart import root_of
from workbench.errors import Place, failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from executorch.exir.backend.partitioner import PartitionResult
    from torch import fx

TAG = "delegation_tag"
_GRIDS = ("quantize_per_tensor", "dequantize_per_tensor")
_SHAPING = ("view_copy", "expand_copy", "unsqueeze_copy", "squeeze_copy", "clone", "permute_copy")


class CheckingPartitioner(OrderedPartitioner):
    """Decides as ever, and refuses what Vela would refuse, with what helps."""

    def partition(self, exported_program: Any) -> PartitionResult:
        """Return the program with its parts.

        Raises:
            WorkbenchError: in one of them a value is only handed on.
        """
        found = super().partition(exported_program)
        for chain in handed_through(found.tagged_exported_program.graph):
            roots = [root.name for node in chain if not _has_grid(node) and (root := root_of(node))]
            name = roots[0] if roots else chain[0].name
            raise failure(
                f"The NPU would only hand on a value that {name} reads or gives, and change "
                "nothing: Vela refuses the whole program for it.",
                "Keep it off the NPU, give its module a8w8, or choose an Ethos-U85.",
                Place(kind="node", id=name),
            )
        return found


def handed_through(graph: fx.Graph) -> Iterator[list[fx.Node]]:
    """Yield each chain of nodes by which a part gives what it takes, unchanged; the last first.

    Args:
        graph: Of an edge program whose nodes bear the partitioner's tags.
    """
    for node in graph.nodes:
        tag = node.meta.get(TAG)
        if tag is None or all(user.meta.get(TAG) == tag for user in node.users):
            continue
        chain, at = list[Any](), node
        while at.meta.get(TAG) == tag and _keeps(at):
            chain.append(at)
            at = at.args[0]
        grids = {tuple(each.args[1:]) for each in chain if _has_grid(each)}
        if at.meta.get(TAG) != tag and len(grids) == 1:
            yield chain


def _has_grid(node: fx.Node) -> bool:
    return any(name in programs.op_of(node) for name in _GRIDS)


def _keeps(node: fx.Node) -> bool:
    """Tell whether a node leaves all values as they are, in their order."""
    if _has_grid(node):
        return True
    op = programs.op_of(node)
    if node.op != "call_function" or not any(name in op for name in _SHAPING):
        return False
    given, made = node.args[0].meta["val"], node.meta["val"]
    if "permute" in op:
        moved = [axis for axis in node.args[1] if given.shape[axis] != 1]
        return moved == sorted(moved)
    return bool(given.numel() == made.numel())

"""What ExecuTorch cannot lower of branches and loops, said before it tries.

torch.export hands weights into branches as inputs, and ExecuTorch 1.5.1 quantizes those as it does
activations: with 16 bits it finds no convolution for them, and operators left in float fail in its
passes. Verified with the network ``branching`` of the tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from workbench.engine.branches import branch_names, constants
from workbench.errors import Place, failure
from workbench.results import ExportResult, PrepareResult
from workbench.targets.ethos_u_devices import has_control_flow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.engine.context import StageContext
    from workbench.project.model import TargetChoice


def refuse_control_flow(context: StageContext, choice: TargetChoice) -> None:
    """Stop where quantized branches can go nowhere: only U85 runs them, the CPU flow cannot.

    Raises:
        WorkbenchError: the first thing that stands in the way.
    """
    result = context.result("export", ExportResult)
    if not result.branches:
        return
    if not has_control_flow(choice.id):
        raise failure(
            f"torch.cond and while_loop run on Ethos-U85 only; this program has "
            f"{', '.join(result.branches)}.",
            "Choose an Ethos-U85, or write the model without them.",
            Place(kind="node", id=result.branches[0]),
        )
    annotations = context.result("prepare", PrepareResult).annotations
    quantized = {note.node: note.quantized for note in annotations}
    for name, is_wide in _readers(context.hot("calibrate").module):
        if is_wide:
            raise failure(
                f"{name} would have 16-bit weights, and no device multiplies by them: inside of "
                "branches ExecuTorch quantizes weights with the bits of the activations.",
                "Set its module to a8w8.",
                Place(kind="node", id=name),
            )
        if not quantized.get(name, True):
            raise failure(
                f"{name} is in float: ExecuTorch cannot lower operators with weights inside of "
                "branches unless they are quantized.",
                "Set its module to a8w8.",
                Place(kind="node", id=name),
            )


def _readers(prepared: torch.fx.GraphModule) -> Iterator[tuple[str, bool]]:
    """Yield what reads weights in branches: its name, and whether it gets them with 16 bits."""
    inside = dict(branch_names(prepared))
    for graph, placeholder, _ in constants(prepared):
        for reader, wide in _behind_observers(graph, placeholder, wide=False):
            yield f"{inside[id(graph)]}{reader.name}", wide


def _behind_observers(
    graph: torch.fx.GraphModule, source: torch.fx.Node, *, wide: bool
) -> Iterator[tuple[torch.fx.Node, bool]]:
    for user in source.users:
        if user.op == "call_module":
            observer: Any = graph.get_submodule(str(user.target))
            is_wide = wide or observer.dtype == torch.int16
            yield from _behind_observers(graph, user, wide=is_wide)
        elif user.op == "call_function":
            yield user, wide

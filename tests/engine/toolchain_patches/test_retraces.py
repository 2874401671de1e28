"""Every retrace of a lowering gives the same graph with the accelerations of retraces and without.

The bytes of a program do not hold names and metadata of nodes, which later passes read.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec
from executorch.exir import pass_base

from tests.engine.toolchain_patches import programs
from workbench.engine.toolchain_patches.gate import applied
from workbench.engine.toolchain_patches.patching import replaced
from workbench.engine.toolchain_patches.table import LOWERING

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

NEW = {"operator-memory", "lean-retrace", "signature-maps", "literal-lists"}
# It counts the operators that autograd has seen in this thread, in stock as well.
_COUNTS = {"seq_nr"}


def value(found: Any) -> Any:
    if isinstance(found, torch.Tensor):
        return (
            type(found).__name__, found.shape, found.stride(), found.dtype, found.device,
            found.storage_offset(), found.untyped_storage().nbytes(), found.requires_grad,
            getattr(found, "constant", None) is not None,
        )  # fmt: skip
    if isinstance(found, list | tuple):
        return [value(one) for one in found]
    return repr(found)


def note(key: str, found: Any) -> Any:
    if key == "from_node":
        return [(source.name, source.target, source.pass_name) for source in found]
    if key == "nn_module_stack":
        return repr(found)
    return value(found) if key in {"val", "tensor_meta"} else type(found).__name__


def nodes(module: torch.fx.GraphModule) -> list[Any]:
    return [
        (
            node.op, node.name, str(node.target), repr(node.args), repr(node.kwargs),
            [(key, note(key, found)) for key, found in node.meta.items() if key not in _COUNTS],
        )
        for node in module.graph.nodes
    ]  # fmt: skip


def retraces(case: str, ids: set[str]) -> list[tuple[str, list[Any]]]:
    program = programs.exported(case)
    stock = pass_base._ExportPassBase.call
    found: list[tuple[str, list[Any]]] = []

    def call(self: Any, module: Any) -> Any:
        result = stock(self, module)
        found.append((type(self).__name__, nodes(result.graph_module)))
        return result

    with applied(ids), replaced(pass_base._ExportPassBase, "call", call):
        programs.lowered(program, EthosUCompileSpec(programs.CASES[case][2]))
    return found


@pytest.mark.parametrize("case", ["two delegates", pytest.param("LSTM", marks=pytest.mark.slow)])
def test_that_every_retrace_gives_the_same_names_arguments_and_metadata(case: str) -> None:
    every = {row.id for row in LOWERING}
    stock, quick = retraces(case, every - NEW), retraces(case, every)
    assert [name for name, _ in quick] == [name for name, _ in stock]
    assert sum(len(found) for _, found in stock) > 500
    for (name, before), (_, after) in zip(stock, quick, strict=True):
        for one, other in zip(before, after, strict=True):
            assert other == one, name

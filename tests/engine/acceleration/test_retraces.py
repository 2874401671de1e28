"""Every retrace of a lowering gives the same graph with the accelerations of retraces and without.

The bytes of a program do not hold names and metadata of nodes, which later passes read.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec
from executorch.exir import pass_base

from tests.engine.acceleration import programs
from workbench.engine.acceleration.table import LOWERING
from workbench.engine.runtime.accelerated import applied
from workbench.engine.toolchain_patches.patching import replaced

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

NEW = {"operator-memory", "lean-retrace", "signature-maps", "literal-lists", "functional-memory"}


def retraces(case: str, ids: set[str]) -> list[tuple[str, list[Any]]]:
    program = programs.exported(case)
    stock = pass_base._ExportPassBase.call
    found: list[tuple[str, list[Any]]] = []

    def call(self: Any, module: Any) -> Any:
        result = stock(self, module)
        found.append((type(self).__name__, programs.nodes(result.graph_module)))
        return result

    with applied(ids), replaced(pass_base._ExportPassBase, "call", call):
        programs.lowered(program, EthosUCompileSpec(programs.CASES[case][2]))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("case", ["two delegates", "LSTM"])
def test_that_every_retrace_gives_the_same_names_arguments_and_metadata(case: str) -> None:
    every = {row.id for row in LOWERING}
    stock, quick = retraces(case, every - NEW), retraces(case, every)
    assert [name for name, _ in quick] == [name for name, _ in stock]
    assert sum(len(found) for _, found in stock) > 500
    for (name, before), (_, after) in zip(stock, quick, strict=True):
        for one, other in zip(before, after, strict=True):
            assert other == one, name


def without_history(module: torch.fx.GraphModule) -> list[Any]:
    return [
        (*node[:-1], [entry for entry in node[-1] if entry[0] not in {"from_node", "tensor_meta"}])
        for node in programs.nodes(module)
    ]


@pytest.mark.parametrize("case", programs.marked(programs.CASES, {"two delegates"}))
def test_that_a_skipped_retrace_would_have_given_its_own_graph(case: str) -> None:
    program = programs.exported(case)
    stock = pass_base._ExportPassBase.call
    skipped = []
    with applied():
        quick = pass_base._ExportPassBase.call

        def call(self: Any, module: Any) -> Any:
            result = quick(self, module)
            if result.graph_module is module:
                before = without_history(module)
                assert without_history(stock(self, module).graph_module) == before
                skipped.append(type(self).__name__)
            return result

        with replaced(pass_base._ExportPassBase, "call", call):
            programs.lowered(program, EthosUCompileSpec(programs.CASES[case][2]))
    assert len(skipped) > 4


class Plain(pass_base.ExportPass):
    """Changes nothing."""


class Doubled(pass_base.ExportPass):
    """Changes every sum, which no row of the table knows."""

    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        if op == torch.ops.aten.add.Tensor:
            args = (args[0], args[0])
        return super().call_operator(op, args, kwargs, meta)


def summed() -> torch.fx.GraphModule:
    class Sum(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.relu(x + y)

    return torch.export.export(Sum(), (torch.ones(2), torch.ones(2))).graph_module


def test_that_a_retrace_is_skipped_only_after_one_that_changed_nothing() -> None:
    with applied({"idle-retraces"}):
        first = Plain()(summed()).graph_module
        settled = Plain()(first).graph_module
        assert Plain()(settled).graph_module is settled
        assert Doubled()(settled).graph_module is not settled


@pytest.mark.parametrize("change", ["argument", "value", "node"])
def test_that_a_retrace_is_not_skipped_once_its_graph_was_changed(change: str) -> None:
    with applied({"idle-retraces"}):
        settled = Plain()(Plain()(summed()).graph_module).graph_module
        x, y, added, relu, _ = settled.graph.nodes
        if change == "argument":
            added.args = (y, x)
        elif change == "value":
            added.meta["val"] = torch.empty(3, device="meta")
        else:
            with settled.graph.inserting_after(relu):
                settled.graph.call_function(torch.ops.aten.neg.default, (relu,))
        assert Plain()(settled).graph_module is not settled

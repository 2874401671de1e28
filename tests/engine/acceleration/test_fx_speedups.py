"""Dead code and noted stacks are the same as without the patches."""

from __future__ import annotations

import traceback
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
import torch
from executorch.backends.arm._passes import arm_pass, arm_pass_utils
from executorch.backends.transforms import aten_to_dialect_pass
from torch import fx

from tests.for_each import for_each
from workbench.engine.acceleration import fx_speedups as fx_graphs
from workbench.engine.acceleration.fx_speedups import quick_dead_code, short_stacks

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

ATEN = torch.ops.aten


def with_dead_code() -> fx.GraphModule:
    """Return a graph in which a chain is dead and other unread nodes have side effects."""
    graph = fx.Graph()
    x, _ = graph.placeholder("x"), graph.placeholder("unread")
    dead = graph.call_function(ATEN.relu.default, (x,))
    graph.call_function(ATEN.add.Tensor, (dead, dead))
    graph.call_function(ATEN.add_.Tensor, (x, x))
    graph.call_function(ATEN.bernoulli.default, (x,))
    graph.call_function(torch._assert, (True, "text"))
    graph.call_function(len, (x,))
    graph.output(graph.call_function(ATEN.neg.default, (x,)))
    return fx.GraphModule(torch.nn.Module(), graph)


@for_each("is_impure", [None, lambda node: node.target is ATEN.relu.default])
@for_each("traced", [True, False])
def test_that_the_same_dead_code_is_removed(
    is_impure: Callable[[fx.Node], bool] | None, traced: bool
) -> None:
    results = []
    for patch in (nullcontext(), quick_dead_code()):
        graph = with_dead_code().graph
        context = torch._guards.TracingContext(None) if traced else None
        with patch, torch._guards.tracing(context):
            changed = graph.eliminate_dead_code(is_impure)
        results.append((changed, [node.name for node in graph.nodes]))
    assert results[0] == results[1]
    assert "add_tensor" not in results[0][1]


def test_that_dead_code_of_a_subgraph_is_removed_too() -> None:
    parent = fx.Graph()
    parent.get_attr("child")
    parent.output(parent.placeholder("x"))
    module = fx.GraphModule({"child": with_dead_code()}, parent)
    with quick_dead_code():
        module.graph.eliminate_dead_code(None)
    # The attribute is not read, so the child is no subgraph any more.
    assert "add_tensor" in [node.name for node in module.child.graph.nodes]
    read = fx.Graph()
    read.output(read.get_attr("child"))
    module = fx.GraphModule({"child": with_dead_code()}, read)
    with quick_dead_code():
        module.graph.eliminate_dead_code(None)
    assert "add_tensor" not in [node.name for node in module.child.graph.nodes]


MODULES = (arm_pass, arm_pass_utils, aten_to_dialect_pass)


def noted(module: Any) -> tuple[str, str]:
    """Return what a pass notes, and what it would note without the patch."""
    return module.traceback.format_stack()[-2], traceback.format_stack()[-2]


def deep(module: Any, depth: int) -> tuple[str, str]:
    return deep(module, depth - 1) if depth else noted(module)


def own(module: Any, depth: int) -> tuple[str, str]:
    if depth:
        return own(module, depth - 1)
    return module.traceback.format_stack()[-2], traceback.format_stack()[-2]


@for_each("module", MODULES)
@for_each("depth", [0, 1, 2, 3, 4, 5, 9])
@for_each("call", [deep, own])
def test_that_the_caller_is_noted_as_ever(
    module: Any, depth: int, call: Callable[..., tuple[str, str]]
) -> None:
    with short_stacks():
        quick, stock = call(module, depth)
        rest = module.traceback.format_exc
    # Both were asked in the same line of this file.
    assert quick == stock
    assert rest is traceback.format_exc


def test_that_only_frames_that_are_read_are_formatted() -> None:
    with short_stacks():
        assert len(arm_pass.traceback.format_stack()) == 2
    assert arm_pass.traceback is traceback


@pytest.mark.parametrize("pins", ["DEAD_CODE_PINS", "STACK_PINS"])
def test_that_another_source_turns_a_patch_off(pins: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = getattr(fx_graphs, pins)[0][0]
    monkeypatch.setattr(fx_graphs, pins, ((path, "another"),))
    stock = fx.Graph.eliminate_dead_code
    with quick_dead_code(), short_stacks():
        if pins == "STACK_PINS":
            assert arm_pass.traceback is traceback
        else:
            assert fx.Graph.eliminate_dead_code is stock

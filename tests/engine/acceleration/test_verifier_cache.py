"""A graph is verified again only after something of it has changed."""

from __future__ import annotations

import copy
import functools
from typing import TYPE_CHECKING, Any

import pytest
import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec
from executorch.exir import EdgeCompileConfig, to_edge
from executorch.exir.dialects._ops import ops
from executorch.exir.verification.arg_validator import EdgeOpArgValidator
from executorch.exir.verification.verifier import EXIREdgeDialectVerifier
from torch import nn
from torch._export.verifier import SpecViolationError, Verifier

from tests.engine.acceleration import programs
from workbench.engine.acceleration import verifier_cache as subject
from workbench.engine.acceleration.table import LOWERING
from workbench.engine.acceleration.verifier_cache import verifier_cache
from workbench.engine.runtime.accelerated import applied

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

ADD = ops.edge.aten.add.Tensor


class Checks:
    """How often the operators of a graph were really checked."""

    def __init__(self) -> None:
        self.number = 0


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Checks:
    counted, stock = Checks(), EdgeOpArgValidator.__init__

    def init(self: Any, *args: Any) -> None:
        counted.number += 1
        stock(self, *args)

    monkeypatch.setattr(EdgeOpArgValidator, "__init__", init)
    # The pinned source is that of a class, which a test may count on.
    monkeypatch.setattr(subject, "PINS", subject.PINS[:-1])
    return counted


@pytest.fixture
def memory() -> Iterator[None]:
    with verifier_cache():
        yield


class Sum(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + y) + y


@functools.cache
def sum_program() -> Any:
    return to_edge(torch.export.export(Sum(), (torch.ones(2), torch.ones(2)))).exported_program()


def summed() -> Any:
    return copy.deepcopy(sum_program().graph_module)


def verify(graph_module: Any, config: EdgeCompileConfig | None = None) -> None:
    EXIREdgeDialectVerifier(config)(graph_module)


def first(graph_module: Any, operator: Any = ADD) -> Any:
    return next(node for node in graph_module.graph.nodes if node.target == operator)


@pytest.mark.slow
@pytest.mark.usefixtures("memory")
def test_that_an_unchanged_graph_is_verified_once_by_each_verifier(checks: Checks) -> None:
    graph_module, verifier = summed(), EXIREdgeDialectVerifier()
    checks.number = 0
    for _ in range(3):
        verifier(graph_module)
    assert checks.number == 1
    verify(graph_module, EdgeCompileConfig(_skip_dim_order=True))
    assert checks.number == 2
    verifier(graph_module)
    assert checks.number == 2


def exchange_argument(graph_module: Any) -> None:
    node = first(graph_module)
    node.args = (node.args[1], node.args[0])


def exchange_operator(graph_module: Any) -> None:
    first(graph_module).target = ops.edge.aten.mul.Tensor


def exchange_value(graph_module: Any) -> None:
    node = first(graph_module)
    node.meta["val"] = torch.empty(2, device="meta")


def rename(graph_module: Any) -> None:
    first(graph_module).name = "another"


def add_node(graph_module: Any) -> None:
    node = first(graph_module)
    with graph_module.graph.inserting_after(node):
        copy = graph_module.graph.call_function(ADD, node.args)
    copy.meta = dict(node.meta)


def remove_node(graph_module: Any) -> None:
    node = first(graph_module, ops.edge.aten.relu.default)
    node.replace_all_uses_with(node.args[0])
    graph_module.graph.erase_node(node)


def add_parameter(graph_module: Any) -> None:
    graph_module.register_parameter("weight", nn.Parameter(torch.zeros(2)))


@pytest.mark.usefixtures("memory")
def test_that_a_graph_that_has_changed_is_verified_again(checks: Checks) -> None:
    verifier = EXIREdgeDialectVerifier()
    for change in (
        exchange_argument,
        exchange_operator,
        exchange_value,
        rename,
        add_node,
        remove_node,
        add_parameter,
    ):
        graph_module = summed()
        verifier(graph_module)
        change(graph_module)
        checks.number = 0
        verifier(graph_module)
        assert checks.number == 1, change


@pytest.mark.usefixtures("memory")
def test_that_a_graph_that_is_wrong_is_refused_every_time() -> None:
    graph_module, verifier = summed(), EXIREdgeDialectVerifier()
    verifier(graph_module)
    first(graph_module).target = torch.ops.aten.add.Tensor
    for _ in range(2):
        with pytest.raises(SpecViolationError):
            verifier(graph_module)
    first(graph_module, torch.ops.aten.add.Tensor).target = ADD
    verifier(graph_module)


@pytest.mark.usefixtures("memory")
def test_that_a_node_without_a_value_is_found_after_a_check() -> None:
    graph_module, verifier = summed(), EXIREdgeDialectVerifier()
    verifier(graph_module)
    del first(graph_module).meta["val"]
    with pytest.raises(SpecViolationError):
        verifier(graph_module)


def test_that_another_source_turns_the_memory_off(monkeypatch: pytest.MonkeyPatch) -> None:
    stock = Verifier._check_graph_module
    monkeypatch.setattr(subject, "PINS", ((subject.PINS[0][0], "another"),))
    with verifier_cache():
        assert Verifier._check_graph_module is stock


# The bytes are compared quickly with all patches together (test_lowering).
@pytest.mark.slow
def test_that_a_lowering_leaves_checks_out_and_gives_the_same_bytes(checks: Checks) -> None:
    program = programs.exported("two delegates")
    numbers, results = [], []
    every = {row.id for row in LOWERING}
    for ids in (every - {"verified-graphs"}, every):
        checks.number = 0
        with applied(ids):
            spec = EthosUCompileSpec(programs.CASES["two delegates"][2])
            results.append(programs.lowered(program, spec))
        numbers.append(checks.number)
    assert results[0] == results[1]
    assert numbers[1] <= numbers[0] - 3

"""A decomposition gives the same graph with the memory of its operators and without."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec
from torch import nn
from torch.export.exported_program import ExportedProgram
from torch.nn import functional

from tests.engine.acceleration import programs
from workbench.engine.acceleration import decomposition_cache as subject
from workbench.engine.acceleration.decomposition_cache import decomposition_cache
from workbench.engine.acceleration.operator_registry import known_composites
from workbench.engine.acceleration.table import LOWERING
from workbench.engine.runtime.accelerated import applied
from workbench.engine.toolchain_patches.patching import replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

NAME = "functional-memory"


def described(program: ExportedProgram) -> tuple[Any, ...]:
    return programs.nodes(program.graph_module), str(program.graph_signature)


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Count the operators that the memory answered, by name."""
    counts: Counter[str] = Counter()
    stock_call = subject._Memory.call

    def call(self: Any, op: Any, args: Any, kwargs: Any, stock: Callable[[], Any]) -> Any:
        asked = []

        def counted() -> Any:
            asked.append(op)
            return stock()

        result = stock_call(self, op, args, kwargs, counted)
        counts[str(op)] += not asked
        return result

    monkeypatch.setattr(subject._Memory, "call", call)
    return counts


def decompositions(case: str, ids: set[str]) -> list[tuple[Any, ...]]:
    program = programs.exported(case)
    results: list[tuple[Any, ...]] = []
    with applied(ids):
        under_test = ExportedProgram.run_decompositions

        def run(self: Any, *args: Any, **options: Any) -> Any:
            result = under_test(self, *args, **options)
            results.append(described(result))
            return result

        with replaced(ExportedProgram, "run_decompositions", run):
            programs.lowered(program, EthosUCompileSpec(programs.CASES[case][2]))
    return results


@pytest.mark.parametrize(
    "case",
    # What a pass leaves in a lowering is compared quickly for all patches (test_retraces).
    [pytest.param(name, marks=pytest.mark.slow) for name in programs.CASES],
)
def test_that_the_decompositions_of_a_lowering_give_the_same_graphs(
    case: str, answered: Counter[str]
) -> None:
    every = {row.id for row in LOWERING}
    stock = decompositions(case, every - {NAME})
    assert not answered
    quick = decompositions(case, every)
    assert answered.total() > 3
    assert quick == stock


class Written(nn.Module):
    """A network that a test writes as a function."""

    def __init__(self, function: Callable[..., Any], *weights: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        for number, weight in enumerate(weights):
            self.register_parameter(f"weight{number}", nn.Parameter(weight))
        self.register_buffer("count", torch.zeros(4))

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args, *self.parameters())


def twice_the_same(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x + x, x + y, y + y, y + x, x + y


def several_results(x: torch.Tensor, y: torch.Tensor) -> Any:
    a, b = torch.topk(x, 2), torch.topk(y, 2)
    return a.values, b.indices, *torch.split(x, 2, 1), *torch.split(y, 2, 1)


def views(x: torch.Tensor, y: torch.Tensor) -> Any:
    a, b = x.reshape(-1, 2), y.reshape(-1, 2)
    return a.t() + b.t(), a.expand(2, *a.shape) * 2, b[:, 0], b[:, 1]


def outputs_that_are_inputs(x: torch.Tensor, y: torch.Tensor) -> Any:
    z = x.relu()
    return x, z, z, y.relu(), y, z.view(-1)


def defaults(x: torch.Tensor, y: torch.Tensor) -> Any:
    return (
        torch.add(x, y),
        torch.add(x, y, alpha=1),
        torch.add(x, y, alpha=2),
        x.sum(1),
        y.sum(1),
        x.sum(1, keepdim=False),
        x.sum(1, keepdim=True),
        x.softmax(-1),
        y.softmax(-1),
        functional.gelu(x),
        functional.gelu(y, approximate="tanh"),
        functional.gelu(y),
    )


def in_place(x: torch.Tensor, y: torch.Tensor) -> Any:
    z = x.clone()
    z.add_(y)
    z[0] = 1.0
    return z.relu(), z.relu(), x.relu()


def random(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x + torch.rand_like(x), y + torch.rand_like(y), x.bernoulli(), y.bernoulli()


def constants(x: torch.Tensor, y: torch.Tensor) -> Any:
    one, other = torch.tensor([1.0]), torch.tensor([1.0])
    return x + one, y + other, one + other, torch.arange(4) + x.int(), torch.zeros(4) + y


def types(x: torch.Tensor, y: torch.Tensor) -> Any:
    return x.to(torch.float16), y.half(), x.int() + 1, y.int() + 1, x.double() * 2, (x > y).float()


def quantized(x: torch.Tensor, y: torch.Tensor) -> Any:
    library = torch.ops.quantized_decomposed
    a = library.quantize_per_tensor(x, 0.1, 3, -128, 127, torch.int8)
    b = library.quantize_per_tensor(y, 0.2, 0, -128, 127, torch.int8)
    c = library.dequantize_per_tensor(a, 0.1, 3, -128, 127, torch.int8)
    d = library.dequantize_per_tensor(b, 0.2, 0, -128, 127, torch.int8)
    return c + d, d + c


def taken_apart_into_writes(x: torch.Tensor, y: torch.Tensor) -> Any:
    a, b = (functional.pad(one[None], (1, 1), mode="circular") for one in (x, y))
    return a.relu() + b.relu(), a.sum(-1), b.sum(-1), a + b


def weights(x: torch.Tensor, y: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> Any:
    return functional.linear(x, a), functional.linear(y, b), functional.linear(x, b), a + b, b + a


def branches(x: torch.Tensor, y: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a.relu() + 1, lambda a: a.relu() - 1, (y,)) + y.relu()


WRITTEN = (
    twice_the_same,
    several_results,
    views,
    outputs_that_are_inputs,
    defaults,
    in_place,
    random,
    constants,
    types,
    quantized,
    taken_apart_into_writes,
    branches,
)


def with_memory_and_without(program: ExportedProgram, table: Any) -> tuple[Any, Any]:
    results = []
    for memory in (nullcontext(), decomposition_cache()):
        with known_composites(), memory:
            results.append(described(program.run_decompositions(table)))
    return results[0], results[1]


def one_by_one(x: torch.Tensor, y: torch.Tensor) -> Any:
    """All of them in one network, where each meets operators that another has asked for."""
    results = [function(x, y) for function in WRITTEN]
    return tuple(each for one in results for each in (one if isinstance(one, tuple) else (one,)))


QUICK = {(views, "none"), (taken_apart_into_writes, "core")}


@pytest.mark.parametrize(
    ("function", "table"),
    [
        pytest.param(function, table, marks=() if (function, table) in QUICK else pytest.mark.slow)
        for function in (one_by_one, *WRITTEN)
        for table in ("none", "core")
    ],
)
def test_that_a_network_is_decomposed_to_the_same_graph(function: Callable[..., Any], table: str) -> None:
    program = torch.export.export(Written(function), (torch.rand(4, 4), torch.rand(4, 4)))
    stock, quick = with_memory_and_without(program, {} if table == "none" else None)
    assert quick == stock


@pytest.mark.slow
@pytest.mark.parametrize("frozen", [True, False])
def test_that_weights_that_are_trained_give_the_same_graph(frozen: bool) -> None:
    network = Written(weights, torch.rand(4, 4), torch.rand(4, 4)).requires_grad_(not frozen)
    program = torch.export.export(network, (torch.rand(4, 4), torch.rand(4, 4)))
    stock, quick = with_memory_and_without(program, {})
    assert quick == stock


@pytest.mark.slow
def test_that_sizes_that_are_not_fixed_give_the_same_graph() -> None:
    rows = torch.export.Dim("rows", min=2, max=16)
    program = torch.export.export(
        Written(defaults),
        (torch.rand(4, 4), torch.rand(4, 4)),
        dynamic_shapes={"args": ({0: rows}, {0: rows})},
    )
    stock, quick = with_memory_and_without(program, {})
    assert quick == stock


class Counting(nn.Module):
    """Changes a buffer in each run."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x.relu() + x.relu() + self.count


def test_that_a_network_that_changes_a_buffer_is_decomposed_as_ever(answered: Counter[str]) -> None:
    program = torch.export.export(Counting(), (torch.rand(4),))
    stock, quick = with_memory_and_without(program, {})
    assert quick == stock
    assert not answered


def test_that_repeated_operators_are_answered_from_memory(answered: Counter[str]) -> None:
    program = torch.export.export(Written(quantized), (torch.rand(4, 4), torch.rand(4, 4)))
    stock, quick = with_memory_and_without(program, {})
    assert quick == stock
    name = "quantized_decomposed.{}_per_tensor.default"
    # Two calls of each, in two passes; the first call of the trace gives the node.
    assert answered[name.format("quantize")] == answered[name.format("dequantize")] == 3


def test_that_another_source_of_torch_turns_the_memory_off(monkeypatch: pytest.MonkeyPatch) -> None:
    stock = ExportedProgram.run_decompositions
    monkeypatch.setattr(subject, "PINS", ((subject.PINS[0][0], "another"),))
    with decomposition_cache():
        assert ExportedProgram.run_decompositions is stock

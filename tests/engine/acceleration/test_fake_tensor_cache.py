"""What the memory of operators answers, and what it leaves to the operator."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torchao.quantization.pt2e.quantize_pt2e  # noqa: F401 - registers the operators
from executorch.backends.arm.tosa.specification import TosaLoweringContext, TosaSpecification
from executorch.exir.dialects._ops import ops as edge_ops
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.for_each import for_each
from workbench.engine.acceleration.fake_tensor_cache import _Memory, fake_tensor_cache

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]

ATEN = torch.ops.aten
QUANTIZE = torch.ops.quantized_decomposed.quantize_per_tensor.default


class Counted:
    """A memory, and how often operators were really called."""

    def __init__(self) -> None:
        self.memory, self.calls = _Memory(), 0

    def __call__(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        def stock(op: Any, *args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            return op(*args, **kwargs)

        return self.memory.call(op, stock, args, kwargs)


@pytest.fixture
def mode() -> FakeTensorMode:
    return FakeTensorMode(allow_non_fake_inputs=True)


def fake(mode: FakeTensorMode, *shape: int, **options: Any) -> Any:
    with mode:
        return torch.empty(shape, **options)


def metadata(tensor: Any) -> tuple[Any, ...]:
    return (
        type(tensor),
        tensor.shape,
        tensor.stride(),
        tensor.dtype,
        tensor.device,
        tensor.storage_offset(),
        tensor.untyped_storage().nbytes(),
        tensor.requires_grad,
        sorted(vars(tensor)),
        tensor.fake_mode,
        tensor.constant,
    )


@for_each(
    ("op", "rest"),
    [
        (ATEN.relu.default, ()),
        (ATEN.add.Scalar, (2.5,)),
        (ATEN.permute_copy.default, ([1, 0],)),
        (ATEN.split_copy.Tensor, (2,)),
        (ATEN.max.dim, (0,)),
        (edge_ops.edge.aten.sum.dim_IntList, ([0],)),
    ],
)
def test_that_a_second_call_gives_equal_new_tensors(
    op: Any, rest: tuple[Any, ...], mode: FakeTensorMode
) -> None:
    counted = Counted()
    first = counted(op, fake(mode, 4, 6), *rest)
    second = counted(op, fake(mode, 4, 6), *rest)
    assert counted.calls == 1
    assert type(first) is type(second)
    one, other = ([x] if isinstance(x, FakeTensor) else list(x) for x in (first, second))
    assert [metadata(x) for x in one] == [metadata(x) for x in other]
    storages = [x.untyped_storage()._cdata for x in (*one, *other)]
    assert len(set(storages)) == len(storages)


def test_that_the_grid_of_a_quantization_does_not_matter_and_its_type_does(mode: FakeTensorMode) -> None:
    counted = Counted()
    for scale, zero_point in ((0.5, 0), (0.25, 3)):
        result = counted(QUANTIZE, fake(mode, 3), scale, zero_point, -128, 127, torch.int8)
        assert result.dtype == torch.int8
    assert counted.calls == 1
    result = counted(QUANTIZE, fake(mode, 3), 0.5, 0, -32768, 32767, torch.int16)
    assert result.dtype == torch.int16


DIFFERENT: dict[str, Callable[[FakeTensorMode], list[tuple[Any, tuple[Any, ...]]]]] = {
    "other sizes": lambda m: [(ATEN.relu.default, (fake(m, n),)) for n in (3, 4)],
    "other strides": lambda m: [(ATEN.relu.default, (x,)) for x in (fake(m, 2, 2), fake(m, 2, 2).t())],
    "other types": lambda m: [(ATEN.relu.default, (fake(m, 3, dtype=t),)) for t in (torch.float, torch.int8)],
    "zeros of other signs": lambda m: [(ATEN.add.Scalar, (fake(m, 3), zero)) for zero in (0.0, -0.0)],
    "numbers of other types": lambda m: [
        (ATEN.add.Scalar, (fake(m, 3, dtype=torch.bool), one)) for one in (1, 1.0, True)
    ],
    "other lists": lambda m: [
        (ATEN.permute_copy.default, (fake(m, 2, 2), axes)) for axes in ([0, 1], [1, 0])
    ],
    "other modes": lambda m: [(ATEN.relu.default, (fake(each, 3),)) for each in (m, FakeTensorMode())],
}
NEVER: dict[str, Callable[[FakeTensorMode], tuple[Any, tuple[Any, ...]]]] = {
    "views": lambda m: (ATEN.view.default, (fake(m, 4), [2, 2])),
    "results on an argument's storage": lambda m: (ATEN.dropout.default, (fake(m, 4), 0.5, False)),
    "changes in place": lambda m: (ATEN.relu_.default, (fake(m, 4),)),
    "random numbers": lambda m: (ATEN.rand_like.default, (fake(m, 4),)),
    "gradients": lambda m: (ATEN.relu.default, (fake(m, 4, requires_grad=True),)),
    "real tensors": lambda m: (ATEN.add.Tensor, (fake(m, 4), torch.ones(4))),
    "nobody's tensors": lambda m: (ATEN.add.Tensor, (torch.ones(4), torch.ones(4))),
}


@for_each("case", DIFFERENT)
def test_that_other_metadata_is_another_call(case: str, mode: FakeTensorMode) -> None:
    counted, calls = Counted(), DIFFERENT[case](mode)
    for op, args in calls:
        assert metadata(counted(op, *args)) == metadata(op(*args))
    assert counted.calls == len(calls)


@for_each("case", NEVER)
def test_that_it_is_never_answered_from_memory(case: str, mode: FakeTensorMode) -> None:
    counted = Counted()
    for _ in range(2):
        op, args = NEVER[case](mode)
        counted(op, *args)
    assert counted.calls == 2


def test_that_symbolic_sizes_are_left_to_the_operator() -> None:
    mode = FakeTensorMode(shape_env=ShapeEnv())
    x = mode.from_tensor(torch.ones(5, 3))
    symbolic = any(isinstance(size, torch.SymInt) for size in x.shape)
    assert symbolic
    counted = Counted()
    for _ in range(2):
        assert counted(ATEN.relu.default, x).shape == x.shape
    assert counted.calls == 2


def test_that_known_constants_are_left_to_the_operator(mode: FakeTensorMode) -> None:
    with mode:
        constant = ATEN.lift_fresh_copy.default(torch.tensor(3))
    assert constant.constant is not None
    counted = Counted()
    for _ in range(2):
        counted(ATEN.add.Scalar, constant, 1)
    assert counted.calls == 2


def test_that_operators_of_other_namespaces_are_left_alone(mode: FakeTensorMode) -> None:
    with torch.library._scoped_library("of_a_user", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        counted = Counted()
        for _ in range(2):
            counted(torch.ops.of_a_user.twice.default, fake(mode, 2))
        assert counted.calls == 2


class Watching(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Noting(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("other", [Watching, Noting, lambda: torch.autocast("cpu")])
def test_that_other_modes_see_every_call(other: Any, mode: FakeTensorMode) -> None:
    counted, x = Counted(), fake(mode, 3)
    for around, calls in ((nullcontext(), 1), (nullcontext(), 1), (other(), 2), (other(), 3)):
        with mode, around:
            counted(ATEN.relu.default, x)
        assert counted.calls == calls


def test_that_specifications_which_differ_in_an_extension_are_told_apart(mode: FakeTensorMode) -> None:
    plain, u55 = (TosaSpecification.create_from_string(text) for text in ("TOSA-1.0+INT", "TOSA-1.0+INT+u55"))
    # The reason why they are told apart by identity.
    assert plain == u55
    counted = Counted()
    for calls, specification in enumerate((plain, u55), start=1):
        for _ in range(2):
            with TosaLoweringContext(specification):
                counted(ATEN.relu.default, fake(mode, 3))
            assert counted.calls == calls


def test_that_a_list_of_numbers_is_a_new_one_each_time() -> None:
    specification = TosaSpecification.create_from_string("TOSA-1.1+INT")
    counted, op = Counted(), edge_ops.backend.tosa.CONST_SHAPE.default
    with TosaLoweringContext(specification, ShapeEnv()), FakeTensorMode():
        first = counted(op, [2, 3])
        first.append(7)
        assert counted(op, [2, 3]) == [2, 3]


def test_that_an_error_is_raised_each_time(mode: FakeTensorMode) -> None:
    counted = Counted()
    for _ in range(2):
        with pytest.raises(Exception, match="reduction dim"):
            counted(ATEN.mm.default, fake(mode, 2, 3), fake(mode, 2, 3))
    assert counted.calls == 2


def test_that_edge_operators_give_the_same_inside_and_outside_the_block(mode: FakeTensorMode) -> None:
    op = edge_ops.edge.aten.add.Tensor
    with mode:
        stock = metadata(op(fake(mode, 3), fake(mode, 2, 3)))
        with fake_tensor_cache():
            found = [metadata(op(fake(mode, 3), fake(mode, 2, 3))) for _ in range(3)]
    assert found == [stock] * 3

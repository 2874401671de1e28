"""Quick calibration and conversion leave every observer and every output as stock does."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torchao.quantization.pt2e.observer import HistogramObserver
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

from tests.engine.acceleration import programs
from workbench.engine.acceleration.range_search import quick_search
from workbench.engine.calibration.quick_observers import (
    RangeMemory,
    frozen_weight_observers,
    quick_calibration,
    quick_histograms,
    remembered_ranges,
    weight_observers,
)

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def calibrated(case: str) -> tuple[Any, tuple[torch.Tensor, ...]]:
    module, data = programs.prepared(case, samples=4)
    with torch.inference_mode():
        for sample in data:
            module(sample)
    return module, data


def assert_same_state(one: Any, other: Any) -> None:
    assert one.state_dict().keys() == other.state_dict().keys()
    for name, value in one.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name


@pytest.mark.parametrize("case", programs.marked(programs.CASES))
def test_that_frozen_weight_observers_and_quick_calibration_end_in_the_stock_state(case: str) -> None:
    stock, data = calibrated(case)
    frozen_only, _ = programs.prepared(case, samples=4)
    with frozen_weight_observers(frozen_only) as frozen, torch.inference_mode():
        assert frozen > 0
        for sample in data:
            frozen_only(sample)
    assert_same_state(frozen_only, stock)
    module, _ = programs.prepared(case, samples=4)
    with quick_calibration(module), torch.inference_mode():
        for sample in data:
            module(sample)
    assert_same_state(module, stock)
    with quick_search():
        assert torch.equal(convert_pt2e(module)(data[0]), convert_pt2e(stock)(data[0]))


def test_that_any_sequence_of_tensors_gives_the_stock_histogram() -> None:
    torch.manual_seed(0)
    x = torch.randn(500)
    tensors = [x, x / 2, x * 3, x.abs(), torch.zeros(5), torch.empty(0), -x * 3, x * 7, x]
    for first in (torch.ones(3), torch.zeros(4), x):
        stock, quick = HistogramObserver(dtype=torch.int8), HistogramObserver(dtype=torch.int8)
        for tensor in (first, *tensors):
            stock(tensor)
            with quick_histograms():
                assert quick(tensor) is tensor
            assert_same_state(quick, stock)


def test_that_each_weight_is_observed_once_in_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    module, data = programs.prepared("a8w8", samples=4)
    seen: list[int] = []
    for observer in weight_observers(module).values():
        monkeypatch.setattr(observer, "forward", lambda x: seen.append(id(x)) or x)
    with frozen_weight_observers(module) as frozen, torch.no_grad():
        for _ in range(3):
            module(data[0])
    assert len(seen) == len(set(seen)) == frozen


def test_that_weight_observers_work_again_after_the_block() -> None:
    module, data = programs.prepared("a8w8", samples=4)
    with frozen_weight_observers(module):
        pass
    assert all("forward" not in vars(each) for each in weight_observers(module).values())
    with torch.no_grad():
        module(data[0])
    assert all(each.min_val.numel() > 0 for each in weight_observers(module).values())


@pytest.mark.parametrize("case", programs.marked(["a8w8", "a16w8", "mixed", "a8w8 attention"]))
def test_that_remembered_ranges_convert_to_the_same_module(case: str) -> None:
    stock, data = calibrated(case)
    expected = convert_pt2e(stock)
    memory = RangeMemory()
    for _ in range(2):
        module, _ = calibrated(case)
        with remembered_ranges(memory):
            converted = convert_pt2e(module)
        assert converted.code == expected.code
        assert_same_state(converted, expected)
        assert torch.equal(converted(data[0]), expected(data[0]))
    assert memory.hits >= memory.searches > 0


def test_that_another_scheme_or_histogram_is_searched_anew() -> None:
    memory = RangeMemory()
    torch.manual_seed(0)
    x = torch.randn(1000)
    schemes = [
        {"dtype": torch.int8, "qscheme": torch.per_tensor_affine},
        {"dtype": torch.int8, "qscheme": torch.per_tensor_symmetric},
        {"dtype": torch.int16, "qscheme": torch.per_tensor_symmetric},
        {"dtype": torch.int8, "qscheme": torch.per_tensor_affine, "eps": 0.5},
        {"dtype": torch.int8, "quant_min": -64, "quant_max": 63},
        {"dtype": torch.int8, "bins": 1024},
    ]
    for scheme in schemes:
        for data in (x, x * 2):
            observer = HistogramObserver(**scheme)
            observer(data)
            stock = observer.calculate_qparams()
            with remembered_ranges(memory):
                quick = observer.calculate_qparams()
            assert all(torch.equal(a, b) for a, b in zip(quick, stock, strict=True))
    assert (memory.searches, memory.hits) == (2 * len(schemes), 0)


def test_that_the_memory_stays_within_its_size() -> None:
    memory = RangeMemory(entries=2)
    with remembered_ranges(memory):
        for factor in (1, 2, 3, 1):
            observer = HistogramObserver(dtype=torch.int8)
            observer(torch.linspace(-factor, factor, 100))
            observer.calculate_qparams()
    assert (memory.searches, memory.hits) == (4, 0)


def ordinary() -> Any:
    """Yield values whose histograms have gaps, one sign, or values far outside."""
    torch.manual_seed(1)
    x = torch.randn(4000)
    yield from (x, x.relu(), x.exp(), -x.exp(), x.clamp(-1, 1), x.round())
    yield from (torch.zeros(9), torch.cat([x * 1e-3, torch.tensor([50.0])]))
    yield from (torch.rand(50_000) ** power for power in range(2, 12, 3))


def extreme() -> Any:
    """Yield values of which stock searches the range for seconds."""
    yield from (torch.ones(7), torch.rand(3))
    yield from (torch.tensor([-1e30, 1e30, 0.0]), torch.linspace(-1e-30, 1e-30, 99))


@pytest.mark.parametrize(
    ("values", "bins"),
    [
        (ordinary, 2048),
        *(pytest.param(ordinary, bins, marks=pytest.mark.slow) for bins in (1, 2, 255)),
        *(pytest.param(extreme, bins, marks=pytest.mark.slow) for bins in (1, 2, 255, 2048)),
    ],
)
def test_that_a_quick_search_finds_the_stock_range(values: Any, bins: int) -> None:
    for value in values():
        observer = HistogramObserver(dtype=torch.int8, bins=bins)
        observer(value)
        if bins > 2:
            observer(value[: len(value) // 2] * 1.5)
        stock = observer._non_linear_param_search()
        with quick_search():
            quick = observer._non_linear_param_search()
        assert all(torch.equal(a, b) for a, b in zip(quick, stock, strict=True))


@pytest.mark.parametrize(
    "kind", ["counts", "double", "subclass", pytest.param("no numbers", marks=pytest.mark.slow)]
)
def test_that_a_histogram_of_another_kind_is_searched_as_by_stock(kind: str) -> None:
    class Own(HistogramObserver):
        pass

    observer = (Own if kind == "subclass" else HistogramObserver)(dtype=torch.int8)
    observer(torch.randn(100))
    changes = {
        "counts": lambda counts: counts.index_fill(0, torch.tensor([5]), -10.0),
        "no numbers": lambda counts: counts.index_fill(0, torch.tensor([5]), math.nan),
        "double": lambda counts: counts.double() + 1e-9,
    }
    if kind in changes:
        observer.histogram = changes[kind](observer.histogram)
    stock = observer._non_linear_param_search()
    with quick_search():
        quick = observer._non_linear_param_search()
    assert all(torch.equal(a, b) for a, b in zip(quick, stock, strict=True))

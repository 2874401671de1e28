"""Statistics kept from one configuration serve another exactly, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from executorch.backends.arm.quantizer import (
    get_symmetric_a16w8_quantization_config,
    get_symmetric_quantization_config,
)
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

from tests.engine.acceleration import programs
from workbench.engine.acceleration.range_search import quick_search
from workbench.engine.calibration.quick_observers import quick_calibration
from workbench.engine.calibration.statistics import (
    only_missing,
    replay,
    statistics,
    statistics_keys,
    unanswered,
)

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

A8, A16 = get_symmetric_quantization_config(), get_symmetric_a16w8_quantization_config()
PER_TENSOR = get_symmetric_quantization_config(is_per_channel=False)


def edit(*modules: tuple[str, Any], base: Any = A8) -> Callable[[Any], None]:
    def configure(quantizer: Any) -> None:
        quantizer.set_global(base)
        for name, config in modules:
            quantizer.set_module_name(name, config)

    return configure


BASE = edit()
CNN = {
    "per tensor": edit(base=PER_TENSOR),
    "a16w8": edit(base=A16),
    "stem in float": edit(("stem", None)),
    "point in a16w8": edit(("point", A16)),
    "depthwise per tensor, point in float": edit(("each", PER_TENSOR), ("point", None)),
    "convolution without its relu": edit(("each.0", A16)),
}
ATTENTION = {
    "per tensor": edit(base=PER_TENSOR),
    "a16w8": edit(base=A16),
    "norm in float": edit(("norm", None)),
    "query in a16w8": edit(("query", A16)),
    "four in float": edit(*((name, None) for name in ("norm", "query", "value", "out"))),
}
QUICK = {"depthwise per tensor, point in float"}
EDITS = [
    *((programs.Convolutions, programs.IMAGE, programs.U55, name, made) for name, made in CNN.items()),
    *(
        (programs.AttentionBlock, programs.TOKENS, programs.U85, name, made)
        for name, made in ATTENTION.items()
    ),
]


def prepare(network: type[nn.Module], shape: Any, target: str, configure: Any) -> Any:
    programs.CASES["edited"] = (network, shape, target, configure)
    try:
        return programs.prepared("edited", samples=3)
    finally:
        del programs.CASES["edited"]


def observe(module: Any, data: Any) -> Any:
    with torch.inference_mode():
        for sample in data:
            module(sample)
    return module


def collected(module: Any) -> dict[str, Any]:
    return {key: statistics(module, name) for name, key in statistics_keys(module).items()}


def assert_same_state(one: Any, other: Any) -> None:
    assert one.state_dict().keys() == other.state_dict().keys()
    for name, value in one.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name


@pytest.mark.parametrize(
    ("network", "shape", "target", "name", "configure"),
    [
        pytest.param(*row, marks=[pytest.mark.slow] * (row[3] not in QUICK or row[2] != programs.U55))
        for row in EDITS
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)
def test_that_replayed_statistics_and_one_pass_for_the_rest_equal_a_fresh_run(
    network, shape, target, name, configure
):
    del name
    base, data = prepare(network, shape, target, BASE)
    known = collected(observe(base, data))
    fresh = observe(prepare(network, shape, target, configure)[0], data)
    again, _ = prepare(network, shape, target, configure)
    keys = statistics_keys(again)
    assert keys.keys() == statistics_keys(fresh).keys()
    assert set(keys.values()) & set(known), "an edit of one module keeps some statistics"
    replay(again, known, keys)
    if unanswered(again, keys, known):
        with quick_calibration(again), only_missing(again, keys, known):
            observe(again, data)
    assert_same_state(again, fresh)
    with quick_search():
        assert torch.equal(convert_pt2e(again)(data[0]), convert_pt2e(fresh)(data[0]))


def test_that_another_width_of_weights_needs_no_data():
    base, data = prepare(programs.Convolutions, programs.IMAGE, programs.U55, BASE)
    known = collected(observe(base, data))
    again, _ = prepare(programs.Convolutions, programs.IMAGE, programs.U55, CNN["per tensor"])
    assert not unanswered(again, statistics_keys(again), known)


def test_that_other_weights_have_other_keys():
    class Doubled(programs.Convolutions):
        def __init__(self) -> None:
            super().__init__()
            nn.init.constant_(self.point.bias, 2.0)

    one, _ = prepare(programs.Convolutions, programs.IMAGE, programs.U55, BASE)
    other, _ = prepare(Doubled, programs.IMAGE, programs.U55, BASE)
    before, after = statistics_keys(one), statistics_keys(other)
    same = {name for name in before if before[name] == after.get(name)}
    assert same, "what comes before the changed weight is the same"
    assert same != set(before)


def test_that_random_operators_refuse_all_reuse():
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.conv(x + torch.rand_like(x))

    module, _ = prepare(Noisy, programs.IMAGE, programs.U55, BASE)
    assert statistics_keys(module) is None

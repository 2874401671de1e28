"""Small quantized programs to prove the accelerations on, and the way to lower them."""

from __future__ import annotations

import contextlib
import copy
import functools
import io
from typing import TYPE_CHECKING, Any

import pytest
import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
from executorch.backends.arm.quantizer import (
    EthosUQuantizer,
    get_symmetric_a16w8_quantization_config,
    get_symmetric_quantization_config,
    get_uint8_io_quantization_config,
)
from executorch.backends.arm.quantizer.arm_quantizer import get_symmetric_a8w4_quantization_config
from executorch.exir import to_edge_transform_and_lower
from torch import nn
from torch.nn import functional
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from tests.tour_networks import UNet
from workbench.engine.acceleration.range_search import quick_search
from workbench.engine.runtime.interpreter import run_with_big_stack

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

U55, U85 = "ethos-u55-128", "ethos-u85-256"


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU())
        self.each = nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.BatchNorm2d(16), nn.ReLU6())
        self.point = nn.Conv2d(16, 16, 1)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.stem(x)
        y = y + self.point(self.each(y))
        return self.classifier(self.pool(functional.max_pool2d(y, 2)).flatten(1))


class TwoDelegates(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.after(functional.relu6(self.before(x))))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cells, self.classifier = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.cells(x)[0][:, -1])


class AttentionBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))
        self.out = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        heads = [f(y).view(1, 8, 2, 8).transpose(1, 2) for f in (self.query, self.key, self.value)]
        scores = torch.softmax(heads[0] @ heads[1].transpose(-1, -2) * 0.35, -1)
        mixed = (scores @ heads[2]).transpose(1, 2).reshape(1, 8, 16)
        return x + functional.gelu(self.out(mixed))


IMAGE, TOKENS, STEPS = (1, 3, 16, 16), (1, 8, 16), (1, 4, 8)


def _a8(quantizer: Any) -> None:
    quantizer.set_global(get_symmetric_quantization_config())


def _a8_per_tensor(quantizer: Any) -> None:
    quantizer.set_global(get_symmetric_quantization_config(is_per_channel=False))


def _a16(quantizer: Any) -> None:
    quantizer.set_global(get_symmetric_a16w8_quantization_config())


def _a8w4(quantizer: Any) -> None:
    quantizer.set_global(get_symmetric_a8w4_quantization_config(is_qat=False))


def _mixed(quantizer: Any) -> None:
    _a8(quantizer)
    quantizer.set_module_name("each", get_symmetric_a16w8_quantization_config())
    quantizer.set_module_name("point", None)


def _uint8_io(quantizer: Any) -> None:
    _a8(quantizer)
    quantizer.set_io(get_uint8_io_quantization_config())


Case = tuple["Callable[[], nn.Module]", tuple[int, ...], str, "Callable[[Any], None]"]
CASES: dict[str, Case] = {
    "a8w8": (Convolutions, IMAGE, U55, _a8),
    "a8w8 per tensor": (Convolutions, IMAGE, U85, _a8_per_tensor),
    "a16w8": (Convolutions, IMAGE, U55, _a16),
    "a16w8 attention": (AttentionBlock, TOKENS, U85, _a16),
    "a8w8 attention": (AttentionBlock, TOKENS, U85, _a8),
    "mixed": (Convolutions, IMAGE, U55, _mixed),
    "a8w4": (Convolutions, IMAGE, U55, _a8w4),
    "uint8 io": (Convolutions, IMAGE, U55, _uint8_io),
    "two delegates": (TwoDelegates, IMAGE, U55, _a8),
    "U-Net": (UNet, IMAGE, U55, _a8),
    "LSTM": (Recurrent, STEPS, U85, _a8),
}
# One small program each for 8 bits and for several delegates; the rest in .ci/test --all.
QUICK = ("a8w8", "two delegates")


def marked(cases: Iterable[str], quick: Container[str] = QUICK) -> list[Any]:
    """Return the names of cases as parameters, slow where they are not among the quick ones."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in cases]


def prepared(name: str, samples: int = 2) -> tuple[Any, tuple[torch.Tensor, ...]]:
    """Return a prepared module of a case, not calibrated, and the samples for it."""
    return copy.deepcopy(_prepared(CASES[name], samples))


@functools.lru_cache(maxsize=4)
def _prepared(case: Case, samples: int) -> tuple[Any, tuple[torch.Tensor, ...]]:
    build, shape, target, configure = case
    torch.manual_seed(0)
    network = build().train()
    with torch.no_grad():
        network(torch.randn(4 if len(shape) == 4 else 1, *shape[1:]))
    data = tuple(torch.randn(shape) for _ in range(samples))
    quantizer = EthosUQuantizer(EthosUCompileSpec(target))
    configure(quantizer)
    exported = torch.export.export(network.eval(), (data[0],))
    return prepare_pt2e(exported.module(check_guards=False), quantizer), data


def converted(name: str) -> tuple[Any, tuple[torch.Tensor, ...]]:
    """Return the calibrated and converted module of a case, and its samples."""
    module, data = prepared(name)
    with torch.no_grad():
        for sample in data:
            module(sample)
    with quick_search():
        return convert_pt2e(module), data


@functools.lru_cache(maxsize=4)
def exported(name: str) -> Any:
    """Return the program of a case as lowering takes it, which leaves it as it is."""
    module, data = converted(name)
    return torch.export.export(module, (data[0],))


def edge(program: Any, spec: EthosUCompileSpec) -> Any:
    """Return the edge manager of ``program`` with its delegates made for ``spec``."""
    with contextlib.redirect_stdout(io.StringIO()):
        return run_with_big_stack(to_edge_transform_and_lower, program, partitioner=[EthosUPartitioner(spec)])


def lowered(program: Any, spec: EthosUCompileSpec) -> bytes:
    """Return the bytes of the .pte file of ``program`` for ``spec``."""
    return bytes(edge(program, spec).to_executorch().buffer)


# It counts the operators that autograd has seen in this thread, in stock as well.
_COUNTS = {"seq_nr"}
# Metadata that is compared as it is printed.
_PRINTED = {"nn_module_stack", "torch_fn", "original_aten", "stack_trace"}


def _value(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return (
            type(value).__name__,
            value.shape,
            value.stride(),
            value.dtype,
            value.device,
            value.storage_offset(),
            value.untyped_storage().nbytes(),
            value.requires_grad,
            getattr(value, "constant", None) is not None,
        )
    if isinstance(value, list | tuple):
        return [_value(one) for one in value]
    return repr(value)


def _note(key: str, value: Any) -> Any:
    if key == "from_node":
        return [(source.name, source.target, source.pass_name) for source in value]
    if key in _PRINTED:
        return repr(value)
    return _value(value) if key in {"val", "tensor_meta"} else type(value).__name__


def nodes(module: torch.fx.GraphModule) -> list[Any]:
    """Return names, operators, arguments and metadata of all nodes of a graph."""
    return [
        (
            node.op,
            node.name,
            str(node.target),
            repr(node.args),
            repr(node.kwargs),
            [(key, _note(key, value)) for key, value in node.meta.items() if key not in _COUNTS],
        )
        for node in module.graph.nodes
    ]

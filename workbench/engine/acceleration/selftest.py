"""Lower a few small networks with and without the accelerations, and compare every byte."""

from __future__ import annotations

import contextlib
import io
import time
from typing import TYPE_CHECKING, Any

import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config
from executorch.exir import to_edge_transform_and_lower
from torch import nn
from torch.nn import functional
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from workbench.engine.acceleration.imports import run_with_big_stack
from workbench.engine.acceleration.table import applied

if TYPE_CHECKING:
    from collections.abc import Callable


class _Convolutions(nn.Module):
    """Two convolutions, one of each kind, a pool and a classifier: one delegate."""

    def __init__(self) -> None:
        super().__init__()
        self.full = nn.Conv2d(3, 8, 3, padding=1)
        self.each = nn.Conv2d(8, 8, 3, groups=8)
        self.classifier = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.each(functional.relu(self.full(x))))
        return self.classifier(y.mean((2, 3)))


class _TwoDelegates(nn.Module):
    """Two convolutions with an operator between them that the NPU does not take."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Conv2d(3, 4, 3)
        self.after = nn.Conv2d(4, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.after(functional.relu6(self.before(x)))


class _Attention(nn.Module):
    """One head of attention: views, permutations, a softmax and products of matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = torch.bmm(self.query(x), self.key(x).transpose(1, 2)) * 0.35
        return torch.bmm(torch.softmax(scores, -1), self.value(x)).permute(0, 2, 1)


_CASES: tuple[tuple[str, Callable[[], nn.Module], tuple[int, ...], str], ...] = (
    ("convolutions", _Convolutions, (1, 3, 12, 12), "ethos-u55-128"),
    ("two delegates", _TwoDelegates, (1, 3, 8, 8), "ethos-u55-128"),
    ("attention", _Attention, (1, 6, 8), "ethos-u85-256"),
)


def differences(log: Callable[[str], None]) -> list[str]:
    """Return the names of the networks whose .pte differs when lowered with accelerations.

    A network whose accelerated lowering fails counts as different. About 10 s on a slow machine.
    """
    return [case[0] for case in _CASES if run_with_big_stack(_differs, log, *case)]


def _differs(
    log: Callable[[str], None],
    name: str,
    build: Callable[[], nn.Module],
    shape: tuple[int, ...],
    target: str,
) -> bool:
    program = _quantized(build, shape, target)
    start = time.process_time()
    stock = _lowered(program, target)
    middle = time.process_time()
    try:
        with applied():
            fast = _lowered(program, target)
    except Exception as error:  # noqa: BLE001 - any failure at all is a difference
        log(f"{name}: the accelerated lowering failed: {error}")
        return True
    ratio = (time.process_time() - middle) / (middle - start)
    log(f"{name}: {'same' if fast == stock else 'DIFFERENT'} bytes in {ratio:.2f} of the time")
    return fast != stock


def _quantized(build: Callable[[], nn.Module], shape: tuple[int, ...], target: str) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network, sample = build().eval(), torch.randn(shape)
    quantizer = EthosUQuantizer(EthosUCompileSpec(target))
    quantizer.set_global(get_symmetric_quantization_config())
    exported = torch.export.export(network, (sample,)).module(check_guards=False)
    prepared = prepare_pt2e(exported, quantizer)
    with torch.no_grad():
        prepared(sample)
    return torch.export.export(convert_pt2e(prepared), (sample,))


def _lowered(program: Any, target: str) -> bytes:
    partitioner = EthosUPartitioner(EthosUCompileSpec(target))
    with contextlib.redirect_stdout(io.StringIO()):
        edge = to_edge_transform_and_lower(program, partitioner=[partitioner])
        return bytes(edge.to_executorch().buffer)

"""Lower a few small networks with and without the accelerations, and compare every byte."""

# ruff: noqa: SLF001 - the insides of the toolchain are what this file is about

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
from executorch.backends.arm.quantizer import (
    EthosUQuantizer,
    get_symmetric_a16w8_quantization_config,
    get_symmetric_quantization_config,
)
from executorch.backends.arm.quantizer.arm_quantizer import get_symmetric_a8w4_quantization_config
from executorch.exir import to_edge_transform_and_lower
from torch import nn
from torch.nn import functional
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from workbench.engine.runtime.accelerated import applied
from workbench.engine.runtime.interpreter import run_with_big_stack
from workbench.toolchain_versions import listed, remember_verdict, versions


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


class _Skips(nn.Module):
    """A small U-Net: one level down, one up, and the two sides joined."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.bottom = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.up, self.out = nn.ConvTranspose2d(4, 4, 2, stride=2), nn.Conv2d(8, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skip = functional.relu(self.down(x))
        y = functional.relu(self.bottom(functional.max_pool2d(skip, 2)))
        return self.out(torch.cat((self.up(y), skip), 1))


class _Recurrent(nn.Module):
    """An LSTM, which export unrolls, and a classifier on its last step."""

    def __init__(self) -> None:
        super().__init__()
        self.cells, self.classifier = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.cells(x)[0][:, -1])


class _Branches(nn.Module):
    """A convolution under a condition."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.left, self.right = (nn.Conv2d(3, 3, 3, padding=1) for _ in range(3))

    def forward(self, x: torch.Tensor, which: torch.Tensor) -> torch.Tensor:
        return torch.cond(which, self.left, self.right, [self.stem(x)])


@dataclass(frozen=True)
class Case:
    """One network to lower with and without the accelerations."""

    name: str
    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    target: str
    configuration: Callable[[], Any] = get_symmetric_quantization_config
    has_branches: bool = False


_U55, _U85 = "ethos-u55-128", "ethos-u85-256"
CASES: tuple[Case, ...] = (
    Case("convolutions", _Convolutions, (1, 3, 12, 12), _U55),
    Case("convolutions a16w8", _Convolutions, (1, 3, 12, 12), _U55, get_symmetric_a16w8_quantization_config),
    Case(
        "convolutions a8w4",
        _Convolutions,
        (1, 3, 12, 12),
        _U85,
        partial(get_symmetric_a8w4_quantization_config, is_qat=False),
    ),
    Case("two delegates", _TwoDelegates, (1, 3, 8, 8), _U55),
    Case("attention", _Attention, (1, 6, 8), _U85),
    Case("U-Net", _Skips, (1, 3, 8, 8), _U55),
    Case("LSTM", _Recurrent, (1, 3, 4), _U85),
    Case("LSTM a16w8", _Recurrent, (1, 2, 4), _U85, get_symmetric_a16w8_quantization_config),
    Case("control flow", _Branches, (1, 3, 8, 8), _U85, has_branches=True),
)


def prove(log: Callable[[str], None]) -> bool:
    """Run the self-test with the installed versions, remember the verdict and return it."""
    different = differences(log)
    remember_verdict(same=not different)
    versions_now = listed(versions())
    log(
        f"Different with {versions_now}: {', '.join(different)}."
        if different
        else f"Every byte is the same with {versions_now}."
    )
    return not different


def differences(log: Callable[[str], None]) -> list[str]:
    """Return the names of the networks whose .pte differs when lowered with accelerations.

    A network whose accelerated lowering fails counts as different. About a minute.
    """
    return [case.name for case in CASES if run_with_big_stack(differs, case, log)]


def differs(case: Case, log: Callable[[str], None]) -> bool:
    """Return whether the .pte of ``case`` differs when lowered with accelerations."""
    name, target = case.name, case.target
    program = _quantized(case)
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


def _quantized(case: Case) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network, sample = case.build().eval(), torch.randn(case.shape)
    quantizer = EthosUQuantizer(EthosUCompileSpec(case.target))
    quantizer.set_global(case.configuration())
    inputs: list[tuple[torch.Tensor, ...]] = [(sample,)]
    if case.has_branches:
        inputs = [(sample, torch.tensor([which])) for which in (True, False)]
    exported = torch.export.export(network, inputs[0]).module(check_guards=False)
    if case.has_branches:
        # The one way to quantize the sub-graphs of a condition.
        quantize = quantizer._quantize_with_submodules
        with torch.no_grad():
            converted = quantize(exported, inputs, is_qat=False)
        return torch.export.export(converted, inputs[0])
    prepared = prepare_pt2e(exported, quantizer)
    with torch.no_grad():
        prepared(sample)
    return torch.export.export(convert_pt2e(prepared), inputs[0])


def _lowered(program: Any, target: str) -> bytes:
    partitioner = EthosUPartitioner(EthosUCompileSpec(target))
    with contextlib.redirect_stdout(io.StringIO()):
        edge = to_edge_transform_and_lower(program, partitioner=[partitioner])
        return bytes(edge.to_executorch().buffer)

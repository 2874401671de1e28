"""What number formats cost on a tensor of ten million elements, as ratios within one run.

The measure is torch.fake_quantize_per_tensor_affine on the same tensor: at most 4 times for
elementwise formats, 8 times for formats with blocks. Both run in one thread and are measured in
its own time, so that what else the machine does counts for neither. An emulated MobileNetV2
(224 x 224, every operation of MASE's table in it) may take 5 times the float program.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from tests.benchmarks.networks import MobileNetV2, warmed
from tests.fakes.formats import parameters
from workbench.engine.formats import toolchain
from workbench.engine.formats.schemes import SCHEMES, quantizer
from workbench.project import edits
from workbench.project.configs import FormatConfig
from workbench.project.model import ModelSource, Project, TargetChoice
from workbench.project.opened import OpenProject

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.benchmarks.conftest import Measured

pytestmark = pytest.mark.benchmark
SHAPE = (9_766, 1_024)
PARAMETERS = parameters([1, 16])


def milliseconds(work: Callable[[], object], repeats: int) -> float:
    """Return the least time of several runs."""
    times = []
    for _ in range(repeats):
        start = time.thread_time()
        work()
        times.append((time.thread_time() - start) * 1e3)
    return min(times)


def beside_torch(x: torch.Tensor, work: Callable[[], object]) -> tuple[float, float]:
    """Return milliseconds of ``work`` and its ratio to fake quantization, taken side by side."""
    best, base = float("inf"), float("inf")
    for _ in range(3):
        base = min(
            base, milliseconds(lambda: torch.fake_quantize_per_tensor_affine(x, 1 / 16, 0, -128, 127), 2)
        )
        best = min(best, milliseconds(work, 2))
    return best, best / base


def test_that_quantizing_costs_little_more_than_torchs_own(measured: Measured) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    x = torch.randn(SHAPE, generator=torch.Generator().manual_seed(0))
    slowest = {"elementwise": 0.0, "block": 0.0}
    for name, params in PARAMETERS.items():
        spec = quantizer(name, params).spec
        kind = "block" if spec.block else "elementwise"
        for mase in (False, True):
            if mase and (SCHEMES[name].mase is None or name == "ternary"):
                continue
            made = quantizer(name, params, mase_compatible=mase)
            _, ratio = beside_torch(x, lambda made=made: made(x))
            slowest[kind] = max(slowest[kind], ratio)
    torch.set_num_threads(threads)
    for kind, ratio in slowest.items():
        measured(f"Slowest {kind} format against torch's fake quantization", ratio)


def emulated(program: torch.export.ExportedProgram, scheme: str) -> torch.fx.GraphModule:
    """Return a program with one format on all that takes it."""
    config = FormatConfig(scheme=scheme, parameters=PARAMETERS[scheme])
    project = Project(name="n", model=ModelSource(spec="n"), target=TargetChoice(id="formats"))
    rules = toolchain.quantizer(OpenProject(edits.assign(project, "global", "", config), Path()))
    module = program.module(check_guards=False)
    return toolchain.convert(toolchain.prepare(module, rules))


def test_that_an_emulated_mobilenet_takes_a_few_times_the_float_one(measured: Measured) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    sample = torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    program = torch.export.export(warmed(MobileNetV2(), *sample.shape), (sample,))
    floating = program.module(check_guards=False)
    slowest = 0.0
    with torch.inference_mode():
        for name in PARAMETERS:
            module = emulated(program, name)
            best = base = float("inf")
            for _ in range(3):
                base = min(base, milliseconds(lambda: floating(sample), 1))
                best = min(best, milliseconds(lambda module=module: module(sample), 1))
            slowest = max(slowest, best / base)
    torch.set_num_threads(threads)
    measured("MobileNetV2 224² in the slowest format against float", slowest)

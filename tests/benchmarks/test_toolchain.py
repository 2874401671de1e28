"""How quick the toolchain is, as ratios to the plain flow measured in the same run.

Run with ``pytest -m benchmark -s tests/benchmarks/test_toolchain.py``.
CPU seconds of one thread, because they bear other work on the machine better than wall time.
"""

from __future__ import annotations

import contextlib
import io
import logging
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from workbench.engine.runtime.imports import TOOLCHAIN, import_toolchain
from workbench.engine.runtime.interpreter import run_with_big_stack

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.benchmarks.conftest import Measured

pytestmark = [pytest.mark.engine, pytest.mark.benchmark, pytest.mark.filterwarnings("ignore")]

NETWORKS = {"CNN": ("mobilenet_v2", "ethos-u55-128"), "transformer": ("encoder", "ethos-u85-256")}
LOWERED = {
    **NETWORKS,
    "CNN 224": ("mobilenet_v2_224", "ethos-u55-128"),
    "LSTM": ("lstm", "ethos-u85-256"),
    "ResNet-8": ("resnet8", "ethos-u55-128"),
}
QUICK_START = "from workbench.engine.runtime.imports import import_toolchain as f; f()"


TITLES = {
    "CNN": "MobileNetV2 96²",
    "CNN 224": "MobileNetV2 224²",
    "LSTM": "LSTM of 24 steps",
    "transformer": "transformer of 4 layers",
    "ResNet-8": "ResNet-8",
}


@pytest.fixture(scope="module", autouse=True)
def toolchain() -> Iterator[None]:
    """Import the toolchain as an engine does, and compute in one thread."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import_toolchain()
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    # pytest listens to every logger, for which torch's trace would write at length.
    logging.disable(logging.CRITICAL)
    yield
    torch.set_num_threads(threads)
    logging.disable(logging.NOTSET)


def cpu_s(action: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Return the median CPU seconds of ``action`` and its last result."""
    times, result = [], None
    for _ in range(repeats):
        start = time.process_time()
        with contextlib.redirect_stdout(io.StringIO()):
            result = action()
        times.append(time.process_time() - start)
    return statistics.median(times), result


def as_a_script(action: Callable[[], Any]) -> Any:
    """Return ``action()``, run as shallow on its stack as a script would run it.

    Under pytest the interpreter's stack is deep, and what that costs is luck.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(action).result()


def exported(kind: str, a16: bool = False, changed: str = "") -> tuple[Any, Any, Any, Any]:
    """Return the float network, its prepared module, the conversion and a sample.

    One module has another config if ``changed`` names it.
    """

    import torch
    from executorch.backends.arm import quantizer as arm
    from executorch.backends.arm.ethosu import EthosUCompileSpec
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from tests.benchmarks import networks

    name, target = LOWERED[kind]
    network, shape = networks.build(name)
    sample = torch.randn(shape)
    quantizer = arm.EthosUQuantizer(EthosUCompileSpec(target))
    factory = "get_symmetric_a16w8_quantization_config" if a16 else ("get_symmetric_quantization_config")
    quantizer.set_global(getattr(arm, factory)())
    if changed:
        per_tensor = arm.get_symmetric_quantization_config(is_per_channel=False)
        quantizer.set_module_name(changed, per_tensor)
    program = torch.export.export(network, (sample,))
    prepared = prepare_pt2e(program.module(check_guards=False), quantizer)
    return network, prepared, convert_pt2e, sample


def program_of(kind: str, changed: str = "") -> Any:
    import torch

    _, prepared, convert, sample = exported(kind, changed=changed)
    with torch.no_grad():
        prepared(sample)
    return torch.export.export(convert(prepared), (sample,))


def lowered(program: Any, target: str) -> tuple[Any, bytes]:
    from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
    from executorch.exir import to_edge_transform_and_lower

    partitioner = EthosUPartitioner(EthosUCompileSpec(target))
    edge = to_edge_transform_and_lower(program, partitioner=[partitioner])
    return edge, bytes(edge.to_executorch().buffer)


def started_s(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, check=True)
    return time.perf_counter() - start


def test_start_of_an_engine(measured: Measured) -> None:
    stock = "import " + ", ".join(TOOLCHAIN)
    times = [(started_s(stock), started_s(QUICK_START)) for _ in range(3)]
    ratio = statistics.median(quick / plain for plain, quick in times)
    measured("Start of an engine, against the stock imports", ratio)


@pytest.mark.parametrize("kind", LOWERED)
def test_lowering(kind: str, measured: Measured) -> None:
    from executorch.backends.arm.ethosu import EthosUCompileSpec

    from workbench.engine.ethos_u.capture.lowering import capture_tosa
    from workbench.engine.ethos_u.recompile_for_device import recompile_for_device
    from workbench.engine.runtime.accelerated import applied

    program, target = program_of(kind), LOWERED[kind][1]
    edited = program_of(kind, changed="features.5") if kind == "CNN" else None
    stock_s, (_, stock) = cpu_s(partial(as_a_script, partial(lowered, program, target)))
    with applied():
        with capture_tosa() as tosa:
            quick_s, (edge, quick) = cpu_s(partial(run_with_big_stack, lowered, program, target))
        assert quick == stock
        measured(f"Lowering against stock, same bytes: {TITLES[kind]}", quick_s / stock_s)
        if kind == "CNN":
            make_spec = partial(EthosUCompileSpec, "ethos-u55-256", memory_mode="Sram_Only")
            again_s, _ = cpu_s(lambda: recompile_for_device(edge, tosa, make_spec).to_executorch(), repeats=3)
            measured("Another device with the same TOSA, against lowering", again_s / stock_s)
            edited_s, _ = cpu_s(partial(run_with_big_stack, lowered, edited, target))
            what = "One module changed, lowered again, against stock"
            measured(f"{what}: {TITLES[kind]}", edited_s / stock_s)


@pytest.mark.parametrize("kind", NETWORKS)
def test_calibration_pass(kind: str, measured: Measured) -> None:
    import torch

    from workbench.engine.calibration.quick_observers import quick_calibration
    from workbench.engine.calibration.sample_extrema import SampleExtrema
    from workbench.engine.quantization import ranges

    _, prepared, _, sample = exported(kind)
    with torch.inference_mode():
        prepared(sample)
        stock_s, _ = cpu_s(lambda: prepared(sample), repeats=15)
        extrema = SampleExtrema(ranges.activations(prepared))
        extrema.begin(0)
        with quick_calibration(prepared), extrema.watching():
            prepared(sample)
            quick_s, _ = cpu_s(lambda: prepared(sample), repeats=15)
    what = "MobileNetV2 96²" if kind == "CNN" else kind
    measured(f"Calibration pass against stock: {what}", quick_s / stock_s)


def test_convert_after_an_edit(measured: Measured) -> None:
    import torch

    from workbench.engine.acceleration.range_search import quick_search
    from workbench.engine.calibration.quick_observers import RangeMemory, remembered_ranges
    from workbench.engine.runtime.accelerated import applied

    modules = [exported("CNN") for _ in range(3)]
    for _, prepared, _, sample in modules:
        with torch.no_grad():
            prepared(sample)
    _, prepared, convert, _ = modules[0]
    stock_s, _ = cpu_s(partial(convert, prepared))
    with applied(), remembered_ranges(RangeMemory()), quick_search():
        convert(modules[1][1])
        quick_s, _ = cpu_s(partial(convert, modules[2][1]))
    measured("Conversion after an edit, against stock: MobileNetV2 96²", quick_s / stock_s)


@pytest.mark.parametrize(("kind", "a16"), [("CNN", False), ("CNN", True), ("transformer", False)])
def test_quantized_evaluation_against_float(kind: str, a16: bool, measured: Measured) -> None:
    import torch

    from workbench.engine.evaluation.quick_modules import fast_quantized_module

    network, prepared, convert, sample = exported(kind, a16)
    with torch.no_grad():
        prepared(sample)
    converted = convert(prepared)
    fast = fast_quantized_module(converted)
    with torch.inference_mode():
        assert torch.equal(fast(sample), converted(sample))
        network(sample)
        float_s, _ = cpu_s(lambda: [network(sample) for _ in range(10)], repeats=9)
        quick_s, _ = cpu_s(lambda: [fast(sample) for _ in range(10)], repeats=9)
    what = "MobileNetV2 96²" if kind == "CNN" else kind
    what += ", a16w8" if a16 else ""
    measured(f"Quantized evaluation against float: {what}", quick_s / float_s)


@pytest.mark.parametrize(("family", "target"), [("U55", "ethos-u55-128"), ("U85", "ethos-u85-256")])
def test_simulation_of_the_compiled_program(family: str, target: str, measured: Measured) -> None:
    import torch
    import tosa_reference_model

    from workbench.engine.ethos_u.capture.lowering import capture_tosa
    from workbench.engine.runtime.accelerated import applied
    from workbench.npu.program import load

    program = program_of("CNN 224")
    with applied(), capture_tosa() as tosa:
        _, pte = run_with_big_stack(lowered, program, target)
    compiled, sample = load(pte), torch.randn(1, 3, 224, 224).numpy()
    integers = np.random.default_rng(0).integers(-128, 128, sample.shape, np.int8)
    (flatbuffer,) = tosa
    compiled.run([sample])
    ours_s, _ = cpu_s(lambda: compiled.run([sample]), repeats=3)
    theirs_s, _ = cpu_s(lambda: tosa_reference_model.run(flatbuffer, [integers], verbosity="NONE"), repeats=3)
    what = "Functional simulation of MobileNetV2 224², against the TOSA reference model"
    measured(f"{what}: {family}", ours_s / theirs_s)

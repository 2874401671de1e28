"""How quick the toolchain is, as ratios to the plain flow measured in the same run.

Run with ``pytest -m benchmark -s tests/benchmarks/test_toolchain.py``; the table comes at the end.
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

import pytest

from workbench.engine.toolchain_patches.imports import TOOLCHAIN, import_toolchain
from workbench.engine.toolchain_patches.interpreter import run_with_big_stack

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.engine, pytest.mark.benchmark, pytest.mark.filterwarnings("ignore")]

BARS = {
    "engine start": 0.35,
    "lowering, CNN": 0.12,
    "lowering, CNN 224": 0.12,
    "lowering, transformer": 0.16,
    "lowering, LSTM": 0.12,
    "lowering, ResNet-8": 0.2,
    "another target, CNN": 0.06,
    "calibration pass, CNN": 0.7,
    "calibration pass, transformer": 0.7,
    "convert again, CNN": 0.5,
    "evaluation, CNN": 1.4,
    "evaluation, CNN a16w8": 1.4,
    "evaluation, transformer": 5.0,
}
NETWORKS = {
    "CNN": ("mobilenet_v2", "ethos-u55-128"),
    "transformer": ("encoder", "ethos-u85-256"),
}
LOWERED = {
    **NETWORKS,
    "CNN 224": ("mobilenet_v2_224", "ethos-u55-128"),
    "LSTM": ("lstm", "ethos-u85-256"),
    "ResNet-8": ("resnet8", "ethos-u55-128"),
}
QUICK_START = "from workbench.engine.toolchain_patches.imports import import_toolchain as f; f()"


@pytest.fixture(scope="module", autouse=True)
def table() -> Iterator[dict[str, tuple[float, float]]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import_toolchain()
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    # pytest listens to every logger, for which torch's trace would write at length.
    logging.disable(logging.CRITICAL)
    rows: dict[str, tuple[float, float]] = {}
    yield rows
    torch.set_num_threads(threads)
    logging.disable(logging.NOTSET)
    print(f"\n\n{'':32}{'stock':>10}{'quick':>10}{'ratio':>8}{'asked':>8}")
    for name, (stock, quick) in rows.items():
        print(f"{name:32}{stock:10.4f}{quick:10.4f}{quick / stock:8.3f}{BARS[name]:8.2f}")


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


def exported(kind: str, a16: bool = False) -> tuple[Any, Any, Any, Any]:
    """Return the float network, its prepared and converted modules and a sample."""

    import torch
    from executorch.backends.arm import quantizer as arm
    from executorch.backends.arm.ethosu import EthosUCompileSpec
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from tests.benchmarks import networks

    name, target = LOWERED[kind]
    network, shape = networks.build(name)
    sample = torch.randn(shape)
    quantizer = arm.EthosUQuantizer(EthosUCompileSpec(target))
    factory = (
        "get_symmetric_a16w8_quantization_config" if a16 else ("get_symmetric_quantization_config")
    )
    quantizer.set_global(getattr(arm, factory)())
    program = torch.export.export(network, (sample,))
    prepared = prepare_pt2e(program.module(check_guards=False), quantizer)
    return network, prepared, convert_pt2e, sample


def program_of(kind: str) -> Any:
    import torch

    _, prepared, convert, sample = exported(kind)
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


def test_start_of_an_engine(table: dict[str, tuple[float, float]]) -> None:
    stock = "import " + ", ".join(TOOLCHAIN)
    times = [(started_s(stock), started_s(QUICK_START)) for _ in range(3)]
    table["engine start"] = (
        statistics.median(t[0] for t in times),
        statistics.median(t[1] for t in times),
    )


@pytest.mark.parametrize("kind", LOWERED)
def test_lowering(kind: str, table: dict[str, tuple[float, float]]) -> None:
    from executorch.backends.arm.ethosu import EthosUCompileSpec

    from workbench.engine.toolchain_patches.gate import applied
    from workbench.engine.toolchain_patches.interception import capture_tosa
    from workbench.engine.toolchain_patches.retarget import retarget

    program, target = program_of(kind), LOWERED[kind][1]
    stock_s, (_, stock) = cpu_s(partial(as_a_script, partial(lowered, program, target)))
    with applied():
        with capture_tosa() as tosa:
            quick_s, (edge, quick) = cpu_s(partial(run_with_big_stack, lowered, program, target))
        assert quick == stock
        table[f"lowering, {kind}"] = (stock_s, quick_s)
        if kind == "CNN":
            make_spec = partial(EthosUCompileSpec, "ethos-u55-256", memory_mode="Sram_Only")
            again_s, _ = cpu_s(lambda: retarget(edge, tosa, make_spec).to_executorch(), repeats=3)
            table["another target, CNN"] = (stock_s, again_s)


@pytest.mark.parametrize("kind", NETWORKS)
def test_calibration_pass(kind: str, table: dict[str, tuple[float, float]]) -> None:
    import torch

    from workbench.engine.quantization import ranges
    from workbench.engine.quantization.sample_extrema import Witnesses
    from workbench.engine.toolchain_patches.calibration import quick_calibration

    _, prepared, _, sample = exported(kind)
    with torch.inference_mode():
        prepared(sample)
        stock_s, _ = cpu_s(lambda: prepared(sample), repeats=15)
        witnesses = Witnesses(ranges.activations(prepared))
        witnesses.begin(0)
        with quick_calibration(prepared), witnesses.watching():
            prepared(sample)
            quick_s, _ = cpu_s(lambda: prepared(sample), repeats=15)
    table[f"calibration pass, {kind}"] = (stock_s, quick_s)


def test_convert_after_an_edit(table: dict[str, tuple[float, float]]) -> None:
    import torch

    from workbench.engine.toolchain_patches.calibration import RangeMemory, remembered_ranges

    modules = [exported("CNN") for _ in range(3)]
    for _, prepared, _, sample in modules:
        with torch.no_grad():
            prepared(sample)
    _, prepared, convert, _ = modules[0]
    stock_s, _ = cpu_s(partial(convert, prepared))
    with remembered_ranges(RangeMemory()):
        convert(modules[1][1])
        quick_s, _ = cpu_s(partial(convert, modules[2][1]))
    table["convert again, CNN"] = (stock_s, quick_s)


@pytest.mark.parametrize(("kind", "a16"), [("CNN", False), ("CNN", True), ("transformer", False)])
def test_quantized_evaluation_against_float(
    kind: str, a16: bool, table: dict[str, tuple[float, float]]
) -> None:
    import torch

    from workbench.engine.toolchain_patches.evaluation import fast_quantized_module

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
    table[f"evaluation, {kind}" + (" a16w8" if a16 else "")] = (float_s / 10, quick_s / 10)

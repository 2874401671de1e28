"""Small results of every stage, as an engine would leave them in the cache."""

from __future__ import annotations

import functools
import hashlib

import numpy as np

from tests.fakes.projects import snapshot
from workbench.results import (
    ARRAYS_FILE,
    GRAPH_FILE,
    AgainstFloat,
    CalibrateResult,
    ChannelLayer,
    CompiledProgram,
    ConvertResult,
    CpuNode,
    Deliverable,
    Dependence,
    EvaluateResult,
    ExportResult,
    ImportResult,
    LiveRange,
    LowerResult,
    NodeAnnotation,
    OutputQuality,
    PackageResult,
    PrepareResult,
    SimulationResult,
    TensorQuality,
    TensorRange,
    TensorSpec,
    VelaOperation,
    VelaReport,
    VerifyResult,
    save_result,
)
from workbench.results.simulation import Agreement, Pool, RuntimeEvent, SimulationReport, TracedOperation

_IN = TensorSpec(name="x", shape=(1, 8, 8, 8), dtype="float32")
_LEVELS = {"export": "float", "prepare": "prepared", "convert": "quantized", "lower": "edge"}


def _range(index, node, module):
    return TensorRange(
        origin=node,
        id=f"obs_{index}",
        node=node,
        op=node,
        module=module,
        kind="activation",
        index=index,
        minimum=-1.0,
        maximum=1.0,
        p_low=-0.9,
        p_high=0.9,
        dtype="int8",
        qmin=-128,
        qmax=127,
        scale=1 / 127,
        zero_point=0,
        observer="histogram",
    )


_OPERATION = VelaOperation(
    name="conv2d",
    operator="Conv2D",
    module="stem.conv",
    tosa="CONV2D",
    cycles=900,
    cycles_vela=900,
    npu_cycles=800,
    macs=9216,
    sram_cycles=100,
    external_cycles=50,
    staging_bytes=512,
)
_VELA = VelaReport(
    delegate=0,
    cycles_total=1000,
    cycles_vela=1000,
    cycles_npu=900,
    inference_ms=0.002,
    sram_bytes=4096,
    flash_bytes=2048,
    macs=9216,
    weights_bytes=420,
    encoded_weights_bytes=300,
    command_stream_bytes=200,
    scratch_bytes=4096,
    operations=(_OPERATION,),
    tensors=(
        LiveRange(name="x", module="", memory="Sram", usage="OpLocal", start=0, end=1, address=0, bytes=1024),
        LiveRange(
            name="conv2d",
            module="stem.conv",
            memory="Sram",
            usage="OpLocal",
            start=1,
            end=3,
            address=1024,
            bytes=3072,
        ),
        LiveRange(
            name="weights",
            module="head",
            memory="Sram",
            usage="OpBuffering",
            start=3,
            end=3,
            address=0,
            bytes=512,
        ),
    ),
)


_PROGRAM = b"PTE!"
_PROGRAM_SHA = hashlib.sha256(_PROGRAM).hexdigest()


def result_of(stage):
    """Return a stage's result; the convolution is what the finder First of own.py finds."""
    return _results()[stage]


@functools.cache
def _results():
    notes = [
        NodeAnnotation(
            node="conv2d",
            origin="conv2d",
            op="aten.conv2d.default",
            module="stem.conv",
            config="a8w8",
            quantized=True,
            by="own.py:First",
        ),
        NodeAnnotation(
            node="linear",
            origin="linear",
            op="aten.linear.default",
            module="head",
            config="",
            quantized=False,
            reason="no pattern takes it",
        ),
    ]
    quality = {"sqnr_db": 34.5, "cosine": 0.999, "max_abs_error": 0.02}
    return {
        "import_model": ImportResult(
            model_class="net.Net", parameters=420, parameter_bytes=1680, inputs=(_IN,)
        ),
        "export": ExportResult(
            nodes=6,
            inputs=(_IN,),
            outputs=(_IN,),
            layers=(
                ChannelLayer(module="stem.conv", channels=16, partners=("body.conv",)),
                ChannelLayer(module="head", channels=4, fixed="makes an output"),
            ),
        ),
        "prepare": PrepareResult(observers=3, annotations=tuple(notes)),
        "calibrate": CalibrateResult(
            samples=16,
            calibrated_on="data.npz",
            ranges=(_range(0, "conv2d", "stem.conv"), _range(1, "relu", "stem.relu")),
        ),
        "convert": ConvertResult(nodes=14, quantized_weights_bytes=420, float_operators=1),
        "evaluate": EvaluateResult(
            samples=16,
            data="data.npz",
            calibrated_on="data.npz",
            **quality,
            outputs=(OutputQuality(name="output", **quality),),
            tensors=(
                TensorQuality(tensor="conv2d", origin="conv2d", module="stem.conv", op="conv2d", **quality),
            ),
        ),
        "lower": LowerResult(
            target="ethos-u55-128",
            system_config="Ethos_U55_High_End_Embedded",
            memory_mode="Shared_Sram",
            delegates=1,
            delegated_nodes=3,
            cpu_nodes=(
                CpuNode(
                    node="linear", op="aten.linear.default", module="head", reason="float32 is not taken"
                ),
            ),
            kernels=("aten::linear.out",),
            vela=(_VELA,),
            pte_bytes=9000,
            accelerated=True,
            vela_version="5.1.0",
        ),
        "verify": VerifyResult(
            samples=16,
            elements=160,
            exact=158,
            max_lsb=1,
            argmax_equal=16,
            histogram={-1: 1, 0: 158, 1: 1},
            outputs=(OutputQuality(name="output 0", bits=8, max_lsb=1, **quality),),
            decided=16,
            decided_equal=16,
            against_float=AgainstFloat(
                quantized_sqnr_db=34.5,
                integer_sqnr_db=34.1,
                samples=16,
                data="data.npz",
                outputs=(
                    OutputQuality(
                        name="output 0",
                        sqnr_db=34.1,
                        cosine=0.999,
                        max_abs_error=0.02,
                        decided=16,
                        decided_equal=16,
                    ),
                ),
                dependence=Dependence(),
            ),
            compiled=CompiledProgram(samples=16, elements=160, equal=160, max_lsb=0),
        ),
        "run": SimulationResult(
            report=SimulationReport(
                simulator="FVP_Corstone_SSE-300_Ethos-U55",
                version="11.27.42",
                target="ethos-u55-128",
                fast=False,
                succeeded=True,
                samples=16,
                elapsed_s=41.5,
                exit_reason="All 16 samples were computed in one start; the simulator was then ended.",
                pools=(Pool(name="method", given=1 << 20, used=4192), Pool(name="scratch", given=1 << 21)),
                explanation=(
                    "NPU_IDLE: 120 an inference, cycles without work: stalls and changes between jobs.",
                    "Flash or DRAM delivers 0.61 beats a cycle: reading weights bounds the run.",
                ),
            ),
            runner="arm_executor_runner",
            samples=16,
            cycles=1180.0,
            estimated_cycles=1000,
            traced=(
                TracedOperation(
                    delegate=0,
                    operator="Conv2D",
                    name="conv2d",
                    module="stem.conv",
                    estimated=900,
                    cycles=1098.0,
                ),
            ),
            events=(RuntimeEvent(name="add.out", kind="cpu", cycles=321.0, calls=1),),
            against_reference=Agreement(
                elements=160,
                exact=160,
                max_lsb=0,
                argmax_equal=16,
                histogram={0: 160},
                sample_max_lsb=(0,) * 16,
            ),
            against_quantized=Agreement(
                elements=160,
                exact=157,
                max_lsb=1,
                argmax_equal=16,
                histogram={-1: 2, 0: 157, 1: 1},
                sample_max_lsb=(0, 1) + (0,) * 14,
                sample_argmax=(True,) * 16,
            ),
        ),
        "package": PackageResult(
            files=(Deliverable(name="net.pte", bytes=4, sha256=_PROGRAM_SHA, purpose="program"),),
            kernels=(),
            method_pool_bytes=1024,
            scratch_pool_bytes=4096,
            planned_bytes=(512,),
        ),
    }


UART = (
    "I [executorch:arm_executor_runner.cpp:700 main()] Model run: 1\r\n"
    "E [executorch:memory_allocator.h:9 allocate()] Memory allocation failed\r\n"
    "caf\xe9"
)


def write_result(stage, folder):
    """Leave in ``folder`` what the stage leaves: result, graph, arrays, files."""
    save_result(result_of(stage), folder)
    if stage in _LEVELS:
        snapshot(_LEVELS[stage]).save(folder / GRAPH_FILE)
    if stage == "calibrate":
        edges = np.array([[-1.0, 1.0], [-1.0, 1.0]])
        np.savez(folder / ARRAYS_FILE, histogram=np.ones((2, 256)), edges=edges)
    if stage == "run":
        (folder / "uart.log").write_text(UART)
    if stage == "package":
        (folder / "net.pte").write_bytes(_PROGRAM)

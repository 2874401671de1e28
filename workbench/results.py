"""What each stage leaves behind, as readers see it: small JSON values, arrays beside them.

Every result folder holds ``result.json`` (one of the classes here); some hold ``graph.json`` (a
GraphSnapshot) and ``arrays.npz``. Nothing is pickled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import ValidationError

from workbench.errors import Place, failure
from workbench.project.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np

RESULT_FILE = "result.json"
ARRAYS_FILE = "arrays.npz"
GRAPH_FILE = "graph.json"

EXAMPLE_ONLY = "the example input only"


class TensorSpec(Frozen):
    """Name, shape and dtype of one input or output; -1 in a shape is a free size."""

    name: str
    shape: tuple[int, ...]
    dtype: str


class ImportResult(Frozen):
    """The float model as it was loaded."""

    model_class: str
    parameters: int
    parameter_bytes: int
    inputs: tuple[TensorSpec, ...]
    warnings: tuple[str, ...] = ()


class ExportResult(Frozen):
    """The exported program in figures; its graph lies in graph.json."""

    nodes: int
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    branches: tuple[str, ...] = ()


class NodeAnnotation(Frozen):
    """What the quantizer did with one node of the prepared graph; ``reason`` when it did not."""

    node: str
    op: str
    module: str
    config: str
    by: str = ""
    quantized: bool
    reason: str = ""


class PrepareResult(Frozen):
    """The quantizer's own report."""

    observers: int
    annotations: tuple[NodeAnnotation, ...]
    warnings: tuple[str, ...] = ()


class TensorRange(Frozen):
    """What calibration saw of one tensor, and the grid that follows.

    ``id`` is the observer's name; ``index`` the row in the arrays ``histogram`` [T, 256] and
    ``edges`` [T, 2]; percentiles p0.1 and p99.9 come from that histogram. Weights carry one range
    per channel in the arrays ``channel_min/<id>`` and ``channel_max/<id>``.
    """

    id: str
    node: str
    op: str
    module: str
    kind: Literal["activation", "weight"]
    index: int
    minimum: float
    maximum: float
    p_low: float
    p_high: float
    dtype: str
    qmin: int
    qmax: int
    scale: float
    zero_point: int
    observer: str
    channels: int = 1
    problem: str = ""


class CalibrateResult(Frozen):
    """Ranges of all observed tensors in topological order."""

    samples: int
    calibrated_on: str
    ranges: tuple[TensorRange, ...]


class ConvertResult(Frozen):
    """The quantized program in figures; its graph lies in graph.json."""

    nodes: int
    quantized_weights_bytes: int
    float_operators: int


class TensorQuality(Frozen):
    """Float against quantized at one tensor, over the evaluated samples."""

    tensor: str
    module: str
    op: str
    sqnr_db: float | None
    cosine: float | None
    max_abs_error: float | None


class OutputQuality(Frozen):
    """Float against quantized at one output of the model."""

    name: str
    sqnr_db: float | None
    cosine: float | None
    max_abs_error: float | None


class EvaluateResult(Frozen):
    """How good the quantized model is. Numbers that do not exist (no labels) are None.

    ``sqnr_db`` is 10 log10(sum float^2 / sum (float - quantized)^2), None when both are equal.
    """

    samples: int
    data: str
    calibrated_on: str
    sqnr_db: float | None
    cosine: float | None
    max_abs_error: float | None
    top1_float: float | None = None
    top1_quantized: float | None = None
    top5_float: float | None = None
    top5_quantized: float | None = None
    metric_name: str = ""
    metric_float: float | None = None
    metric_quantized: float | None = None
    outputs: tuple[OutputQuality, ...] = ()
    tensors: tuple[TensorQuality, ...] = ()
    warnings: tuple[str, ...] = ()


class CpuNode(Frozen):
    """A node the partitioner left on the CPU, and why."""

    node: str
    op: str
    module: str
    reason: str


class VelaOperation(Frozen):
    """One row of Vela's performance table; estimated."""

    name: str
    operator: str
    module: str
    tosa: str
    cycles: int
    npu_cycles: int
    macs: int
    sram_cycles: int
    external_cycles: int
    staging_bytes: int


class VelaReport(Frozen):
    """Vela's estimate for one delegate: cycles, memory [bytes], multiply-accumulates."""

    delegate: int
    cycles_total: int
    cycles_npu: int
    inference_ms: float
    sram_bytes: int
    flash_bytes: int
    macs: int
    weights_bytes: int
    encoded_weights_bytes: int
    command_stream_bytes: int
    scratch_bytes: int
    operations: tuple[VelaOperation, ...] = ()


class LowerResult(Frozen):
    """The compiled program: what runs where, and what Vela estimates."""

    target: str
    system_config: str
    memory_mode: str
    delegates: int
    delegated_nodes: int
    cpu_nodes: tuple[CpuNode, ...]
    kernels: tuple[str, ...]
    vela: tuple[VelaReport, ...]
    pte_bytes: int
    accelerated: bool
    retargeted: bool = False
    vela_version: str
    warnings: tuple[str, ...] = ()


class VerifyResult(Frozen):
    """The integer program on the TOSA reference model against the quantized model; computed.

    ``histogram`` maps integer minus quantized, in steps of the output's grid (LSB), to the number
    of output elements.
    """

    samples: int
    elements: int
    exact: int
    max_lsb: int
    argmax_equal: int
    histogram: dict[int, int]
    outputs: tuple[OutputQuality, ...] = ()
    warnings: tuple[str, ...] = ()


class Deliverable(Frozen):
    """One file to hand on."""

    name: str
    bytes: int
    sha256: str
    purpose: str


class PackageResult(Frozen):
    """The deliverables, and the memory the runtime must give [bytes]."""

    files: tuple[Deliverable, ...]
    kernels: tuple[str, ...]
    method_pool_bytes: int
    scratch_pool_bytes: int
    planned_bytes: tuple[int, ...]


RESULTS: dict[str, type[Frozen]] = {
    "import_model": ImportResult,
    "export": ExportResult,
    "prepare": PrepareResult,
    "calibrate": CalibrateResult,
    "convert": ConvertResult,
    "evaluate": EvaluateResult,
    "lower": LowerResult,
    "verify": VerifyResult,
    "package": PackageResult,
}

Result = TypeVar("Result", bound=Frozen)


def load_result(kind: type[Result], folder: Path) -> Result:
    """Return the result that a folder holds.

    Raises:
        WorkbenchError: it is missing or damaged.
    """
    try:
        return kind.model_validate_json((folder / RESULT_FILE).read_bytes())
    except (OSError, ValidationError) as error:
        raise failure(
            "A stored result is damaged.",
            "Run the stage again; it will be computed anew.",
            Place(kind="file", id=RESULT_FILE),
        ) from error


def save_result(result: Frozen, folder: Path) -> None:
    """Write a result as ``result.json``."""
    (folder / RESULT_FILE).write_text(result.model_dump_json(indent=1))


def load_arrays(folder: Path) -> Mapping[str, np.ndarray[Any, Any]]:
    """Return the arrays of a result, read without pickles."""
    import numpy as np  # here, because readers of results alone should not wait for it

    with np.load(folder / ARRAYS_FILE, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}

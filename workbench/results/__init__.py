"""Result classes of all stages: small JSON values with arrays beside them.

Every result folder contains ``result.json`` (one of the classes here); some contain ``graph.json``
and ``device_graph.json`` (GraphSnapshots) and ``arrays.npz``. Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import ValidationError

from workbench.errors import Place, WorkbenchError, failure
from workbench.files import open_regular, read_limited
from workbench.ids import StageId
from workbench.npz import ZIP_ERRORS
from workbench.project.frozen import Frozen
from workbench.results.cost import (
    CONFIG_FILE,
    MODEL_FILE,
    OUTSIDE_MODULES,
    CompilerCheck,
    CpuCause,
    CpuNode,
    Deliverable,
    ExportedModel,
    ExportedProduct,
    FirmwareStep,
    LiveRange,
    LowerResult,
    ModuleCycles,
    NpuCommand,
    PackageResult,
    PartKind,
    ProgramPart,
    VelaOperation,
    VelaReport,
    VelaTotals,
)
from workbench.results.programs import (
    IMPROVED_WEIGHTS,
    NOT_REACHED,
    WRAPPERS,
    AppliedCorrection,
    AppliedRewrite,
    CalibrateResult,
    ChannelLayer,
    CompressedLayer,
    ConversionCheck,
    ConvertResult,
    CorrectionState,
    ExportResult,
    FormatMemory,
    FormComparison,
    ImportResult,
    Improvement,
    ModelOutput,
    NodeAnnotation,
    OutputFill,
    OutputPart,
    OutputPort,
    PrepareResult,
    Region,
    TensorMemory,
    TensorRange,
    TensorSpec,
    WeightsTaken,
)
from workbench.results.quality import (
    TENSOR_SAMPLES,
    AgainstFloat,
    CompiledDifference,
    CompiledFinding,
    CompiledProgram,
    Dependence,
    EvaluateResult,
    IntegerQuality,
    OutputQuality,
    PartQuality,
    Reading,
    SampleQuality,
    TensorQuality,
    TosaExecutors,
    VerifyResult,
)
from workbench.results.simulation import RuntimeEvent, SimulationResult, TracedOperation

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    import numpy as np

__all__ = [
    "ARRAYS_FILE",
    "CONFIG_FILE",
    "DEVICE_GRAPH_FILE",
    "EXAMPLE_ONLY",
    "GRAPH_FILE",
    "IMPROVED_WEIGHTS",
    "MODEL_FILE",
    "NOT_REACHED",
    "OUTSIDE_MODULES",
    "PROGRAM_FILE",
    "RECORD_FILE",
    "RESULTS",
    "RESULT_FILE",
    "TENSOR_SAMPLES",
    "WEIGHTS_FILE",
    "WRAPPERS",
    "AgainstFloat",
    "AppliedCorrection",
    "AppliedRewrite",
    "CalibrateResult",
    "ChannelLayer",
    "CompiledDifference",
    "CompiledFinding",
    "CompiledProgram",
    "CompilerCheck",
    "CompressedLayer",
    "ConversionCheck",
    "ConvertResult",
    "CorrectionState",
    "CpuCause",
    "CpuNode",
    "Deliverable",
    "Dependence",
    "EvaluateResult",
    "ExportResult",
    "ExportedModel",
    "ExportedProduct",
    "FirmwareStep",
    "FormComparison",
    "FormatMemory",
    "ImportResult",
    "Improvement",
    "IntegerQuality",
    "LiveRange",
    "LowerResult",
    "ModelOutput",
    "ModuleCycles",
    "NodeAnnotation",
    "NpuCommand",
    "OutputFill",
    "OutputPart",
    "OutputPort",
    "OutputQuality",
    "PackageResult",
    "PartKind",
    "PartQuality",
    "PrepareResult",
    "ProgramPart",
    "Reading",
    "Region",
    "RuntimeEvent",
    "SampleQuality",
    "SimulationResult",
    "TensorMemory",
    "TensorQuality",
    "TensorRange",
    "TensorSpec",
    "TosaExecutors",
    "TracedOperation",
    "VelaOperation",
    "VelaReport",
    "VelaTotals",
    "VerifyResult",
    "WeightsTaken",
    "load_arrays",
    "load_result",
    "save_result",
]

RESULT_FILE = "result.json"
ARRAYS_FILE = "arrays.npz"
GRAPH_FILE = "graph.json"
# The compiled program and its separate weights file in the results of the stage lower.
PROGRAM_FILE, WEIGHTS_FILE, RECORD_FILE = "program.pte", "weights.ptd", "program.etrecord"
# Digests of a finished result's files; the cache writes it.
MANIFEST_FILE = "entry.json"
_MAX_BYTES = 256 << 20
DEVICE_GRAPH_FILE = "device_graph.json"

EXAMPLE_ONLY = "the example input only"

RESULTS: dict[StageId, type[Frozen]] = {
    "import_model": ImportResult,
    "export": ExportResult,
    "prepare": PrepareResult,
    "calibrate": CalibrateResult,
    "convert": ConvertResult,
    "evaluate": EvaluateResult,
    "lower": LowerResult,
    "verify": VerifyResult,
    "run": SimulationResult,
    "package": PackageResult,
}

Result = TypeVar("Result", bound=Frozen)
_parsed: ContextVar[dict[tuple[type[Frozen], bytes], Frozen] | None] = ContextVar("parsed", default=None)


def load_result(kind: type[Result], folder: Path) -> Result:
    """Return the result stored in a folder.

    Raises:
        WorkbenchError: it is missing or damaged, or not what was stored.
    """
    try:
        data = read_limited(folder / RESULT_FILE, _MAX_BYTES)
        if hashlib.sha256(data).hexdigest() != _stored_digest(folder, data):
            raise _damaged()
        known = _parsed.get()
        if known is None:
            return kind.model_validate_json(data)
        if (kind, data) not in known:
            known[kind, data] = kind.model_validate_json(data)
        return cast("Result", known[kind, data])
    except (OSError, ValidationError) as error:
        raise _damaged() from error


@contextmanager
def parsed_once() -> Iterator[None]:
    """Let ``load_result`` return the same value for the same content while the block runs."""
    token = _parsed.set({})
    try:
        yield
    finally:
        _parsed.reset(token)


def _stored_digest(folder: Path, data: bytes) -> str:
    """Return the digest that was stored with a result; a result in the making has none yet."""
    try:
        return str(json.loads(read_limited(folder / MANIFEST_FILE, _MAX_BYTES))[RESULT_FILE]["sha256"])
    except FileNotFoundError:
        return hashlib.sha256(data).hexdigest()
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""


def _damaged() -> WorkbenchError:
    return failure(
        "A stored result is damaged.",
        "Run the stage again to recompute it.",
        Place(kind="file", id=RESULT_FILE),
        code="result-damaged",
    )


def save_result(result: Frozen, folder: Path) -> None:
    """Write a result as ``result.json``."""
    (folder / RESULT_FILE).write_text(result.model_dump_json(indent=1))


def load_arrays(folder: Path, names: Collection[str] | None = None) -> Mapping[str, np.ndarray[Any, Any]]:
    """Return the arrays of a result, or some of them by name; no pickles are read.

    Raises:
        WorkbenchError: they are missing or damaged.
    """
    import numpy as np  # Imported late: readers of results alone do not need numpy.

    try:
        with open_regular(folder / ARRAYS_FILE) as data, np.load(data, allow_pickle=False) as file:
            return {name: file[name] for name in file.files if names is None or name in names}
    except ZIP_ERRORS as error:
        raise _damaged() from error

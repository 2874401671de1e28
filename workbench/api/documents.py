"""The JSON documents of the command line, as types; their schemas are pages of the guide."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from workbench.analysis.accuracy import AccuracyResult
from workbench.analysis.gate import GateResult, Limit
from workbench.analysis.silicon import DeviceTime
from workbench.errors import ErrorInfo
from workbench.history.outcomes import Outcome
from workbench.ids import StageId
from workbench.results import (
    ConversionCheck,
    Deliverable,
    EvaluateResult,
    FormComparison,
    LowerResult,
    ModuleCycles,
    SimulationResult,
    VerifyResult,
)
from workbench.toolchain_versions import AccelerationStatus


class Document(BaseModel):
    """One JSON document. ``version`` changes when a key is renamed or removed."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    version: Literal[1]


class ErrorDocument(Document):
    """What a verb prints with ``--json`` when it fails before it has results.

    ``error`` is the first of ``errors``; ``exit_code`` is the code with which the verb ends.
    """

    error: ErrorInfo | None
    errors: list[ErrorInfo]
    exit_code: int


class CycleCorrectionEntry(BaseModel):
    """A correction of Vela's estimate, and the cycles that it takes off."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    id: str
    title: str
    cycles: int


class LoweredEntry(LowerResult):
    """The compiled program, with its time and with what was corrected in Vela's estimate.

    ``modules`` are the operations of all delegates together, by module.
    """

    time: DeviceTime
    modules: list[ModuleCycles]
    cycle_corrections: list[CycleCorrectionEntry]


class StageError(ErrorInfo):
    """The first problem of a stage, with all of them."""

    all: list[ErrorInfo]


class StageEntry(BaseModel):
    """How one stage ended; the time is in seconds."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    id: str
    key: str
    state: Literal["done", "cached", "failed", "skipped"]
    elapsed_s: float
    error: StageError | None


class FileEntry(Deliverable):
    """A deliverable where it lies."""

    path: str


class ProgramEntry(BaseModel):
    """The program, or the model for a compiler elsewhere."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    path: str
    bytes: int
    sha256: str


class PackageEntry(BaseModel):
    """The deliverables; ``withheld`` says that there are none, because the program differs."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    pte: ProgramEntry | None = None
    model: ProgramEntry | None = None
    files: list[FileEntry]
    withheld: bool
    note: str
    kernels: list[str]
    method_pool_bytes: int
    scratch_pool_bytes: int
    planned_bytes: list[int]


class FormEntry(FormComparison):
    """A form of the network that was compared in a stage."""

    stage: StageId


class SourceEntry(BaseModel):
    """A line of the model's source, before and after; ``now`` is "" if the line is unknown."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    place: str
    now: str
    instead: str


class GainEntry(BaseModel):
    """What a suggestion saves or improves; null is unknown.

    ``sqnr_db`` is that of the outputs where ``of_tensors`` is 1, else that of one of so many
    tensors.
    """

    model_config = ConfigDict(extra="forbid", defer_build=True)

    cpu_operators: int | None
    cycles: int | None
    sqnr_db: float | None
    bytes: int | None
    of_tensors: int


class ModuleEntry(BaseModel):
    """What a module saves by a suggestion: cycles, ms and bytes fewer, estimated.

    ``sqnr_db`` and ``points`` of top-1 are changes of the outputs' quality; null if unknown.
    """

    model_config = ConfigDict(extra="forbid", defer_build=True)

    name: str
    cycles: int
    ms: float
    bytes: int
    sqnr_db: float | None
    points: float | None


class SuggestionEntry(BaseModel):
    """A suggestion. ``tried`` is whether ``gain`` was measured on the program with it.

    ``in_project`` is whether it can be applied; else ``source`` are the lines to change.
    """

    model_config = ConfigDict(extra="forbid", defer_build=True)

    id: str
    kind: str
    title: str
    evidence: str
    expected: str
    gain: GainEntry
    tried: bool
    nodes: list[str]
    in_project: bool
    modules: list[ModuleEntry] = []
    source: list[SourceEntry]


class SuggestDocument(Document):
    """What ``suggest --json`` prints: the suggestions, or with ``--apply`` those applied."""

    project: str
    suggestions: list[SuggestionEntry] = []
    applied: list[SuggestionEntry] = []


class RunDocument(Document):
    """What ``run --json`` prints. The parts of stages that did not run are absent."""

    project: str
    toolchain: str
    tools: dict[str, str]
    acceleration: AccelerationStatus
    stages: list[StageEntry]
    warnings: list[dict[str, str]]
    checked: list[ErrorInfo] = []
    emulated: dict[str, Any] = {}
    evaluate: EvaluateResult | None = None
    lower: LoweredEntry | None = None
    verify: VerifyResult | None = None
    run: SimulationResult | None = None
    corrections: list[dict[str, Any]] = []
    rewrites: list[dict[str, Any]] = []
    improvements: list[dict[str, Any]] = []
    board: dict[str, Any] = {}
    suggestions: list[SuggestionEntry] = []
    package: PackageEntry | None = None
    gate: GateResult | None = None
    accuracy: AccuracyResult | None = None
    forms: list[FormEntry] = []
    conversion: ConversionCheck | None = None
    outcome: Outcome | None = None


class FigureEntry(BaseModel):
    """A figure in both runs; null is a missing one, or an infinite SQNR.

    ``comparable`` is false for estimates of two releases of Vela, which have no change.
    """

    model_config = ConfigDict(extra="forbid", defer_build=True)

    name: str
    baseline: float | None
    value: float | None
    change: float | None
    percent: float | None
    comparable: bool


class ChangeEntry(BaseModel):
    """One difference; "" is an absent value."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    what: str
    before: str
    after: str


class CompareDocument(Document):
    """What ``compare --json`` prints."""

    passed: bool
    broken: list[str]
    baseline: Outcome
    run: Outcome
    figures: list[FigureEntry]
    limits: list[Limit]
    changes: dict[str, list[ChangeEntry]]


class SettingsDocument(Document):
    """What ``settings --json`` prints: every setting by its key."""

    project: str
    settings: dict[str, Any]


DOCUMENTS: dict[str, type[Document]] = {
    "run": RunDocument,
    "compare": CompareDocument,
    "settings": SettingsDocument,
    "suggest": SuggestDocument,
    "error": ErrorDocument,
}


def schemas() -> dict[str, str]:
    """Return the JSON schema of every document by the name of its file."""
    return {
        f"{name}.schema.json": json.dumps(
            {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                **kind.model_json_schema(mode="serialization"),
            },
            indent=1,
        )
        + "\n"
        for name, kind in DOCUMENTS.items()
    }

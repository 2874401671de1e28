"""The document that ``run`` returns: one JSON value with the figures of every stage that ran."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from workbench.analysis.ranges import HISTOGRAMS
from workbench.analysis.silicon import time_of
from workbench.api.documents import GainEntry, ModuleEntry, SourceEntry, SuggestionEntry
from workbench.deploy import fitting
from workbench.graph.snapshot import GraphSnapshot
from workbench.project.configs import IMPROVERS
from workbench.project.opened import OpenProject
from workbench.results import (
    GRAPH_FILE,
    RESULTS,
    CalibrateResult,
    ConvertResult,
    EvaluateResult,
    ExportResult,
    ImportResult,
    LowerResult,
    PackageResult,
    PrepareResult,
    load_arrays,
    load_result,
)
from workbench.suggestions import Measurements, coarser_by, spared_by, suggest
from workbench.targets import target_of
from workbench.targets.ethos_u.corrections import described
from workbench.targets.ethos_u.cycle_corrections import CYCLE_CORRECTIONS_BY_ID
from workbench.targets.ethos_u.efficiency import by_module
from workbench.targets.ethos_u.rewrites import described_rewrite
from workbench.toolchain_versions import status
from workbench.toolchains.registry import proof_versions, tools_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from workbench.analysis.answers import Answers
    from workbench.project.model import Project
    from workbench.results import Deliverable
    from workbench.studies.sensitivity import SensitivityResult
    from workbench.suggestions import Suggestion


@dataclass(frozen=True)
class Delivered:
    """Where deliverables were to be copied, and those that were; none if the program differs."""

    folder: Path
    files: tuple[Deliverable, ...]


_REPORTED = frozenset({"evaluate", "lower", "verify", "run"})


def summary(
    opened: OpenProject,
    stages: list[dict[str, Any]],
    folders: Mapping[str, Path],
    out: Delivered | None,
    *,
    answers: Answers | None = None,
    accelerate: bool = True,
) -> dict[str, Any]:
    """Return the document; parts whose stage was not run are absent.

    Args:
        opened: What was run.
        stages: A report for each stage.
        folders: Where the results of those that are done lie.
        out: The deliverables that were copied, none if the program differs; None if none were
            wanted.
        answers: Whether the program is compiled correctly, and accurate enough; None if not judged.
        accelerate: Whether accelerations of the toolchain were wanted.
    """
    project = opened.project
    document: dict[str, Any] = {
        "project": project.name,
        "toolchain": project.toolchain,
        "tools": tools_of(project.toolchain),
        "acceleration": status(proof_versions(project.toolchain), is_enabled=accelerate).model_dump(),
        "stages": stages,
        "warnings": list(_warnings(folders)),
    }
    if answers is not None:
        document["gate"] = answers.gate.model_dump(mode="json")
        document["accuracy"] = answers.accuracy.model_dump(mode="json")
    document |= {"forms": list(_forms(folders)), **_conversion(folders)}
    if emulated := _emulated(project, folders):
        document["emulated"] = emulated
    for stage, kind in RESULTS.items():
        if stage in _REPORTED and stage in folders:
            document[stage] = load_result(kind, folders[stage]).model_dump(mode="json")
    changes = {
        "corrections": list(_corrections(folders)),
        "rewrites": _rewrites(folders),
        "improvements": _improvements(folders),
    }
    document |= {name: rows for name, rows in changes.items() if rows}
    if "lower" in folders:
        board = fitting.of_results(opened, folders["lower"])
        if board is not None:
            document["board"] = fitting.document(board)
        document["lower"]["cycle_corrections"] = _cycle_corrections(folders["lower"])
        lowered = load_result(LowerResult, folders["lower"])
        document["lower"]["time"] = time_of(lowered).model_dump(mode="json")
        modules = by_module(operation for report in lowered.vela for operation in report.operations)
        document["lower"]["modules"] = [module.model_dump(mode="json") for module in modules]
        if document["lower"]["exported"] is None:
            departs = answers is not None and answers.gate.departs
            offered = suggestions_of(project, folders, board, departs=departs)
            document["suggestions"] = [entry_of(one).model_dump() for one in offered]
    if "package" in folders:
        document["package"] = _package(folders["package"], out)
    return document


def _warnings(folders: Mapping[str, Path]) -> Iterator[dict[str, str]]:
    """Yield what the stages themselves found odd."""
    for stage, kind in RESULTS.items():
        if stage in folders:
            texts = getattr(load_result(kind, folders[stage]), "warnings", ())
            yield from ({"stage": stage, "message": message} for message in texts)


def _conversion(folders: Mapping[str, Path]) -> dict[str, Any]:
    """Return how a converted model was checked; nothing for a model of torch."""
    if "import_model" not in folders:
        return {}
    check = load_result(ImportResult, folders["import_model"]).conversion
    return {"conversion": check.model_dump(mode="json")} if check is not None else {}


def _forms(folders: Mapping[str, Path]) -> Iterator[dict[str, Any]]:
    """Yield the comparison of each form of the network, with the stage that made it."""
    for stage, kind in RESULTS.items():
        if stage in folders and "compared" in kind.model_fields:
            compared = getattr(load_result(kind, folders[stage]), "compared", ())
            yield from ({"stage": stage, **form.model_dump(mode="json")} for form in compared)


def _corrections(folders: Mapping[str, Path]) -> Iterator[dict[str, Any]]:
    """Yield what became of each correction of the tools in the stages that were run."""
    for stage in ("prepare", "lower"):
        if stage in folders:
            result = load_result(RESULTS[stage], folders[stage])
            yield from map(described, getattr(result, "corrections", ()))


def _rewrites(folders: Mapping[str, Path]) -> list[dict[str, Any]]:
    """Return what became of each rewrite, by the last stage that knows its cycles."""
    for stage in ("lower", "prepare"):
        if stage in folders:
            applied = getattr(load_result(RESULTS[stage], folders[stage]), "rewrites", ())
            if applied:
                return list(map(described_rewrite, applied))
    return []


def _improvements(folders: Mapping[str, Path]) -> list[dict[str, Any]]:
    """Return what each improver changed and gained, with that as a sentence."""
    if "prepare" not in folders:
        return []
    applied = load_result(PrepareResult, folders["prepare"]).improvements
    titles = {improver.id: improver.title for improver in IMPROVERS}
    return [
        {"title": titles[row.improver], **row.model_dump(mode="json"), "sentence": row.sentence}
        for row in applied
    ]


def _cycle_corrections(folder: Path) -> list[dict[str, Any]]:
    """Return what each correction of Vela's estimate takes off."""
    saved = load_result(LowerResult, folder).saved_cycles()
    return [
        {"id": id_, "title": CYCLE_CORRECTIONS_BY_ID[id_].title, "cycles": cycles}
        for id_, cycles in saved.items()
    ]


def _emulated(project: Project, folders: Mapping[str, Path]) -> dict[str, Any]:
    """Return the note for figures without a device behind them; nothing where there is one."""
    target = target_of(project.target.id)
    if not target.emulation:
        return {}
    document: dict[str, Any] = {"target": target.id, "sentence": target.emulation}
    memory = load_result(ConvertResult, folders["convert"]).memory if "convert" in folders else None
    if memory is not None:
        document |= memory.model_dump(mode="json")
        document |= {"weight_density": memory.weight_density, "data_density": memory.data_density}
    return document


def suggestions_of(
    project: Project,
    folders: Mapping[str, Path],
    fit: fitting.Fit | None,
    sensitivity: SensitivityResult | None = None,
    *,
    departs: bool,
) -> tuple[Suggestion, ...]:
    """Return the suggestions for a compiled project, the one with the largest gain first.

    Args:
        project: What was compiled.
        folders: Where the results of the stages lie, up to lower at least.
        fit: How the program fits the project's board; None without a board.
        sensitivity: What a sensitivity study measured; None without one.
        departs: Whether the program was verified, and is not the quantized model.

    Raises:
        WorkbenchError: A stored result is damaged.
    """
    calibrated, evaluated = folders.get("calibrate"), folders.get("evaluate")
    return suggest(
        project,
        load_result(LowerResult, folders["lower"]),
        GraphSnapshot.load(folders["export"] / GRAPH_FILE),
        GraphSnapshot.load(folders["lower"] / GRAPH_FILE),
        Measurements(
            exported=load_result(ExportResult, folders["export"]),
            evaluated=load_result(EvaluateResult, evaluated) if evaluated else None,
            prepared=load_result(PrepareResult, folders["prepare"]),
            calibrated=load_result(CalibrateResult, calibrated) if calibrated else None,
            arrays=load_arrays(calibrated, HISTOGRAMS) if calibrated else {},
            spared=spared_by(sensitivity) if sensitivity is not None else (),
            coarser=coarser_by(sensitivity) if sensitivity is not None else (),
            fit=fit,
            departs=departs,
        ),
    )


def entry_of(suggestion: Suggestion) -> SuggestionEntry:
    """Return a suggestion as the JSON documents hold it, without its edit."""
    return SuggestionEntry(
        id=suggestion.id,
        kind=suggestion.kind,
        title=suggestion.title,
        evidence=suggestion.evidence,
        expected=suggestion.expected,
        gain=GainEntry(**asdict(suggestion.gain)),
        tried=suggestion.tried,
        nodes=list(suggestion.nodes),
        in_project=suggestion.edit is not None,
        modules=[ModuleEntry(**asdict(row)) for row in suggestion.modules],
        source=[SourceEntry(**asdict(line)) for line in suggestion.written],
    )


def _package(folder: Path, out: Delivered | None) -> dict[str, Any]:
    result = load_result(PackageResult, folder)
    written = out is not None and bool(out.files)
    destination = out.folder.absolute() if out is not None and written else folder
    listed = out.files if out is not None and written else result.files
    files = [{**f.model_dump(), "path": str(destination / f.name)} for f in listed]
    # The program, or the model of a target whose compiler runs elsewhere, comes first.
    name = "pte" if result.files[0].name.endswith(".pte") else "model"
    return {
        name: {key: files[0][key] for key in ("path", "bytes", "sha256")},
        "files": files,
        "withheld": out is not None and not written,
        "note": result.note,
        "kernels": list(result.kernels),
        "method_pool_bytes": result.method_pool_bytes,
        "scratch_pool_bytes": result.scratch_pool_bytes,
        "planned_bytes": list(result.planned_bytes),
    }

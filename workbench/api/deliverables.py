"""What leaves the program beside a ``.pte``: the report, the plain script, and a look inside."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.analysis.ranges import MethodRanges, needs_calibration, read_chosen
from workbench.analysis.timeline import Timeline, timeline
from workbench.api.projects import plan as plan_of
from workbench.api.projects import require_valid, saved_path
from workbench.deploy import overlays as overlay
from workbench.deploy.boards import with_placement
from workbench.deploy.firmware_files import file_stem
from workbench.errors import Place, failure
from workbench.files import make_output_folder, write_file
from workbench.graph.snapshot import GraphSnapshot
from workbench.pipeline.cache import Cache, default_root
from workbench.project import edits
from workbench.project.opened import OpenProject
from workbench.results import (
    GRAPH_FILE,
    IMPROVED_WEIGHTS,
    CalibrateResult,
    EvaluateResult,
    ExportResult,
    ImportResult,
    LowerResult,
    PrepareResult,
    load_result,
)
from workbench.script import Form, KnownResults
from workbench.script import script as script_text
from workbench.script.aot_arm_compiler import give_command
from workbench.script.quantizer import copied_corrections
from workbench.targets import target_of
from workbench.targets.ethos_u.devices import clock_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workbench.pipeline.plan import Plan


def report(opened: OpenProject, cache: Cache | None = None) -> str:
    """Return one self-contained HTML page with all results. Computes nothing.

    Raises:
        WorkbenchError: The project has no file, or a stored result is damaged.
    """
    from workbench.report import page

    saved_path(opened)  # The history is beside the file.
    return page(opened, cache or Cache(default_root()))


@dataclass(frozen=True)
class Script:
    """A script that creates the same program without this package.

    Attributes:
        text: The Python source.
        commands: The command lines to run, in order.
        files: What it imports from beside it: texts by path, relative to its folder.
        weights: The weights that improvers changed, which the script reads beside itself; None
            without improvers.
    """

    text: str
    commands: Sequence[str]
    files: Mapping[str, str] = field(default_factory=dict)
    weights: Path | None = None

    def save(self, file: str | Path) -> None:
        """Write the script, and what it imports and reads beside it.

        Args:
            file: The path that the script was made for.

        Raises:
            OSError: A file cannot be written.
        """
        path = Path(file)
        for name, text in self.files.items():
            beside = path.parent / name
            make_output_folder(beside.parent)
            write_file(beside, text.encode())
        if self.weights is not None:
            write_file(path.with_name(_improved_name(path)), self.weights.read_bytes())
        write_file(path, self.text.encode())


def _improved_name(script: Path) -> str:
    return f"{script.stem}_weights.safetensors"


def script(
    opened: OpenProject,
    file: str | Path,
    *,
    aot: bool = False,
    form: Form = "plain",
    cache: Cache | None = None,
) -> Script:
    """Return the script of a project; range methods become the ranges that they gave.

    Args:
        opened: The project.
        file: Where the script is to be written; paths inside start from its folder.
        form: "plain", or "recipe" for one in the form of ExecuTorch's export recipes.
        aot: Write the model for ExecuTorch's ``aot_arm_compiler`` instead.
        cache: Where results are kept; by default the user's cache.

    Raises:
        WorkbenchError: The project is not valid, has what a script cannot express, or needs a
            calibration that it has not.
    """
    require_valid(opened)
    path = Path(file)
    if aot:
        commands, text = give_command(opened, path)
        return Script(text, commands)
    results = cache or Cache(default_root())
    planned = plan_of(opened, results)
    calibrated = planned.of("calibrate")
    if needs_calibration(opened.project) and calibrated.state != "cached":
        raise failure(
            "The script contains calibrated ranges, and there is no calibration for the current project.",
            "Run: workbench run PROJECT --until calibrate",
            Place(kind="stage", id="calibrate"),
            code="calibration-outdated",
        )
    project, lowered = opened.project, planned.of("lower")
    if lowered.state == "cached":
        placement = load_result(LowerResult, results.folder(lowered.key)).placement
        project = with_placement(OpenProject(project, opened.folder), placement).project
    ranges = read_chosen(opened.project, results.folder(calibrated.key), MethodRanges())[0]
    improved = None
    if project.improves() and planned.of("prepare").state == "cached":
        improved = results.folder(planned.of("prepare").key) / IMPROVED_WEIGHTS
        beside = os.path.relpath(path.absolute().with_name(_improved_name(path)), opened.folder)
        project = edits.use_trained(project, Path(beside).as_posix())
    known = _known_results(planned, results)
    text = script_text(OpenProject(project, opened.folder), path, ranges, known, form)
    return Script(text, [f"python {path}"], copied_corrections(), improved)


def _known_results(planned: Plan, results: Cache) -> KnownResults:
    """Return what the results in the cache know; a program that was never exported may have branches."""
    imported, exported, prepared = (planned.of(stage) for stage in ("import_model", "export", "prepare"))
    branches, weights, as_written = True, None, {}
    if exported.state == "cached":
        branches = bool(load_result(ExportResult, results.folder(exported.key)).branches)
    if imported.state == "cached":
        weights = load_result(ImportResult, results.folder(imported.key)).weights
    if prepared.state == "cached":
        rewrites = load_result(PrepareResult, results.folder(prepared.key)).rewrites
        as_written = {rewrite.id: rewrite.as_written for rewrite in rewrites if rewrite.as_written}
    return KnownResults(branches, weights, as_written)


@dataclass(frozen=True)
class Inspection:
    """What a compiled program contains.

    Attributes:
        description: Inputs, outputs, delegates, memory, kernels, as ``inspect --json`` prints it.
        listings: The commands of every Ethos-U delegate, one a line; empty if not asked for.
    """

    description: dict[str, Any]
    listings: Sequence[Sequence[str]]


def inspect(
    program: str | Path, method: str = "", *, plan: bool = False, commands: bool = False, find: str = ""
) -> Inspection:
    """Return what a ``.pte``, a ``.bpte`` or a ``.tflite`` that Vela compiled contains.

    Args:
        program: The file.
        method: The name of the method; by default the first.
        plan: Whether to list instructions, the memory plan and constants.
        commands: Whether to list the commands of every Ethos-U delegate.
        find: List only commands that contain this text, in any case; lists them by itself.

    Raises:
        WorkbenchError: The file is missing, unreadable, too large or not such a program.
    """
    from workbench.pte import npu_commands, vela_stream
    from workbench.pte.description import describe, read_program

    data = _read(Path(program))
    description = describe(data, method, whole=plan)
    listings: list[list[str]] = []
    if commands or find:
        for delegate in read_program(data).method(method).delegates:
            if delegate.backend != vela_stream.ETHOS_U:
                continue
            stream = vela_stream.commands(vela_stream.blocks(delegate.data))
            if stream is not None:
                lines = npu_commands.listing(npu_commands.decode(stream))
                listings.append([line for line in lines if find.casefold() in line.casefold()])
    return Inspection(description, listings)


def _read(path: Path) -> bytes:
    from workbench.pte.description import program_bytes

    try:
        return program_bytes(path)
    except FileNotFoundError as error:
        raise failure(f"{path} does not exist.", "Correct the path.", code="file-missing") from error
    except OSError as error:
        raise failure(
            f"{path.name} cannot be read: {error.strerror or error}.",
            "Correct the path, or set the file's permissions.",
            where=Place(kind="file", id=path.name),
            code="file-unreadable",
        ) from error


def overlays(opened: OpenProject, cache: Cache | None = None) -> dict[str, bytes]:
    """Return the graph and the figures for Model Explorer, and the timeline for Perfetto.

    Args:
        opened: The project.
        cache: Where results are kept; by default the user's cache. Nothing is computed.

    Returns:
        File contents by name; without those whose stage has no result.

    Raises:
        WorkbenchError: The project has no exported graph, or a stored result is damaged.
    """
    results = cache or Cache(default_root())
    planned = plan_of(opened, results)
    folders = {s.id: results.folder(s.key) for s in planned.stages if s.state == "cached"}
    if "export" not in folders:
        raise failure(
            "There is no graph for the current project.",
            "Run: workbench run PROJECT",
            Place(kind="stage", id="export"),
            code="stage-not-run",
        )
    graph = GraphSnapshot.load(folders["export"] / GRAPH_FILE)
    stem = file_stem(opened.project.name)
    files = {f"{stem}.graph.json": overlay.graph_document(graph, opened.project.name)}
    if "calibrate" in folders:
        calibrated = load_result(CalibrateResult, folders["calibrate"])
        files[f"{stem}.ranges.json"] = overlay.range_overlay(calibrated)
    if "evaluate" in folders:
        evaluated = load_result(EvaluateResult, folders["evaluate"])
        files[f"{stem}.error.json"] = overlay.error_overlay(evaluated)
        files[f"{stem}.added.json"] = overlay.added_error_overlay(evaluated)
    if "lower" in folders:
        lowered = load_result(LowerResult, folders["lower"])
        files |= _compiled_overlays(opened, graph, lowered, folders["lower"])
    return files


def _compiled_overlays(
    opened: OpenProject, graph: GraphSnapshot, lowered: LowerResult, folder: Path
) -> dict[str, bytes]:
    """Return the overlays of a compiled program; none for a target without an NPU."""
    if not lowered.vela:
        return {}
    stem = file_stem(opened.project.name)
    edge = GraphSnapshot.load(folder / GRAPH_FILE)
    return {
        f"{stem}.cycles.json": overlay.cycle_overlay(lowered),
        f"{stem}.device.json": overlay.device_overlay(edge, graph),
        f"{stem}.trace.json": trace(opened, lowered, timeline(lowered, edge)),
    }


def trace(opened: OpenProject, lowered: LowerResult, line: Timeline) -> bytes:
    """Return a timeline of the compiled program as a trace for Perfetto.

    Raises:
        WorkbenchError: The project's own .ini, which has the clock, is missing or invalid.
    """
    choice = with_placement(opened, lowered.placement).project.target
    clock = clock_of(target_of(choice.id).complete(choice), opened.folder)
    return overlay.perfetto_trace(line, clock, opened.project.name)

"""``run``: run the stages of a project, up to the deliverables."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.cli.jobs import Job, keep_run
from workbench.cli.output import (
    EXIT_DONE,
    EXIT_FAILED,
    add_engine,
    add_project,
    check_trust,
    open_project,
    opened_cache,
    print_infos,
    print_json,
)
from workbench.cli.run_summary import print_summary, summary
from workbench.errors import ErrorInfo, Place, WorkbenchError, failure
from workbench.pipeline.plan import plan
from workbench.pipeline.resolution import problems
from workbench.pipeline.stages import STAGES, optional_stages, stages_until
from workbench.project import edits
from workbench.project.model import TargetChoice
from workbench.protocol import RunUntil, StageFailed, StageFinished, StageSkipped
from workbench.results import PackageResult, load_result
from workbench.targets import target_of
from workbench.targets.ethos_u.devices import EXTERNAL_WEIGHTS

if TYPE_CHECKING:
    import argparse

    from workbench.pipeline.cache import Cache
    from workbench.project.model import Project


def add(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser("run", help="run the stages and write the deliverables")
    add_project(verb)
    verb.add_argument(
        "--until",
        choices=[stage.id for stage in STAGES],
        metavar="STAGE",
        help=f"last stage, default: the target's last:  {', '.join(stage.id for stage in STAGES)}",
    )
    verb.add_argument(
        "--skip",
        action="append",
        default=[],
        choices=list(optional_stages()),
        metavar="STAGE",
        help=f"skip a stage that no other needs: {', '.join(optional_stages())}",
    )
    verb.add_argument("--out", type=Path, metavar="DIR", help="folder for the deliverables")
    verb.add_argument(
        "--external-weights", action="store_true",
        help="write the weights to a .ptd beside the program, overriding the project",
    )  # fmt: skip
    verb.add_argument("--verbose", action="store_true", help="print the toolchain's own output")
    add_engine(verb)
    verb.set_defaults(perform=_run)  # fmt: skip


def _run(options: argparse.Namespace) -> int:
    project, folder = open_project(options)
    if options.external_weights:
        apart = {**project.target.options, EXTERNAL_WEIGHTS: True}
        project = edits.set_target(project, TargetChoice(id=project.target.id, options=apart))
    errors = [p.info for p in problems(project, folder, None) if p.level == "error"]
    if errors:
        raise WorkbenchError(errors)
    options.until = options.until or target_of(project.target.id).stages[-1]
    if options.out and options.until != "package":
        raise failure("--out needs the package stage.", "Remove --until.", code="option-conflict")
    if options.out and "package" not in target_of(project.target.id).stages:
        raise failure(
            "The target is emulated and has no program to copy.",
            "Remove --out. The results are printed.",
            Place(kind="option", id="target.id"),
            code="target-without-program",
        )
    with opened_cache(options) as cache:
        reports = _reports_from_cache(project, folder, cache, options)
        if reports is None:
            check_trust(options, project, folder)
            reports = _compute(project, folder, cache, options)
        return _report(project, folder, cache, options, reports)


Reports = list[dict[str, Any]]


def _reports_from_cache(
    project: Project, folder: Path, cache: Cache, options: argparse.Namespace
) -> Reports | None:
    """Return a report for every stage if all are cached, else None."""
    planned = plan(project, folder, cache)
    reports: Reports = []
    for stage_id in stages_until(options.until):
        stage = planned.of(stage_id)
        if stage_id in options.skip or stage.state == "unavailable":
            reports.append(_entry(stage_id, stage.key, "skipped"))
        elif stage.state == "cached" and cache.verify(stage.key):
            reports.append(_entry(stage_id, stage.key, "cached"))
        else:
            return None
    return reports


def _compute(project: Project, folder: Path, cache: Cache, options: argparse.Namespace) -> Reports:
    job = Job(verbose=options.verbose)
    command = RunUntil(
        job="run",
        project=project,
        folder=str(folder),
        until=options.until,
        skip=tuple(options.skip),
        cache_root=str(cache.root),
        accelerate=not options.no_acceleration,
    )
    job.run(command)
    reports: Reports = []
    for event in job.events:
        match event:
            case StageFinished():
                state = "cached" if event.cached else "done"
                reports.append(_entry(event.stage, event.key, state, event.elapsed_s))
            case StageSkipped():
                reports.append(_entry(event.stage, "", "skipped"))
            case StageFailed():
                print_infos(event.infos, f"{event.stage} failed")
                entry = _entry(event.stage, event.key, "failed", event.elapsed_s)
                entry["error"] = _error(event.infos)
                reports.append(entry)
    return reports


def _entry(stage: str, key: str, state: str, elapsed_s: float = 0.0) -> dict[str, Any]:
    elapsed = round(elapsed_s, 3)
    return {"id": stage, "key": key, "state": state, "elapsed_s": elapsed, "error": None}


def _error(infos: tuple[ErrorInfo, ...]) -> dict[str, Any]:
    first = infos[0].model_dump(mode="json")
    return {**first, "all": [info.model_dump(mode="json") for info in infos]}


def _report(
    project: Project, folder: Path, cache: Cache, options: argparse.Namespace, reports: Reports
) -> int:
    done = {r["id"] for r in reports if r["state"] in {"done", "cached"}}
    planned = plan(project, folder, cache)
    keep_run(options.project, project, planned, cache)
    folders = {stage: cache.folder(planned.key(stage)) for stage in done}
    if options.out and "package" in done:
        _copy(folders["package"], options.out)
    document = summary(project, folder, reports, folders, options.out)
    if options.json:
        print_json(document)
    else:
        print_summary(document)
    finished = all(r["state"] != "failed" for r in reports) and options.until in {
        r["id"] for r in reports
    }
    return EXIT_DONE if finished else EXIT_FAILED


def _copy(source: Path, target: Path) -> None:
    """Copy the deliverables."""
    try:
        target.mkdir(parents=True, exist_ok=True)
        for file in load_result(PackageResult, source).files:
            shutil.copyfile(source / file.name, target / file.name)
    except OSError as error:
        raise failure(
            f"The deliverables could not be copied: {error.strerror or error}.",
            "They stay in the cache. Choose another folder.",
            Place(kind="file", id=str(target)),
            code="deliverables-not-writable",
        ) from error

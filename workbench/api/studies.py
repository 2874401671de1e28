"""Studies of a project: sensitivity, search, sweep, training and the other long jobs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, TypeVar, Unpack

from workbench.api.history import record_run
from workbench.api.jobs import JobFailedError, run_job
from workbench.api.projects import allowed_code
from workbench.errors import ErrorInfo, Place, TrustRequiredError
from workbench.history.runs import run_of
from workbench.ids import StudyId
from workbench.pipeline.cache import Cache, default_root
from workbench.pipeline.plan import plan
from workbench.project import edits
from workbench.project.frozen import Frozen
from workbench.project.opened import OpenProject
from workbench.protocol import Event, LogLine, RunStudy
from workbench.studies import sweep as sweeping
from workbench.studies.documents import Blame, load_study, study_folder, study_key
from workbench.studies.matrix import Placement, one_of_each_kind
from workbench.studies.search import (
    DEFAULT_TRIALS,
    Limits,
    SearchResult,
    axis_options,
    take_weights,
    with_candidate,
)
from workbench.studies.sensitivity import DEFAULT_SAMPLES, SensitivityResult
from workbench.studies.sweep import SweepResult
from workbench.studies.tflite import TfliteComparison, tflite_options
from workbench.studies.training import TrainingOptions, TrainingResult, keep_weights
from workbench.targets import target_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pydantic import JsonValue

_Result = TypeVar("_Result", bound=Frozen)
_SCHEDULER_ASKED = ErrorInfo(
    message="A Dask scheduler and its workers can run code on this machine.",
    hint="Use your own machines only, then allow it (command line: --trust).",
    where=Place(kind="option", id="scheduler"),
    code="scheduler-trust-required",
)


class JobOptions(TypedDict, total=False):
    """How a study runs.

    Attributes:
        trust: Allow the Python code that the project names to run, this time, and a Dask scheduler
            among the options, which can run code in this process.
        cache: Where results are kept; by default the user's cache.
        accelerate: Whether the toolchain may be accelerated (same bytes, less time).
        on_event: Called with every event of the engine.
    """

    trust: bool
    cache: Cache
    accelerate: bool
    on_event: Callable[[Event], None]


def study(
    opened: OpenProject,
    name: StudyId,
    kind: type[_Result],
    options: Mapping[str, JsonValue] | None = None,
    **how: Unpack[JobOptions],
) -> _Result:
    """Run a study, or go on with one that was interrupted.

    Args:
        opened: The project.
        name: The study's id (``workbench.studies.STUDIES``), such as ``placement`` or ``matrix``.
        kind: The type of its result, such as ``Placement``.
        options: The study's options.
        how: Trust, cache, acceleration and events.

    Raises:
        WorkbenchError: A file that the project names is missing.
        JobFailedError: The study failed.
        TrustRequiredError: The project names code that is not trusted, or the options a scheduler.
        Cancelled: The user pressed Ctrl-C. What was found is kept.
    """
    code = allowed_code(opened, trust=how.get("trust", False))
    cache = how.get("cache") or Cache(default_root())
    asked = dict(options or {})
    if asked.get("scheduler") and not how.get("trust", False):
        raise TrustRequiredError([_SCHEDULER_ASKED], code)
    planned = plan(opened, cache)
    command = RunStudy(
        job=name,
        study=name,
        project=opened.project,
        folder=str(opened.folder),
        options=asked,
        plan=planned,
        cache_root=str(cache.root),
        accelerate=how.get("accelerate", True),
        code=code.digest,
    )
    key = study_key(name, opened, cache, asked, planned)
    job = run_job(command, how.get("on_event"))
    result = load_study(kind, study_folder(cache, key)) if job.outcome == "done" else None
    if result is None:
        raise JobFailedError(info for event in job.failures for info in event.infos)
    return result


def compare_tflite(opened: OpenProject, file: str | Path, **how: Unpack[JobOptions]) -> TfliteComparison:
    """Return the compiled program beside the same network in TensorFlow Lite, layer by layer.

    Args:
        opened: The project; its program is compiled first where it is not.
        file: The .tflite with integers, from before Vela or compiled for the project's device.
        how: Trust, cache, acceleration and events.

    Raises:
        JobFailedError: The file cannot be compared, with one sentence why; further as ``study``.
    """
    return study(opened, "tflite", TfliteComparison, tflite_options(Path(file)), **how)


def sensitivity(
    opened: OpenProject, samples: int = DEFAULT_SAMPLES, **how: Unpack[JobOptions]
) -> SensitivityResult:
    """Return the quality of each module alone quantized and alone in float [dB of SQNR].

    A finished study over as many samples or more is read, not repeated.

    Raises:
        JobFailedError: The study failed; further as ``study``.
    """
    cache = how.get("cache") or Cache(default_root())
    asked: dict[str, JsonValue] = {"samples": samples}
    key = study_key("sensitivity", opened, cache, asked)
    kept = load_study(SensitivityResult, study_folder(cache, key))
    if kept is not None and kept.samples >= samples:
        return kept
    return study(opened, "sensitivity", SensitivityResult, asked, **how)


def search(
    opened: OpenProject,
    limits: Limits | None = None,
    *,
    trials: int = DEFAULT_TRIALS,
    workers: int = 1,
    scheduler: str = "",
    widths: bool = False,
    train: int = 0,
    transforms: bool = False,
    **how: Unpack[JobOptions],
) -> SearchResult:
    """Search precisions under limits; every candidate is quantized, measured and compiled.

    Candidates are kept in the history beside the project file, also after cancellation.

    Args:
        opened: The project.
        limits: What a candidate must keep; by default nothing but the CPU operators of 8 bits.
        trials: How many candidates to evaluate.
        workers: How many processes.
        scheduler: The address of a Dask scheduler; "" runs on this machine.
        widths: Search the numbers of channels too.
        train: How many epochs a candidate with fewer channels is trained; needs one process.
        transforms: Search the weight transforms too: none, GPTQ, learned rounding, with clips.
        how: Trust, cache, acceleration and events.

    Raises:
        JobFailedError: The study failed; further as ``study``.
    """
    cache = how.get("cache") or Cache(default_root())
    wanted = limits or Limits()
    asked: dict[str, JsonValue] = {
        **wanted.model_dump(mode="json"),
        "trials": trials,
        "workers": workers,
        "scheduler": scheduler,
        **axis_options(widths=widths, train=train, transforms=transforms),
    }
    try:
        return study(opened, "search", SearchResult, asked, **how)
    finally:
        for problem in _record_candidates(opened, cache, asked):
            if on_event := how.get("on_event"):
                on_event(LogLine(level="warning", text=str(problem)))


def _record_candidates(opened: OpenProject, cache: Cache, asked: Mapping[str, JsonValue]) -> set[ErrorInfo]:
    """Keep every candidate in the history beside the project file; return why it could not be.

    Trained candidates are left out: their weights are not beside the project before one is applied.
    """
    key = study_key("search", opened, cache, asked)
    result = load_study(SearchResult, study_folder(cache, key))
    if result is None or opened.path is None:
        return set()
    problems = set()
    for candidate in result.candidates:
        if candidate.weights:
            continue
        chosen = with_candidate(opened.project, result, candidate)
        run = run_of(chosen, plan(OpenProject(chosen, opened.folder), cache), cache, "search")
        if problem := record_run(opened.path, run):
            problems.add(problem)
    return problems


def apply_candidate(
    opened: OpenProject,
    result: SearchResult,
    number: int,
    *,
    widths: bool = False,
    train: int = 0,
    transforms: bool = False,
    cache: Cache | None = None,
) -> OpenProject:
    """Return the project with precisions, channels and weights of a candidate of a search.

    Args:
        opened: The project. Trained weights are copied into its folder.
        result: What ``search`` returned.
        number: The number of the candidate.
        widths: As given to ``search``.
        train: As given to ``search``.
        transforms: As given to ``search``.
        cache: Where results are kept; by default the user's cache.

    Raises:
        WorkbenchError: The folder is not writable.
    """
    candidate = next(c for c in result.candidates if c.number == number)
    if candidate.weights:
        results = cache or Cache(default_root())
        asked = axis_options(widths=widths, train=train, transforms=transforms)
        key = study_key("search", opened, results, asked)
        take_weights(candidate, study_folder(results, key), opened.folder)
    return opened.edited(lambda project: with_candidate(project, result, candidate))


def sweep(
    opened: OpenProject,
    targets: Sequence[str] = (),
    axes: Mapping[str, Sequence[JsonValue]] | None = None,
    *,
    workers: int = 1,
    scheduler: str = "",
    **how: Unpack[JobOptions],
) -> SweepResult:
    """Estimate devices and their options for one quantized program, without lowering again.

    Args:
        opened: The project.
        targets: Devices, prefixes of names, or ``all``; by default the project's device.
        axes: Values by option (``system_config``, ``memory_mode``, ``arena_cache_bytes`` [bytes],
            ``optimise``); ``all`` takes every valid value.
        workers: How many processes.
        scheduler: The address of a Dask scheduler; "" runs on this machine.
        how: Trust, cache, acceleration and events.

    Raises:
        WorkbenchError: No point can be compiled.
        JobFailedError: The study failed; further as ``study``.
    """
    values = {name: list(wanted) for name, wanted in (axes or {}).items()}
    target = target_of(opened.project.target.id)
    base = target.complete(opened.project.target, opened.folder)
    points = sweeping.points(target, base, targets, values, opened.folder)
    if all(point.problem for point in points):
        raise sweeping.refused(points)
    asked: dict[str, JsonValue] = {
        "targets": list(targets),
        "axes": dict(values),
        "workers": workers,
        "scheduler": scheduler,
    }
    return study(opened, "sweep", SweepResult, asked, **how)


def sram_budgets(opened: OpenProject, **how: Unpack[JobOptions]) -> SweepResult:
    """Estimate the project's device under SRAM limits, from the smallest program to the fastest.

    Raises:
        JobFailedError: The study failed; further as ``study``.
    """
    present = target_of(opened.project.target.id).complete(opened.project.target, opened.folder)
    return study(opened, "budget", SweepResult, sweeping.asked(present), **how)


def placement(opened: OpenProject, **how: Unpack[JobOptions]) -> Placement:
    """Predict which operators each kind of device supports, without compiling; as ``study``."""
    one_of_each_kind(opened.project.target)
    return study(opened, "placement", Placement, {}, **how)


def blame(opened: OpenProject, **how: Unpack[JobOptions]) -> Blame:
    """Find the modules and nodes that the compiler rejects; raises as ``study``."""
    return study(opened, "blame", Blame, {}, **how)


def train(
    opened: OpenProject, options: TrainingOptions | None = None, **how: Unpack[JobOptions]
) -> TrainingResult:
    """Train the quantized model to match the float model, without labels; raises as ``study``."""
    asked = (options or TrainingOptions()).model_dump(mode="json")
    return study(opened, "training", TrainingResult, asked, **how)


def use_trained_weights(
    opened: OpenProject,
    trained: OpenProject,
    result: TrainingResult,
    options: TrainingOptions | None = None,
    cache: Cache | None = None,
) -> OpenProject:
    """Copy the best weights of a training beside the project, and return the project with them.

    Args:
        opened: The project that is to use them.
        trained: The project that was trained; its training function is used too.
        result: What ``train`` returned.
        options: The options it was trained with.
        cache: Where results are kept; by default the user's cache.

    Raises:
        WorkbenchError: No epoch improved, or the folder is not writable.
    """
    asked = (options or TrainingOptions()).model_dump(mode="json")
    results = cache or Cache(default_root())
    key = study_key("training", trained, results, asked)
    weights = keep_weights(result, study_folder(results, key), trained.folder)
    function = trained.project.training_function
    return opened.edited(lambda project: edits.use_trained(edits.train_by(project, function), weights))

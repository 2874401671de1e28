"""Run the stages of a project, and its studies."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from workbench.analysis.answers import Answers, answers_of
from workbench.api.history import record_run
from workbench.api.jobs import JobResult, run_job
from workbench.api.projects import allowed_code, check_planned, require_valid
from workbench.api.summary import Delivered, summary
from workbench.deploy.delivery import deliver
from workbench.engine_start import end_early, remember_run
from workbench.errors import ErrorInfo, Place, WorkbenchError, failure
from workbench.escaping import html_table
from workbench.files import state_of
from workbench.history.outcomes import KEY, outcome_of
from workbench.history.runs import Run, run_of
from workbench.ids import StageId
from workbench.pipeline.cache import Cache, default_root
from workbench.pipeline.plan import Plan, plan
from workbench.pipeline.stages import stages_until
from workbench.project.frozen import Frozen
from workbench.project.gate import condition_of
from workbench.project.opened import OpenProject
from workbench.protocol import Event, RunUntil, StageFailed, StageFinished, StageSkipped
from workbench.results import (
    ConvertResult,
    EvaluateResult,
    LowerResult,
    PackageResult,
    VerifyResult,
    load_result,
    parsed_once,
)
from workbench.targets import target_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from workbench.analysis.accuracy import AccuracyResult
    from workbench.analysis.gate import GateResult

_Result = TypeVar("_Result", bound=Frozen)


@dataclass(frozen=True)
class StageReport:
    """How one stage of a run ended.

    Attributes:
        id: The stage.
        key: The key of its result in the cache; "" when it has none.
        state: ``done``, ``cached``, ``failed`` or ``skipped``.
        elapsed_s: The time it took [s].
        errors: Why it failed.
    """

    id: str
    key: str
    state: str
    elapsed_s: float = 0.0
    errors: tuple[ErrorInfo, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return the stage as ``run --json`` prints it."""
        infos = [info.model_dump(mode="json") for info in self.errors]
        error = {**infos[0], "all": infos} if infos else None
        elapsed = round(self.elapsed_s, 3)
        values = {"id": self.id, "key": self.key, "state": self.state, "elapsed_s": elapsed}
        return {**values, "error": error}


@dataclass(frozen=True)
class RunResult:
    """What a run gave.

    Attributes:
        opened: The project that ran.
        stages: Every stage in order.
        folders: The folder of each finished stage's result.
        document: All figures as ``run --json`` prints them.
        gate: Whether the program is compiled correctly, with its limits; None if the run ends before
            the stage verify and no condition was given.
        accuracy: Whether the program is accurate enough, with its limits; None where ``gate`` is.
        record: The run as the history keeps it; None before quality was measured.
        history_problem: Why the run could not be kept in the history beside the project.
    """

    opened: OpenProject
    stages: tuple[StageReport, ...]
    folders: Mapping[str, Path]
    document: dict[str, Any]
    gate: GateResult | None = None
    accuracy: AccuracyResult | None = None
    record: Run | None = None
    history_problem: ErrorInfo | None = None

    @property
    def succeeded(self) -> bool:
        """Whether no stage failed."""
        return all(stage.state != "failed" for stage in self.stages)

    @property
    def errors(self) -> tuple[ErrorInfo, ...]:
        """The problems of the stages that failed."""
        return tuple(info for stage in self.stages for info in stage.errors)

    @property
    def converted(self) -> ConvertResult | None:
        """The quantized program; None if its stage did not finish."""
        return self._load(ConvertResult, "convert")

    @property
    def evaluated(self) -> EvaluateResult | None:
        """Float against quantized; None if its stage did not finish."""
        return self._load(EvaluateResult, "evaluate")

    @property
    def lowered(self) -> LowerResult | None:
        """The compiled program and its estimated cost; None if its stage did not finish."""
        return self._load(LowerResult, "lower")

    @property
    def verified(self) -> VerifyResult | None:
        """The integer program against the quantized model; None if its stage did not finish."""
        return self._load(VerifyResult, "verify")

    @property
    def packaged(self) -> PackageResult | None:
        """The deliverables; None if their stage did not finish."""
        return self._load(PackageResult, "package")

    def raise_for_errors(self) -> RunResult:
        """Return the result itself.

        Raises:
            WorkbenchError: A stage failed.
        """
        if self.errors:
            raise WorkbenchError(self.errors)
        return self

    def _load(self, kind: type[_Result], stage: str) -> _Result | None:
        folder = self.folders.get(stage)
        return None if folder is None else load_result(kind, folder)

    def _repr_html_(self) -> str:
        rows = [
            (s.id, s.state, f"{s.elapsed_s:.2f} s", "; ".join(info.message for info in s.errors))
            for s in self.stages
        ]
        return html_table(f"Run of {self.opened.project.name}", ("stage", "state", "time", ""), rows)


def run(
    opened: OpenProject,
    until: StageId | None = None,
    *,
    skip: Sequence[StageId] = (),
    out: str | Path | None = None,
    fail_if: Sequence[str] = (),
    allow_differences: bool = False,
    trust: bool = False,
    cache: Cache | None = None,
    accelerate: bool = True,
    on_event: Callable[[Event], None] | None = None,
    on_output: Callable[[str], None] | None = None,
    on_warning: Callable[[ErrorInfo], None] | None = None,
) -> RunResult:
    """Run the stages of a project. Results that the cache holds are not computed again.

    A stage that fails is in the result (``errors``); it raises nothing.

    Args:
        opened: The project. The run is kept in the history beside its file, if it has one.
        until: The last stage; by default the target's last.
        skip: Stages to leave out; only those that no other stage needs.
        out: A folder that receives the deliverables. A program that *differs*, or is *not accurate
            enough*, is not written.
        fail_if: Conditions of the gate for this run, such as ``"lsb>2"`` or ``"top1<0.98"``; they
            replace the project's limits of the same figures.
        allow_differences: Write the deliverables of such a program to ``out`` too; they then say
            so.
        trust: Allow the Python code that the project names to run, this time.
        cache: Where results are kept; by default the user's cache.
        accelerate: Whether the toolchain may be accelerated (same bytes, less time).
        on_event: Called with every event of the engine.
        on_output: Called with every line that the toolchain prints, in another thread.
        on_warning: Called once with every warning of ``check``: before the start with what is
            known then, after the stages export and prepare with what they show.

    Raises:
        WorkbenchError: The project or a condition is invalid, or the deliverables cannot be copied.
        TrustRequiredError: The project names code that is not trusted.
        Cancelled: The user pressed Ctrl-C.
    """
    require_valid(opened)
    for condition in fail_if:
        condition_of(condition)
    last = until or target_of(opened.project.target.id).stages[-1]
    if out is not None:
        _require_package(opened, last)
    results = cache or Cache(default_root())
    planned = plan(opened, results)
    warnings = _Warnings(opened, planned, results, on_warning)
    warnings.look()
    stages = _cached_reports(planned, results, last, skip)
    if stages is not None:
        end_early()
    else:
        code = allowed_code(opened, trust=trust)
        command = RunUntil(
            job="run",
            project=opened.project,
            folder=str(opened.folder),
            until=last,
            skip=tuple(skip),
            plan=planned,
            cache_root=str(results.root),
            accelerate=accelerate,
            code=code.digest,
        )

        def follow(event: Event) -> None:
            if on_event is not None:
                on_event(event)
            if isinstance(event, StageFinished) and event.stage in _SHOWING:
                warnings.look()

        stages = _reports(run_job(command, follow, on_output))
    outcome = _Outcome(opened, planned, results, stages, last, tuple(skip), tuple(warnings.known))
    target = None if out is None else Path(out)
    options = _Options(target, tuple(fail_if), allow_differences, accelerate)
    return _collected(outcome, options)


def _remember(outcome: _Outcome) -> None:
    """Remember the files that decided the results, for an early start of an engine."""
    if (path := outcome.opened.path) is not None:
        states = {file.path: file.state for file in outcome.planned.files}
        with suppress(OSError):
            remember_run(outcome.cache.root, {str(path.absolute()): state_of(path), **states})


# The stages whose results give ``check`` more to go by.
_SHOWING = frozenset({"export", "prepare"})


class _Warnings:
    """The warnings of ``check``, each reported once and as soon as it is known."""

    def __init__(
        self, opened: OpenProject, planned: Plan, cache: Cache, tell: Callable[[ErrorInfo], None] | None
    ) -> None:
        # A dictionary for its order.
        self.known: dict[ErrorInfo, None] = {}
        self._opened, self._planned, self._cache, self._tell = opened, planned, cache, tell

    def look(self) -> None:
        """Report the warnings that follow from the cached results and were not reported before."""
        planned = self._planned.looked_up(self._cache)
        for info in check_planned(self._opened, planned, self._cache).warnings:
            if info not in self.known:
                self.known[info] = None
                if self._tell is not None:
                    self._tell(info)


@dataclass(frozen=True)
class _Outcome:
    """How the stages ended."""

    opened: OpenProject
    planned: Plan
    cache: Cache
    stages: list[StageReport]
    last: StageId
    skipped: tuple[StageId, ...]
    warnings: tuple[ErrorInfo, ...]

    @property
    def folders(self) -> dict[str, Path]:
        """The folder of each finished stage's result."""
        done = [stage for stage in self.stages if stage.state in {"done", "cached"}]
        return {stage.id: self.cache.folder(stage.key) for stage in done}

    def why_missing(self, stage_id: StageId) -> str:
        """Return why a stage has no result, as a sentence."""
        states = {stage.id: stage.state for stage in self.stages}
        if stage_id in self.skipped:
            return f"The stage {stage_id} was skipped."
        failed = states.get(stage_id) == "failed"
        return f"The stage {stage_id} {'failed' if failed else 'did not run'}."


@dataclass(frozen=True)
class _Options:
    """What is made of the results of a run."""

    out: Path | None
    fail_if: tuple[str, ...]
    allow_differences: bool
    accelerate: bool


def _require_package(opened: OpenProject, last: StageId) -> None:
    if "package" not in target_of(opened.project.target.id).stages:
        raise failure(
            "The target makes no program to copy: its numbers are emulated.",
            "Leave out --out. The figures are printed.",
            Place(kind="option", id="target.id"),
            code="target-without-package",
        )
    if last != "package":
        raise failure("--out needs the stage package.", "Leave out --until.", code="out-without-package")


def _cached_reports(
    planned: Plan, cache: Cache, last: StageId, skip: Sequence[StageId]
) -> list[StageReport] | None:
    """Return a report for every stage if no engine is needed, else None."""
    reports = []
    for stage_id in stages_until(last):
        stage = planned.of(stage_id)
        if stage_id in skip or stage.state == "unavailable":
            reports.append(StageReport(stage_id, stage.key, "skipped"))
        elif stage.state == "cached" and cache.verify(stage.key):
            reports.append(StageReport(stage_id, stage.key, "cached"))
        else:
            return None
    return reports


def _reports(job: JobResult) -> list[StageReport]:
    reports = []
    for event in job.stages:
        match event:
            case StageFinished():
                state = "cached" if event.cached else "done"
                reports.append(StageReport(event.stage, event.key, state, event.elapsed_s))
            case StageSkipped():
                reports.append(StageReport(event.stage, "", "skipped"))
            case StageFailed():
                reports.append(StageReport(event.stage, event.key, "failed", event.elapsed_s, event.infos))
    return reports


@parsed_once()
def _collected(outcome: _Outcome, options: _Options) -> RunResult:
    """Judge the program, keep the run in the history, copy the deliverables, gather all figures."""
    opened, folders = outcome.opened, outcome.folders
    answers = _judged(outcome, options.fail_if)
    record = run_of(opened.project, outcome.planned, outcome.cache)
    if record is not None and answers is not None:
        record = record.with_answers(answers)
    problem = None if opened.path is None else record_run(opened.path, record)
    outcome_json = {} if record is None else outcome_of(record, folders).document()
    delivered: Delivered | None = None
    if "package" in folders and answers is not None:
        # The files in the cache do not state the answers: only copies do.
        is_allowed = options.allow_differences and options.out is not None
        if answers.refused and not is_allowed:
            delivered = Delivered(folders["package"], ())
        elif options.out is not None:
            files = deliver(folders["package"], options.out, answers, outcome_json)
            delivered = Delivered(options.out, files)
    documents = [stage.document() for stage in outcome.stages]
    document = summary(opened, documents, folders, delivered, answers=answers, accelerate=options.accelerate)
    document["checked"] = [info.model_dump(mode="json") for info in outcome.warnings]
    if outcome_json:
        document[KEY] = outcome_json
    gate, accuracy = (answers.gate, answers.accuracy) if answers is not None else (None, None)
    result = RunResult(opened, tuple(outcome.stages), folders, document, gate, accuracy, record, problem)
    if result.succeeded:
        _remember(outcome)
    return result


def _judged(outcome: _Outcome, fail_if: tuple[str, ...]) -> Answers | None:
    """Return both answers; None if nothing was to be verified and no condition was given."""
    if "verify" not in stages_until(outcome.last) and not fail_if:
        return None
    folders = outcome.folders

    def load(kind: type[_Result], stage: str) -> _Result | None:
        return load_result(kind, folders[stage]) if stage in folders else None

    return answers_of(
        outcome.opened.project,
        load,
        fail_if=fail_if,
        reason=outcome.why_missing("verify"),
        why_not_measured=outcome.why_missing("evaluate"),
    )

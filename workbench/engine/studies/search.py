"""Search study: greedy search from the worst module, then Optuna; every candidate is evaluated."""

from __future__ import annotations

import math
import os
import warnings
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import optuna
from optuna.trial import TrialState

from workbench.engine.runtime.context import StageContext
from workbench.engine.studies import sensitivity, training
from workbench.engine.studies.candidate_workers import CandidateWorkers
from workbench.engine.studies.candidates import environment_of, evaluate
from workbench.engine.studies.study import StudyContext
from workbench.engine.workers.cluster import CLUSTER_LOST
from workbench.errors import Place, WorkbenchError, failure
from workbench.pipeline.plan import plan
from workbench.project import edits
from workbench.project.configs import PRESETS_BY_ID
from workbench.project.opened import OpenProject
from workbench.results import ExportResult
from workbench.studies.documents import load_study, study_folder, study_key
from workbench.studies.search import (
    CHOICES,
    DEFAULT_TRIALS,
    TRANSFORMS,
    Candidate,
    Limits,
    SearchResult,
    widths_of,
    with_candidate,
)
from workbench.studies.sensitivity import SensitivityResult, Unit
from workbench.studies.training import TrainingResult, keep_weights
from workbench.targets import target_of

if TYPE_CHECKING:
    from pydantic import JsonValue

    from workbench.history.runs import Run
    from workbench.ids import StudyId
    from workbench.project.model import Project

_ORDER_SAMPLES = 8
_CONSTRAINTS = "constraints"
_POLL_S = 0.2
_PER_TENSOR = "a8w8-per-tensor"
_PER_CHANNEL_SHARES = (0.0, 0.25, 0.5)
# Optuna's parameter for the weight transforms.
_TRANSFORMS = "weight transforms"


def run(study: StudyContext) -> None:
    """Continue from the evaluated candidates until the requested number is reached."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    options = study.options
    count, scheduler = _workers(study)
    if _epochs(study) and (count > 1 or scheduler):
        raise failure(
            "A search that trains its candidates runs in one process.",
            "Leave out the workers and the scheduler, or the training.",
            Place(kind="option", id="train"),
            code="search-training-in-workers",
        )
    limits = Limits.model_validate({n: options.get(n) for n in Limits.model_fields})
    total = int(str(options.get("trials") or DEFAULT_TRIALS))
    result = load_study(SearchResult, study.folder)
    if result is None:
        study.report(0, total, "ordering modules by sensitivity")
        result = SearchResult(
            limits=limits,
            total=total,
            units=_ordered_units(study),
            widths=_widths(study),
            transforms=tuple(TRANSFORMS) if options.get("transforms") else (),
        )
    result = result.model_copy(update={"limits": limits, "total": total})
    again = tuple(_judged(candidate, result.enforced) for candidate in result.candidates)
    result = result.model_copy(update={"candidates": again})
    study.tell(result, len(result.candidates), total, "")
    _Search(study, result).run()


def _workers(study: StudyContext) -> tuple[int, str]:
    """Return the number of processes that evaluate candidates, and the address of a scheduler."""
    count = int(str(study.options.get("workers") or 1))
    return max(1, min(count, os.cpu_count() or 1)), str(study.options.get("scheduler") or "")


def _epochs(study: StudyContext) -> int:
    """Return for how many epochs each candidate is trained."""
    return int(str(study.options.get("train") or 0))


def _widths(study: StudyContext) -> dict[str, tuple[int, ...]]:
    """Return the numbers of channels to choose from, if the search has widths."""
    if not study.options.get("widths"):
        return {}
    return widths_of(study.stage.result("export", ExportResult).layers)


def _judged(candidate: Candidate, limits: Limits) -> Candidate:
    figures = candidate.figures
    is_within = figures is not None and limits.are_met(figures)
    return candidate.model_copy(update={"is_within": is_within})


def _plain(project: Project) -> Project:
    """Return the project with the first choice for every module."""
    return edits.assign(edits.revise(project, rules=()), "global", "", CHOICES[0])


def _inner(context: StageContext, study: StudyId, project: Project) -> StageContext:
    """Return the context of a study of another project inside of this one."""
    planned = plan(OpenProject(project, context.folder), context.cache)
    return StageContext(
        stage=study,
        project=project,
        folder=context.folder,
        plan=planned,
        cache=context.cache,
        store=context.store,
        out=context.out,
        accelerate=context.accelerate,
        report=context.report,
        write_log=context.write_log,
        cancelled=context.cancelled,
    )


def _ordered_units(study: StudyContext) -> tuple[Unit, ...]:
    """Return the units of modules by sensitivity, most sensitive first."""
    context = study.stage
    project = _plain(context.project)
    evaluate(project, environment_of(context))
    inner = _inner(context, "sensitivity", project)
    key = study_key("sensitivity", OpenProject(project, context.folder), context.cache, {})
    folder = study_folder(context.cache, key)
    sensitivity.run(StudyContext(inner, folder, {"samples": _ORDER_SAMPLES}, lambda *_ignored: None))
    ordered = load_study(SensitivityResult, folder)
    assert ordered is not None
    units = [row.unit for row in ordered.worst_first()]
    return tuple(unit for unit in units if unit.kind == "module_name")


def _param(module: str) -> str:
    """Return the name of Optuna's parameter for the channels of a module."""
    return f"channels of {module}"


def _params(candidate: Candidate) -> dict[str, str]:
    """Return what decides a candidate, as Optuna's parameters."""
    channels = {_param(n): str(c) for n, c in candidate.channels.items()}
    transforms = {_TRANSFORMS: candidate.transforms} if candidate.transforms else {}
    return candidate.choices | channels | transforms


def _kinds(result: SearchResult, configs: list[str]) -> dict[str, list[str]]:
    """Return the values of each of Optuna's parameters, the first choice first."""
    kinds = {unit.name: configs for unit in result.units}
    kinds |= {_param(name): [*map(str, widths)] for name, widths in result.widths.items()}
    return kinds | ({_TRANSFORMS: list(result.transforms)} if result.transforms else {})


class _Search:
    def __init__(self, study: StudyContext, result: SearchResult) -> None:
        self._study, self._result = study, result
        context = study.stage
        target, choice = target_of(context.project.target.id), context.project.target
        self._choices = [
            name for name in CHOICES if not target.refusal(choice, PRESETS_BY_ID[name].config, "module_name")
        ]
        self._optuna = self._opened()
        self._running: dict[Any, tuple[optuna.Trial, Candidate]] = {}
        self._epochs = _epochs(study)

    def run(self) -> None:
        """Ask Optuna, evaluate and tell, until the requested number is reached."""
        context = self._study.stage
        count, scheduler = _workers(self._study)
        pool = (
            CandidateWorkers(
                count, context.folder, context.cache, accelerate=context.accelerate, scheduler=scheduler
            )
            if count > 1 or scheduler
            else nullcontext()
        )
        with pool as workers:
            count = workers.count if workers else 1
            idle = 0
            while len(self._result.candidates) < self._result.total and idle < 50:
                while workers is not None and len(self._running) < count and idle < 50:
                    idle = 0 if self._submit(workers) else idle + 1
                if workers is None:
                    idle = 0 if self._try() else idle + 1
                elif self._running:
                    self._collect()
        if len(self._result.candidates) < self._result.total:
            self._result = self._result.model_copy(update={"is_exhausted": True})
            number = len(self._result.candidates)
            self._study.tell(self._result, number, self._result.total, "no other candidates")

    def _opened(self) -> optuna.Study:
        """Return Optuna's study for these limits, with all evaluated candidates.

        It is in memory: the stored candidates are all that is needed to make it again.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sampler = optuna.samplers.TPESampler(
                seed=len(self._result.candidates),
                multivariate=True,
                constant_liar=True,
                constraints_func=lambda trial: trial.user_attrs.get(_CONSTRAINTS, (1.0,) * 4),
            )
            study = optuna.create_study(sampler=sampler, directions=["maximize", "minimize", "minimize"])
        for candidate in self._result.candidates:
            self._tell_former(study, candidate)
        for choices in self._staircase():
            study.enqueue_trial(choices, skip_if_exists=True)
        return study

    def _staircase(self) -> list[dict[str, str]]:
        """Return configurations that change one thing after the other.

        First the weight transforms, then one scale for each weight, then every layer alone with
        fewer channels, which gives the cycles of each step, then one layer after the other, the
        last first, then the modules in a better precision, the worst first.
        """
        better = "a16w8" if "a16w8" in self._choices else "float"
        widths = {_param(name): [*map(str, w)] for name, w in self._result.widths.items()}
        transforms = self._result.transforms
        plain = {name: kind[0] for name, kind in _kinds(self._result, self._choices).items()}
        steps = [dict(plain), *(plain | {_TRANSFORMS: name} for name in transforms[1:])]
        if _PER_TENSOR in self._choices:
            steps += self._with_fewer_scales(plain)
        steps += [{**plain, name: numbers[1]} for name, numbers in widths.items()]
        narrow = dict(plain)
        for index in range(1, max(map(len, widths.values()), default=0)):
            for name, numbers in reversed(widths.items()):
                narrow[name] = numbers[min(index, len(numbers) - 1)]
                steps.append(dict(narrow))
        for unit in self._result.units:
            plain[unit.name] = better
            steps.append(dict(plain))
        return steps[: max(2, self._result.total // 2 + 2 * len(widths) + len(transforms))]

    def _with_fewer_scales(self, plain: dict[str, str]) -> list[dict[str, str]]:
        """Return configurations with one scale for each weight: of all modules, then of fewer.

        The most sensitive quarter, then half, of the modules keeps a scale for each channel.
        """
        units = self._result.units
        counts = dict.fromkeys(round(len(units) * share) for share in _PER_CHANNEL_SHARES)
        return [plain | {unit.name: _PER_TENSOR for unit in units[count:]} for count in counts]

    def _tell_former(self, study: optuna.Study, candidate: Candidate) -> None:
        figures = candidate.figures
        kinds, params = _kinds(self._result, self._choices), _params(candidate)
        is_known = kinds.keys() == params.keys() and all(
            value in kinds[name] for name, value in params.items()
        )
        if figures is None or not is_known or not all(map(math.isfinite, figures)):
            return
        categories = optuna.distributions.CategoricalDistribution
        excesses = self._result.enforced.excesses(figures)
        study.add_trial(
            optuna.trial.create_trial(
                params=params,
                distributions={name: categories(kind) for name, kind in kinds.items()},
                values=list(figures[:3]),
                user_attrs={_CONSTRAINTS: excesses},
                system_attrs={_CONSTRAINTS: excesses},
            )
        )

    def _asked(self) -> tuple[optuna.Trial, Candidate, Candidate | None]:
        """Return a trial, its candidate without figures, and the same one if it was evaluated."""
        trial = self._optuna.ask()
        chosen = {
            name: str(trial.suggest_categorical(name, kind))
            for name, kind in _kinds(self._result, self._choices).items()
        }
        asked = Candidate(
            number=len(self._result.candidates) + 1,
            origin="search",
            choices={unit.name: chosen[unit.name] for unit in self._result.units},
            channels={name: int(chosen[_param(name)]) for name in self._result.widths},
            transforms=chosen.get(_TRANSFORMS, ""),
        )
        known = (c for c in self._result.candidates if _params(c) == _params(asked))
        return trial, asked, next(known, None)

    def _project(self, candidate: Candidate) -> Project:
        return with_candidate(self._study.stage.project, self._result, candidate, self._study.folder)

    def _try(self) -> bool:
        """Evaluate one candidate in this process; return False if it was evaluated before."""
        trial, asked, known = self._asked()
        if known is not None:
            self._tell(trial, known)
            return False
        try:
            trained = self._trained(asked)
            run = evaluate(self._project(trained), environment_of(self._study.stage))
            self._add(trial, trained, run, "")
        except WorkbenchError as error:
            self._add(trial, asked, None, error.infos[0].message)
        return True

    def _trained(self, candidate: Candidate) -> Candidate:
        """Return a candidate with trained weights in the study's folder, if it lost channels."""
        context, project = self._study.stage, self._project(candidate)
        if not self._epochs or not project.channels():
            return candidate
        options: dict[str, JsonValue] = {"epochs": self._epochs}
        key = study_key("training", OpenProject(project, context.folder), context.cache, options)
        folder = study_folder(context.cache, key)
        inner = _inner(context, "training", project)
        training.run(StudyContext(inner, folder, options, lambda *_ignored: None))
        result = load_study(TrainingResult, folder)
        if result is None or not result.best:
            return candidate
        self._study.folder.mkdir(parents=True, exist_ok=True)
        return candidate.model_copy(update={"weights": keep_weights(result, folder, self._study.folder)})

    def _submit(self, workers: CandidateWorkers) -> bool:
        trial, asked, known = self._asked()
        if known is not None:
            self._tell(trial, known)
            return False
        self._running[workers.submit(self._project(asked))] = trial, asked
        return True

    def _collect(self) -> None:
        """Collect the workers' results."""
        done: set[Any] = set()
        while not done:
            self._study.stage.check_cancelled()
            done, _ = wait(self._running, timeout=_POLL_S, return_when=FIRST_COMPLETED)
        for future in done:
            trial, asked = self._running.pop(future)
            try:
                self._add(trial, asked, future.result(), "")
            except WorkbenchError as error:
                if CLUSTER_LOST in error.codes:
                    raise
                self._add(trial, asked, None, error.infos[0].message)

    def _add(self, trial: optuna.Trial, asked: Candidate, run: Run | None, problem: str) -> None:
        number = len(self._result.candidates) + 1
        candidate = Candidate(
            number=number,
            origin="staircase" if _params(asked) in self._staircase() else "search",
            choices=asked.choices,
            channels=asked.channels,
            transforms=asked.transforms,
            weights=asked.weights,
            accuracy=run.accuracy if run else None,
            accuracy_name=run.accuracy_name if run else "",
            cycles=run.cost.cycles if run and run.cost else None,
            sram_bytes=run.cost.sram_bytes if run and run.cost else None,
            flash_bytes=run.cost.flash_bytes if run and run.cost else None,
            cpu_nodes=run.cost.cpu_nodes if run and run.cost else None,
            cpu_cycles=run.cost.cpu_cycles if run and run.cost else 0,
            problem=problem,
        )
        candidate = _judged(candidate, self._result.enforced)
        self._tell(trial, candidate)
        self._result = self._result.model_copy(update={"candidates": (*self._result.candidates, candidate)})
        message = problem or f"candidate {number}"
        self._study.tell(self._result, number, self._result.total, message)

    def _tell(self, trial: optuna.Trial, candidate: Candidate) -> None:
        figures = candidate.figures
        if figures is None:
            self._optuna.tell(trial, state=TrialState.FAIL)
            return
        trial.set_user_attr(_CONSTRAINTS, self._result.enforced.excesses(figures))
        self._optuna.tell(trial, list(figures[:3]))

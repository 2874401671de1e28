"""Sweep study: estimate one quantized program on many devices, with shared lowering."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from workbench.engine.studies.candidates import compute, environment_of
from workbench.engine.studies.estimates import Estimators, Point
from workbench.engine.workers.cluster import CLUSTER_LOST, wrong_answer
from workbench.errors import WorkbenchError
from workbench.project import edits
from workbench.results import VelaTotals
from workbench.studies.documents import load_study, save_study
from workbench.studies.sweep import SweepPoint, SweepResult, points, refused
from workbench.targets import target_of
from workbench.toolchains.versions import tool_version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from workbench.engine.studies.study import StudyContext
    from workbench.project.model import TargetChoice

_NO_DELEGATE = "Nothing runs on the NPU: there is no delegate to estimate."
_POLL_S = 0.2
# Documents with thousands of points are not rewritten for every point.
_TELL_S = 0.3


def run(study: StudyContext) -> None:
    """Estimate every point without an estimate; can be interrupted and continued.

    Raises:
        WorkbenchError: no point is valid, or the program cannot be lowered for any.
    """
    project, options = study.stage.project, study.options
    target = target_of(project.target.id)
    folder = study.stage.folder
    base = target.complete(project.target, folder)
    asked = points(target, base, options["targets"] or [], options["axes"] or {}, folder)  # type: ignore[arg-type]
    if all(point.problem for point in asked):
        raise refused(asked)
    sweep = Sweep(study, asked, known_points(study))
    if sweep.missing:
        with Estimators(worker_count(options), str(options.get("scheduler") or "")) as workers:
            sweep.run(workers)
    else:
        sweep.tell("", at_once=True)


def known_points(study: StudyContext) -> dict[str, SweepPoint]:
    """Return the earlier estimates, by target name."""
    before = load_study(SweepResult, study.folder)
    listed = (*before.points, *before.earlier) if before else ()
    return {_name(point.target): point for point in listed if point.totals}


def _name(choice: TargetChoice) -> str:
    return json.dumps(choice.model_dump(mode="json"), sort_keys=True)


def worker_count(options: Any) -> int:
    """Return the number of worker processes: as requested, at most one per core."""
    most = os.cpu_count() or 1
    return max(1, min(int(options.get("workers") or most), most))


class Sweep:
    """Estimates points, and stores and reports results as they arrive.

    Args:
        study: The study's context.
        asked: The points, in order of the report.
        known: Earlier estimates by name, which are reused.
    """

    def __init__(
        self, study: StudyContext, asked: Sequence[SweepPoint], known: Mapping[str, SweepPoint]
    ) -> None:
        rest = dict(known)
        self._study = study
        self._points = [point if point.totals else rest.pop(_name(point.target), point) for point in asked]
        self._earlier = tuple(rest.values())
        self._target = target_of(study.stage.project.target.id)
        self._programs: dict[str, tuple[Path, ...]] = {}
        self._running: dict[Future[Any], int] = {}
        self._last_report = 0.0

    @property
    def points(self) -> list[SweepPoint]:
        """The points with the results so far."""
        return self._points

    @property
    def missing(self) -> list[int]:
        """The indices of the points to estimate."""
        return [i for i, p in enumerate(self._points) if p.totals is None and not p.problem]

    def run(self, workers: Estimators) -> None:
        """Submit missing points and collect results; results are stored in any case."""
        self.tell("", at_once=True)
        try:
            for index in self.missing:
                self._submit(workers, index)
                self._collect(0)
            while self._running:
                self._collect(_POLL_S)
        finally:
            save_study(self._result(), self._study.folder)
        self.tell("", at_once=True)

    def _submit(self, workers: Estimators, index: int) -> None:
        choice = self._points[index].target
        try:
            programs = self._programs_for(choice)
            files = self._target.files(choice, self._study.stage.folder)
        except WorkbenchError as error:
            self._settle(index, None, error.infos[0].message)
            return
        if not programs:
            self._settle(index, None, _NO_DELEGATE)
            return
        point = Point(self._target.estimator, programs, choice.id, choice.options, files)
        self._running[workers.submit(point)] = index

    def _collect(self, seconds: float) -> None:
        self._study.stage.check_cancelled()
        done, _ = wait(self._running, timeout=seconds, return_when=FIRST_COMPLETED)
        for future in done:
            self._take(self._running.pop(future), future)

    def _programs_for(self, choice: TargetChoice) -> tuple[Path, ...]:
        form = json.dumps(self._target.facet(choice, "quantizer"), sort_keys=True)
        if form not in self._programs:
            self._programs[form] = self._lowered(choice)
        return self._programs[form]

    def _lowered(self, choice: TargetChoice) -> tuple[Path, ...]:
        """Return the files of the delegates' programs, lowered for a device."""
        context = self._study.stage
        own = self._target.complete(context.project.target)
        same = self._target.facet(own, "quantizer") == self._target.facet(choice, "quantizer")
        project = edits.set_target(context.project, own if same else choice)
        self._study.report(self._done(), len(self._points), f"lowering for {project.target.id}")
        key = compute(project, environment_of(context), ("lower",)).key("lower")
        return tuple(sorted(context.cache.folder(key).glob("delegate_*.tosa")))

    def _take(self, index: int, future: Future[Any]) -> None:
        try:
            answer = future.result()
        except WorkbenchError as error:
            if CLUSTER_LOST in error.codes:
                raise
            self._settle(index, None, error.infos[0].message)
            return
        try:
            totals = VelaTotals.model_validate(answer.get("totals"))
        except ValidationError as error:
            self._settle(index, None, wrong_answer(str(error)).infos[0].message)
        else:
            self._settle(index, totals, "")

    def _settle(self, index: int, totals: VelaTotals | None, problem: str) -> None:
        point = self._points[index]
        self._points[index] = point.model_copy(update={"totals": totals, "problem": problem})
        self.tell(point.target.id)

    def _done(self) -> int:
        return sum(1 for p in self._points if p.totals is not None or p.problem)

    def tell(self, message: str, *, at_once: bool = False) -> None:
        """Store and report the results, rate-limited unless ``at once``."""
        now = time.monotonic()
        if at_once or now - self._last_report >= _TELL_S:
            self._last_report = now
            self._study.tell(self._result(), self._done(), len(self._points), message)

    def _result(self) -> SweepResult:
        return SweepResult(
            tool=f"Vela {tool_version('ethos-u-vela')}",
            total=len(self._points),
            points=tuple(self._points),
            earlier=self._earlier,
        )

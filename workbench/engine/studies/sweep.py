"""Estimate one quantized program on many devices: lowered once for each form, compiled for all."""

from __future__ import annotations

import json
import os
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TYPE_CHECKING, Any

from workbench.engine.candidates import compute, means_of
from workbench.engine.estimating import Estimators, estimators, request
from workbench.errors import WorkbenchError
from workbench.pipeline.plan import plan, tool_version
from workbench.project import edits
from workbench.results import VelaTotals
from workbench.studies.documents import load_study
from workbench.studies.sweep import SweepPoint, SweepResult, points, refused
from workbench.targets import target_of

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.engine.studies.context import StudyContext
    from workbench.project.model import TargetChoice

_POLL_S = 0.2


def run(study: StudyContext) -> None:
    """Estimate every point that was not estimated before; stop and go on at any point.

    Raises:
        WorkbenchError: no point fits, or the program cannot be lowered for any of them.
    """
    project, options = study.stage.project, study.options
    target = target_of(project.target.id)
    base = target.complete(project.target)
    asked = points(target, base, options["targets"] or [], options["axes"] or {})  # type: ignore[arg-type]
    if all(point.problem for point in asked):
        raise refused(asked)
    before = load_study(SweepResult, study.folder)
    listed = (*before.points, *before.earlier) if before else ()
    known = {_name(point.target): point for point in listed if point.totals}
    wanted = [known.pop(_name(point.target), point) for point in asked]
    sweep = _Sweep(study, wanted, tuple(known.values()))
    if sweep.missing:
        with estimators(_count(options), str(options.get("scheduler") or "")) as crew:
            sweep.run(crew)
    else:
        sweep.tell("")


def _name(choice: TargetChoice) -> str:
    return json.dumps(choice.model_dump(mode="json"), sort_keys=True)


def _count(options: Any) -> int:
    most = os.cpu_count() or 1
    return max(1, min(int(options.get("workers") or most), most))


class _Sweep:
    def __init__(
        self, study: StudyContext, asked: list[SweepPoint], earlier: tuple[SweepPoint, ...]
    ) -> None:
        self._study, self._points, self._earlier = study, asked, earlier
        self._target = target_of(study.stage.project.target.id)
        self._programs: dict[str, list[Path]] = {}
        self._running: dict[Future[Any], int] = {}

    @property
    def missing(self) -> list[int]:
        """The places of the points to be estimated."""
        return [i for i, p in enumerate(self._points) if p.totals is None and not p.problem]

    def run(self, crew: Estimators) -> None:
        """Submit what is missing, take in what comes."""
        self.tell("")
        for place in self.missing:
            try:
                asked = self._request(self._points[place].target)
            except WorkbenchError as error:
                self._settle(place, None, error.infos[0].message)
                continue
            self._running[crew.submit(asked)] = place
        while self._running:
            self._study.stage.check_cancelled()
            done, _ = wait(self._running, timeout=_POLL_S, return_when=FIRST_COMPLETED)
            for future in done:
                self._take(self._running.pop(future), future)

    def _request(self, choice: TargetChoice) -> dict[str, Any]:
        form = json.dumps(self._target.facet(choice, "quantizer"), sort_keys=True)
        if form not in self._programs:
            self._programs[form] = self._lowered(choice)
        return request(
            self._target.estimator, self._programs[form], choice.id, dict(choice.options)
        )

    def _lowered(self, choice: TargetChoice) -> list[Path]:
        """Return the files of the delegates' programs in the form that a device takes."""
        context = self._study.stage
        own = self._target.complete(context.project.target)
        same = self._target.facet(own, "quantizer") == self._target.facet(choice, "quantizer")
        project = edits.set_target(context.project, own if same else choice)
        self._study.report(self._done(), len(self._points), f"lowering for {project.target.id}")
        compute(project, means_of(context), ("lower",))
        key = plan(project, context.folder, context.cache).key("lower")
        return sorted(context.cache.folder(key).glob("delegate_*.tosa"))

    def _take(self, place: int, future: Future[Any]) -> None:
        try:
            answer = future.result()
        except WorkbenchError as error:
            self._settle(place, None, error.infos[0].message)
            return
        problem = str(answer.get("problem", ""))
        found = answer.get("totals")
        self._settle(place, VelaTotals.model_validate(found) if found else None, problem)

    def _settle(self, place: int, totals: VelaTotals | None, problem: str) -> None:
        point = self._points[place]
        self._points[place] = point.model_copy(update={"totals": totals, "problem": problem})
        self.tell(point.target.id)

    def _done(self) -> int:
        return sum(1 for p in self._points if p.totals is not None or p.problem)

    def tell(self, message: str) -> None:
        """Keep and say what there is."""
        result = SweepResult(
            tool=f"Vela {tool_version('ethos-u-vela')}",
            total=len(self._points),
            points=tuple(self._points),
            earlier=self._earlier,
        )
        self._study.tell(result, self._done(), len(self._points), message)

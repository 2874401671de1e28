"""SRAM budget study: estimate the cost of less SRAM, from the saved TOSA of the project."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.engine.studies.estimates import Estimators
from workbench.engine.studies.sweep import Sweep, known_points, worker_count
from workbench.project.model import TargetChoice
from workbench.studies.sweep import between, ends

if TYPE_CHECKING:
    from workbench.engine.studies.study import StudyContext


def run(study: StudyContext) -> None:
    """Estimate both ends, then limits between them; earlier estimates are reused.

    Raises:
        WorkbenchError: the program cannot be lowered.
    """
    base = TargetChoice.model_validate(study.options["base"])
    known = known_points(study)
    with Estimators(worker_count(study.options)) as workers:
        outer = Sweep(study, ends(base), known)
        outer.run(workers)
        sizes = [point.totals.sram_bytes for point in outer.points if point.totals]
        if len(sizes) == len(outer.points):
            inner = between(base, min(sizes), max(sizes))
            Sweep(study, [*outer.points, *inner], known).run(workers)

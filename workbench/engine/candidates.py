"""Evaluating one configuration from inside the engine: the same stages, the same cache."""

from __future__ import annotations

import importlib
import threading
from typing import TYPE_CHECKING

from workbench.engine.context import HotStore, StageContext
from workbench.errors import Place, failure
from workbench.history.runs import Run, run_of
from workbench.pipeline.plan import plan
from workbench.pipeline.stages import STAGES, STAGES_BY_ID

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.pipeline.cache import Cache
    from workbench.project.model import Project

_GOALS = ("evaluate", "lower")


def needed() -> list[str]:
    """Return the stages that give quality and cost, in order."""
    wanted = set(_GOALS)
    for stage in reversed(STAGES):
        if stage.id in wanted:
            wanted.update(stage.needs)
    return [stage.id for stage in STAGES if stage.id in wanted]


def evaluate(
    project: Project, folder: Path, cache: Cache, store: HotStore, *, accelerate: bool = True,
    cancelled: threading.Event | None = None,
) -> Run:  # fmt: skip
    """Return the run of a project, computed as far as it is not in the cache.

    Raises:
        Cancelled: ``cancelled`` was set.
        WorkbenchError: a stage could not be done.
    """
    for stage_id in needed():
        planned = plan(project, folder, cache)
        stage = planned.of(stage_id)
        if stage.state in {"blocked", "unavailable"}:
            raise failure(stage.reason, where=Place(kind="stage", id=stage_id))
        if stage.state == "cached":
            continue
        with cache.writing(stage.key) as out:
            context = StageContext(
                stage=stage_id, project=project, folder=folder, plan=planned, cache=cache,
                store=store, out=out, accelerate=accelerate, report=_silent, write_log=_silent,
                cancelled=cancelled or threading.Event(),
            )  # fmt: skip
            context.check_cancelled()
            module, function = STAGES_BY_ID[stage_id].entry.split(":")
            getattr(importlib.import_module(module), function)(context)
    run = run_of(project, plan(project, folder, cache), cache)
    assert run is not None
    return run


def _silent(*_said: object) -> None:
    """Say nothing: a candidate is one step of a study, which speaks for it."""

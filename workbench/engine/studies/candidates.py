"""Evaluation of one configuration inside the engine, with the same stages and cache."""

from __future__ import annotations

import importlib
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workbench.engine.runtime.context import LiveObjectCache, StageContext
from workbench.engine.runtime.process_memory import release_programs
from workbench.errors import Place, failure
from workbench.history.runs import Run, run_of
from workbench.ids import StageId
from workbench.pipeline.plan import Plan, plan
from workbench.pipeline.stages import STAGES_BY_ID, stages_needed
from workbench.project.opened import OpenProject

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from workbench.pipeline.cache import Cache
    from workbench.project.model import Project

_GOALS: tuple[StageId, ...] = ("evaluate", "lower")


@dataclass(frozen=True)
class Environment:
    """Shared parameters of all candidates of a study."""

    folder: Path
    cache: Cache
    store: LiveObjectCache
    accelerate: bool = True
    cancelled: threading.Event = field(default_factory=threading.Event)


def environment_of(context: StageContext) -> Environment:
    """Return the parameters of the stage or study that evaluates candidates."""
    return Environment(context.folder, context.cache, context.store, context.accelerate, context.cancelled)


def evaluate(project: Project, environment: Environment) -> Run:
    """Return the run of a project, computing stages that are not cached.

    Raises:
        Cancelled: cancelled by the user.
        WorkbenchError: a stage failed.
    """
    run = run_of(project, compute(project, environment, _GOALS), environment.cache)
    assert run is not None
    return run


def compute(project: Project, environment: Environment, goals: Sequence[StageId]) -> Plan:
    """Compute some stages of a project, and what they take, as far as it is not in the cache.

    Returns the plan, which is made once.

    Raises:
        Cancelled: cancelled by the user.
        WorkbenchError: a stage failed.
    """
    planned = plan(OpenProject(project, environment.folder), environment.cache)
    is_computed = False
    for stage_id in stages_needed(*goals):
        stage = planned.of(stage_id)
        if stage.state in {"blocked", "unavailable"}:
            raise failure(stage.reason, where=Place(kind="stage", id=stage_id), code="stage-blocked")
        if environment.cache.has(stage.key):
            continue
        is_computed = True
        with environment.cache.writing(stage.key) as out:
            context = StageContext(
                stage=stage_id,
                project=project,
                folder=environment.folder,
                plan=planned,
                cache=environment.cache,
                store=environment.store,
                out=out,
                accelerate=environment.accelerate,
                report=_silent,
                write_log=_silent,
                cancelled=environment.cancelled,
            )
            context.check_cancelled()
            module, function = STAGES_BY_ID[stage_id].entry.split(":")
            getattr(importlib.import_module(module), function)(context)
            planned.check_files(stage_id)
    if is_computed:
        release_programs()
    return planned


def _silent(*_ignored: object) -> None:
    """Report nothing: a candidate is one step of a study, which reports progress."""

"""A job as a value: what was asked, on which lane, and how it went."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Literal

from pydantic import JsonValue

from workbench.ids import StageId, StudyId, WorkId, is_stage, is_study
from workbench.pipeline.cache import Cache
from workbench.pipeline.plan import Plan
from workbench.pipeline.stages import STAGES_BY_ID, stages_needed, stages_until
from workbench.project.model import Project
from workbench.protocol import Lane, RunStudy, RunUntil
from workbench.studies import STUDIES_BY_ID

JobState = Literal["waiting", "running", "done", "failed", "cancelled", "crashed"]

BACKGROUND: frozenset[StageId] = frozenset({"lower", "verify", "run", "package"})


@dataclass(frozen=True)
class Job:
    """One piece of work for one lane.

    ``after`` names the job and the stage that must be finished before this one may start; ``plan``
    is None where the engine makes it.
    ``progress`` is the share in [0, 1] of the running stage, None where nobody can know.
    """

    id: str
    title: str
    lane: Lane
    until: StageId
    project: Project = field(repr=False)
    folder: str
    after: tuple[str, StageId] | None = None
    plan: Plan | None = field(default=None, repr=False)
    study: StudyId | Literal[""] = ""
    options: dict[str, JsonValue] = field(default_factory=dict)
    state: JobState = "waiting"
    stage: WorkId | Literal[""] = ""
    progress: float | None = None
    message: str = ""
    began: float | None = None
    ended: float | None = None

    @property
    def over(self) -> bool:
        """Whether it will not change any more."""
        return self.state not in {"waiting", "running"}

    @property
    def elapsed_s(self) -> float:
        """How long it has run, or ran."""
        if self.began is None:
            return 0.0
        return (self.ended or time.monotonic()) - self.began

    @property
    def remaining_s(self) -> float | None:
        """How long the running stage will still take, where its progress tells."""
        if self.state != "running" or not self.progress or self.progress < 0.05:
            return None
        return self.elapsed_s * (1 - self.progress) / self.progress

    @property
    def stage_title(self) -> str:
        """What it is doing, in words."""
        if is_study(self.stage):
            return STUDIES_BY_ID[self.stage].verb
        if is_stage(self.stage):
            return STAGES_BY_ID[self.stage].verb
        return "Waiting for its turn" if self.state == "waiting" else ""


def goal(job: Job) -> str:
    """Return what a job is to reach, in words."""
    if job.study:
        return STUDIES_BY_ID[job.study].title
    return STAGES_BY_ID[job.until].title


def lane_of(stage_id: StageId) -> Lane:
    """Return the lane a stage runs on."""
    return "background" if stage_id in BACKGROUND else "interactive"


def left_out(stage_id: StageId) -> tuple[StageId, ...]:
    """Return the stages before ``stage_id`` that it does not start from."""
    wanted = stages_needed(stage_id)
    return tuple(stage for stage in stages_until(stage_id) if stage not in wanted)


def command_of(job: Job, cache: Cache) -> RunUntil | RunStudy:
    """Return what an engine is told to do for a job."""
    if job.study:
        return RunStudy(
            job=job.id,
            study=job.study,
            project=job.project,
            folder=job.folder,
            options=job.options,
            plan=job.plan,
            cache_root=str(cache.root),
            cache_limit_bytes=cache.limit_bytes,
        )
    return RunUntil(
        job=job.id,
        project=job.project,
        folder=job.folder,
        until=job.until,
        skip=left_out(job.until),
        plan=job.plan,
        cache_root=str(cache.root),
        cache_limit_bytes=cache.limit_bytes,
    )


def duration(seconds: float | None) -> str:
    """Return a duration for people: 0.4 s, 12 s, 3 min 05 s."""
    if seconds is None:
        return ""
    if seconds < 0.05:
        return "0 s"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"


def interactive_part(stage_id: StageId) -> StageId:
    """Return the last stage that the interactive lane must make before ``stage_id`` can start."""
    return [s for s in stages_needed(stage_id) if s not in BACKGROUND][-1]

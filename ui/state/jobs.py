"""A job: its request, its lane and its state."""

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
from workbench.project.opened import OpenProject
from workbench.protocol import Lane, RunStudy, RunUntil
from workbench.studies import STUDIES_BY_ID

JobState = Literal["waiting", "running", "done", "failed", "cancelled", "crashed"]
# What a job computes another project than the open one for; "" is a job for the open one.
Purpose = Literal["", "trial of a suggestion", "preview", "check of a new project"]

BACKGROUND: frozenset[StageId] = frozenset({"lower", "verify", "run", "package"})


@dataclass(frozen=True)
class Job:
    """One job of one lane.

    ``after`` names the job and the stage that must finish before this job starts; ``plan`` is None
    if the engine makes the plan; ``code`` is the digest of the code that may run.
    ``progress`` is the fraction of the running stage in [0, 1]; None if unknown. A job with a
    ``purpose`` computes a variant of the open project, or a new one. A ``paused`` job was cancelled
    to be continued. ``cancelled`` is whether it was asked to stop, which may take a moment.
    """

    id: str
    title: str
    lane: Lane
    until: StageId
    opened: OpenProject = field(repr=False)
    after: tuple[str, StageId] | None = None
    plan: Plan | None = field(default=None, repr=False)
    code: str = ""
    study: StudyId | Literal[""] = ""
    options: dict[str, JsonValue] = field(default_factory=dict)
    state: JobState = "waiting"
    stage: WorkId | Literal[""] = ""
    progress: float | None = None
    message: str = ""
    purpose: Purpose = ""
    paused: bool = False
    cancelled: bool = False
    began: float | None = None
    ended: float | None = None

    @property
    def project(self) -> Project:
        """The project that the job computes."""
        return self.opened.project

    @property
    def over(self) -> bool:
        """Whether the job has ended."""
        return self.state not in {"waiting", "running"}

    @property
    def elapsed_s(self) -> float:
        """Elapsed time of the job [s]."""
        if self.began is None:
            return 0.0
        return (self.ended or time.monotonic()) - self.began

    @property
    def remaining_s(self) -> float | None:
        """Estimated remaining time of the running stage [s]; None without progress."""
        if self.state != "running" or not self.progress or self.progress < 0.05:
            return None
        return self.elapsed_s * (1 - self.progress) / self.progress

    @property
    def stage_title(self) -> str:
        """Title of the running stage or study."""
        if is_study(self.stage):
            return STUDIES_BY_ID[self.stage].verb
        if is_stage(self.stage):
            return STAGES_BY_ID[self.stage].verb
        return "Queued" if self.state == "waiting" else ""


def goal(job: Job) -> str:
    """Return the title of the job's last stage or of its study."""
    if job.study:
        return STUDIES_BY_ID[job.study].title
    return STAGES_BY_ID[job.until].title


def lane_of(stage_id: StageId) -> Lane:
    """Return the lane of a stage."""
    return "background" if stage_id in BACKGROUND else "interactive"


def left_out(stage_id: StageId) -> tuple[StageId, ...]:
    """Return the stages before ``stage_id`` that it does not need."""
    wanted = stages_needed(stage_id)
    return tuple(stage for stage in stages_until(stage_id) if stage not in wanted)


def command_of(job: Job, cache: Cache) -> RunUntil | RunStudy:
    """Return the engine command of a job."""
    if job.study:
        return RunStudy(
            job=job.id,
            study=job.study,
            project=job.project,
            folder=str(job.opened.folder),
            options=job.options,
            plan=job.plan,
            cache_root=str(cache.root),
            cache_limit_bytes=cache.limit_bytes,
            code=job.code,
        )
    return RunUntil(
        job=job.id,
        project=job.project,
        folder=str(job.opened.folder),
        until=job.until,
        skip=left_out(job.until),
        plan=job.plan,
        cache_root=str(cache.root),
        cache_limit_bytes=cache.limit_bytes,
        code=job.code,
    )


def duration(seconds: float | None) -> str:
    """Return a duration as text: 0.4 s, 12 s, 3:05 min."""
    if seconds is None:
        return ""
    if seconds < 0.05:
        return "0 s"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d} min"


def interactive_part(stage_id: StageId) -> StageId:
    """Return the last stage of the interactive lane that ``stage_id`` needs."""
    return [s for s in stages_needed(stage_id) if s not in BACKGROUND][-1]

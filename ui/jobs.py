"""A job as a value: what was asked, on which lane, and how it went."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Literal

from workbench.pipeline.stages import STAGES_BY_ID, needed
from workbench.project.model import Project
from workbench.protocol import Lane

JobState = Literal["waiting", "running", "done", "failed", "cancelled", "crashed"]

BACKGROUND = frozenset({"lower", "verify", "run", "package"})


@dataclass(frozen=True)
class Job:
    """One piece of work for one lane.

    ``after`` names the job and the stage that must be finished before this one may start.
    ``progress`` is the share in [0, 1] of the running stage, None where nobody can know.
    """

    id: str
    title: str
    lane: Lane
    until: str
    project: Project = field(repr=False)
    folder: str
    after: tuple[str, str] | None = None
    state: JobState = "waiting"
    stage: str = ""
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
        if self.stage in STAGES_BY_ID:
            return STAGES_BY_ID[self.stage].verb
        return "Waiting for its turn" if self.state == "waiting" else ""


def lane_of(stage_id: str) -> Lane:
    """Return the lane a stage runs on."""
    return "background" if stage_id in BACKGROUND else "interactive"


def interactive_part(stage_id: str) -> str:
    """Return the last stage that the interactive lane must make before ``stage_id`` can start."""
    return [s for s in needed(stage_id) if s not in BACKGROUND][-1]

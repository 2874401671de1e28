"""Engine protocol: typed commands and events, one JSON line each, below 64 kB."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue, TypeAdapter

from workbench.errors import ErrorInfo
from workbench.project.frozen import Frozen
from workbench.project.model import Project

PROTOCOL_VERSION = 1
MAX_LINE_BYTES = 64_000

Level = Literal["debug", "info", "warning", "error"]
Lane = Literal["interactive", "background", "machine"]


class RunUntil(Frozen):
    """Run all stages up to ``until`` in order, except those in ``skip``.

    Cached results are not recomputed. Only optional stages (``pipeline.stages.optional_stages``)
    may be skipped.
    """

    command: Literal["run_until"] = "run_until"
    job: str
    project: Project
    folder: str
    until: str
    skip: tuple[str, ...] = ()
    cache_root: str
    cache_limit_bytes: int | None = Field(default=None, ge=0, description="None: the usual")
    accelerate: bool = True


class RunStudy(Frozen):
    """Run a study (``workbench.studies``), or continue from its stored results.

    Results are stored in the folder of its key and are always consistent; cancelling keeps them.
    """

    command: Literal["run_study"] = "run_study"
    job: str
    study: str
    project: Project
    folder: str
    options: dict[str, JsonValue] = Field(default_factory=dict)
    cache_root: str
    cache_limit_bytes: int | None = Field(default=None, ge=0, description="None: the usual")
    accelerate: bool = True


class Cancel(Frozen):
    """Cancel the running job."""

    command: Literal["cancel"] = "cancel"


class Shutdown(Frozen):
    """Shut down the engine."""

    command: Literal["shutdown"] = "shutdown"


Command = Annotated[RunUntil | RunStudy | Cancel | Shutdown, Field(discriminator="command")]


class Ready(Frozen):
    """The engine has finished its imports and accepts commands."""

    event: Literal["ready"] = "ready"
    protocol: int = PROTOCOL_VERSION
    pid: int
    start_s: float


class StageStarted(Frozen):
    """A stage has started."""

    event: Literal["stage_started"] = "stage_started"
    job: str
    stage: str
    key: str


class StageProgress(Frozen):
    """Progress of a stage: ``fraction`` in [0, 1], or None if unknown."""

    event: Literal["stage_progress"] = "stage_progress"
    job: str
    stage: str
    fraction: float | None
    message: str = ""


class StageFinished(Frozen):
    """The result of a stage is in the cache under ``key``."""

    event: Literal["stage_finished"] = "stage_finished"
    job: str
    stage: str
    key: str
    cached: bool
    elapsed_s: float


class StageSkipped(Frozen):
    """A stage was skipped, as requested or because it is not available."""

    event: Literal["stage_skipped"] = "stage_skipped"
    job: str
    stage: str
    reason: str


class StageFailed(Frozen):
    """A stage failed."""

    event: Literal["stage_failed"] = "stage_failed"
    job: str
    stage: str
    key: str
    elapsed_s: float
    infos: tuple[ErrorInfo, ...]


class StudyProgress(Frozen):
    """Progress of a study: ``done`` of ``total`` steps; its results are stored under ``key``."""

    event: Literal["study_progress"] = "study_progress"
    job: str
    study: str
    key: str
    done: int
    total: int
    message: str = ""


class LogLine(Frozen):
    """One line of the engine's log."""

    event: Literal["log"] = "log"
    level: Level
    text: str
    stage: str = ""


class JobFinished(Frozen):
    """A job is over."""

    event: Literal["job_finished"] = "job_finished"
    job: str
    outcome: Literal["done", "failed", "cancelled"]
    elapsed_s: float


class EngineExit(Frozen):
    """The engine process has ended; created by its supervisor, never sent by the engine."""

    event: Literal["engine_exit"] = "engine_exit"
    expected: bool
    sentence: str
    job: str = ""
    stage: str = ""


Event = Annotated[
    Ready
    | StageStarted
    | StageProgress
    | StageFinished
    | StageSkipped
    | StageFailed
    | StudyProgress
    | LogLine
    | JobFinished
    | EngineExit,
    Field(discriminator="event"),
]

_LATER = ConfigDict(defer_build=True)
_COMMANDS: TypeAdapter[Command] = TypeAdapter(Command, config=_LATER)
_EVENTS: TypeAdapter[Event] = TypeAdapter(Event, config=_LATER)


def encode(message: Frozen) -> bytes:
    """Return a message as one line of JSON."""
    return message.model_dump_json().encode() + b"\n"


def decode_command(line: bytes) -> Command:
    """Return the command in a line; raises ``pydantic.ValidationError``."""
    return _COMMANDS.validate_json(line)


def decode_event(line: bytes) -> Event:
    """Return the event in a line; raises ``pydantic.ValidationError``."""
    return _EVENTS.validate_json(line)

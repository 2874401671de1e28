"""The door to the engine: typed commands in, typed events out, one JSON line each.

Both directions have a limit, which the sender keeps to and the reader enforces. An event is a
message, so ``MAX_EVENT_BYTES`` is small and its texts are cut to fit. A command carries a whole
project, so ``MAX_COMMAND_BYTES`` is large and a longer command is refused. A reader skips a longer
line without keeping it.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from workbench.errors import ErrorInfo, Place, WorkbenchError, failure
from workbench.ids import StageId, StudyId, WorkId
from workbench.pipeline.plan import Plan
from workbench.project.frozen import Frozen
from workbench.project.model import Project
from workbench.toolchain_versions import AccelerationStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

PROTOCOL_VERSION = 5
_JOB = re.compile(rb'"job"\s*:\s*"([\w-]{1,100})"', re.ASCII)
MAX_EVENT_BYTES = 64_000
MAX_COMMAND_BYTES = 16 << 20
_MAX_INFOS = 20
_CHUNK_BYTES = 65_536

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
    until: StageId
    skip: tuple[StageId, ...] = ()
    plan: Plan | None = Field(default=None, description="None: the engine makes it, once")
    cache_root: str
    cache_limit_bytes: int | None = Field(default=None, ge=0, description="None: the usual")
    accelerate: bool = True
    code: str = Field(default="", description="digest of the code that may run, from demand()")


class RunStudy(Frozen):
    """Run a study (``workbench.studies``), or continue from its stored results.

    Results are stored in the folder of its key and are always consistent; cancelling keeps them.
    """

    command: Literal["run_study"] = "run_study"
    job: str
    study: StudyId
    project: Project
    folder: str
    options: dict[str, JsonValue] = Field(default_factory=dict)
    plan: Plan | None = Field(default=None, description="None: the engine makes it, once")
    cache_root: str
    cache_limit_bytes: int | None = Field(default=None, ge=0, description="None: the usual")
    accelerate: bool = True
    code: str = Field(default="", description="digest of the code that may run, from demand()")


class Cancel(Frozen):
    """Stop a job as soon as it can be stopped, whether it runs or waits for its turn.

    A job that is over, or that the engine does not know, leaves every other job as it is.
    """

    command: Literal["cancel"] = "cancel"
    job: str


class Shutdown(Frozen):
    """Cancel every job and leave."""

    command: Literal["shutdown"] = "shutdown"


Command = Annotated[RunUntil | RunStudy | Cancel | Shutdown, Field(discriminator="command")]


class Ready(Frozen):
    """The engine has finished its imports and accepts commands.

    ``toolchain`` is the name of the toolchain that it was started for, ``tools`` are the versions
    of its packages, ``acceleration`` says whether it uses the accelerations.
    """

    event: Literal["ready"] = "ready"
    protocol: int = PROTOCOL_VERSION
    pid: int
    start_s: float
    toolchain: str = ""
    tools: dict[str, str] = Field(default_factory=dict)
    acceleration: AccelerationStatus = AccelerationStatus(active=True)


class StageStarted(Frozen):
    """A stage has started.

    ``largest`` is the largest tensor of the program, with its size; "" before it is exported.
    """

    event: Literal["stage_started"] = "stage_started"
    job: str
    stage: StageId
    key: str
    largest: str = ""


class StageProgress(Frozen):
    """Progress of a stage: ``fraction`` in [0, 1], or None if unknown."""

    event: Literal["stage_progress"] = "stage_progress"
    job: str
    stage: WorkId
    fraction: float | None
    message: str = ""


class StageFinished(Frozen):
    """The result of a stage is in the cache under ``key``."""

    event: Literal["stage_finished"] = "stage_finished"
    job: str
    stage: StageId
    key: str
    cached: bool
    elapsed_s: float


class StageSkipped(Frozen):
    """A stage was skipped, as requested or because it is not available."""

    event: Literal["stage_skipped"] = "stage_skipped"
    job: str
    stage: StageId
    reason: str


class StageFailed(Frozen):
    """A stage failed."""

    event: Literal["stage_failed"] = "stage_failed"
    job: str
    stage: WorkId
    key: str
    elapsed_s: float
    infos: tuple[ErrorInfo, ...]


class StudyProgress(Frozen):
    """Progress of a study: ``done`` of ``total`` steps; its results are stored under ``key``."""

    event: Literal["study_progress"] = "study_progress"
    job: str
    study: StudyId
    key: str
    done: int
    total: int
    message: str = ""


class LogLine(Frozen):
    """One line of the engine's log."""

    event: Literal["log"] = "log"
    level: Level
    text: str
    stage: WorkId | Literal[""] = ""


class JobFinished(Frozen):
    """A job is over."""

    event: Literal["job_finished"] = "job_finished"
    job: str
    outcome: Literal["done", "failed", "cancelled"]
    elapsed_s: float


class Outgrown(Frozen):
    """An engine has grown since its first job and should be renewed between two jobs.

    ``growth`` is in bytes. What the engine had in memory is read from the cache again.
    """

    event: Literal["outgrown"] = "outgrown"
    growth: int


class EngineExit(Frozen):
    """The engine process has ended; created by its supervisor, never sent by the engine.

    ``crashed``: native code ended it, which it does again with the same program. ``remedy`` names
    the limits of the system that were low; "" for none.
    """

    event: Literal["engine_exit"] = "engine_exit"
    expected: bool
    sentence: str
    job: str = ""
    stage: WorkId | Literal[""] = ""
    crashed: bool = False
    remedy: str = ""

    def problem(self, work: WorkId | Literal[""] = "", details: str = "") -> ErrorInfo:
        """Return the problem of an end that nobody expected.

        Args:
            work: The stage or study that was asked for, where none had begun.
            details: The last lines of the log.
        """
        hint = "The project and all finished results are kept. Run again to continue."
        if self.crashed:
            hint = (
                "Native code of the toolchain crashed, and does so again with the same program. "
                "Finished results are kept. Give the modules that were added or changed last "
                "another config, or keep them off the NPU."
            )
        hint = self.remedy or hint
        stage = self.stage or work
        return ErrorInfo(
            message=self.sentence,
            hint=hint,
            where=Place(kind="stage", id=stage) if stage else None,
            details=details,
            code="toolchain-crashed" if self.crashed else "engine-ended",
        )


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
    | Outgrown
    | EngineExit,
    Field(discriminator="event"),
]

_LATER = ConfigDict(defer_build=True)
_COMMANDS: TypeAdapter[Command] = TypeAdapter(Command, config=_LATER)
_EVENTS: TypeAdapter[Event] = TypeAdapter(Event, config=_LATER)


def encode_command(command: Command) -> bytes:
    """Return a command as one line of JSON, from which the engine reads the same command.

    Raises:
        WorkbenchError: the line is longer than ``MAX_COMMAND_BYTES``, or the engine would refuse
            the command.
    """
    try:
        line = command.model_dump_json().encode() + b"\n"
        same = decode_command(line) == command
    except (ValidationError, PydanticSerializationError) as error:
        raise _not_sent(str(error)) from error
    if not same:
        raise _not_sent("the command would arrive changed")
    if len(line) > MAX_COMMAND_BYTES:
        raise failure(
            f"The project is too large for the engine: {len(line)} of {MAX_COMMAND_BYTES} bytes.",
            "Remove rules, ranges or notes from the project.",
            Place(kind="project", id="size"),
            code="command-too-large",
        )
    return line


def _not_sent(reason: str) -> WorkbenchError:
    return failure(
        "The project holds a value that cannot be sent to the engine.",
        "Check the project for numbers that are not finite and for damaged text.",
        Place(kind="project", id="values"),
        details=reason[:2000],
        code="command-invalid",
    )


def refused_job(line: bytes) -> tuple[str, str] | None:
    """Return the job and the work of a command that cannot be decoded; None if it names none.

    A line that is no JSON text, e.g. one that is cut, names the first job that is written in it.
    """
    try:
        raw = json.loads(line)
        job, work = raw["job"], raw.get("until") or raw.get("study") or ""
    except (ValueError, RecursionError):
        match = _JOB.search(line)
        return (match[1].decode(), "") if match else None
    except (TypeError, KeyError, AttributeError):
        return None
    return (job, str(work)) if isinstance(job, str) and raw.get("command") != "cancel" else None


def encode_event(event: Event) -> bytes:
    """Return an event as one line of JSON of at most ``MAX_EVENT_BYTES``; long texts are cut."""
    line = event.model_dump_json().encode() + b"\n"
    length = MAX_EVENT_BYTES
    while len(line) > MAX_EVENT_BYTES:
        length //= 2
        line = _cut(event, length).model_dump_json().encode() + b"\n"
    return line


def _cut(event: Event, length: int) -> Event:
    """Return an event whose texts have at most ``length`` characters; of details the end stays."""
    texts: dict[str, object] = {name: value[:length] for name, value in event if isinstance(value, str)}
    if isinstance(event, StageFailed):
        texts["infos"] = tuple(_cut_info(info, length) for info in event.infos[:_MAX_INFOS])
    return event.model_copy(update=texts)


def _cut_info(info: ErrorInfo, length: int) -> ErrorInfo:
    where = info.where and info.where.model_copy(update={"id": info.where.id[:length]})
    return info.model_copy(
        update={
            "message": info.message[:length],
            "hint": info.hint[:length],
            "details": info.details[-length:],
            "where": where,
        }
    )


@dataclass(frozen=True)
class OversizedLine:
    """A line that was skipped because it is longer than the reader's limit."""

    size: int


def read_lines(descriptor: int, limit: int) -> Iterator[list[bytes | OversizedLine]]:
    """Yield the whole lines that are there together, until the other end is closed.

    Of a line longer than ``limit`` bytes only the size is kept. A line that never ended is dropped.
    """
    rest, dropped = bytearray(), 0
    while chunk := os.read(descriptor, _CHUNK_BYTES):
        lines: list[bytes | OversizedLine] = []
        *ended, tail = chunk.split(b"\n")
        for part in ended:
            size = dropped + len(rest) + len(part)
            lines.append(OversizedLine(size) if size > limit else bytes(rest + part))
            rest, dropped = bytearray(), 0
        if dropped or len(rest) + len(tail) > limit:
            rest, dropped = bytearray(), dropped + len(rest) + len(tail)
        else:
            rest += tail
        if lines:
            yield lines


def protocol_of(line: bytes) -> int | None:
    """Return the protocol version in a Ready line of any version; None for every other line."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.get("event") != "ready":
        return None
    version = message.get("protocol")
    return version if isinstance(version, int) else 0


def decode_command(line: bytes) -> Command:
    """Return the command in a line; raises ``pydantic.ValidationError``."""
    return _COMMANDS.validate_json(line)


def decode_event(line: bytes) -> Event:
    """Return the event in a line; raises ``pydantic.ValidationError``."""
    return _EVENTS.validate_json(line)

"""Start of an engine's process, which imports its packages beside what the program does meanwhile.

This module imports little: a command line that will need an engine starts it before anything else.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from typing import TYPE_CHECKING, NamedTuple

from workbench import interpreter
from workbench.operating_system import end_group, passed
from workbench.process_guard import ProcessGuard

if TYPE_CHECKING:
    from collections.abc import Iterator


# An engine whose program has died gets this time to end its job [s].
ORPHAN_GRACE_S = 3


class Pipes(NamedTuple):
    """Descriptors of one side: commands, events, and what the engine's tools print."""

    commands: int
    events: int
    log: int


class StartedEngine(NamedTuple):
    """An engine's process, this side of its pipes, and the interpreter and variables it was started with.

    Until the guard is released, the engine ends with this process.
    """

    process: subprocess.Popen[bytes]
    guard: ProcessGuard
    pipes: Pipes
    python: str
    variables: dict[str, str]


_early: list[StartedEngine] = []


@contextlib.contextmanager
def engine_pipes() -> Iterator[tuple[Pipes, Pipes]]:
    """Make the pipes of an engine: this side, and the engine's, which is closed after the block."""
    (child_commands, commands), (events, child_events), (log, child_log) = (os.pipe() for _ in range(3))
    children = Pipes(child_commands, child_events, child_log)
    try:
        yield Pipes(commands, events, log), children
    finally:
        for descriptor in children:
            os.close(descriptor)


def start(python: str, variables: dict[str, str]) -> StartedEngine:
    """Start an engine in a session of its own.

    Args:
        python: Its interpreter; "" for this one.
        variables: Its environment.

    Raises:
        OSError: It cannot be started.
    """
    with engine_pipes() as (own, children):
        arguments, options = passed(children[:2])
        process: subprocess.Popen[bytes] = subprocess.Popen(
            interpreter.command("workbench.engine", *arguments, python=python),
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=children.log,
            stderr=children.log,
            start_new_session=True,
            **options,
        )
    try:
        guard = ProcessGuard(process.pid, ORPHAN_GRACE_S)
    except BaseException:
        end_group(process.pid)
        process.wait()
        raise
    return StartedEngine(process, guard, own, python, variables)


def start_early() -> None:
    """Start an engine of the program's own toolchain, which the next ``take`` may return."""
    with contextlib.suppress(OSError, MemoryError):
        _early.append(start("", interpreter.environment()))


def take(python: str, variables: dict[str, str]) -> StartedEngine:
    """Return an engine with this interpreter and environment: the one started early, or a new one.

    Raises:
        OSError: It cannot be started.
    """
    for engine in _early:
        if (engine.python, engine.variables) == (python, variables):
            _early.remove(engine)
            return engine
    return start(python, variables)


def end_early() -> None:
    """End an engine that was started early and not taken."""
    while _early:
        engine = _early.pop()
        end_group(engine.process.pid)
        engine.process.wait()
        engine.guard.release()
        for descriptor in engine.pipes:
            os.close(descriptor)

"""Start of an engine's process, which imports its packages beside what the program does meanwhile.

This module imports little: a command line that will need an engine starts it before anything else.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from workbench import interpreter
from workbench.files import read_limited, state_of, write_file
from workbench.installation import cache_folder
from workbench.operating_system import end_group, passed
from workbench.process_guard import ProcessGuard

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from workbench.files import State


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
# The folder and the arguments of this process's command line; none elsewhere.
_command: list[str] = []
_FILE, _REMEMBERED, _MAX_BYTES = "unchanged.json", 16, 16 << 20


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


def start_early(arguments: Sequence[str]) -> None:
    """Start an engine of the program's own toolchain, which the next ``take`` may return.

    None is started for a command line whose files are as after its last run: all results are expected
    in the cache, and an engine that imports its packages would only slow the program down.
    """
    with contextlib.suppress(OSError):
        _command[:] = [os.getcwd(), *arguments]
    if _command and _is_unchanged(_remembered(cache_folder()).get("\0".join(_command))):
        return
    with contextlib.suppress(OSError, MemoryError):
        _early.append(start("", interpreter.environment()))


def remember_run(cache: Path, files: Mapping[str, State]) -> None:
    """Remember the states of the files that decided the results of this process's command line.

    Args:
        cache: The folder of the results.
        files: States by absolute path.
    """
    if not _command:
        return
    commands = {name: known for name, known in _remembered(cache).items() if name != "\0".join(_command)}
    latest = [*commands.items(), ("\0".join(_command), files)][-_REMEMBERED:]
    with contextlib.suppress(OSError):
        write_file(cache / _FILE, json.dumps(dict(latest)).encode(), mode=0o600)


def _remembered(cache: Path) -> dict[str, dict[str, list[int]]]:
    """Return what is remembered of command lines; nothing if it cannot be read."""
    try:
        read = json.loads(read_limited(cache / _FILE, _MAX_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def _is_unchanged(files: object) -> bool:
    """Return whether all files of a remembered command line are in their remembered states."""
    try:
        return isinstance(files, dict) and all(
            state_of(Path(path)) == tuple(state) for path, state in files.items()
        )
    except (OSError, ValueError, TypeError):
        return False


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

"""The log of the program: one rotating file in the user's state folder, and levels for stderr."""

from __future__ import annotations

import faulthandler
import logging
import os
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

import platformdirs

from workbench.protocol import (
    EngineExit,
    Event,
    JobFinished,
    LogLine,
    StageFailed,
    StageFinished,
    StageSkipped,
)

LOG_VARIABLE = "QUANTIZATION_WORKBENCH_LOG"
LEVELS = ("debug", "info", "warning", "error")
_BYTES, _BACKUPS = 2 << 20, 3
_FORMAT = "%(asctime)s %(levelname)-7s %(process)d %(name)s: %(message)s"

log = logging.getLogger("workbench")


def log_file() -> Path:
    """Return the log file: the variable's, or ``workbench.log`` in the user's log folder."""
    given = os.environ.get(LOG_VARIABLE)
    if given:
        return Path(given).absolute()
    folder = platformdirs.user_log_dir("quantization-workbench", appauthor=False)
    return Path(folder) / "workbench.log"


def configure(level: str = "info", file: Path | None = None, *, echo: str = "") -> Path | None:
    """Write the log to a rotating file, and crashes of the interpreter beside it.

    Args:
        level: The lowest level that is written: one of ``LEVELS``.
        file: The file; by default ``log_file()``.
        echo: The lowest level that is also printed on stderr; "" for none.

    Returns:
        The file, or None when it cannot be written; the program runs without it then.
    """
    path = (file or log_file()).absolute()
    log.setLevel(logging.DEBUG)
    log.propagate = False
    for handler in tuple(log.handlers):
        log.removeHandler(handler)
        handler.close()
    if echo:
        printed = logging.StreamHandler(sys.stderr)
        printed.setLevel(echo.upper())
        printed.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        log.addHandler(printed)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        written = RotatingFileHandler(path, maxBytes=_BYTES, backupCount=_BACKUPS, encoding="utf-8")
    except OSError:
        log.addHandler(logging.NullHandler())
        return None
    written.setLevel(level.upper())
    written.setFormatter(logging.Formatter(_FORMAT))
    log.addHandler(written)
    _write_crashes(path.with_name("crash.log"))
    return path


def log_event(event: Event) -> None:
    """Write an event of an engine to the log: stages, failures with their details, and lines."""
    match event:
        case StageFinished():
            kind = "cached" if event.cached else "done"
            log.info("%s %s: %s in %.2f s", event.job, event.stage, kind, event.elapsed_s)
        case StageSkipped():
            log.info("%s %s: skipped: %s", event.job, event.stage, event.reason)
        case StageFailed():
            for info in event.infos:
                log.error("%s %s failed: %s\n%s", event.job, event.stage, info, info.details)
        case LogLine():
            log.log(logging.getLevelName(event.level.upper()), "%s", event.text)
        case JobFinished():
            log.info("%s %s in %.2f s", event.job, event.outcome, event.elapsed_s)
        case EngineExit():
            log.log(logging.INFO if event.expected else logging.ERROR, "%s", event.sentence)
        case _:
            pass


def _write_crashes(path: Path) -> None:
    """Let faulthandler write the Python stacks of a native crash to a file."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        return
    faulthandler.enable(descriptor)

"""The log of the program: one rotating file in the user's state folder, and levels for stderr."""

from __future__ import annotations

import faulthandler
import logging
import os
import sys
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path

import platformdirs

from workbench.escaping import for_terminal
from workbench.files import open_to_append
from workbench.protocol import (
    EngineExit,
    Event,
    JobFinished,
    LogLine,
    Outgrown,
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
    path = Path(os.path.abspath(file or log_file()))
    log.setLevel(logging.DEBUG)
    log.propagate = False
    for handler in tuple(log.handlers):
        log.removeHandler(handler)
        handler.close()
    if echo:
        printed = logging.StreamHandler(sys.stderr)
        printed.setLevel(echo.upper())
        printed.setFormatter(_Formatter("%(levelname)s %(name)s: %(message)s"))
        log.addHandler(printed)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        written = _LogFile(path, maxBytes=_BYTES, backupCount=_BACKUPS, encoding="utf-8")
    except OSError:
        log.addHandler(logging.NullHandler())
        return None
    written.setLevel(level.upper())
    written.setFormatter(_Formatter(_FORMAT))
    log.addHandler(written)
    _write_crashes(path.with_name("crash.log"))
    return path


class _Formatter(logging.Formatter):
    """Formats records without characters that a terminal obeys."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record."""
        return for_terminal(super().format(record))


class _LogFile(RotatingFileHandler):
    """A log file of this user; no link is followed, and a full disk disturbs nothing."""

    def _open(self) -> TextIOWrapper:
        descriptor = open_to_append(Path(self.baseFilename))
        return os.fdopen(descriptor, "a", encoding=self.encoding, errors="backslashreplace")

    def handleError(self, record: logging.LogRecord) -> None:
        """Drop a record that cannot be written."""
        del record


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
        case Outgrown():
            log.info("the engine has grown by %d MB", event.growth // 1_000_000)
        case EngineExit():
            log.log(logging.INFO if event.expected else logging.ERROR, "%s", event.sentence)
        case _:
            pass


def _write_crashes(path: Path) -> None:
    """Let faulthandler write the Python stacks of a native crash to a file."""
    try:
        descriptor = open_to_append(path)
    except OSError:
        return
    faulthandler.enable(descriptor)

"""The program's start: a Qt application, one window, and what becomes of its mistakes."""

from __future__ import annotations

import gc
import signal
import sys
import traceback
from functools import partial
from pathlib import Path
from types import TracebackType

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

from ui.app import Workbench
from ui.window_verbs import NAME
from workbench.errors import failure

_SETTLED_MS = 1500
# How long a thread beside the window's may keep the interpreter to itself [s].
_SWITCH_S = 0.001


def run(project: str | None) -> int:
    """Open the window and stay until it is closed; return the exit code."""
    application = QApplication([NAME])
    application.setApplicationName("quantization-workbench")
    application.setApplicationDisplayName(NAME)
    application.setQuitOnLastWindowClosed(False)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    workbench = Workbench(application)
    sys.excepthook = partial(_on_exception, workbench)
    workbench.start(Path(project) if project else None)
    QTimer.singleShot(_SETTLED_MS, workbench, settle)
    return application.exec()


def settle() -> None:
    """Make the interpreter serve the window first, once the start is over.

    Garbage, which nobody collected during the start, is collected again, without what is there to
    stay; and threads beside the window's get the interpreter for short turns only.
    """
    gc.freeze()
    gc.enable()
    sys.setswitchinterval(_SWITCH_S)


def _on_exception(
    workbench: Workbench,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    """Tell the user of a mistake in the program, once, with what a report needs."""
    details = "".join(traceback.format_exception(kind, error, trace))
    sys.stderr.write(details)
    problem = failure(
        "Something unexpected went wrong in the window.",
        "Your project is kept; save it, and please report this with the details.",
        details=details,
    )
    workbench.notices.error(problem)

"""Runs a whole project in a real window and prints how late a 16 ms beat of its thread came.

``python -m tests.benchmarks.window_beat PROJECT`` prints one JSON object: the 99th percentile and
the longest lateness [ms] on the clock, and the longest time [ms] that the thread itself worked
between two beats. The last one bears other work on the machine, the first two do not.
"""

from __future__ import annotations

import gc
import itertools
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from workbench.project.opened import OpenProject

_BEAT_S = 0.016
_SETTLED_MS, _AFTER_MS, _START_S = 3500, 2500, 3.0


def main() -> None:
    """Open the project, run everything, print the figures."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    gc.disable()
    from PySide6.QtCore import Qt, QTimer

    from ui.shell.app import Workbench, settle
    from ui.shell.start import new_application, show_frame
    from workbench.project import store
    from workbench.project.project_code import read_code

    project = Path(sys.argv[1])
    application = new_application()
    window = Workbench(application, show_frame(application, project))
    window.trust.grant(read_code(OpenProject(store.load(project), project.parent)), "benchmark")
    window.start(project)
    beats: list[tuple[float, float]] = []
    started: list[float] = []

    def begin() -> None:
        settle()
        started.append(time.perf_counter())
        beat.start()
        window.runs.run_to("")

    def look() -> None:
        if started and time.perf_counter() - started[0] > _START_S and not window.runner.running:
            end.stop()
            QTimer.singleShot(_AFTER_MS, finish)

    def finish() -> None:
        print(json.dumps(_figures(beats)))
        window.stop()
        application.quit()

    beat: Any = QTimer(interval=round(1000 * _BEAT_S), timerType=Qt.TimerType.PreciseTimer)
    beat.timeout.connect(lambda: beats.append((time.perf_counter(), time.thread_time())))
    end = QTimer(interval=200)
    end.timeout.connect(look)
    end.start()
    QTimer.singleShot(_SETTLED_MS, begin)
    application.exec()


def _figures(beats: list[tuple[float, float]]) -> dict[str, float]:
    pairs = list(itertools.pairwise(beats))
    late = sorted(max(0.0, b[0] - a[0] - _BEAT_S) for a, b in pairs)
    return {
        "beats": len(late),
        "p99_ms": 1000 * late[int(len(late) * 0.99)],
        "longest_ms": 1000 * late[-1],
        "longest_work_ms": 1000 * max(b[1] - a[1] for a, b in pairs),
    }


if __name__ == "__main__":
    main()

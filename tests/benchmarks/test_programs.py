"""Opening a ``.pte``: from the order to the painted window, and its commands to the painted table.

Run with ``pytest -m benchmark -s tests/benchmarks/test_programs.py``.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ui.features.program_viewer.program_window import ProgramWindow

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytestqt.qtbot import QtBot

    from tests.benchmarks.conftest import Measured

OPEN_S, COMMANDS_S = 1.0, 0.3
REPEATS = 5
MOBILENET = Path(__file__).parents[2] / "resources" / "samples" / "mobilenet_v2"
# 3,600 x 3,600 weights in float are 52 MB.
BIG = """
import sys, torch
from executorch.exir import to_edge
net = torch.nn.Sequential(torch.nn.Linear(3600, 3600), torch.nn.ReLU()).eval()
program = to_edge(torch.export.export(net, (torch.zeros(1, 3600),))).to_executorch()
open(sys.argv[1], "wb").write(program.buffer)
"""

pytestmark = pytest.mark.benchmark


def opened(workbench: Any, qtbot: QtBot, path: Path) -> ProgramWindow:
    """Open a program as the File menu does and return its painted window."""
    workbench.files.open_path(path)
    qtbot.waitUntil(lambda: path in workbench.programs.windows, timeout=20_000)
    window: ProgramWindow = workbench.programs.windows[path]
    qtbot.waitExposed(window)
    window.grab()
    return window


def repeated(work: Callable[[], float]) -> float:
    """Return the median of several runs after a first one."""
    work()
    return statistics.median(work() for _ in range(REPEATS))


def test_that_a_program_of_50_mb_opens_soon(
    workbench: Any, qtbot: QtBot, tmp_path: Path, measured: Measured
) -> None:
    path = tmp_path / "big.pte"
    subprocess.run([sys.executable, "-c", BIG, path], check=True, capture_output=True)

    def open_it() -> float:
        begun = time.perf_counter()
        window = opened(workbench, qtbot, path)
        spent = time.perf_counter() - begun
        window.close()
        qtbot.waitUntil(lambda: not workbench.programs.windows)
        return spent

    measured("A .pte of 50 MB opened", repeated(open_it))


def test_that_the_commands_of_mobilenet_are_shown_soon(
    workbench: Any, qtbot: QtBot, tmp_path: Path, measured: Measured
) -> None:
    command = [sys.executable, "-m", "workbench", "run", MOBILENET / "mobilenet_v2.qwb"]
    skipped = [part for stage in ("evaluate", "verify", "run") for part in ("--skip", stage)]
    skipped += ["--out", str(tmp_path), "--trust"]
    subprocess.run([*command, *skipped], check=True, capture_output=True)
    (path,) = tmp_path.glob("*.pte")

    def show() -> float:
        window = opened(workbench, qtbot, path)
        begun = time.perf_counter()
        window.tabs.setCurrentWidget(window.commands)
        qtbot.waitUntil(lambda: window.commands.commands.rowCount() > 1000, timeout=20_000)
        window.grab()
        spent = time.perf_counter() - begun
        window.close()
        qtbot.waitUntil(lambda: not workbench.programs.windows)
        return spent

    measured("Commands of MobileNetV2, to the painted table", repeated(show))

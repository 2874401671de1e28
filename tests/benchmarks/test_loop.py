"""The whole loop against a straight script, and the window's start: ratios and bars of one run.

Run with ``pytest -m benchmark -s tests/benchmarks/test_loop.py``.
"""

import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.benchmark

ROOT = Path(__file__).parents[2]
MOBILENET = ROOT / "resources" / "samples" / "mobilenet_v2"
RUNS = 3


class Clock:
    """Runs commands, and keeps wall seconds and peak memory [MB] of each."""

    def __init__(self, folder: Path) -> None:
        self.environment = {
            **os.environ,
            "QUANTIZATION_WORKBENCH_CACHE": str(folder / "cache"),
            "QUANTIZATION_WORKBENCH_CONFIG": str(folder / "config"),
            "QT_QPA_PLATFORM": "offscreen",
            "PYDANTIC_DISABLE_PLUGINS": "__all__",
        }

    def __call__(self, *command: object, extra: dict[str, str] | None = None) -> float:
        begun = time.perf_counter()
        subprocess.run(
            [str(part) for part in command], check=True, capture_output=True,
            env={**self.environment, **(extra or {})}, timeout=1200,
        )  # fmt: skip
        return time.perf_counter() - begun


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("loop")
    shutil.copytree(MOBILENET, folder / "mobilenet_v2")
    return folder


def workbench(*arguments: object) -> list[object]:
    return [sys.executable, "-m", "workbench", *arguments]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_that_the_loop_is_quicker_than_a_straight_script_with_the_same_bytes(place, capsys):
    clock, project = Clock(place), place / "mobilenet_v2" / "mobilenet_v2.qwb"
    script = place / "straight.py"
    clock(*workbench("script", project, "--out", script))
    arguments = ("run", project, "--skip", "verify", "--skip", "evaluate", "--trust")
    straight, ours, again = [], [], []
    for _ in range(RUNS):
        straight.append(clock(sys.executable, script, place / "straight.pte"))
        shutil.rmtree(place / "cache", ignore_errors=True)
        ours.append(clock(*workbench(*arguments, "--out", place / "dist")))
        again.append(clock(*workbench(*arguments)))
    assert digest(place / "straight.pte") == digest(place / "dist" / "mobilenet_v2.pte")
    ratio = statistics.median(a / b for a, b in zip(ours, straight, strict=True))
    with capsys.disabled():
        print(f"\nstraight script      {statistics.median(straight):6.1f} s")
        print(f"workbench run        {statistics.median(ours):6.1f} s  ratio {ratio:.2f} (0.60)")
        print(f"the same again       {statistics.median(again):6.2f} s  (1.00)")
    assert ratio <= 0.6
    assert statistics.median(again) <= 1.0


FIRST_PAINT = """
import gc, sys, time
begun = time.perf_counter()
gc.disable()
from PySide6.QtCore import QEvent, QObject, QTimer
from ui.app import Workbench
from PySide6.QtWidgets import QApplication
from pathlib import Path
painted = []
class Watch(QObject):
    def eventFilter(self, watched, event):
        if event.type() == QEvent.Type.Paint and not painted:
            QTimer.singleShot(0, lambda: painted or painted.append(time.perf_counter() - begun))
        return False
def resident():
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
application = QApplication(sys.argv[:1])
watch = Watch()
application.installEventFilter(watch)
window = Workbench(application)
window.start(Path(sys.argv[1]))
def done():
    assert "torch" not in sys.modules
    print(painted[0], resident())
    window.stop()
    application.quit()
QTimer.singleShot(4000, done)
application.exec()
"""


def test_that_the_window_paints_early_and_stays_small(place, capsys):
    clock, project = Clock(place), place / "mobilenet_v2" / "mobilenet_v2.qwb"
    clock(*workbench("run", project, "--trust", "--until", "convert"))
    seconds, megabytes = [], []
    for _ in range(RUNS):
        done = subprocess.run(
            [sys.executable, "-c", FIRST_PAINT, str(project)], check=True, capture_output=True,
            text=True, env=clock.environment, timeout=60,
        )  # fmt: skip
        first, size = map(float, done.stdout.split()[-2:])
        seconds.append(first)
        megabytes.append(size)
    with capsys.disabled():
        print(f"\nfirst painted frame  {statistics.median(seconds):6.2f} s  (0.50)")
        print(f"window's memory      {statistics.median(megabytes):6.0f} MB (200)")
    assert statistics.median(seconds) <= 0.5
    assert statistics.median(megabytes) <= 200


def test_that_the_window_stays_smooth_while_everything_runs(place, capsys):
    clock, project = Clock(place), place / "mobilenet_v2" / "mobilenet_v2.qwb"
    clock.environment["QUANTIZATION_WORKBENCH_CACHE"] = str(place / "smooth")
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.window_beat", str(project)], check=True,
        capture_output=True, text=True, env=clock.environment, timeout=300, cwd=ROOT,
    )  # fmt: skip
    figures = json.loads(done.stdout.splitlines()[-1])
    with capsys.disabled():
        print(f"\nbeat's lateness, p99  {figures['p99_ms']:6.1f} ms (16)")
        print(f"beat's lateness, max  {figures['longest_ms']:6.1f} ms (50)")
        print(f"longest work at once  {figures['longest_work_ms']:6.1f} ms")
    assert figures["p99_ms"] <= 16
    assert figures["longest_ms"] <= 50


def test_that_an_engine_that_lowers_stays_small(place, capsys):
    from workbench.engine_process import EngineProcess
    from workbench.project import store
    from workbench.project.trust import named_code
    from workbench.protocol import JobFinished, Ready, RunUntil

    project = place / "mobilenet_v2" / "mobilenet_v2.qwb"
    peak = 0
    engine = EngineProcess()
    engine.run_log(lambda line: None)
    command = RunUntil(
        job="memory", project=store.load(project), folder=str(project.parent), until="lower",
        skip=("evaluate",), cache_root=str(place / "memory"),
        code=named_code(store.load(project), project.parent).digest,
    )  # fmt: skip
    for event in engine.events():
        status = Path(f"/proc/{engine.pid}/status")
        if status.exists():
            lines = status.read_text().splitlines()
            found = [line for line in lines if line.startswith("VmHWM")]
            peak = max([peak, *(int(line.split()[1]) // 1024 for line in found)])
        if isinstance(event, Ready):
            engine.send(command)
        elif isinstance(event, JobFinished):
            engine.stop()
    with capsys.disabled():
        print(f"\nengine's peak memory {peak:6d} MB (600)")
    assert peak <= 600

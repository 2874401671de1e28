"""The whole loop against a straight script, and the window's start: ratios and bars of one run.

Run with ``pytest -m benchmark -s tests/benchmarks/test_loop.py``.
"""

import hashlib
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from workbench import api
from workbench.engine_process import EngineProcess
from workbench.project import store
from workbench.project.opened import OpenProject
from workbench.project.trust import named_code
from workbench.protocol import JobFinished, Ready, RunUntil

pytestmark = pytest.mark.benchmark

ROOT = Path(__file__).parents[2]
MOBILENET = ROOT / "resources" / "samples" / "mobilenet_v2"
RUNS = 3


class Clock:
    """Runs commands; returns the wall seconds of each, and sums the CPU seconds of the last."""

    def __init__(self, folder: Path) -> None:
        self.cpu_s = 0.0
        self.environment = {
            **os.environ,
            "QUANTIZATION_WORKBENCH_CACHE": str(folder / "cache"),
            "QUANTIZATION_WORKBENCH_CONFIG": str(folder / "config"),
            "QT_QPA_PLATFORM": "offscreen",
            "PYDANTIC_DISABLE_PLUGINS": "__all__",
        }

    def __call__(self, *command: object, extra: dict[str, str] | None = None) -> float:
        begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [str(part) for part in command],
            check=True,
            capture_output=True,
            env={**self.environment, **(extra or {})},
            timeout=1200,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
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


def test_that_the_loop_is_quicker_than_a_straight_script_with_the_same_bytes(place, measured):
    clock, project = Clock(place), place / "mobilenet_v2" / "mobilenet_v2.qwb"
    script = place / "straight.py"
    clock(*workbench("script", project, "--out", script))
    skipped = [part for stage in ("evaluate", "verify", "run") for part in ("--skip", stage)]
    arguments = ("run", project, *skipped, "--trust")
    straight, proven, ours, again, cpu = [], [], [], [], []
    for _ in range(RUNS):
        straight.append(clock(sys.executable, script, place / "straight.pte"))
        straight_cpu_s = clock.cpu_s
        shutil.rmtree(place / "cache", ignore_errors=True)
        proven.append(clock(*workbench("run", project, "--trust", "--out", place / "proven")))
        cpu.append(clock.cpu_s / straight_cpu_s)
        shutil.rmtree(place / "cache", ignore_errors=True)
        ours.append(clock(*workbench(*arguments, "--out", place / "dist")))
        again.append(clock(*workbench(*arguments)))
    for folder in ("dist", "proven"):
        assert digest(place / "straight.pte") == digest(place / folder / "mobilenet_v2.pte")
    measured(
        "MobileNetV2 224², default run, proven, nothing cached, against the plain script",
        statistics.median(a / b for a, b in zip(proven, straight, strict=True)),
    )
    measured("The same in CPU time of all processes", statistics.median(cpu))
    ratio = statistics.median(a / b for a, b in zip(ours, straight, strict=True))
    measured("MobileNetV2 224² to .pte, nothing cached, against the plain script, same bytes", ratio)
    measured("The same again, nothing changed", statistics.median(again))


# What a project's code file adds to the networks of the benchmarks.
SPECS = """

def network():
    model, shape = build({name!r})
    return model, torch.zeros(shape)


def samples():
    shape = build({name!r})[1]
    generator = torch.Generator().manual_seed(2)
    for _ in range(16):
        yield torch.randn(shape, generator=generator)
"""
OTHERS = {"transformer of 4 layers": "encoder", "LSTM of 24 steps": "lstm", "digits": ""}


def project_of(name: str, folder: Path) -> Path:
    """Write a project of a network of the benchmarks, or of the digits; return its path."""
    if not name:
        shutil.copytree(ROOT / "resources" / "samples" / "digits", folder)
        return folder / "digits.qwb"
    folder.mkdir()
    code = Path(__file__).with_name("networks.py").read_text(encoding="utf-8")
    (folder / "model.py").write_text(code + SPECS.format(name=name), encoding="utf-8")
    made = api.new(
        "model.py:network", "ethos-u85-256", folder=folder, name=name, calibration="model.py:samples"
    )
    return Path(api.save(made, folder / f"{name}.qwb").path)


@pytest.mark.parametrize("title", OTHERS)
def test_that_a_default_run_is_quicker_than_its_plain_script(title, tmp_path, measured):
    clock, project = Clock(tmp_path), project_of(OTHERS[title], tmp_path / "project")
    script, ratios = tmp_path / "straight.py", []
    clock(*workbench("script", project, "--out", script))
    for _ in range(RUNS):
        straight_s = clock(sys.executable, script, tmp_path / "straight.pte")
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)
        ran = workbench("run", project, "--trust", "--allow-differences", "--out", tmp_path / "dist")
        ratios.append(clock(*ran) / straight_s)
    (delivered,) = (tmp_path / "dist").glob("*.pte")
    assert digest(tmp_path / "straight.pte") == digest(delivered)
    what = "Default run, proven, nothing cached, against its plain script"
    measured(f"{what}: {title}", statistics.median(ratios))


# The first paint is noted in the paint event of the window itself: an event filter of the whole
# application would be called in Python for every event, and cost as much as the window.
FIRST_PAINT = """
import gc, sys, time
begun = time.perf_counter()
gc.disable()
from pathlib import Path
from PySide6.QtCore import QTimer
from ui.shell.start import Start, new_application
times = []
def note():
    times.append(time.perf_counter() - begun)
def resident():
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
application = new_application()
start = Start(application, Path(sys.argv[1]))
start.window.painted.connect(lambda: QTimer.singleShot(0, note))
start.ready.connect(note)
def done():
    assert "torch" not in sys.modules
    print(*times, resident())
    start.workbench.stop()
    application.quit()
QTimer.singleShot(4000, done)
application.exec()
"""


BARE = """
import time
begun = time.perf_counter()
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QMainWindow
times = []
def note():
    times.append(time.perf_counter() - begun)
class Window(QMainWindow):
    def paintEvent(self, event):
        super().paintEvent(event)
        QTimer.singleShot(0, note)
application = QApplication([])
window = Window()
window.resize(1280, 800)
window.show()
def done():
    print(times[0])
    application.quit()
QTimer.singleShot(1000, done)
application.exec()
"""


def test_that_the_window_paints_early_and_stays_small(place, measured):
    clock, project = Clock(place), place / "mobilenet_v2" / "mobilenet_v2.qwb"
    clock(*workbench("run", project, "--trust", "--until", "convert"))
    seconds, opened, bare, megabytes = [], [], [], []
    for _ in range(RUNS):
        plain = subprocess.run(
            [sys.executable, "-c", BARE],
            check=True,
            capture_output=True,
            text=True,
            env=clock.environment,
            timeout=60,
        )
        bare.append(float(plain.stdout))
        done = subprocess.run(
            [sys.executable, "-c", FIRST_PAINT, str(project)],
            check=True,
            capture_output=True,
            text=True,
            env=clock.environment,
            timeout=60,
        )
        first, ready, size = map(float, done.stdout.split()[-3:])
        seconds.append(first)
        opened.append(ready)
        megabytes.append(size)
    what = "First painted frame with MobileNetV2 open"
    ratio = statistics.median(a / b for a, b in zip(seconds, bare, strict=True))
    measured(f"{what}, against a bare QMainWindow", ratio)
    measured(what, statistics.median(seconds))
    measured("MobileNetV2 shown in the window", statistics.median(opened))
    measured("Memory of the window", statistics.median(megabytes))


def test_that_the_window_stays_smooth_while_everything_runs(place, measured):
    clock, project = Clock(place), place / "mobilenet_v2" / "mobilenet_v2.qwb"
    clock.environment["QUANTIZATION_WORKBENCH_CACHE"] = str(place / "smooth")
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.window_beat", str(project)],
        check=True,
        capture_output=True,
        text=True,
        env=clock.environment,
        timeout=300,
        cwd=ROOT,
    )
    figures = json.loads(done.stdout.splitlines()[-1])
    what = "Lateness of a 16 ms beat in the window while MobileNetV2 runs"
    measured(f"{what}, p99", figures["p99_ms"])
    measured(f"{what}, longest", figures["longest_ms"])


def until_done(engine, command):
    """Follow an engine until its job has ended; return the largest memory it had [MB]."""
    peak = 0
    for event in engine.events():
        status = Path(f"/proc/{engine.pid}/status")
        if status.exists():
            lines = status.read_text().splitlines()
            high = [line for line in lines if line.startswith("VmHWM")]
            peak = max([peak, *(int(line.split()[1]) // 1024 for line in high)])
        if isinstance(event, Ready):
            engine.send(command)
        elif isinstance(event, JobFinished):
            assert event.outcome == "done"
            break
    return peak


def share_mb(pid):
    """Return the memory of a process, each page divided by the processes that share it [MB]."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def test_that_engines_stay_small(place, measured):
    path = place / "mobilenet_v2" / "mobilenet_v2.qwb"
    project = store.load(path)
    command = RunUntil(
        job="memory",
        project=project,
        folder=str(path.parent),
        until="evaluate",
        cache_root=str(place / "memory"),
        code=named_code(OpenProject(project, path.parent)).digest,
    )
    lowers = command.model_copy(update={"until": "lower", "skip": ("evaluate",)})
    engines = [EngineProcess(warm=True), EngineProcess(warm=True)]
    for engine in engines:
        engine.run_log(lambda line: None)
    try:
        until_done(engines[0], command)
        peak = until_done(engines[1], lowers)
        idle = sum(share_mb(engine.pid) for engine in engines)
    finally:
        for engine in engines:
            engine.stop()
    measured("Peak memory of the engine that lowers MobileNetV2", peak)
    measured("Memory of both engines after it, shared pages counted once", idle)

"""No process outlives the program that started it by 5 s, whatever runs when that is killed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from tests.e2e.conftest import SAMPLES
from tests.engine.in_process import CALIBRATED, NETWORKS, project
from tests.fakes import fvp, runner_elf
from tests.for_each import for_each
from workbench.deploy.simulators.discovery import MachineSettings, save_settings
from workbench.ids import STAGE_IDS
from workbench.process_guard import SERVER_OF_VARIABLE
from workbench.project import store

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
_MOST_S, _START_S = 5.0, 120.0
_MARK = "WORKBENCH_TEST_MARK"
STUDIES = (
    ("sensitivity",),
    ("search", "--trials", "6"),
    ("search", "--trials", "6", "--workers", "2"),
    ("sweep", "--targets", "ethos-u55", "--workers", "2"),
    ("matrix", "--targets", "ethos-u55-128", "--configs", "a16w8"),
    ("train", "--epochs", "50"),
    ("placement",),
    ("blame",),
)
# Ends neither when it is asked to, nor by itself.
STUBBORN = """
import signal, torch
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
print("at work", flush=True)
while True:
    pass
"""


class Family:
    """A command of the program and all processes that it starts, found by a mark."""

    def __init__(self, *command: object, folder: Path, **environment: str) -> None:
        self._mark = f"{_MARK}={uuid.uuid4().hex}"
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.first = subprocess.Popen(
                [sys.executable, "-P", "-m", *map(str, command)],
                cwd=folder,
                env={
                    **os.environ,
                    **environment,
                    _MARK: self._mark.partition("=")[2],
                    "PYTHONPATH": environment.get("PYTHONPATH", str(Path(__file__).parents[2])),
                },
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def members(self) -> list[int]:
        """Return the numbers of the processes that have not ended."""
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if self._mark.encode() in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
        return found

    def wait_for(self, is_there) -> None:
        """Wait until something is there; fail if the command ends before."""
        end = time.monotonic() + _START_S
        while not is_there():
            assert self.first.poll() is None, self.text[-2000:]
            assert time.monotonic() < end, self.text[-2000:]
            time.sleep(0.02)

    def done(self) -> None:
        """Wait for the end; fail if the command fails."""
        assert self.first.wait(4 * _START_S) == 0, self.text[-2000:]

    @property
    def text(self) -> str:
        """What has been printed."""
        return self.log.read_text(errors="replace")

    def kill(self) -> list[str]:
        """Kill the first process; return the command lines of what is left after 5 s."""
        os.kill(self.first.pid, signal.SIGKILL)
        self.first.wait()
        end = time.monotonic() + _MOST_S
        while self.members() and time.monotonic() < end:
            time.sleep(0.1)
        left = self.members()
        lines = []
        for pid in left:
            with contextlib.suppress(OSError):
                lines.append(Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace"))
                os.kill(pid, signal.SIGKILL)
        return lines


@pytest.fixture
def digits(tmp_path):
    shutil.copytree(SAMPLES / "digits", tmp_path / "digits")
    return tmp_path / "digits" / "digits.qwb"


@pytest.fixture
def small(tmp_path):
    shutil.copy(NETWORKS, tmp_path / "networks.py")
    store.save(project("small", **CALIBRATED), tmp_path / "small.qwb")
    return tmp_path / "small.qwb"


def test_that_an_engine_ends_with_its_command_line_in_every_stage(digits):
    for before, stage in zip((None, *STAGE_IDS), STAGE_IDS, strict=False):
        family = Family("workbench", "run", digits, "--trust", folder=digits.parent)

        def is_due(before=before, family=family):
            # The command line, its engine and the engine's guard.
            if before is None:
                return len(family.members()) > 2
            return re.search(rf"^ *{before}  (done|cached)", family.text, re.MULTILINE)

        family.wait_for(is_due)
        assert family.kill() == [], stage


@for_each("study", STUDIES)
def test_that_all_processes_of_a_study_end_with_its_command_line(study, digits):
    verb, *options = study
    first = Family("workbench", "run", digits, "--trust", folder=digits.parent)
    first.done()
    family = Family("workbench", verb, digits, *options, "--trust", folder=digits.parent)
    family.wait_for(lambda: len(family.members()) > 2 and family.log.stat().st_size > 0)
    assert family.kill() == []


def test_that_a_cluster_gives_up_what_a_killed_command_line_asked_for(digits):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None, processes=True
    ) as cluster:
        words = ["search", digits, "--trials", "20", "--scheduler", cluster.scheduler_address, "--trust"]
        family = Family("workbench", *words, folder=digits.parent)
        family.wait_for(lambda: cluster.scheduler.tasks)
        assert family.kill() == []
        end = time.monotonic() + _START_S
        while cluster.scheduler.tasks and time.monotonic() < end:
            time.sleep(0.1)
        assert not cluster.scheduler.tasks


def test_that_a_model_in_a_loop_ends_with_the_command_line(small):
    (small.parent / "networks.py").write_text(STUBBORN)
    family = Family("workbench", "-vv", "run", small, "--trust", folder=small.parent)
    family.wait_for(lambda: "at work" in family.text)
    assert family.kill() == []


@for_each("way", ("deaf", "child", "flood"))
def test_that_a_simulator_that_does_not_end_ends_with_the_command_line(way, small):
    folder = small.parent
    made = store.load(small)
    target = made.target.model_copy(update={"options": {"integer_io": True}})
    store.save(made.model_copy(update={"target": target}), small)
    simulator = fvp.install(folder / "simulators", "FVP_Corstone_SSE-300_Ethos-U55")
    (folder / "runner.elf").write_bytes(runner_elf.runner("u55"))
    runners = (str(folder / "runner.elf"),)
    save_settings(MachineSettings(simulators={"u55": str(simulator)}, runners=runners))
    family = Family(
        "workbench",
        "run",
        small,
        "--trust",
        folder=folder,
        FVP_DOUBLE_FAIL=way,
        FVP_DOUBLE_CHILD=str(folder / "child"),
        FVP_DOUBLE_LOWERED=str(folder),
    )

    def simulates():
        return any(b"double" in line for line in map(command_line, family.members()))

    family.wait_for(simulates)
    time.sleep(0.5)
    assert family.kill() == []


# Of the firmware that ``firmware new`` writes; the second takes hours to compile.
LOOP = ("int main(void) {", "int main(void) { for (;;) {}")
HOURS = (
    "int main(void) {",
    "#define A(x) x+x+x+x+x+x+x+x+x+x\nint slow = A(A(A(A(A(A(A(1)))))));\nint main(void) {",
)
PROGRAM = Path(__file__).parents[1] / "data" / "programs" / "integer" / "u55" / "program.pte"
DRIVER = Path(__file__).parents[1] / "firmware" / "own_driver"


def firmware(folder: Path, change: tuple[str, str]) -> list[str]:
    """Write firmware for a program, changed; return the words that build it."""
    made = subprocess.run(
        [sys.executable, "-m", "workbench", "firmware", "new", str(PROGRAM), "--out", str(folder)],
        check=False,
    )
    assert made.returncode == 0
    text = (folder / "main.c").read_text()
    assert change[0] in text
    (folder / "main.c").write_text(text.replace(*change, 1))
    return ["firmware", "build", str(folder), "--driver", str(DRIVER), "--cmsis", str(DRIVER / "cmsis")]


needs_emulation = pytest.mark.skipif(
    not (shutil.which("qemu-system-arm") and shutil.which("arm-none-eabi-gcc")),
    reason="needs QEMU and the Arm GNU toolchain",
)


@needs_emulation
def test_that_a_compiler_of_firmware_ends_with_the_command_line(tmp_path):
    family = Family("workbench", *firmware(tmp_path / "fw", HOURS), folder=tmp_path)
    family.wait_for(lambda: any(b"cc1" in line for line in map(command_line, family.members())))
    assert family.kill() == []


@needs_emulation
def test_that_emulated_firmware_ends_with_the_command_line(tmp_path):
    built = Family("workbench", *firmware(tmp_path / "fw", LOOP), folder=tmp_path)
    built.done()
    elf = tmp_path / "fw" / "firmware.elf"
    family = Family("workbench", "firmware", "prove", elf, PROGRAM, "--limit", "600", folder=tmp_path)
    family.wait_for(lambda: any(b"qemu" in line for line in map(command_line, family.members())))
    assert family.kill() == []


def test_that_a_command_that_flashes_a_board_ends_with_the_command_line(digits):
    first = Family("workbench", "run", digits, "--trust", folder=digits.parent)
    first.done()
    (digits.parent / "stubborn.py").write_text(STUBBORN.replace("import signal, torch", "import signal"))
    flash = f"{sys.executable} {digits.parent / 'stubborn.py'}"
    _, port = os.openpty()
    words = ("board", "run", digits, "--port", os.ttyname(port), "--flash", flash)
    family = Family("workbench", *words, folder=digits.parent)

    def flashes():
        others = (pid for pid in family.members() if pid != family.first.pid)
        return any(b"stubborn" in line for line in map(command_line, others))

    family.wait_for(flashes)
    assert family.kill() == []


def test_that_what_computes_for_a_decoder_ends_with_the_command_line(tmp_path):
    path = tmp_path / "chat.qwb"
    for words in (
        ("new", path, "--recipe", "llm_decoder_static", "--caches", "int8"),
        ("run", path, "--until", "lower", "--trust"),
    ):
        made = Family("workbench", *words, folder=tmp_path)
        made.done()
    for said in ("", "The while"):
        family = Family("workbench", "generate", path, "--prompt", "The while", folder=tmp_path)
        family.wait_for(lambda said=said, family=family: len(family.members()) > 1 and said in family.text)
        assert family.kill() == []


def command_line(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def test_that_warm_engines_and_their_server_end_with_the_window(small):
    family = Family("ui", small, folder=small.parent, QT_QPA_PLATFORM="offscreen")

    def has_engines():
        return sum(b"forkserver" in line for line in map(command_line, family.members())) > 1

    family.wait_for(has_engines)
    time.sleep(1)
    assert family.kill() == []


def test_that_a_server_that_is_still_importing_ends_with_the_window(small):
    slow = small.parent / "slow"
    slow.mkdir()
    (slow / "torch.py").write_text(
        "import pathlib, time\npathlib.Path(__file__).with_name('begun').touch()\ntime.sleep(60)\n"
    )
    paths = f"{slow}:{Path(__file__).parents[2]}"
    family = Family("ui", small, folder=small.parent, QT_QPA_PLATFORM="offscreen", PYTHONPATH=paths)
    family.wait_for((slow / "begun").exists)
    assert family.kill() == []


def test_that_a_server_whose_parent_died_before_it_looked_ends(tmp_path):
    (tmp_path / "torch.py").write_text("import time\ntime.sleep(60)\n")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    server = subprocess.run(
        [sys.executable, "-c", "import workbench.engine.jobs.preload"],
        env={
            **os.environ,
            SERVER_OF_VARIABLE: str(gone.pid),
            "PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}",
        },
        timeout=30,
        check=False,
    )
    assert server.returncode == 1


# A person at the window: it is opened, what is asked for is started, the question is answered.
PRESSING = """
import sys
from PySide6.QtCore import QTimer
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QApplication, QPushButton

from ui.__main__ import main

stock = QApplication.exec
panel, text = sys.argv[1].split(":")
asked = []


def started(thing, start):
    if thing.isEnabled() and thing.text().replace("&", "") == text:
        asked.append(thing)
        print("asked for", flush=True)
        start()
        return True
    return False


def press():
    for button in (w for w in QApplication.allWidgets() if isinstance(w, QPushButton) and w.isVisible()):
        if button.text().replace("&", "") == "Allow and run":
            button.click()
            return
    if asked:
        return
    for widget in QApplication.topLevelWidgets():
        if not panel:
            any(started(action, action.trigger) for action in widget.findChildren(QAction))
        elif hasattr(widget, "context"):
            buttons = widget.reveal(panel).findChildren(QPushButton)
            any(started(button, button.click) for button in buttons)


def executed(*arguments):
    timer = QTimer()
    timer.timeout.connect(press)
    timer.start(100)
    return stock()


if __name__ == "__main__":
    QApplication.exec = executed
    sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize(
    ("asked", "after_s"),
    [
        (":Run all", 1),
        (":Run all", 4),
        (":Run all", 8),
        (":Run all", 14),
        ("sensitivity:Measure", 10),
        ("search:Search", 20),
        ("training:Train", 20),
    ],
)
def test_that_a_window_that_is_killed_leaves_no_process_and_its_project(asked, after_s, digits):
    (digits.parent / "pressing.py").write_text(PRESSING)
    before = digits.read_bytes()
    environment = {
        "QT_QPA_PLATFORM": "offscreen",
        "PYTHONPATH": f"{digits.parent}:{Path(__file__).parents[2]}",
    }
    family = Family("pressing", asked, digits, folder=digits.parent, **environment)
    family.wait_for(lambda: "asked for" in family.text)
    time.sleep(after_s)
    assert family.kill() == []
    assert digits.read_bytes() == before
    again = Family("workbench", "run", digits, "--trust", folder=digits.parent)
    again.done()

"""The real window with a simulation that does not want to end."""

from __future__ import annotations

import shutil

import pytest
from PySide6.QtWidgets import QApplication

from tests.e2e.conftest import wait_gone
from tests.engine.in_process import CALIBRATED, NETWORKS, project
from tests.fakes import fvp, runner_elf
from tests.processes import command_lines
from ui.shell.app import Workbench
from ui.shell.start import show_frame
from workbench.deploy.simulators.discovery import MachineSettings, save_settings
from workbench.engine_process import EngineProcess
from workbench.project import store

pytestmark = pytest.mark.e2e
LONG_MS = 120_000


@pytest.fixture
def window(qtbot, tmp_path, monkeypatch, notices):
    """A window over a small network, and a simulator that hangs with a child of its own."""
    monkeypatch.setenv("FVP_DOUBLE_FAIL", "child")
    monkeypatch.setenv("FVP_DOUBLE_CHILD", str(tmp_path / "child"))
    monkeypatch.setenv("FVP_DOUBLE_LOWERED", str(tmp_path))
    simulator = fvp.install(tmp_path / "simulators", "FVP_Corstone_SSE-300_Ethos-U55")
    runner = tmp_path / "runner.elf"
    runner.write_bytes(runner_elf.runner("u55"))
    save_settings(MachineSettings(simulators={"u55": str(simulator)}, runners=(str(runner),)))
    shutil.copy(NETWORKS, tmp_path / "networks.py")
    made = project("small", **CALIBRATED)
    target = made.target.model_copy(update={"options": {"integer_io": True}})
    store.save(made.model_copy(update={"target": target}), tmp_path / "small.qwb")
    # An engine of its own: a warm one has the settings of the first test.
    application = QApplication.instance()
    made = Workbench(
        application,
        show_frame(application, tmp_path / "small.qwb"),
        lambda toolchain: EngineProcess(toolchain, warm=False),
    )
    made.notices.posted.connect(notices.posted.append)
    made.start(tmp_path / "small.qwb")
    qtbot.waitUntil(lambda: made.session.planned, timeout=10_000)
    yield made
    made.stop()
    made.window.deleteLater()
    made.deleteLater()


# That a window leaves no engine behind is tested quickly, as is that a run leaves no simulator.
@pytest.mark.slow
def test_that_a_window_closed_during_a_simulation_asks_and_leaves_no_process(
    window, qtbot, notices, tmp_path
):
    window.runs.run_to("run")
    question = notices.take("Python code")
    window.notices.choose(question.id, question.actions[0].title)
    child = tmp_path / "child"
    qtbot.waitUntil(lambda: child.is_file() and bool(child.read_text()), timeout=LONG_MS)
    panel = window.window.reveal("simulator")
    qtbot.waitUntil(lambda: panel.log.model().rowCount() > 0, timeout=10_000)
    window.window.reveal("graph")
    assert window.window.close() is False
    notice = notices.take("Jobs are still running.")
    window.notices.choose(notice.id, "Stop jobs and close")
    assert wait_gone(int(child.read_text()), 10)
    assert not [line for line in command_lines() if str(tmp_path) in line]

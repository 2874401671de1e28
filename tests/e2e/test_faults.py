"""Engines that are killed, cancelled and lied to."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.e2e.conftest import wait_gone
from workbench.ids import STAGE_IDS
from workbench.pipeline.plan import plan
from workbench.project.opened import OpenProject
from workbench.protocol import JobFinished, LogLine, Ready, StageFinished, StageStarted

pytestmark = pytest.mark.e2e


def at(stage, action):
    def on_event(engine, event):
        if isinstance(event, StageStarted) and event.stage == stage:
            action(engine)

    return on_event


def kill(lane, stage, until):
    """Kill an engine in a stage; what was finished before is there, and nothing of the stage.

    Evaluate runs beside lower, and is not finished when lower begins.
    """
    beside = {"evaluate", "lower"} if stage in {"evaluate", "lower"} else set()
    before = [s for s in STAGE_IDS[: STAGE_IDS.index(stage)] if s not in beside]
    end = lane.run(until, at(stage, lambda e: os.kill(e.pid, signal.SIGKILL)))
    assert not end.expected
    assert end.stage in beside | {stage}
    doing = f"while running {end.stage}, perhaps for want of memory."
    assert end.sentence == f"The engine was killed by signal 9 (SIGKILL) {doing}"
    assert end.problem().code == "engine-ended"
    finished = [e.stage for e in lane.kinds(StageFinished)]
    assert finished == before
    states = {s.id: s.state for s in plan(OpenProject(lane.project, lane.path.parent), lane.cache).stages}
    assert [s for s in STAGE_IDS if states[s] == "cached"] == before


def go_on(lane, until):
    lane.run(until)
    assert lane.kinds(JobFinished)[0].outcome == "done"
    assert [e.stage for e in lane.kinds(StageFinished)] == list(STAGE_IDS[: STAGE_IDS.index(until) + 1])


@pytest.mark.slow
def test_that_killing_an_engine_loses_nothing_that_was_finished(lane):
    kill(lane, "lower", "lower")
    go_on(lane, "lower")


@pytest.mark.slow
def test_that_killing_an_engine_in_any_stage_loses_nothing_that_was_finished(digits_lane):
    for stage in STAGE_IDS:
        kill(digits_lane, stage, "package")
    go_on(digits_lane, "package")


def test_that_a_crash_of_native_code_does_not_advise_to_run_again(lane):
    end = lane.run("export", at("import_model", lambda e: os.kill(e.pid, signal.SIGSEGV)))
    problem = end.problem()
    assert (problem.code, problem.where.id) == ("toolchain-crashed", "import_model")
    assert "Run again" not in problem.hint


@pytest.mark.slow
def test_that_a_cancelled_stage_ends_the_engine_and_is_computed_by_the_next_run(lane):
    end = lane.run("package", at("lower", lambda engine: engine.cancel("e2e")))
    assert end.expected
    assert [e.outcome for e in lane.kinds(JobFinished)] in (["cancelled"], [])
    assert wait_gone(lane.pid, 5)
    lane.run("lower")
    assert lane.kinds(JobFinished)[0].outcome == "done"


@pytest.mark.slow
def test_that_every_stage_can_be_cancelled_within_two_seconds(digits_lane):
    lane = digits_lane
    for stage in STAGE_IDS:
        asked = []

        def cancel(engine, asked=asked):
            asked.append(time.monotonic())
            engine.cancel("e2e")

        end = lane.run("package", at(stage, cancel))
        outcomes = [e.outcome for e in lane.kinds(JobFinished)]
        assert end.expected
        assert time.monotonic() - asked[0] < 2.0 + 1.0, stage
        if outcomes != ["cancelled"]:
            assert not outcomes, f"{stage} went on"
        assert wait_gone(lane.pid, 5)
        lane.run(stage)
        assert lane.kinds(JobFinished)[0].outcome == "done"


def test_that_a_damaged_result_is_noticed_and_computed_again(lane):
    lane.run("convert")
    key = plan(OpenProject(lane.project, lane.path.parent), lane.cache).key("calibrate")
    file = lane.cache.folder(key) / "result.json"
    data = bytearray(file.read_bytes())
    data[50] ^= 1
    file.write_bytes(data)
    lane.run("convert")
    assert {e.stage: e.cached for e in lane.kinds(StageFinished)} == {
        "import_model": True,
        "export": True,
        "prepare": True,
        "calibrate": False,
        "convert": True,
    }


@pytest.mark.slow
def test_that_two_engines_on_one_project_do_not_disturb_each_other(lane):
    outcomes = []

    def run():
        other = type(lane).__new__(type(lane))
        other.__dict__ = {**lane.__dict__, "events": [], "log": []}
        other.run("convert")
        outcomes.append(other.kinds(JobFinished)[0].outcome)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == ["done", "done"]


@pytest.mark.slow
def test_that_a_command_nobody_understands_is_logged_and_survived(lane):
    def disturb(engine, event):
        if isinstance(event, StageStarted) and event.stage == "export":
            os.write(engine._commands, b'{"command": "dance"}\n')

    lane.run("prepare", disturb)
    assert lane.kinds(JobFinished)[0].outcome == "done"
    assert any("not understood" in e.text for e in lane.kinds(LogLine))


@pytest.mark.slow
def test_that_what_the_tools_print_reaches_the_log_and_not_the_wire(lane):
    lane.run("lower")
    assert any("Network summary" in line for line in lane.log)
    assert not any("not understood" in e.text for e in lane.kinds(LogLine))


@pytest.mark.slow
def test_that_ctrl_c_exits_130_and_leaves_no_process(lane, tmp_path):
    environment = {**os.environ, "QUANTIZATION_WORKBENCH_CACHE": str(tmp_path / "other")}
    process = subprocess.Popen(
        [sys.executable, "-m", "workbench", "run", str(lane.path), "--trust"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    for line in process.stderr:
        if "prepare" in line:
            os.kill(process.pid, signal.SIGINT)
            break
    _, rest = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Cancelled" in rest
    assert "Traceback" not in rest


def test_that_a_job_and_its_cancel_that_are_sent_together_end_cancelled(lane):
    def cancel_at_once(engine, event):
        if isinstance(event, Ready):
            engine.cancel("e2e")

    lane.run("package", cancel_at_once)
    assert [e.outcome for e in lane.kinds(JobFinished)] == ["cancelled"]

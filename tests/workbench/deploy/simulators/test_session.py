"""Programs are run on the double of each simulator, to every end there is."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from tests.fakes.fvp import reference
from tests.fakes.fvp_trace import ETDUMP
from tests.for_each import for_each
from tests.problems import refused
from tests.workbench.deploy.simulators.conftest import DEDICATED, PROGRAMS, TARGETS, samples
from workbench.deploy.simulators.run import run


def told(outcome):
    return " ".join(d.cause for d in outcome.report.diagnoses)


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except FileNotFoundError:
        return True


@for_each("family", TARGETS)
def test_that_outputs_and_counters_come_back_from_each_simulator(bench, family):
    outcome = bench.run(family)
    report = outcome.report
    assert report.succeeded, report.last_lines
    assert report.exit_reason == "The program ran to its end."
    assert report.version == "11.27.42"
    expected = reference(PROGRAMS / family / "delegate_0.tosa", list(samples()[0]))
    np.testing.assert_array_equal(outcome.outputs[0][0], expected[0])
    assert len(report.measurements[0].counters) == (7 if family == "u85" else 4)
    assert {p.name for p in report.pools} >= {"method", "files", "scratch"}
    assert any("bound" in text or "bottleneck" in text for text in report.explanation)


def test_that_several_samples_are_served_in_one_start(bench):
    outcome = bench.run("u55", 3, runner=bench.runner(serves=True))
    assert outcome.report.succeeded, outcome.report.last_lines
    assert outcome.report.exit_reason.startswith("All 3 samples were computed in one start")
    assert len(outcome.report.measurements) == 3
    for given, (output,) in zip(samples(3), outcome.outputs, strict=True):
        expected = reference(PROGRAMS / "u55" / "delegate_0.tosa", list(given))
        np.testing.assert_array_equal(output, expected[0])


def test_that_a_runner_that_cannot_serve_is_started_for_each_sample(bench):
    outcome = bench.run("u55", 2)
    assert outcome.report.succeeded
    assert len(outcome.outputs) == len(outcome.report.measurements) == 2
    assert not np.array_equal(outcome.outputs[0][0], outcome.outputs[1][0])


@for_each(
    ("how", "reason", "cause"),
    [
        ("licence", "printed nothing", "no valid licence"),
        ("silent", "printed nothing", "installation is incomplete"),
        ("crash", "killed by signal 11 (SIGSEGV)", "installation is incomplete"),
        ("early", "ended before the program had finished", ""),
        ("kernel", "ended before the program had finished", "not linked"),
        ("forgets-outputs", "not every output was written", ""),
    ],
)
def test_that_a_failure_has_a_sentence_and_a_cause(bench, how, reason, cause):
    bench.fails(how)
    outcome = bench.run()
    assert not outcome.report.succeeded
    assert reason in outcome.report.exit_reason
    assert cause in told(outcome)


@for_each(
    ("pools", "cause"),
    [
        ({"method": 100}, "method pool is too small"),
        ({"scratch": 100}, "scratch pool is smaller"),
        ({"files": 100}, "pools is too small"),
    ],
)
def test_that_a_pool_too_small_is_named_even_where_the_elf_hides_it(bench, pools, cause):
    outcome = bench.run(runner=bench.runner(pools=pools, stripped=True))
    assert not outcome.report.succeeded
    assert cause in told(outcome)
    assert any("no symbols" in note for note in outcome.report.notes)


def test_that_a_garbled_line_does_not_hide_the_counters(bench):
    bench.fails("garbled")
    report = bench.run().report
    assert report.succeeded
    assert [c.event for c in report.measurements[0].counters][-1] == "NPU_IDLE"


def test_that_a_runner_for_another_npu_of_like_looks_is_told_by_its_silence(bench):
    u55 = bench.runner("u55", pools=DEDICATED)
    outcome = bench.run("u65", runner=u55)
    assert "printed nothing" in outcome.report.exit_reason


def test_that_a_simulation_that_hangs_is_stopped_in_time(bench):
    bench.fails("hang")
    report = bench.run(timeout_s=0.3).report
    assert "did not finish within 0.3 s" in report.exit_reason
    assert report.elapsed_s < 20


def test_that_a_cancelled_run_leaves_no_process_even_if_none_wants_to_end(bench, monkeypatch):
    child = bench.folder / "child"
    monkeypatch.setenv("FVP_DOUBLE_CHILD", str(child))
    bench.fails("child")
    lines = []
    outcome = bench.run(cancelled=lambda: bool(lines), live=lines.extend)
    assert outcome.report.exit_reason == "The run was cancelled; the simulator was ended."
    pid = int(child.read_text())
    until = time.monotonic() + 10
    while not gone(pid) and time.monotonic() < until:
        time.sleep(0.02)
    assert gone(pid)


RUNS_A_SIMULATOR = """
import sys
from pathlib import Path
from workbench.deploy.simulators.process import Hooks, execute
words = ["/bin/sh", "-c", "/bin/sleep 3600 & echo $!; wait"]
execute(words, Path("/"), {}, Path(sys.argv[1]), 3600, Hooks(lambda text: print(text, flush=True)))
"""


def test_that_a_process_that_is_killed_leaves_no_simulator(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", RUNS_A_SIMULATOR, tmp_path / "log"],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(PROGRAMS.parents[3])},
    )
    child = int(process.stdout.readline())
    assert not gone(child)
    process.kill()
    process.communicate(timeout=20)
    until = time.monotonic() + 10
    while not gone(child) and time.monotonic() < until:
        time.sleep(0.02)
    assert gone(child)


def test_that_a_flood_of_text_is_read_through(bench):
    bench.fails("flood")
    outcome = bench.run()
    assert outcome.report.succeeded
    assert outcome.report.lines > 40_000
    assert len(outcome.report.last_lines) == 40
    assert (bench.folder / "uart.log").stat().st_size > 4e6


def test_that_paths_with_spaces_and_other_letters_are_no_obstacle(bench):
    runner = bench.runner(name="höher = weiter/läufer elf.axf")
    path = bench.simulator(folder="Ärmel & Söhne")
    job = bench.job(runner=runner)
    object.__setattr__(job.installed, "path", path)
    from workbench.deploy.simulators.run import run

    assert run(job, bench.folder / "log").report.succeeded


def test_that_a_program_built_into_the_runner_runs_without_files(bench):
    data = bench.program().read_bytes()
    report = bench.run(runner=bench.runner(placement="bare", program=data)).report
    assert report.succeeded, report.last_lines
    assert any("reads no files" in note for note in report.notes)
    with refused("program-not-in-runner"):
        bench.run(runner=bench.runner(placement="bare"))


def test_that_a_program_at_an_address_is_loaded_there(bench):
    runner = bench.runner(placement="bare")
    assert bench.run(runner=runner, address=0x70000000).report.succeeded


def test_that_fast_runs_say_that_their_cycles_mean_nothing(bench):
    report = bench.run(fast=True).report
    assert report.succeeded
    assert report.explanation == ("Run with --fast: outputs are exact, cycles and counters are meaningless.",)


def test_that_a_disk_that_is_full_when_outputs_are_written_is_no_success(bench):
    bench.fails("full-disk")
    outcome = bench.run()
    assert not outcome.report.succeeded
    assert outcome.report.exit_reason.endswith("but not every output was written.")
    assert "the disk is full" in told(outcome)


def test_that_a_log_that_cannot_be_kept_costs_only_the_log(bench):
    outcome = run(bench.job(), Path("/dev/full"))
    assert outcome.report.succeeded, outcome.report.last_lines
    assert any("The log is incomplete" in note for note in outcome.report.notes)


def test_that_a_run_without_room_for_its_files_is_not_started(bench, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    with refused("simulator-folder-not-writable") as caught:
        bench.run()
    assert "TMPDIR" in caught.value.infos[0].hint


@for_each("placement", ["semihosting", "embedded", "bare"])
def test_that_recorded_events_come_back_as_a_file_or_as_text(bench, placement):
    program = bench.program().read_bytes() if placement != "semihosting" else b""
    runner = bench.runner(placement=placement, program=program, etdump=True, serves=True)
    outcome = bench.run("u55", 2, runner=runner)
    assert outcome.report.succeeded, outcome.report.last_lines
    assert outcome.events == Path(ETDUMP).read_bytes()
    if placement == "semihosting":
        assert bench.run(runner=bench.runner()).events == b""

"""Whether a start of a simulator completed its work, and what is said about it."""

import shutil
import tempfile
from pathlib import Path

import pytest

from tests.fakes import runner_elf
from tests.for_each import for_each
from tests.problems import refused
from tests.workbench.deploy.simulators.conftest import PROGRAMS, program_of, samples
from workbench.deploy.simulators import run as module
from workbench.deploy.simulators.compatibility import RunnerElf
from workbench.deploy.simulators.discovery import Installed, device_of
from workbench.deploy.simulators.log_parser import UartReader
from workbench.deploy.simulators.process import Ending
from workbench.deploy.simulators.run import Job, ended_well, prepare, report_of, run
from workbench.results.simulation import Pool

PROGRAM = program_of(PROGRAMS / "u55" / "program.pte")
SAMPLE_BYTES = 2 * 6 * 6


def reader(*, completed=False, served=0, model_ok=None, lines=0, runner_lines=0):
    uart = UartReader()
    uart.lines, uart.runner_lines = lines + runner_lines, runner_lines
    uart.completed, uart.served, uart.model_ok = completed, served, model_ok
    return uart


@for_each(
    ("ending", "uart", "serve", "well"),
    [
        (Ending("served"), reader(), True, True),
        (Ending("itself", 0), reader(completed=True), False, True),
        (Ending("itself", 0), reader(), False, False),
        (Ending("itself", 1), reader(completed=True), False, False),
        (Ending("timeout", 0), reader(completed=True), False, False),
        (Ending("itself", 0), reader(served=1), True, True),
        (Ending("itself", 0), reader(served=1), False, False),
        (Ending("itself", 0), reader(), True, False),
        (Ending("itself", 0), reader(completed=True, model_ok=True), False, True),
        (Ending("itself", 0), reader(completed=True, model_ok=False), False, False),
    ],
)
def test_that_a_run_is_complete_if_it_ended_by_itself_with_its_work_done(ending, uart, serve, well):
    assert ended_well(ending, uart, serve=serve) is well


def runner(pools=None, **options):
    pools = {"method": 1 << 20, "scratch": 1 << 20, "files": 1 << 20, **(pools or {})}
    # What is copied beside a program is never started here.
    return RunnerElf(Path(__file__), runner_elf.runner("u55", **options), pools)


@pytest.fixture
def job(tmp_path):
    """A function that returns a job of so many samples, with a simulator that is never started."""
    binary = tmp_path / "fvp"
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    device = device_of("ethos-u55-128")

    def make(count=1, elf=None, **options):
        simulator = Installed(device.simulator, binary, "named")
        return Job(simulator, elf or runner(), PROGRAM, device, samples(count), **options)

    return make


def test_that_only_several_samples_from_files_are_served_in_one_start(job):
    serving = runner(serves=True)
    assert job(2, serving).serves
    assert job(2, serving, trace=True, fast=True).serves
    assert not job(1, serving).serves
    assert not job(2).serves
    assert not job(2, serving, trace=True).serves
    assert not job(2, runner(serves=True, etdump=True)).serves
    assert not job(2, runner(serves=True, placement="bare")).serves
    assert not job(2, serving, address=16).serves


def test_that_a_served_run_has_succeeded_with_the_outputs_of_every_sample(job):
    served = job(2, runner(serves=True))
    for outputs, well in (([[], []], True), ([[]], False)):
        told = reader(served=len(outputs), runner_lines=9)
        report = report_of(served, told, Ending("served"), outputs, [])
        assert report.succeeded is well


def test_that_pools_that_were_not_reported_are_those_of_the_runner(job):
    told = reader(runner_lines=1)
    told.pools["method"] = Pool(name="method", used=7, given=9)
    report = report_of(job(elf=runner({"files": 5})), told, Ending("itself", 0), [], [])
    assert [(pool.name, pool.used, pool.given) for pool in report.pools] == [
        ("method", 7, 9),
        ("scratch", None, 1 << 20),
        ("files", None, 5),
    ]


@for_each(
    ("ending", "uart", "count"),
    [
        (Ending("itself", 1), reader(), 1),
        (Ending("timeout"), reader(lines=1), 1),
        (Ending("not started"), reader(), 0),
        (Ending("cancelled"), reader(), 0),
        (Ending("itself", 1), reader(runner_lines=1), 0),
    ],
)
def test_that_a_runner_that_printed_nothing_is_diagnosed_unless_nobody_waited(job, ending, uart, count):
    assert len(report_of(job(), uart, ending, [], []).diagnoses) == count


@for_each(
    ("ending", "uart", "reason"),
    [
        (Ending("itself", 0), reader(), "The simulator printed nothing."),
        (Ending("itself", 3), reader(), "The simulator printed nothing. Its exit code was 3."),
        (
            Ending("itself", -9),
            reader(),
            "The simulator printed nothing. It was killed by signal 9 (SIGKILL).",
        ),
        (Ending("itself", -40), reader(), "The simulator printed nothing. Its exit code was -40."),
        (Ending("timeout", -15), reader(), "The simulator printed nothing."),
        (
            Ending("timeout", -15),
            reader(runner_lines=1),
            "The simulation did not finish within 600 s and was stopped.",
        ),
        (
            Ending("itself", 0),
            reader(runner_lines=1, completed=True, model_ok=False),
            "The program ran to its end, but the runner reported wrong outputs.",
        ),
        (
            Ending("itself", 0),
            reader(runner_lines=1, completed=True, model_ok=True),
            "The program ran to its end.",
        ),
        (
            Ending("itself", 2),
            reader(runner_lines=1, served=1),
            "The simulator ended after 1 of 3 samples. Its exit code was 2.",
        ),
        (Ending("itself", 0), reader(runner_lines=1), "The simulator ended before the program had finished."),
    ],
)
def test_that_an_end_has_a_reason_with_the_code_of_a_process_that_ended_itself(job, ending, uart, reason):
    assert report_of(job(3), uart, ending, [], []).exit_reason == reason


@for_each(("count", "size"), [(0, 0), (1, SAMPLE_BYTES), (2, SAMPLE_BYTES)])
def test_that_the_files_of_one_sample_fit_into_a_pool_of_their_size(job, count, size):
    needed = len(PROGRAM.data) + size
    prepare(job(count, runner({"files": needed})))
    with refused("runner-pool-too-small"):
        prepare(job(count, runner({"files": needed - 1})))


@for_each(
    ("options", "count", "told"),
    [
        ({"placement": "semihosting"}, 1, False),
        ({"placement": "embedded"}, 1, False),
        ({"placement": "bare"}, 1, True),
        ({"placement": "bare"}, 0, False),
    ],
)
def test_that_inputs_that_the_runner_does_not_read_are_told(job, options, count, told):
    made = job(count, runner(**options, program=PROGRAM.data))
    assert any("built-in inputs" in note for note in prepare(made)) is told


def test_that_a_runner_of_a_program_at_an_address_reads_no_inputs(job):
    made = job(1, runner(placement="bare"), address=0x70000000)
    assert any("built-in inputs" in note for note in prepare(made))


def test_that_a_run_that_was_not_started_took_no_time_and_kept_its_log(job, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "execute", lambda *_: Ending("not started", error="x"))
    report = run(job(), tmp_path / "log").report
    assert (report.elapsed_s, report.succeeded) == (0.0, False)
    assert not any("log" in note for note in report.notes)


def test_that_a_run_without_samples_gives_the_runner_no_inputs(job, monkeypatch, tmp_path):
    given, limits = [], []

    def execute(words, folder, environment, log, timeout_s, hooks):
        given.extend(words)
        limits.append(timeout_s)
        return Ending("itself", 1, elapsed_s=1.23456)

    monkeypatch.setattr(module, "execute", execute)
    assert run(job(0, timeout_s=0.4), tmp_path / "log").report.elapsed_s == 1.235
    # The simulator's own limit comes first.
    assert limits[0] > 0.4
    assert not any("i0.bin" in word for word in given)
    # The simulator takes whole seconds, of which 0 are for ever.
    assert given[-2:] == ["--timelimit", "1"]


def test_that_a_folder_that_cannot_be_removed_does_not_cost_the_report(job, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def execute(_, folder, *__):
        shutil.rmtree(folder)
        folder.symlink_to(elsewhere)
        return Ending("itself", 1)

    monkeypatch.setattr(module, "execute", execute)
    assert run(job(0), tmp_path / "log").report.exit_code == 1

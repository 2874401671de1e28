"""A process is read, typed to and ended; small shell scripts stand for the simulator."""

import io
import os
from pathlib import Path

import pytest

from tests.for_each import for_each
from tests.problems import refused
from workbench.deploy.simulators import process
from workbench.deploy.simulators.discovery import device_of
from workbench.deploy.simulators.process import Ending, Hooks, Log, Run, command, execute

U55 = device_of("ethos-u55-128")


@pytest.fixture
def started(tmp_path, monkeypatch):
    """A function that runs a shell script with its hooks, and returns the end and the text."""
    monkeypatch.setattr(process, "_TICK_S", 0.001)

    def run(script, step=None, timeout_s=20.0, cancelled=lambda: False):
        texts = []
        hooks = Hooks(texts.append, cancelled, step)
        words = ["/bin/sh", "-c", script]
        ending = execute(words, tmp_path, os.environ, tmp_path / "log", timeout_s, hooks)
        return ending, "".join(texts)

    return run


def steps(*words):
    """Return a step hook that gives some words in turn, and then the last one again and again."""
    left = list(words)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def test_that_a_process_that_is_silent_for_a_while_is_waited_for(started):
    step = steps(b"", b"", b"", b"", b"go\n", b"")
    ending, text = started("read word; echo $word", step)
    assert (ending.by, ending.code, text) == ("itself", 0, "go\n")
    assert not ending.log_cut


def test_that_a_process_may_print_and_end_after_its_last_input(started):
    ending, text = started("cat; echo bye", steps(b"a\n", None))
    assert (ending.by, text) == ("itself", "a\nbye\n")


def test_that_a_process_that_does_not_end_after_its_last_input_is_served(started, monkeypatch):
    monkeypatch.setattr(process, "_LEAVE_S", 0.01)
    ending, _ = started("while read word; do :; done; exec /bin/sleep 60", steps(None))
    assert ending.by == "served"


def test_that_a_process_without_its_last_input_has_all_of_its_time(started, monkeypatch):
    monkeypatch.setattr(process, "_LEAVE_S", 0.0)
    _, text = started("read word; echo $word", steps(b"", b"", b"go\n", b""))
    assert text == "go\n"


@for_each(("until", "last", "by"), [("read word", b"", "timeout"), ("cat >/dev/null", None, "served")])
def test_that_a_process_that_closes_its_output_and_stays_is_ended(started, monkeypatch, until, last, by):
    monkeypatch.setattr(process, "_LEAVE_S", 0.02)
    asked = iter(range(1000))
    script = f"{until}; exec >&- 2>&-; exec /bin/sleep 60"
    ending, _ = started(script, steps(b"go\n", last), cancelled=lambda: next(asked, None) is None)
    assert ending.by == by


def test_that_all_text_of_a_process_is_read_and_its_children_are_not_waited_for(started, monkeypatch):
    monkeypatch.setattr(process, "_CHUNK", 1)
    ending, text = started("/bin/sleep 60 & echo hello")
    assert (ending.by, ending.code, text) == ("itself", 0, "hello\n")


def test_that_a_process_is_asked_to_end_before_it_is_killed(started, tmp_path):
    script = "trap 'echo > ended; exit 0' TERM; echo > ready; while read word; do :; done"
    ready = tmp_path / "ready"
    ending, _ = started(script, steps(b""), cancelled=ready.exists)
    assert ending.by == "cancelled"
    assert (tmp_path / "ended").exists()


def test_that_a_program_that_is_not_there_is_not_started(tmp_path):
    words = [str(tmp_path / "none")]
    ending = execute(words, tmp_path, {}, tmp_path / "log", 1.0, Hooks(print))
    assert ending == Ending("not started", None, 0.0, os.strerror(2), log_cut=False)
    assert not Hooks(print).cancelled()


@for_each(("sizes", "kept", "cut"), [((4, 6), 10, False), ((4, 7), 10, True), ((11, 1), 10, True)])
def test_that_a_log_is_cut_at_its_limit_and_not_before(sizes, kept, cut):
    file = io.BytesIO()
    log = Log(file, left=10)
    assert not log.cut
    for size in sizes:
        log.write(b"x" * size)
    assert (len(file.getvalue()), log.cut) == (kept, cut)


def test_that_a_plain_run_is_exact_untraced_and_of_one_sample(tmp_path):
    words = command(tmp_path / "fvp", tmp_path, Run(U55, "semihosting", 1))
    assert not any("extra_args" in word or "server_mode" in word for word in words)
    assert words[-2:] == ["--timelimit", "600"]
    traced = command(tmp_path / "fvp", tmp_path, Run(U55, "semihosting", 1, trace=True))
    assert "ethosu.extra_args='--pmu-trace trace.gz'" in traced


@for_each(
    ("placement", "address", "reads"),
    [
        ("semihosting", None, True),
        ("embedded", None, True),
        ("unknown", None, True),
        ("bare", None, False),
        ("semihosting", 16, False),
        ("bare", 16, False),
    ],
)
def test_that_only_a_runner_without_an_address_reads_files(tmp_path, placement, address, reads):
    words = command(tmp_path / "fvp", tmp_path, Run(U55, placement, 1, address=address))
    assert any("semihosting" in word for word in words) == reads
    assert ("program.pte@0x10" in words) == (address is not None)


def test_that_a_command_line_may_be_as_long_as_the_limit(tmp_path, monkeypatch):
    run = Run(U55, "semihosting", 1)
    line = "executor_runner -m program.pte -o out -i i0.bin"
    monkeypatch.setattr(process, "LONGEST_COMMAND_LINE", len(line))
    assert any(line in word for word in command(tmp_path / "fvp", tmp_path, run))
    monkeypatch.setattr(process, "LONGEST_COMMAND_LINE", len(line) - 1)
    with refused("simulator-command-too-long"):
        command(tmp_path / "fvp", tmp_path, run)


def children():
    """Return the processes that this one has started."""
    tasks = Path("/proc/self/task").iterdir()
    return {int(child) for task in tasks for child in (task / "children").read_text().split()}


def test_that_an_interrupt_in_the_terminal_reaches_no_process_that_is_started(started):
    before, sessions = children(), []

    def look():
        sessions.extend(os.getsid(child) for child in children() - before)
        return True

    started("exec /bin/sleep 60", cancelled=look)
    # The process, and the shell that kills it if this process is killed.
    assert len(sessions) == 2
    assert os.getsid(0) not in sessions

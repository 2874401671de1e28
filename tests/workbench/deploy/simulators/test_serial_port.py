"""A board behind a serial port that gives exactly the bytes and the time that a test wants."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import serial
from serial.tools import list_ports

from tests.fakes.board import PREFIX, lines_of
from tests.for_each import for_each
from tests.problems import refused
from workbench.deploy.simulators import board
from workbench.deploy.simulators.discovery import BoardLink
from workbench.deploy.simulators.process import Ending

VALUES = [3, -128, 127]
LINK = BoardLink(port="COM1", timeout_s=30)
START = f"{PREFIX}PTE @ 0x70000000 [----ET12]"


class Port:
    """A port with some bytes waiting; behind them it is unplugged, or silent."""

    def __init__(self, data, unplugged=True):
        self.data, self.unplugged, self.sizes = data, unplugged, []

    @property
    def in_waiting(self):
        return len(self.data)

    def read(self, size):
        self.sizes.append(size)
        if not self.data and self.unplugged:
            raise OSError
        taken, self.data = self.data[:size], self.data[size:]
        return taken

    def close(self):
        pass


@pytest.fixture
def read(tmp_path, monkeypatch):
    """A function that reads what a board prints."""

    def run(lines, link=LINK, outputs=({"dtype": "int8", "shape": [3]},), **options):
        data = lines if isinstance(lines, bytes) else "".join(f"{e}\n" for e in lines).encode()
        port = Port(data, **{k: v for k, v in options.items() if k == "unplugged"})
        monkeypatch.setattr(serial, "Serial", lambda *_, **__: port)
        program = board.BoardProgram({"folder": tmp_path}, outputs, "ethos-u55-128", "net")
        live = options.get("live", lambda _: None)
        return board.run(link, program, tmp_path / "uart.log", live=live), port

    return run


def test_that_a_board_that_disappears_fails_the_run_and_says_so(read):
    outcome, _ = read([START])
    assert not outcome.report.succeeded
    assert outcome.report.exit_reason == "The serial port disappeared."
    assert (outcome.report.samples, outcome.report.fast) == (1, False)
    with refused("board-run-failed"):
        board.require(outcome)


@for_each("last", ["Program complete, exiting.", "Model run: 1"])
def test_that_either_of_the_last_lines_ends_a_run(read, last):
    outcome, _ = read([START, PREFIX + last])
    assert outcome.report.succeeded
    assert outcome.report.exit_reason == "The program ran to its end."


def test_that_wrong_outputs_are_the_reason_of_a_failure(read):
    report = read(lines_of([("char", VALUES)], passed=False))[0].report
    assert not report.succeeded
    assert "wrong outputs" in report.exit_reason


@for_each(("starts", "reason"), [(6, "disappeared"), (7, "started 7 times without ending")])
def test_that_a_board_may_start_anew_five_times(read, starts, reason):
    assert reason in read([START] * starts)[0].report.exit_reason


def test_that_values_are_counted_from_each_start_on(read, monkeypatch):
    lines = lines_of([("char", VALUES)])
    for most, known in ((len(VALUES), True), (len(VALUES) - 1, False)):
        monkeypatch.setattr(board, "_MOST_VALUES", most)
        for text in (lines, [*lines[:-3], *lines]):
            (output,) = read(text)[0].outputs
            assert (output is not None) == known


def test_that_truth_is_one_and_falsehood_zero(read):
    (output,) = read(lines_of([("bool", ["true", "false", "true"])]))[0].outputs
    np.testing.assert_array_equal(output, np.asarray([1, 0, 1], np.int8))


def test_that_what_waits_is_read_at_once_up_to_a_limit_and_else_one_byte(read):
    _, port = read(b"x" * 5000)
    assert port.sizes == [4096, 904, 1]


def test_that_a_line_without_an_end_is_cut(read):
    lines = []
    read(b"x" * 100_000 + b"\n", live=lines.extend)
    assert max(map(len, lines)) < 10_000


@for_each(("time", "succeeded"), [(130.0, True), (130.5, False)])
def test_that_the_time_is_over_behind_its_end(read, monkeypatch, time, succeeded):
    clock = iter([100.0])
    monkeypatch.setattr(board, "time", SimpleNamespace(monotonic=lambda: next(clock, time)))
    report = read(lines_of([("char", VALUES)]))[0].report
    assert report.succeeded == succeeded


def test_that_a_program_that_does_not_end_is_told_from_a_board_that_prints_nothing(read, monkeypatch):
    for lines, told in (([START], "did not end within 30 s"), ([], "printed nothing within 30 s")):
        clock = iter([100.0] * 3)
        monkeypatch.setattr(board, "time", SimpleNamespace(monotonic=lambda c=clock: next(c, 131.0)))
        assert told in read(lines, unplugged=False)[0].report.exit_reason


def test_that_the_time_taken_is_told_in_milliseconds(read, monkeypatch):
    clock = iter([100.0])
    monkeypatch.setattr(board, "time", SimpleNamespace(monotonic=lambda: next(clock, 101.23456)))
    assert read([START])[0].report.elapsed_s == 1.235


@for_each(
    ("port", "opens"),
    [
        ("/dev/ttyACM0", "Serial"),
        ("socket://host:1", "serial_for_url"),
        ("rfc2217://host:1", "serial_for_url"),
    ],
)
def test_that_ports_of_other_machines_are_opened_by_their_address(read, monkeypatch, port, opens):
    opened = []

    def opener(name):
        def make(*words, **_):
            opened.append((name, *words))
            raise serial.SerialException

        return make

    for name in ("Serial", "serial_for_url"):
        monkeypatch.setattr(serial, name, opener(name))
    program = board.BoardProgram({}, (), "ethos-u55-128", "net")
    with refused("serial-port-unusable"):
        board.run(BoardLink(port=port), program, Path("none"))
    assert opened == [(opens, port, 115200)]


def test_that_only_ports_with_a_device_behind_them_are_listed(monkeypatch):
    ports = [("/dev/ttyUSB1", "USB VID:PID"), ("/dev/ttyS0", "n/a"), ("/dev/ttyACM0", "USB")]
    found = [SimpleNamespace(device=device, hwid=hwid) for device, hwid in ports]
    monkeypatch.setattr(list_ports, "comports", lambda: found)
    assert board.serial_ports() == ["/dev/ttyACM0", "/dev/ttyUSB1"]


def test_that_the_end_of_what_a_flash_command_printed_is_kept(read, monkeypatch):
    def execute(*arguments):
        arguments[-1].text("a" * 1000 + "b" * 4000)
        return Ending("itself", 3)

    monkeypatch.setattr(board, "execute", execute)
    with refused("flash-failed") as caught:
        read([], link=LINK.model_copy(update={"flash": "probe"}))
    assert caught.value.infos[0].details == "b" * 4000

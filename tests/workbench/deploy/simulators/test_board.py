"""A board on a serial port: flashed, read through noise and resets, compared."""

import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.fakes.board import FakeBoard, lines_of
from tests.for_each import for_each
from tests.problems import refused
from workbench.deploy.simulators import board
from workbench.deploy.simulators.discovery import BoardLink

PROGRAM = Path(__file__).parents[3] / "data" / "programs" / "u55.pte"
OUTPUTS = ({"dtype": "int8", "shape": [1, 10]},)
VALUES = [3, -128, 127, 0, 1, 2, 3, 4, 5, 6]


@pytest.fixture
def made(tmp_path):
    """A program whose flash command writes a marker, and the link to a fake board."""
    pte = tmp_path / "net.pte"
    pte.write_bytes(b"program")
    marker = tmp_path / "flashed"
    flash = f"cp {{pte}} {shlex.quote(str(marker))}"
    program = board.BoardProgram({"pte": pte, "folder": tmp_path}, OUTPUTS, "ethos-u55-128", "net")

    def link(port, **fields):
        return BoardLink(port=port, **{"flash": flash, "timeout_s": 30, **fields})

    return marker, program, link, tmp_path / "uart.log"


@for_each(
    "way",
    [
        {},
        {"piece": 1, "noise": b""},
        {"noise": b"\xff\xfe\x00~"},
        {"resets": 2},
        {"resets": 3, "noise": b"\x80", "piece": 3},
        {"pause_s": 0.001, "piece": 31},
    ],
)
def test_that_outputs_cycles_and_checks_are_read_however_the_board_behaves(made, way):
    marker, program, link, log = made
    marker.unlink(missing_ok=True)
    with FakeBoard(marker, lines_of([("char", VALUES)]), **way) as fake:
        outcome = board.run(link(fake.port), program, log)
    board.require(outcome)
    assert marker.read_bytes() == b"program"
    np.testing.assert_array_equal(outcome.outputs[0], np.asarray([VALUES], np.int8))
    (measurement,) = outcome.report.measurements
    assert measurement.cycles_per_inference == 40000
    assert [check.passed for check in outcome.report.bundle] == [True]
    assert b"Output[0][9]" in log.read_bytes()
    assert ("reset" in outcome.report.exit_reason) == bool(way.get("resets"))


def test_that_a_lost_line_leaves_the_output_out_and_says_so(made):
    marker, program, link, log = made
    lines = lines_of([("char", VALUES)])
    lost = next(i for i, line in enumerate(lines) if line.startswith("Output[0][4]"))
    with FakeBoard(marker, lines, lost=lost) as fake:
        outcome = board.run(link(fake.port), program, log)
    assert outcome.outputs == (None,)
    assert any("disturbed" in note for note in outcome.report.notes)


def test_that_values_outside_the_type_are_not_taken_for_outputs(made):
    marker, program, link, log = made
    with FakeBoard(marker, lines_of([("char", [999, *VALUES[1:]])])) as fake:
        assert board.run(link(fake.port), program, log).outputs == (None,)


def test_that_wrong_outputs_silence_and_endless_resets_fail_the_run(made):
    marker, program, link, log = made
    with FakeBoard(marker, lines_of([("char", VALUES)], passed=False)) as fake:
        wrong = board.run(link(fake.port), program, log)
    assert not wrong.report.succeeded
    marker.unlink()
    with FakeBoard(marker, []) as fake:
        silent = board.run(link(fake.port, timeout_s=0.5), program, log)
    assert "printed nothing" in silent.report.exit_reason
    marker.unlink()
    with FakeBoard(marker, lines_of([("char", VALUES)]), resets=50) as fake:
        resetting = board.run(link(fake.port), program, log)
    for outcome in (wrong, silent, resetting):
        with refused("board-run-failed"):
            board.require(outcome)


def test_that_a_run_can_be_cancelled(made):
    marker, program, link, log = made
    with FakeBoard(marker, []) as fake:
        asked = iter(range(10**6))
        outcome = board.run(link(fake.port), program, log, lambda: next(asked) > 20)
    assert not outcome.report.succeeded


@for_each(
    ("fields", "code"),
    [
        ({"flash": "no-such-program-here {pte}"}, "flash-failed"),
        ({"flash": "sh -c 'exit 3'"}, "flash-failed"),
        ({"flash": "sleep 60", "timeout_s": 0.3}, "flash-failed"),
        ({"flash": "probe {firmware}"}, "flash-command-invalid"),
        ({"flash": "probe 'unended"}, "flash-command-invalid"),
        ({"flash": "probe {pte.__class__}"}, "flash-failed"),
    ],
)
def test_that_a_flash_command_that_fails_is_told(made, fields, code):
    marker, program, link, log = made
    with FakeBoard(marker, []) as fake, refused(code):
        board.run(link(fake.port, **fields), program, log)


def test_that_a_port_that_is_not_there_is_told(made):
    _, program, link, log = made
    with refused("serial-port-unusable"):
        board.run(link("/dev/no-such-port"), program, log)


def test_that_a_board_that_prints_values_for_ever_is_bounded(made, monkeypatch):
    marker, program, link, log = made
    monkeypatch.setattr(board, "_MOST_VALUES", len(VALUES) - 1)
    with FakeBoard(marker, lines_of([("char", VALUES)])) as fake:
        outcome = board.run(link(fake.port), program, log)
    assert outcome.outputs == (None,)


def test_that_a_firmware_and_a_command_may_name_the_project(made, tmp_path):
    *_, link, _ = made
    named = link("/dev/x", flash="west flash -d build_{name} {elf}", elf="out/{name}.elf")
    (tmp_path / "net.pte").write_bytes(PROGRAM.read_bytes())
    found = board.program_of(tmp_path, "net", named, "ethos-u55-128")
    firmware = str(Path("out/net.elf").absolute())
    assert board.flash_command(named, found) == ["west", "flash", "-d", "build_net", firmware]
    assert set(found.files) == {"folder", "pte", "elf"}
    with refused("board-program-missing"):
        board.program_of(tmp_path, "other", named, "ethos-u55-128")


def test_that_notes_say_what_the_firmware_does_not_print(made):
    marker, program, link, log = made
    with FakeBoard(marker, lines_of([])) as fake:
        silent = board.run(link(fake.port), program, log)
    assert any("ET_LOG_DUMP_OUTPUT" in note for note in silent.report.notes)
    marker.unlink()
    with FakeBoard(marker, lines_of([("char", VALUES)])) as fake:
        whole = board.run(link(fake.port), program, log)
    assert whole.report.notes == ()
    assert whole.outputs[0] is not None

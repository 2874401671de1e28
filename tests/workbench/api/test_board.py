"""A compiled program on a board: what its outputs are compared with, and what is kept."""

import shutil
from contextlib import closing

import numpy as np
import pytest

import workbench.api as wb
from tests.fakes.board import FakeBoard, lines_of
from tests.fakes.results import result_of, write_result
from tests.for_each import for_each
from tests.problems import refused
from tests.workbench.npu.streams import DATA
from workbench.api import board
from workbench.api.board import BoardRun, Difference
from workbench.deploy.simulators.board import BoardOutcome
from workbench.deploy.simulators.discovery import BoardLink
from workbench.history.store import History, history_path
from workbench.npu.program import load
from workbench.pipeline.cache import Cache, default_root
from workbench.pipeline.plan import plan
from workbench.project.opened import OpenProject
from workbench.results import CompiledProgram, save_result
from workbench.results.simulation import Measurement, SimulationReport

DIGITS = DATA / "digits"


def report(*cycles):
    return SimulationReport(
        simulator="board at /dev/x",
        version="",
        target="ethos-u55-128",
        fast=False,
        succeeded=True,
        samples=1,
        exit_reason="It ended.",
        measurements=tuple(Measurement(inferences=1, npu_cycles=c) for c in cycles),
    )


class Net:
    """A project with results of all stages; its deliverables are those of the digits."""

    def __init__(self, path):
        self.opened, self._cache = wb.open(path), Cache(default_root())
        self._planned = plan(OpenProject(self.opened.project, self.opened.folder), self._cache)
        for stage in ("evaluate", "lower"):
            with self._cache.writing(self._planned.key(stage)) as folder:
                write_result(stage, folder)
        self.is_found(CompiledProgram(samples=1, elements=9, equal=9, max_lsb=0))
        with self._cache.writing(self._planned.key("package")) as folder:
            write_result("package", folder)
            shutil.copy(DIGITS / "digits.bpte", folder / "net.bpte")
            shutil.copy(DIGITS / "digits.bpte", folder / "net.pte")
            shutil.copy(DIGITS / "digits.ptd", folder / "digits.ptd")
        self.deliverables = self._cache.folder(self._planned.key("package"))

    def is_unverified(self):
        """Remove the result of *verify*."""
        self._cache.remove(self._planned.key("verify"))

    def is_found(self, compiled):
        """Let this be what *verify* found of the compiled program."""
        self.is_unverified()
        with self._cache.writing(self._planned.key("verify")) as folder:
            write_result("verify", folder)
            save_result(result_of("verify").model_copy(update={"compiled": compiled}), folder)


@pytest.fixture
def net(project_file):
    return Net(project_file)


@pytest.fixture(scope="module")
def outputs():
    """What the functional simulator computes for the first test vector."""
    program = load(DIGITS / "digits.bpte")
    return program.run(list(program.cases[0].inputs)).outputs, program.cases[0].expected


@pytest.fixture
def prints(net, monkeypatch):
    """Let the board end with an outcome, and run on it."""

    def run(given, *cycles):
        monkeypatch.setattr(board.board, "program_of", lambda *_: None)
        monkeypatch.setattr(board.board, "run", lambda *_: BoardOutcome(report(*cycles), tuple(given)))
        return wb.run_on_board(net.opened, BoardLink(port="/dev/x"))

    return run


def test_that_equal_outputs_are_equal_to_the_simulator_and_near_the_quantized_model(prints, outputs):
    computed, expected = outputs
    found = prints(computed, 100, 200)
    functional, quantized = found.differences
    assert functional == Difference("functional simulator", 10, 10, 0.0)
    assert (quantized.against, quantized.elements) == ("quantized model", 10)
    far = np.abs(computed[0].astype(float) - expected[0].astype(float)).max()
    assert quantized.largest == pytest.approx(far)
    assert quantized.equal == int((np.abs(computed[0] - expected[0]) <= 1e-6).sum())
    assert (found.cycles, found.estimated_cycles) == (150.0, 1000)
    assert found.equals_tosa is True
    assert found.history_problem is None


def test_that_floats_are_equal_within_the_six_decimals_that_are_printed(prints, outputs):
    (computed,), _ = outputs
    near, far = computed.copy(), computed.copy()
    near.flat[0] += np.float32(9e-7)
    far.flat[3] += np.float32(0.5)
    assert prints([near]).differences[0].equal == 10
    found = prints([far]).differences[0]
    assert (found.equal, found.largest) == (9, pytest.approx(0.5))


def test_that_a_difference_in_the_sixth_decimal_is_none():
    zero = np.zeros(3)
    mine = np.array([0.0, 1e-6, 1.000001e-6])
    assert board._difference("x", [mine], [zero]).equal == 2


def test_that_integers_are_compared_in_codes():
    mine, other = np.array([[1, 2], [3, -128]], np.int8), np.array([1, 2, 5, 127], np.int8)
    assert board._difference("x", [mine], [other]) == Difference("x", 4, 2, 255.0)
    assert board._difference("x", [mine, mine], [mine, other]) == Difference("x", 8, 6, 255.0)


def test_that_a_program_without_test_vectors_is_compared_with_nothing(tmp_path, outputs):
    shutil.copy(DATA.parent / "programs" / "u55.pte", tmp_path / "net.bpte")
    assert board._compared(BoardOutcome(report(100), tuple(outputs[0])), tmp_path) == ()


def test_that_an_incomplete_output_is_compared_with_nothing(prints, net):
    found = prints([None])
    assert found.differences == ()
    assert found.cycles is None
    assert found.document()["outputs"] == [None]
    with closing(History(history_path(net.opened.path))) as history:
        simulated = history.runs()[-1].simulated
    assert (simulated.exact, simulated.max_lsb, simulated.argmax_equal) == (None, 0, 0)


def test_that_the_run_is_kept_in_the_history_with_what_was_measured(prints, outputs, net):
    (computed,), _ = outputs
    changed = computed.copy()
    changed.flat[2] += 3.4
    prints([changed], 500)
    kept = History(history_path(net.opened.path))
    simulated = kept.runs()[-1].simulated
    kept.close()
    assert (simulated.simulator, simulated.runner) == ("board at /dev/x", "firmware")
    assert (simulated.cycles, simulated.estimated_cycles, simulated.samples) == (500, 1000, 1)
    assert (simulated.exact, simulated.max_lsb) == (0.9, 3)


@for_each(
    ("compiled", "equals"),
    [
        (CompiledProgram(samples=1, elements=9, equal=9, max_lsb=0), True),
        (CompiledProgram(samples=1, elements=9, equal=8, max_lsb=1), False),
        (CompiledProgram(samples=1, elements=9, equal=9, max_lsb=0, refused="No."), None),
        (None, None),
    ],
)
def test_that_whether_the_simulator_equals_tosa_is_what_verify_found(net, prints, outputs, compiled, equals):
    net.is_found(compiled)
    found = prints(outputs[0])
    assert found.equals_tosa is equals
    assert found.document()["equals_tosa"] is equals


def test_that_without_a_result_of_verify_nothing_is_known_of_tosa(net, prints, outputs):
    net.is_unverified()
    assert prints(outputs[0]).equals_tosa is None


def test_that_a_run_of_a_project_without_a_file_leaves_no_history(net, prints, outputs):
    path = net.opened.path
    net.opened = wb.OpenProject(net.opened.project, net.opened.folder)
    found = prints(outputs[0], 100)
    assert (found.cycles, found.history_problem) == (100.0, None)
    assert not history_path(path).exists()


def test_that_the_board_of_the_machine_is_used_and_its_lines_are_shown(net, tmp_path, outputs):
    marker, seen = tmp_path / "flashed", []
    (computed,), _ = outputs
    lines = lines_of([("float", [f"{v:.6f}" for v in computed.ravel()])], cycles=777)
    with FakeBoard(marker, lines) as fake:
        found = wb.run_on_board(
            net.opened,
            BoardLink(port=fake.port, flash=f"cp {{bpte}} {marker}", timeout_s=20),
            log=tmp_path / "uart.log",
            live=seen.extend,
        )
    assert marker.read_bytes() == (net.deliverables / "net.bpte").read_bytes()
    assert found.differences[0].equal == 10
    assert found.cycles == 777
    assert any("Output[0][9]" in line for line in seen)
    assert "ethosu_pmu_cycle_cntr" in (tmp_path / "uart.log").read_text()
    document = found.document()
    assert document["outputs"] == [found.outputs[0].tolist()]
    assert document["differences"][0] == {
        "against": "functional simulator",
        "elements": 10,
        "equal": 10,
        "largest": found.differences[0].largest,
    }
    html = found._repr_html_()
    assert "<td>functional simulator</td><td>10</td><td>10</td>" in html
    assert isinstance(found, BoardRun)


def test_that_a_run_needs_a_board_and_deliverables(project_file):
    opened = wb.open(project_file)
    with refused("board-not-configured"):
        wb.run_on_board(opened)
    with refused("package-missing"):
        wb.run_on_board(opened, BoardLink(port="/dev/x"))

"""A compiled program on a board: outputs beside those of the models, cycles in the history."""

import shlex
import sys

import pytest

from tests.fakes.board import FakeBoard, lines_of
from workbench.npu.program import load

pytestmark = pytest.mark.engine


@pytest.mark.slow
def test_that_outputs_and_cycles_of_a_board_are_compared_and_kept(workbench, tmp_path):
    path = workbench.project("small", "--option", "integer_io=on")
    assert workbench("run", path, "--trust", "--out", "dist").code == 0
    program = load(workbench.folder / "dist" / "small.bpte")
    (output,) = program.run(list(program.cases[0].inputs)).outputs
    values = output.ravel().tolist()
    marker = tmp_path / "flashed"
    code = f"import shutil, sys; shutil.copy(sys.argv[1], {str(marker)!r})"
    flash = f"{sys.executable} -c {shlex.quote(code)} {{bpte}}"
    changed = [values[0] + (1 if values[0] < 127 else -1), *values[1:]]
    for printed, equal in ((values, len(values)), (changed, len(values) - 1)):
        marker.unlink(missing_ok=True)
        with FakeBoard(marker, lines_of([("char", printed)], cycles=4321), resets=1) as fake:
            done = workbench("board", "run", path, "--port", fake.port, "--flash", flash, "--json")
        assert done.code == 0, done.err
        found = done.document
        assert marker.read_bytes() == (workbench.folder / "dist" / "small.bpte").read_bytes()
        functional, quantized = found["differences"]
        assert (functional["elements"], functional["equal"]) == (len(values), equal)
        assert quantized["largest"] <= 2
        assert found["equals_tosa"] is True
        assert found["cycles"] == 4321
        assert found["estimated_cycles"] > 0
    runs = workbench("runs", path, "--json").document["runs"]
    assert runs[-1]["simulated"]["cycles"] == 4321
    assert runs[-1]["simulated"]["simulator"].startswith("board")

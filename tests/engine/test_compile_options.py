"""Options of Vela and of ExecuTorch's transformations change what they say, and no more."""

from __future__ import annotations

import pytest

from tests.engine.in_process import project
from workbench.project import edits
from workbench.project.model import TargetChoice

pytestmark = pytest.mark.engine
DEVICE = "ethos-u85-256"


@pytest.fixture
def lowered(engine):
    """A function that returns the TOSA program and the .pte for options."""

    def made(**options):
        wanted = edits.set_target(
            project("masked", target=DEVICE), TargetChoice(id=DEVICE, options=options)
        )
        assert engine.run(wanted, "verify", "evaluate") == "done", engine.failure
        verified = engine.result(wanted, "verify")
        folder = engine.path(wanted, "lower")
        return [
            (folder / name).read_bytes() for name in ("delegate_0.tosa", "program.pte")
        ], verified

    return made


def test_that_each_transformation_changes_the_program_and_it_stays_right(lowered):
    (usual, _), verified = lowered()
    assert verified.max_lsb <= 2
    for options in ({"softmax": "STABLE"}, {"negative_infinity": -40.0}):
        (tosa, _), verified = lowered(**options)
        assert tosa != usual, options
        assert verified.max_lsb <= 2, options


def test_that_an_option_of_vela_leaves_the_tosa_program_alone(lowered):
    (usual, program), _ = lowered()
    (tosa, other), _ = lowered(cop_format="COP2")
    assert tosa == usual
    assert other != program

"""Results that are read with faults: nothing else is computed from them, they are made again."""

import os

import pytest

from tests.engine.in_process import CALIBRATED, Engine, project
from tests.faults import failing_reads
from workbench.ids import STAGE_IDS
from workbench.pipeline.plan import plan
from workbench.project.opened import OpenProject

pytestmark = pytest.mark.engine
HOW = {"elapsed_s", "retargeted"}


def figures(result):
    """Return what a result says, without how it was made."""

    def plain(value):
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items() if k not in HOW}
        return [plain(each) for each in value] if isinstance(value, list) else value

    return plain(result.model_dump(mode="json"))


def read_again(engine, made, stage, how, positions):
    """Run a stage whose earlier results are read with faults; every run ends as it must."""
    assert engine.run(made, stage) == "done"
    expected = figures(engine.result(made, stage))
    count = 0
    for number, attempt in failing_reads(engine.cache.root, how, positions):
        engine.cache.remove(plan(OpenProject(made, engine.folder), engine.cache).key(stage))
        # Another engine has nothing in memory.
        other = Engine(engine.folder)
        try:
            with attempt:
                outcome = other.run(made, stage)
            count += 1
            if outcome == "failed":
                assert len(other.failures) == 1
                assert other.failure.code != "unexpected", (number, other.failure)
            # What was not read right is made again.
            assert other.run(made, stage) == "done"
        finally:
            other.close()
        assert figures(engine.result(made, stage)) == expected, number
    return count


def test_that_results_that_are_read_with_faults_do_not_give_others(engine):
    made = project("small", **CALIBRATED)
    assert read_again(engine, made, "convert", "short", (2, 9)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("how", ["short", "zeroed", "error"])
@pytest.mark.parametrize("stage", STAGE_IDS[1:])
def test_that_every_stage_survives_a_fault_at_every_read(engine, stage, how):
    made = project("small", **CALIBRATED)
    assert read_again(engine, made, stage, how, None) > 0 or os.name != "posix"

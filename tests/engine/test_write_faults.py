"""The disk fails at every write of every stage: a failed stage, and nothing half in the cache."""

import errno
import os
from unittest import mock

import pytest

from tests.engine.in_process import project
from tests.faults import CALLS, _Counter
from workbench.ids import STAGE_IDS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("stage", STAGE_IDS)
def test_that_a_failing_write_fails_the_stage_and_leaves_no_half_result(engine, stage, error):
    made = project("small")
    place = STAGE_IDS.index(stage)
    if place:
        assert engine.run(made, STAGE_IDS[place - 1], "run") == "done"
    number, states = 0, set()
    while "done" not in states:
        number += 1
        counter = _Counter(number, error)
        root = str(engine.cache.root)

        def wrap(stock, counter=counter, root=root):
            failing = counter.wrap(stock)

            def call(*arguments, **options):
                inside = arguments and str(arguments[0]).startswith(root)
                return (failing if inside else stock)(*arguments, **options)

            return call

        patches = [
            mock.patch.object(place, name, wrap(getattr(place, name)))
            for place, name in CALLS
            if name not in {"fsync", "write", "fdopen"}
        ]
        for patch in patches:
            patch.start()
        try:
            outcome = engine.run(made, stage, *(() if stage == "run" else ("run",)))
        finally:
            for patch in reversed(patches):
                patch.stop()
        if counter.count < number:
            states.add("done")
            assert outcome == "done"
        for folder in (engine.cache.root / "results").glob("*/*"):
            assert engine.cache.verify(folder.name), folder
        if outcome == "failed":
            assert "Traceback" not in engine.failure.message
        assert number < 200
    assert number > 1
    assert not list((engine.cache.root / "partial").iterdir()) or os.name != "posix"

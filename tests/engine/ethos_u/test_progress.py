"""Lowering tells which part of it is done."""

import pytest

from tests.engine.in_process import project
from workbench.protocol import StageProgress

pytestmark = pytest.mark.engine


def told(engine):
    """The reported progress of the last lowering: fractions and messages."""
    events = [e for e in engine.events if isinstance(e, StageProgress) and e.stage == "lower"]
    return [event.fraction for event in events], [event.message for event in events]


@pytest.mark.slow
def test_that_the_fraction_rises_with_the_passes_over_every_delegate(engine, monkeypatch):
    monkeypatch.setattr("workbench.engine.runtime.context.PROGRESS_PERIOD_S", 0)
    assert engine.run(project("functional6"), "lower") == "done", engine.failure
    fractions, messages = told(engine)
    assert fractions[0] == 0
    assert fractions == sorted(fractions)
    assert 0.9 < fractions[-1] < 1
    delegates = engine.result(project("functional6"), "lower").delegates
    for number in range(1, delegates + 1):
        named = [m for m in messages if m.startswith(f"delegate {number} of {delegates}: pass")]
        total = int(named[0].partition(" of ")[2].partition(" of ")[2].split()[0])
        assert len(named) == total
    assert len(set(fractions)) > 100


def test_that_a_lowering_is_cancelled_between_two_passes(engine, monkeypatch):
    """The pass managers wrap what a pass raises; the job ends cancelled all the same."""
    from workbench.engine.ethos_u import lowering

    reach = lowering._Progress.reach

    def cancelling(self, share, message):
        if "pass 30" in message:
            self._report.__self__.cancelled.set()
        reach(self, share, message)

    monkeypatch.setattr(lowering._Progress, "reach", cancelling)
    assert engine.run(project("small"), "lower") == "cancelled"


@pytest.mark.slow
def test_that_another_versions_passes_are_not_watched(engine, monkeypatch):
    exists = "workbench.engine.ethos_u.capture.lowering.exists"
    monkeypatch.setattr(exists, lambda path: False)
    assert engine.run(project("small"), "lower") == "done", engine.failure
    assert not any("pass " in message for message in told(engine)[1])

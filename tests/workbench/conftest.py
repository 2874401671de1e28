"""Verbs run in this process over engines that play their events."""

import pytest

from tests.fakes.engine import FakeEngines


@pytest.fixture
def played(monkeypatch):
    """The engines of all jobs of the test; each finishes every stage at once."""
    engines = FakeEngines()
    monkeypatch.setattr("workbench.api.jobs.EngineProcess", engines)
    return engines

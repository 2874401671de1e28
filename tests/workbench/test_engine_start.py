"""An engine that is started before the program knows whether it needs one."""

import sys

import pytest

from workbench import engine_start, interpreter


@pytest.fixture(autouse=True)
def program(monkeypatch):
    """Let an engine be a program that waits."""
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    monkeypatch.setattr(interpreter, "command", lambda *_, **__: command)


def test_that_an_engine_started_early_is_taken_once_by_what_has_its_surroundings():
    engine_start.start_early()
    (early,) = engine_start._early
    others = [engine_start.take("", {**early.variables, "OTHER": "1"})]
    assert others[0].process.pid != early.process.pid
    assert engine_start.take("", interpreter.environment()).process is early.process
    others.append(engine_start.take("", early.variables))
    assert others[1].process.pid != early.process.pid
    for engine in (early, *others):
        engine.process.kill()
        engine.guard.release()
        engine.process.wait()


def test_that_an_engine_started_early_ends_where_none_is_needed():
    engine_start.start_early()
    (early,) = engine_start._early
    engine_start.end_early()
    assert early.process.returncode

"""An engine that is started before the program knows whether it needs one."""

import sys

import pytest

from workbench import engine_start, interpreter
from workbench.files import state_of
from workbench.installation import CACHE_VARIABLE


@pytest.fixture(autouse=True)
def program(monkeypatch):
    """Let an engine be a program that waits."""
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    monkeypatch.setattr(interpreter, "command", lambda *_, **__: command)
    monkeypatch.setattr(engine_start, "_command", [])


def test_that_an_engine_started_early_is_taken_once_by_what_has_its_surroundings():
    engine_start.start_early([])
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
    engine_start.start_early([])
    (early,) = engine_start._early
    engine_start.end_early()
    assert early.process.returncode


def test_that_no_engine_is_started_early_while_the_files_of_the_last_run_are_unchanged(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    model = tmp_path / "model.py"
    model.write_text("", encoding="utf-8")

    def starts(*arguments):
        engine_start.start_early(arguments)
        is_started = bool(engine_start._early)
        engine_start.end_early()
        return is_started

    assert starts("run", "net.qwb")
    engine_start.remember_run(tmp_path, {str(model): state_of(model)})
    assert not starts("run", "net.qwb")
    assert starts("run", "other.qwb")
    model.write_text("x = 1", encoding="utf-8")
    assert starts("run", "net.qwb")

"""Engines of toolchains that do not start."""

import sys

from workbench import engine_process
from workbench.engine_process import EngineProcess
from workbench.toolchains import registry


def test_that_an_engine_of_a_toolchain_that_hangs_is_given_up(environment, monkeypatch):
    python = environment()
    registry.add("sdk", python)
    python.write_text(f"#!{sys.executable} -I\nimport time\ntime.sleep(60)\n")
    monkeypatch.setattr(engine_process, "START_LIMIT_S", 0.5)
    (ended,) = EngineProcess("sdk").events()
    assert not ended.expected
    assert "did not start within 0.5 s" in ended.sentence


def test_that_an_engine_that_says_nothing_is_one_sentence(environment):
    python = environment()
    registry.add("sdk", python)
    python.write_text(f"#!{sys.executable} -I\nraise SystemExit(3)\n")
    (ended,) = EngineProcess("sdk").events()
    assert "could not start" in ended.sentence

"""Pressing Run starts the simulator at once when nothing must be made anew."""

from __future__ import annotations

import shlex
import statistics
import time

import pytest

from tests.engine.in_process import CALIBRATED, Engine, project
from tests.fakes import fvp, runner_elf
from workbench.deploy.simulators.discovery import MachineSettings, save_settings

BINARY = "FVP_Corstone_SSE-300_Ethos-U55"
TIMES = 7


@pytest.mark.benchmark
@pytest.mark.filterwarnings("ignore")
def test_that_a_simulator_starts_at_once(tmp_path, monkeypatch, measured):
    simulator = fvp.install(tmp_path / "simulators", BINARY)
    stamp, real = tmp_path / "stamp", simulator.rename(simulator.with_name("real"))
    simulator.write_text(
        f'#!/bin/sh\n[ -f {stamp} ] || date +%s%N > {stamp}\nexec {shlex.quote(str(real))} "$@"\n'
    )
    simulator.chmod(0o755)
    runner = tmp_path / "runner.elf"
    engine = Engine(tmp_path)
    made = project("small", **CALIBRATED)
    target = made.target.model_copy(update={"options": {"integer_io": True}})
    made = made.model_copy(update={"target": target})
    assert engine.run(made, "lower", "evaluate") == "done", engine.failure
    monkeypatch.setenv("FVP_DOUBLE_LOWERED", str(engine.path(made, "lower")))
    took = []
    for number in range(TIMES):
        # Another runner each time, so that the run of before is not simply taken again.
        runner.write_bytes(runner_elf.runner("u55", serves=True, pools={"method": 2**20 + number}))
        save_settings(MachineSettings(simulators={"u55": str(simulator)}, runners=(str(runner),)))
        stamp.unlink(missing_ok=True)
        pressed = time.time_ns()
        assert engine.run(made, "run", "evaluate", "verify") == "done", engine.failure
        took.append((int(stamp.read_text()) - pressed) / 1e6)
    engine.close()
    median = statistics.median(took[1:])
    measured("From Run to the simulator's process, nothing to be made anew", median)

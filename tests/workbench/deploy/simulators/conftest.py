"""The double of each simulator, runners, and small integer programs with their TOSA."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest

from tests.fakes import fvp, runner_elf
from workbench.deploy.simulators.compatibility import Program, read_runner
from workbench.deploy.simulators.discovery import Installed, device_of
from workbench.deploy.simulators.run import Job, run

PROGRAMS = Path(__file__).parents[3] / "data" / "programs" / "integer"
TARGETS = {"u55": "ethos-u55-128", "u65": "ethos-u65-256", "u85": "ethos-u85-256"}
DEDICATED = {"fast scratch": 393216}


# What is computed where no inputs are given.
ONES = (np.ones((1, 2, 6, 6), np.int8),)


def samples(count=1):
    rng = np.random.default_rng(7)
    return [(rng.integers(-128, 128, (1, 2, 6, 6), np.int8),) for _ in range(count)]


@functools.cache
def program_of(path):
    """Return a program, which is described once for all tests."""
    return Program(path.name, path.read_bytes())


class Bench:
    """A machine with simulators, runners and programs, all in folders of the test's own."""

    def __init__(self, folder, monkeypatch):
        self.folder, self._monkeypatch = folder, monkeypatch

    def fails(self, how):
        assert how in fvp.FAILURES
        self._monkeypatch.setenv("FVP_DOUBLE_FAIL", how)

    def program(self, family="u55"):
        fvp.learn(PROGRAMS / family, [*samples(3), ONES])
        self._monkeypatch.setenv("FVP_DOUBLE_LOWERED", str(PROGRAMS / family))
        return PROGRAMS / family / "program.pte"

    def simulator(self, family="u55", folder="simulators"):
        binary = device_of(TARGETS[family]).simulator.binary
        return fvp.install(self.folder / folder, binary)

    def runner(self, family="u55", name="runner.elf", **options):
        if family != "u55" and "pools" not in options:
            options["pools"] = DEDICATED
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(runner_elf.runner(family, **options))
        return path

    def job(self, family="u55", count=1, *, runner=None, device=None, **options):
        program = self.program(family)
        device = device_of(device or TARGETS[family])
        return Job(
            Installed(device.simulator, self.simulator(device.family), "named"),
            read_runner(runner or self.runner(family)),
            program_of(program),
            device,
            samples(count),
            **{"timeout_s": 30.0, **options},
        )

    def run(self, *arguments, cancelled=lambda: False, live=lambda lines: None, **options):
        job = self.job(*arguments, **options)
        return run(job, self.folder / "uart.log", cancelled, live)


@pytest.fixture
def bench(tmp_path, monkeypatch):
    return Bench(tmp_path, monkeypatch)

"""The registers of the NPU as a driver sees them."""

from pathlib import Path

import numpy as np
import pytest

from workbench.deploy.emulation.npu_device import (
    BASES,
    CMD,
    CONFIG,
    CONFIGURATIONS,
    ID,
    PROT,
    QBASE,
    QSIZE,
    RESET,
    STATUS,
    NpuDevice,
)
from workbench.deploy.emulation.prover import delegates_of
from workbench.pte.npu_commands import decode

PROGRAM = Path(__file__).parents[3] / "data/programs/integer/u55/program.pte"
TARGET = "ethos-u55-128"
SCRATCH, CONSTANTS = 0x60000000, 0x61000000
RUNNING, IRQ, BUS, ENDED = 1, 2, 4, 32


class Machine:
    """A memory of 32 MiB from SCRATCH on, and the level of the interrupt."""

    def __init__(self):
        self.memory = np.zeros(32 << 20, np.uint8)
        self.lines = []
        self.npu = NpuDevice(TARGET, self.load, self.store, self.lines.append)

    def load(self, address, size):
        return self.memory[address - SCRATCH :][:size].tobytes()

    def store(self, address, data):
        self.memory[address - SCRATCH :][: len(data)] = np.frombuffer(data, np.uint8)

    def started(self):
        (delegate,) = delegates_of(PROGRAM, TARGET)
        self.store(CONSTANTS, delegate.weights)
        self.npu.write(BASES, CONSTANTS)
        self.npu.write(BASES + 8, SCRATCH)
        self.npu.write(QBASE, 0x60100000)
        self.npu.write(QSIZE, len(delegate.stream))
        job = self.npu.write(CMD, 1)
        job.delegate = delegate
        return job


@pytest.fixture
def machine():
    return Machine()


def test_that_identity_and_configuration_are_those_of_a_compiled_stream(machine):
    (delegate,) = delegates_of(PROGRAM, TARGET)
    words = np.frombuffer(delegate.payload, np.uint32)
    assert machine.npu.read(CONFIG) in words[:8]
    assert machine.npu.read(ID) in words[:8]


def test_that_each_configuration_is_that_of_its_device():
    for target, word in CONFIGURATIONS.items():
        family, _, macs = target.rpartition("-")
        header = b"COP1" + np.array([1 | 1 << 16, word, 0, 2], np.uint32).tobytes()
        found = decode(header)
        assert (found.family, found.macs) == (family, int(macs))


def test_that_a_reset_sets_the_rights_and_lowers_the_interrupt(machine):
    machine.started()
    machine.npu.finish()
    machine.npu.write(RESET, 3)
    assert machine.npu.read(PROT) == 3
    assert machine.npu.read(STATUS) == 0
    assert machine.lines == [True, False]


def test_that_a_job_gives_the_outputs_of_the_program_and_an_interrupt(machine):
    job = machine.started()
    inputs = [np.arange(port.bytes, dtype=np.uint8) for port in job.delegate.machine.inputs]
    for port, data in zip(job.delegate.machine.inputs, inputs, strict=True):
        machine.store(SCRATCH + port.offset, data.tobytes())
    assert machine.npu.read(STATUS) & RUNNING
    machine.npu.finish()
    assert machine.npu.read(STATUS) == IRQ | ENDED
    expected = job.delegate.machine.run(inputs).outputs
    for port, data in zip(job.delegate.machine.outputs, expected, strict=True):
        assert machine.load(SCRATCH + port.offset, port.bytes) == data.tobytes()
    machine.npu.write(CMD, 2)
    assert not machine.npu.read(STATUS) & IRQ
    assert machine.lines == [True, False]


def test_that_other_constants_in_memory_give_other_outputs(machine):
    job = machine.started()
    port = job.delegate.machine.outputs[0]
    machine.npu.finish()
    right = machine.load(SCRATCH + port.offset, port.bytes)
    job = machine.started()
    changed = np.frombuffer(job.delegate.weights, np.uint8).copy()
    changed[:16] += 1  # the scales, which come before the weights
    machine.store(CONSTANTS, changed.tobytes())
    machine.npu.finish()
    assert job.fault or machine.load(SCRATCH + port.offset, port.bytes) != right


def test_that_a_job_with_a_fault_ends_with_a_bus_error(machine):
    machine.started().fault = "no memory"
    machine.npu.finish()
    assert machine.npu.read(STATUS) == IRQ | BUS


def test_that_writes_of_registers_that_are_read_only_are_kept(machine):
    machine.npu.write(STATUS, 1)
    assert machine.npu.wrong_writes == [STATUS]
    assert machine.npu.read(STATUS) == 0

"""One delegate: the commands of its stream, carried out one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.errors import Place, WorkbenchError, failure
from workbench.npu.checks import Checker, Kind, overwrites_table
from workbench.npu.convolution import convolution, depthwise
from workbench.npu.counters import Counters
from workbench.npu.elementwise import elementwise
from workbench.npu.faults import Fault, Finding, LimitFault, SamplesDiffer, StreamFault
from workbench.npu.memory import FAST_SCRATCH, SCRATCH, Access, Area, Memory
from workbench.npu.pooling import pool
from workbench.npu.registers import Device, Registers, device
from workbench.npu.resizing import resize
from workbench.npu.state import Options, State, WeightCache
from workbench.npu.transfers import transfer
from workbench.pte import vela_stream
from workbench.pte.npu_commands import Command, decode
from workbench.pte.vela_stream import Port

_Array = npt.NDArray[Any]

_KERNELS: dict[str, Callable[[State, int], None]] = {
    "CONV": convolution,
    "DEPTHWISE": depthwise,
    "POOL": pool,
    "ELEMENTWISE": elementwise,
    "RESIZE": resize,
}
_WITHOUT_EFFECT = {"IRQ", "PMU_MASK"}
_WAITS: dict[str, Kind] = {"DMA_WAIT": "transfer", "KERNEL_WAIT": "kernel"}
_KEEP = 1
_BITS_OF_WAIT = 3
_HINT = "The program is damaged, or it was compiled wrongly: compile it again and compare the two."


@dataclass(frozen=True)
class MachineResult:
    """What one run of a delegate gives.

    Attributes:
        outputs: Bytes of each output tensor.
        counters: One entry for each operation and each copy, in their order.
        findings: Remarks, in the order of the commands.
        peak: The highest address that was touched in each memory region [bytes].
        accesses: Tensors of the operations that ``Options.record`` names, by their offset; of an
            operation that runs several times those of the last time.
    """

    outputs: tuple[npt.NDArray[np.uint8], ...]
    counters: tuple[Counters, ...]
    findings: tuple[Finding, ...]
    peak: Mapping[int, int]
    accesses: Mapping[int, tuple[Access, ...]]


class Machine:
    """A delegate, decoded and ready to be run any number of times."""

    def __init__(
        self,
        blob: bytes | memoryview,
        *,
        external: Mapping[str, bytes | memoryview] | None = None,
        weights: WeightCache | None = None,
        index: int = 0,
    ) -> None:
        """Decode a delegate.

        Args:
            blob: The delegate, from ``vela_bin_stream`` on.
            external: Blocks that lie outside of the program, by their key.
            weights: Where decoded weights are kept; by default only in this machine.
            index: Which delegate of its program it is, for messages.

        Raises:
            WorkbenchError: the delegate is damaged, or for an NPU that is not known.
        """
        blocks, external = vela_stream.blocks(blob), external or {}
        self._constants = _data(blocks, "weight_data", external)
        stream = decode(_data(blocks, "cmd_data", external))
        try:
            self.device: Device = device(stream.family, stream.macs)
        except Fault as fault:
            command_index = Place(kind="file", id="program")
            raise failure(fault.message, fault.hint, command_index, code=fault.code) from fault
        self.commands: tuple[Command, ...] = stream.commands
        self.inputs: tuple[Port, ...] = tuple(vela_stream.ports(blocks, "inputs"))
        self.outputs: tuple[Port, ...] = tuple(vela_stream.ports(blocks, "outputs"))
        self.scratch_bytes = vela_stream.scratch_bytes(blocks)
        self._weights = weights if weights is not None else WeightCache()
        self.index = index
        self._places = {command.offset: at for at, command in enumerate(self.commands)}
        self._keeps = any(
            command.name == "NPU_SET_ACC_FORMAT" and command.parameter >> 4 & 3 == _KEEP
            for command in self.commands
        )

    def fast_scratch_bytes(self) -> int:
        """Return how much fast memory (region 2) the commands use [bytes]; the program does not say it.

        Commands that use it are carried out once.
        """
        uses = any(
            command.name.endswith("_REGION") and command.parameter == FAST_SCRATCH
            for command in self.commands
        )
        if not uses:
            return 0
        zeros = [np.zeros(port.bytes, np.uint8) for port in self.inputs]
        return self.run(zeros).peak.get(FAST_SCRATCH, 0)

    def run(self, inputs: Sequence[_Array], options: Options | None = None) -> MachineResult:
        """Carry out the commands.

        Args:
            inputs: One array for each input, of its number of bytes.
            options: How to run.

        Raises:
            WorkbenchError: a command cannot be carried out; the message has its name and offset.
        """
        rows = [np.asarray(values)[None] for values in inputs]
        result = _Run(self, options or Options()).all(rows, 1)
        return replace(result, outputs=tuple(values[0] for values in result.outputs))

    def run_samples(
        self, inputs: Sequence[_Array], samples: int, options: Options | None = None
    ) -> list[MachineResult]:
        """Carry out the commands for several samples at once.

        Samples that go different ways, by a branch or an index, are run one after the other.

        Args:
            inputs: One array for each input, with the samples as its first axis.
            samples: Their number.
            options: How to run.

        Returns:
            The result of each sample. Counters and findings of a walk are those of all its samples.

        Raises:
            WorkbenchError: a command cannot be carried out; the message has its name and offset.
        """
        options = options or Options()
        try:
            whole = _Run(self, options).all(inputs, samples)
        except SamplesDiffer:
            return [self.run([values[at] for values in inputs], options) for at in range(samples)]
        return [
            replace(whole, outputs=tuple(values[at] for values in whole.outputs)) for at in range(samples)
        ]

    def state(self, options: Options, samples: int = 1) -> State:
        """Return the state that a run begins with.

        Raises:
            Fault: the program wants more memory than it may have.
        """
        limits = options.limits
        return State(
            device=self.device,
            registers=Registers(self.device),
            memory=Memory(
                self._constants,
                self.scratch_bytes,
                limit=limits.memory_bytes,
                checked=options.check,
                samples=samples,
            ),
            options=options,
            weights=self._weights,
            keep_accumulators=self._keeps,
            delegate=self.index,
        )

    def command_index(self, offset: int) -> int:
        """Return which command stands at an offset.

        Raises:
            Fault: none does.
        """
        try:
            return self._places[offset]
        except KeyError:
            raise StreamFault(f"A branch goes to {offset:#x}, where no command begins.") from None


def _data(
    blocks: Mapping[str, vela_stream.Block], name: str, external: Mapping[str, bytes | memoryview]
) -> bytes | memoryview:
    block = blocks.get(name)
    if block is None:
        if name == "weight_data":
            return b""
        raise failure(
            f"The delegate has no block {name}.",
            "Compile the program again.",
            Place(kind="file", id="program"),
            code="delegate-block-missing",
        )
    if not block.external:
        return block.data
    if block.key in external:
        return external[block.key]
    raise failure(
        f"The {name} of the delegate lies outside of the program, under the key {block.key}.",
        "Put the .ptd file that was written with the program beside it.",
        Place(kind="file", id="program"),
        code="npu-weights-missing",
    )


class _Run:
    """One run of a machine."""

    def __init__(self, machine: Machine, options: Options) -> None:
        self._machine = machine
        self._options = options
        self._modules = options.modules.get(machine.index, {})
        self._counted: list[Counters] = []
        self._accesses: dict[int, tuple[Access, ...]] = {}
        self._command: Command | None = None
        self._checker: Checker | None = None

    def all(self, inputs: Sequence[_Array], samples: int) -> MachineResult:
        """Run from the inputs to the outputs; each input has the samples as its first axis."""
        try:
            state = self._machine.state(self._options, samples)
            if self._options.check:
                self._checker = Checker(state)
            self._feed(state, inputs)
            state.memory.watch = self._checker
            self._steps(state)
            state.memory.watch = None
            outputs = tuple(self._taken(state, port) for port in self._machine.outputs)
        except Fault as fault:
            raise self._failure(fault.message, fault.hint, fault.code) from fault
        except (ValueError, IndexError, ArithmeticError, MemoryError) as error:
            raise self._failure(
                f"The command's settings do not fit each other: {error}.",
                "The program is damaged, or uses the NPU in a way that is not known here.",
                Fault.code,
            ) from error
        return MachineResult(
            outputs, tuple(self._counted), tuple(state.findings), dict(state.memory.peak), self._accesses
        )

    def _failure(self, message: str, hint: str, code: str) -> WorkbenchError:
        command = self._command
        if command is None:
            return failure(message, hint, Place(kind="file", id="program"), code=code)
        module = self._modules.get(command.offset, "")
        command_index = Place(kind="module", id=module) if module else Place(kind="file", id="program")
        at = f"{command.name} at {command.offset:#x} of delegate {self._machine.index}"
        return failure(f"{at}: {message}", hint or _HINT, command_index, code=code)

    def _feed(self, state: State, inputs: Sequence[_Array]) -> None:
        ports = self._machine.inputs
        if len(inputs) != len(ports):
            raise Fault(f"The delegate takes {len(ports)} inputs, {len(inputs)} are given.")
        for number, (port, values) in enumerate(zip(ports, inputs, strict=True)):
            data = np.ascontiguousarray(values).reshape(len(values), -1).view(np.uint8)
            size = data.shape[1]
            if size != port.bytes:
                raise Fault(
                    f"Input {number} has {size:,} bytes, the delegate takes {port.bytes:,}.",
                    f"Its shape is {port.shape}, with {port.item_bytes} bytes for each element.",
                )
            if size:
                state.memory.put(port.region, port.offset, data)
                if self._checker is not None:
                    self._checker.note_filled(Area(port.region, port.offset, (size,), (1,), 1))

    def _taken(self, state: State, port: Port) -> npt.NDArray[np.uint8]:
        if not port.bytes:
            return np.zeros((len(state.memory.regions[SCRATCH]), 0), np.uint8)
        return state.memory.bytes_at(port.region, port.offset, port.bytes).copy()

    def _steps(self, state: State) -> None:
        commands, at, steps = self._machine.commands, 0, 0
        while True:
            if at >= len(commands):
                raise StreamFault("The command stream ends without NPU_OP_STOP.", "It is cut short.")
            command = self._command = commands[at]
            at, steps = at + 1, steps + 1
            if steps > self._options.limits.steps:
                raise LimitFault(f"The program takes more than {self._options.limits.steps:,} steps.")
            name = command.name
            if name.startswith("NPU_SET_"):
                state.registers.set(name[8:], command.value)
            elif name == "NPU_OP_STOP":
                self._command = None
                return
            elif name == "NPU_OP_BRANCH":
                if not command.parameter & 1 or _holds(state):
                    at = self._machine.command_index(command.payload or 0)
            else:
                self._operation(state, command, name.removeprefix("NPU_OP_"))

    def _operation(self, state: State, command: Command, name: str) -> None:
        if name in _WITHOUT_EFFECT:
            return
        if name in _WAITS:
            if self._checker is not None:
                self._checker.waits(_WAITS[name], command.parameter & _BITS_OF_WAIT)
            return
        kernel = _KERNELS.get(name)
        if name == "RESIZE" and not state.device.u85:
            kernel = None
        if kernel is None and name != "DMA_START":
            raise StreamFault(
                "This NPU has no such command.",
                "The program was compiled by another version of Vela, or it is damaged.",
            )
        self._compute(state, command, kernel)

    def _compute(self, state: State, command: Command, kernel: Callable[[State, int], None] | None) -> None:
        memory = state.memory
        module = self._modules.get(command.offset, "")
        counters = Counters(command.offset, command.name, module, self._machine.index)
        state.counters = counters
        read, written = memory.bytes_read, memory.bytes_written
        if self._checker is not None:
            self._checker.begins(command.offset, command.name)
        is_recorded = (self._machine.index, command.offset) in self._options.record
        memory.record = [] if is_recorded else None
        if kernel is None:
            transfer(state, command.parameter)
        else:
            kernel(state, command.parameter)
            if overwrites_table(state.device, uses_table=bool(counters.table_bytes)):
                memory.loaded[:] = False
        if self._checker is not None:
            self._checker.ends("transfer" if kernel is None else "kernel")
        counters.read_bytes = memory.bytes_read - read
        counters.written_bytes = memory.bytes_written - written
        if memory.record is not None:
            self._accesses[command.offset] = tuple(memory.record)
        self._counted.append(counters)


def _holds(state: State) -> bool:
    """Return whether the last element that was written is not zero.

    Raises:
        SamplesDiffer: it is zero for some samples only.
    """
    truths = state.last_elements != 0
    if truths.any() and not truths.all():
        raise SamplesDiffer
    return bool(truths.any())

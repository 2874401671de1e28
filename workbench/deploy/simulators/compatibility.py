"""Compatibility of a program, a runner and a device, checked before a run."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from workbench.deploy.simulators import discovery
from workbench.deploy.simulators.discovery import Device, Installed, MachineSettings, device_of, load_settings
from workbench.errors import ErrorInfo, Place, WorkbenchError, failure
from workbench.files import read_limited
from workbench.pte.description import describe
from workbench.pte.program import decode
from workbench.pte.vela_stream import ETHOS_U
from workbench.targets.ethos_u.devices import MEMORY_MODES

if TYPE_CHECKING:
    from workbench.deploy.simulators.discovery import Device


POOL_OPTIONS = {
    "method": "ET_ARM_BAREMETAL_METHOD_ALLOCATOR_POOL_SIZE",
    "scratch": "ET_ARM_BAREMETAL_SCRATCH_TEMP_ALLOCATOR_POOL_SIZE",
    "files": "ET_ARM_BAREMETAL_SEMIHOSTING_FILE_ALLOCATOR_POOL_SIZE",
    "fast scratch": "ET_ARM_BAREMETAL_FAST_SCRATCH_TEMP_ALLOCATOR_POOL_SIZE",
    "planned fast memory": "ET_ARM_BAREMETAL_PLANNED_FAST_MEMORY_SIZE",
}
_FAST_MEMORY = 2


@dataclass(frozen=True)
class Program:
    """A ``.pte`` with its decoded description."""

    name: str
    data: bytes

    @cached_property
    def description(self) -> dict[str, Any]:
        """Its contents; see ``workbench.pte.description``."""
        return describe(self.data)

    @property
    def delegates(self) -> list[dict[str, Any]]:
        """The parts that run on the NPU."""
        return [d for d in self.description["delegates"] if d["backend"] == ETHOS_U]

    @cached_property
    def fast_scratch_bytes(self) -> int:
        """The most fast memory that a delegate uses [bytes]; 0 if its weights are elsewhere."""
        if not any(d.get("vela_blocks") and not d["external_blocks"] for d in self.delegates):
            return 0
        # Imported late to keep the window's start fast.
        from workbench.npu.machine import Machine

        parts = [d for d in decode(self.data).method("").delegates if d.backend == ETHOS_U]
        return max(Machine(part.data).fast_scratch_bytes() for part in parts)

    @property
    def memory_mode(self) -> str:
        """The memory mode it was compiled with; "" if unknown."""
        return self._flag("--memory-mode=")

    @property
    def system_config(self) -> str:
        """The system configuration it was compiled with; "" if unknown."""
        return self._flag("--system-config=")

    @property
    def input_bytes(self) -> list[int]:
        """The size of each input [bytes]."""
        specs = [spec for spec in self.description["inputs"] if "dtype" in spec]
        return [np.dtype(s["dtype"]).itemsize * math.prod(s["shape"]) for s in specs]

    def _flag(self, name: str) -> str:
        for delegate in self.delegates:
            for flag in delegate["compile_specs"].get("compile_flags", "").split():
                if flag.startswith(name):
                    return str(flag.partition("=")[2])
        return ""


def check(program: Program, runner: RunnerElf, device: Device, input_bytes: int = 0) -> list[str]:
    """Return notes on what could not be checked or is close to a limit.

    Raises:
        WorkbenchError: they are incompatible; lists every reason.
    """
    problems = [*_npu(program, device), *_family(runner, device), *misfits(program, runner, input_bytes)]
    if problems:
        raise WorkbenchError(problems)
    return list(notes(program, runner))


def misfits(program: Program, runner: RunnerElf, input_bytes: int = 0) -> Iterator[ErrorInfo]:
    """Yield what a program needs and a runner has not, whatever NPU it is for."""
    yield from _memory_mode(program, runner)
    yield from _linked(program, runner)
    yield from _whole(program)
    yield from _pools(program, runner, input_bytes)


def _npu(program: Program, device: Device) -> Iterator[ErrorInfo]:
    for delegate in program.delegates:
        npu = delegate.get("npu", {})
        built = f"{npu.get('family', '')}-{npu.get('macs', 0)}"
        if npu and npu["macs"] and built != device.target:
            yield _problem(
                f"{program.name} was compiled for {built}, not for {device.target}.",
                f"Run it with --target {built}, or compile it for {device.target}.",
                code="runner-program-target-mismatch",
            )
            return


def _family(runner: RunnerElf, device: Device) -> Iterator[ErrorInfo]:
    if runner.families and device.family not in runner.families:
        names = " or ".join(f"Ethos-{family.upper()}" for family in runner.families)
        yield _problem(
            f"The runner {runner.path.name} was built for {names}, not for Ethos-{device.family.upper()}.",
            f"Choose a runner built with --target={device.target}.",
            code="runner-npu-mismatch",
        )


def _memory_mode(program: Program, runner: RunnerElf) -> Iterator[ErrorInfo]:
    mode = program.memory_mode
    # The placement of a user-defined mode is not in the program.
    if mode not in MEMORY_MODES or runner.dedicated is None:
        return
    if mode.startswith("Dedicated") != runner.dedicated:
        has = "with" if runner.dedicated else "without"
        yield _problem(
            f"{program.name} was compiled for {mode}; the runner {runner.path.name} was built "
            f"{has} an SRAM dedicated to the NPU.",
            f"Choose a runner built with --memory_mode={mode}.",
            code="runner-memory-mode-mismatch",
        )


def _whole(program: Program) -> Iterator[ErrorInfo]:
    if any(delegate["external_blocks"] for delegate in program.delegates):
        yield _problem(
            f"The weights of {program.name} are in a separate file, which the runner cannot load.",
            "Compile the program with embedded weights to simulate it.",
            code="runner-external-weights",
        )


def _linked(program: Program, runner: RunnerElf) -> Iterator[ErrorInfo]:
    if program.delegates and not runner.links(ETHOS_U):
        yield _problem(
            f"The runner {runner.path.name} is linked without the Ethos-U backend.",
            "Link executorch_delegate_ethos_u as a whole archive.",
            code="runner-without-ethos-u",
        )
    missing = [name for name in program.description["kernels"] if not runner.links(name)]
    if missing:
        yield _problem(
            f"The runner {runner.path.name} lacks the kernels {', '.join(missing)}.",
            f"Build it with --select_ops_list={','.join(missing)}, or link the library "
            "that provides them. With integer inputs and outputs no kernels are needed.",
            code="runner-kernels-missing",
        )


def needs(program: Program, input_bytes: int) -> dict[str, int]:
    """Return the minimum size of each pool [bytes]; 0 if not needed."""
    memory = program.description["memory"]
    planned = list(memory["planned_bytes"])
    fast = planned[_FAST_MEMORY] if len(planned) > _FAST_MEMORY else 0
    scratch = max((d.get("scratch_bytes", 0) for d in program.delegates), default=0)
    return {
        "method": sum(planned) - fast,
        "planned fast memory": fast,
        "scratch": scratch,
        "fast scratch": program.fast_scratch_bytes,
        "files": len(program.data) + input_bytes,
    }


def _pools(program: Program, runner: RunnerElf, input_bytes: int) -> Iterator[ErrorInfo]:
    if not runner.pools:
        return
    for name, needed in needs(program, input_bytes).items():
        if name == "files" and runner.placement != "semihosting":
            continue
        given = runner.pools.get(name, 0)
        if needed > given:
            yield _problem(
                f"{program.name} needs at least {needed:,} bytes in the {name} pool; the "
                f"runner {runner.path.name} provides {given:,}.",
                f"Build it with {POOL_OPTIONS[name]}={_rounded(needed)}.",
                code="runner-pool-too-small",
            )


def notes(program: Program, runner: RunnerElf) -> Iterator[str]:
    """Yield what cannot be checked of a program and a runner, or is close to a limit."""
    if not runner.pools:
        yield (
            "The runner has no symbols of pools: pool sizes and memory mode were not checked "
            "(stripped, or pools of other names)."
        )
    if not runner.families:
        yield "The NPU that the runner was built for is unknown."
    elif len(runner.families) > 1:
        yield "Runners for U55 and U65 cannot be distinguished: the NPU was not checked."
    wanted = program.description["memory"]["method_pool_bytes"]
    if runner.pools.get("method", wanted) < wanted:
        yield f"The method pool is close to the estimated need of {wanted:,} bytes."


def _rounded(size: int, to: int = 65536) -> int:
    return (size // to + 2) * to


def _problem(message: str, hint: str, code: str) -> ErrorInfo:
    return ErrorInfo(message=message, hint=hint, where=Place(kind="tool", id="FVP"), code=code)


ARM = 40
# The largest runner, with a program in it [bytes].
_MAX_RUNNER_BYTES = 256 << 20
_MACHINES = {3: "x86", 40: "Arm", 62: "x86-64", 183: "64-bit Arm", 243: "RISC-V"}
_SECTION, _SYMBOL, _SYMBOL_TABLE = struct.Struct("<10I"), struct.Struct("<IIIBBH"), 2
# A linker writes one.
_MOST_SYMBOL_TABLES = 4
# Sections that are loaded (SHF_ALLOC), and those without bytes in the file (SHT_NOBITS).
_ALLOCATED, _WITHOUT_BYTES = 2, 8
POOL_SYMBOLS = {
    "method_allocation_pool": "method",
    "temp_allocation_pool": "scratch",
    "input_file_allocation_pool": "files",
    "dedicated_sram": "fast scratch",
    "planned_fast_memory_pool": "planned fast memory",
}
Placement = Literal["semihosting", "embedded", "bare", "unknown"]
_MARKS: tuple[tuple[bytes, Placement], ...] = (
    (b"app -m model.pte -i input.bin", "semihosting"),
    (b"app -o output_basename -i input.bin", "embedded"),
    (b"Starting running %d inferences", "bare"),
)
_FAMILY_MARKS = (
    (b"ETHOSU_PMU_SRAM_RD_DATA_BEAT_RECEIVED", ("u85",)),
    (b"ETHOSU_PMU_AXI0_RD_DATA_BEAT_RECEIVED", ("u55", "u65")),
)


@dataclass(frozen=True)
class RunnerElf:
    """A runner. ``pools`` are sizes by name [bytes], empty for a file without symbols."""

    path: Path
    data: bytes
    pools: dict[str, int]

    @cached_property
    def placement(self) -> Placement:
        """The source of the program: a file, the ELF, or an address; "unknown" without strings."""
        return next((kind for mark, kind in _MARKS if mark in self.data), "unknown")

    @cached_property
    def families(self) -> tuple[str, ...]:
        """NPU generations it may be for; empty if unknown. U55 and U65 cannot be distinguished."""
        return next((kinds for mark, kinds in _FAMILY_MARKS if mark in self.data), ())

    @cached_property
    def serves(self) -> bool:
        """Whether it runs several samples in one start."""
        return b"SERVER_INFERENCE_DONE" in self.data

    @cached_property
    def records(self) -> bool:
        """Whether it records events (ETDump), in a file or on the serial port."""
        return b"etdump.bin" in self.data

    @property
    def dedicated(self) -> bool | None:
        """Whether the NPU has a dedicated SRAM; None if unknown."""
        return "fast scratch" in self.pools if self.pools else None

    @cached_property
    def _loaded(self) -> bytes:
        """What is loaded: no symbols, no debug information, which have names of types."""
        parts = [
            (section[4], section[5])
            for section in _sections(self.data)
            if section[2] & _ALLOCATED and section[1] != _WITHOUT_BYTES
        ]
        if sum(size for _, size in parts) > len(self.data):  # Sections that overlap are of no linker.
            return self.data
        return b"\0".join(self.data[at : at + size] for at, size in parts) or self.data

    def links(self, name: str) -> bool:
        """Return whether it contains a kernel or backend of this name.

        The runtime registers both by their names. A program in the runner names them too, as
        strings of FlatBuffers, which have their length before them: these do not count.
        """
        text = name.encode()
        length = struct.pack("<I", len(text))
        places = (match.start() for match in re.finditer(re.escape(text) + b"\0", self._loaded))
        return any(self._loaded[max(at - 4, 0) : at] != length for at in places)


def read_runner(path: Path, symbols: Mapping[str, str] = POOL_SYMBOLS) -> RunnerElf:
    """Return the description of a runner.

    Args:
        path: The linked runner.
        symbols: The kind of pool of each symbol; by default those of ExecuTorch's runner.

    Raises:
        WorkbenchError: the file is missing, not an ELF, damaged, or not for a Cortex-M.
    """
    try:
        data = read_limited(path, _MAX_RUNNER_BYTES)
    except OSError as error:
        raise _wrong(
            path,
            f"cannot be read: {error.strerror or error}",
            "Choose the runner's ELF.",
            code="runner-unreadable",
        ) from error
    if data[:4] != b"\x7fELF" or len(data) < 52:
        raise _wrong(
            path,
            "is not an ELF file",
            "Choose the file arm_executor_runner of a build.",
            code="runner-not-elf",
        )
    machine = struct.unpack_from("<H", data, 18)[0]
    if machine != ARM or data[4] != 1:
        built = _MACHINES.get(machine, f"machine {machine}")
        raise _wrong(
            path,
            f"is built for {built}; the simulators run Cortex-M (32-bit Arm)",
            "Build it with arm-none-eabi-gcc. A file with only debug information does not work.",
            code="runner-wrong-architecture",
        )
    try:
        return RunnerElf(path, data, _runner_elf_pools(data, symbols))
    except (struct.error, IndexError) as error:
        raise _wrong(
            path, "is truncated or damaged", "Build or copy it again.", code="runner-damaged"
        ) from error


def _sections(data: bytes) -> list[tuple[int, ...]]:
    """Return the section headers of an ELF file; none if it has none."""
    if data[:4] != b"\x7fELF":
        return []
    offset, size, count = (struct.unpack_from("<I", data, 32)[0], *struct.unpack_from("<HH", data, 46))
    if not offset or size != _SECTION.size:
        return []
    return [_SECTION.unpack_from(data, offset + i * size) for i in range(count)]


def _runner_elf_pools(data: bytes, names_of_pools: Mapping[str, str]) -> dict[str, int]:
    sections = _sections(data)
    pools: dict[str, int] = {}
    tables = [section for section in sections if section[1] == _SYMBOL_TABLE]
    if len(tables) > _MOST_SYMBOL_TABLES:
        raise IndexError
    for section in tables:
        texts = sections[section[6]]
        names = data[texts[4] : texts[4] + texts[5]]
        table = data[section[4] : section[4] + section[5]]
        if len(table) != section[5] or len(names) != texts[5]:
            raise IndexError
        wanted = {names.find(b"\0" + name.encode() + b"\0") + 1: name for name in names_of_pools}
        for at, _, length, *_ in _SYMBOL.iter_unpack(table):
            if at and at in wanted:
                pools[names_of_pools[wanted[at]]] = length
    return pools


def _wrong(path: Path, what: str, hint: str, code: str) -> WorkbenchError:
    return failure(f"The runner {path.name} {what}.", hint, Place(kind="file", id=str(path)), code=code)


_PLACEMENTS = ("semihosting", "unknown", "embedded", "bare")
_HOW = (
    "Choose or build one in the Simulator panel, or run workbench fvp set --runner ELF or "
    "workbench fvp build."
)


@dataclass(frozen=True)
class Setup:
    """Device, simulator, runner and settings for running a program."""

    device: Device
    installed: Installed
    runner: RunnerElf
    settings: MachineSettings

    @property
    def address(self) -> int | None:
        """The address where the runner expects the program; None for a file or built-in program."""
        return self.settings.addresses.get(str(self.runner.path))


def setup_for(target: str, memory_mode: str) -> Setup | ErrorInfo:
    """Return the setup for running a program, or why it cannot run on this machine.

    Args:
        target: The device, e.g. ``ethos-u55-128``.
        memory_mode: Vela's memory mode; a runner is built for one.
    """
    try:
        settings = load_settings()
        if not settings.runners:
            return ErrorInfo(
                message="No simulator runner is configured on this machine.",
                hint=_HOW,
                code="runner-not-configured",
            )
        device = device_of(target)
        runner = runner_for(device, memory_mode, settings)
    except WorkbenchError as error:
        return error.infos[0]
    if runner is None:
        message = f"No runner on this machine is built for {target} with {memory_mode}."
        return ErrorInfo(message=message, hint=_HOW, code="runner-for-target-missing")
    installed = discovery.find(device.simulator, settings)
    if installed is None:
        message = f"No simulator for {target}: {device.simulator.binary} was not found."
        return ErrorInfo(
            message=message, hint=discovery.how_to_get(device.simulator), code="simulator-not-installed"
        )
    return Setup(device, installed, runner, settings)


def runner_for(device: Device, memory_mode: str, settings: MachineSettings) -> RunnerElf | None:
    """Return this machine's runner for a device and a memory mode.

    Runners that read programs and inputs from files come first, then runners with a built-in
    program, then runners that read it from an address; ties in configuration order.

    Raises:
        WorkbenchError: a configured runner cannot be read.
    """
    runners = [_read(Path(path)) for path in settings.runners]
    fitting = [r for r in runners if _fits(r, device, memory_mode)]
    return min(fitting, key=lambda runner: _PLACEMENTS.index(runner.placement), default=None)


def _fits(runner: RunnerElf, device: Device, memory_mode: str) -> bool:
    family = not runner.families or device.family in runner.families
    memory = runner.dedicated in {None, memory_mode.startswith("Dedicated")}
    return family and memory


def _read(path: Path) -> RunnerElf:
    try:
        state = path.stat()
    except OSError:
        return read_runner(path)
    return _remembered(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=8)
def _remembered(path: Path, modified_ns: int, size: int) -> RunnerElf:
    """Return a runner; it is read again only if the file has changed."""
    del modified_ns, size
    return read_runner(path)

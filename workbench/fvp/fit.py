"""Whether a program, a runner and a device fit together, said before anything is started."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.errors import ErrorInfo, Place, WorkbenchError
from workbench.pte.description import describe
from workbench.pte.vela_stream import ETHOS_U
from workbench.targets.ethos_u_devices import MEMORY_MODES

if TYPE_CHECKING:
    from workbench.fvp.runner_elf import RunnerElf
    from workbench.fvp.simulators import Device

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
    """A ``.pte`` with what its bytes say of it."""

    name: str
    data: bytes

    @cached_property
    def description(self) -> dict[str, Any]:
        """What is in it; see ``workbench.pte.description``."""
        return describe(self.data)

    @property
    def delegates(self) -> list[dict[str, Any]]:
        """The parts that the NPU runs."""
        return [d for d in self.description["delegates"] if d["backend"] == ETHOS_U]

    @property
    def memory_mode(self) -> str:
        """The memory mode it was compiled with; "" if it does not say."""
        return self._flag("--memory-mode=")

    @property
    def system_config(self) -> str:
        """The system configuration it was compiled with; "" if it does not say."""
        return self._flag("--system-config=")

    @property
    def input_bytes(self) -> list[int]:
        """The size of each input's values."""
        specs = [spec for spec in self.description["inputs"] if "dtype" in spec]
        return [np.dtype(s["dtype"]).itemsize * math.prod(s["shape"]) for s in specs]

    def _flag(self, name: str) -> str:
        for delegate in self.delegates:
            for flag in delegate["compile_specs"].get("compile_flags", "").split():
                if flag.startswith(name):
                    return str(flag.partition("=")[2])
        return ""

    @property
    def bundled(self) -> bool:
        """Whether it brings its own test vectors."""
        return bool(self.data[4:8] == b"BP08")


def check(program: Program, runner: RunnerElf, device: Device, input_bytes: int = 0) -> list[str]:
    """Return what could not be checked or is close, in sentences.

    Raises:
        WorkbenchError: they do not fit; every reason at once.
    """
    problems = [
        *_npu(program, device),
        *_family(runner, device),
        *_memory_mode(program, runner),
        *_linked(program, runner),
        *_whole(program),
        *_pools(program, runner, input_bytes),
    ]
    if problems:
        raise WorkbenchError(problems)
    return list(_notes(program, runner))


def _npu(program: Program, device: Device) -> Iterator[ErrorInfo]:
    for delegate in program.delegates:
        npu = delegate.get("npu", {})
        built = f"{npu.get('family', '')}-{npu.get('macs', 0)}"
        if npu and npu["macs"] and built != device.target:
            yield _problem(
                f"{program.name} was compiled for {built}, not for {device.target}.",
                f"Run it with --target {built}, or compile it for {device.target}.",
            )
            return


def _family(runner: RunnerElf, device: Device) -> Iterator[ErrorInfo]:
    if runner.families and device.family not in runner.families:
        names = " or ".join(f"Ethos-{family.upper()}" for family in runner.families)
        yield _problem(
            f"The runner {runner.path.name} was built for {names}, "
            f"not for Ethos-{device.family.upper()}.",
            f"Choose the runner that was built with --target={device.target}.",
        )


def _memory_mode(program: Program, runner: RunnerElf) -> Iterator[ErrorInfo]:
    mode = program.memory_mode
    # What a mode of the user's own keeps where is not in the program.
    if mode not in MEMORY_MODES or runner.dedicated is None:
        return
    if mode.startswith("Dedicated") != runner.dedicated:
        has = "with" if runner.dedicated else "without"
        yield _problem(
            f"{program.name} was compiled for {mode}; the runner {runner.path.name} was built "
            f"{has} an SRAM dedicated to the NPU.",
            f"Choose the runner that was built with --memory_mode={mode}.",
        )


def _whole(program: Program) -> Iterator[ErrorInfo]:
    if any(delegate["external_blocks"] for delegate in program.delegates):
        yield _problem(
            f"The weights of {program.name} lie in a file beside it, which a run cannot give to "
            "the runner.",
            "Compile it with its weights inside to simulate it.",
        )


def _linked(program: Program, runner: RunnerElf) -> Iterator[ErrorInfo]:
    if program.delegates and not runner.links(ETHOS_U):
        yield _problem(
            f"The runner {runner.path.name} is linked without the Ethos-U backend.",
            "Link executorch_delegate_ethos_u as a whole archive.",
        )
    missing = [name for name in program.description["kernels"] if not runner.links(name)]
    if missing:
        yield _problem(
            f"The runner {runner.path.name} lacks the kernels {', '.join(missing)}.",
            f"Build it with --select_ops_list={','.join(missing)}, or link the library that has "
            "them; integer input and output needs no kernels at the border.",
        )


def needs(program: Program, input_bytes: int) -> dict[str, int]:
    """Return what each pool must hold at the very least [bytes]; 0 for what needs none."""
    memory = program.description["memory"]
    planned = list(memory["planned_bytes"])
    fast = planned[_FAST_MEMORY] if len(planned) > _FAST_MEMORY else 0
    scratch = max((d.get("scratch_bytes", 0) for d in program.delegates), default=0)
    return {
        "method": sum(planned) - fast,
        "planned fast memory": fast,
        "scratch": scratch,
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
                f"{program.name} needs at least {needed:,} bytes of the {name} pool; the runner "
                f"{runner.path.name} gives {given:,}.",
                f"Build it with {POOL_OPTIONS[name]}={_rounded(needed)}.",
            )


def _notes(program: Program, runner: RunnerElf) -> Iterator[str]:
    if not runner.pools:
        yield "The runner is stripped: pools and memory mode could not be checked before the run."
    if not runner.families:
        yield "The runner does not tell which NPU it was built for."
    elif len(runner.families) > 1:
        yield "Runners for U55 and U65 look alike: which of the two was not checked."
    wanted = program.description["memory"]["method_pool_bytes"]
    if 0 < runner.pools.get("method", 0) < wanted:
        yield f"The method pool is close to what is needed ({wanted:,} bytes, estimated)."


def _rounded(size: int, to: int = 65536) -> int:
    return (size // to + 2) * to


def _problem(message: str, hint: str) -> ErrorInfo:
    return ErrorInfo(message=message, hint=hint, where=Place(kind="tool", id="FVP"))

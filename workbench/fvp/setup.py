"""Which simulator and which runner of this machine are for a project's target."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from workbench.errors import ErrorInfo, WorkbenchError
from workbench.fvp import finding
from workbench.fvp.finding import Installed
from workbench.fvp.machine import MachineSettings, load_settings
from workbench.fvp.runner_elf import RunnerElf, read_runner
from workbench.fvp.simulators import Device, device_of

_PLACEMENTS = ("semihosting", "unknown", "embedded", "bare")
_HOW = (
    "Choose or build one in the panel Simulator; on the command line: workbench fvp set --runner "
    "ELF, workbench fvp build."
)


@dataclass(frozen=True)
class Setup:
    """What a project's program is run with."""

    device: Device
    installed: Installed
    runner: RunnerElf
    settings: MachineSettings

    @property
    def address(self) -> int | None:
        """Where the runner looks for the program; None if in a file or in itself."""
        return self.settings.addresses.get(str(self.runner.path))


def setup_for(target: str, memory_mode: str) -> Setup | ErrorInfo:
    """Return what to run a program with, or why it cannot be run on this machine.

    Args:
        target: The device, e.g. ``ethos-u55-128``.
        memory_mode: Vela's memory mode; runners are built for one.
    """
    try:
        settings = load_settings()
        if not settings.runners:
            return ErrorInfo(
                message="No runner for simulators is named on this machine.", hint=_HOW
            )
        device = device_of(target)
        runner = runner_for(device, memory_mode, settings)
    except WorkbenchError as error:
        return error.infos[0]
    if runner is None:
        message = f"No runner of this machine is built for {target} with {memory_mode}."
        return ErrorInfo(message=message, hint=_HOW)
    installed = finding.find(device.simulator, settings)
    if installed is None:
        message = f"No simulator for {target}: {device.simulator.binary} was not found."
        return ErrorInfo(message=message, hint=finding.how_to_get(device.simulator))
    return Setup(device, installed, runner, settings)


def runner_for(device: Device, memory_mode: str, settings: MachineSettings) -> RunnerElf | None:
    """Return the runner of this machine that is built for a device and a memory mode.

    One that reads programs and inputs from files goes before one that has its program built in,
    and that before one that looks for it at an address; then the order they were named in.

    Raises:
        WorkbenchError: one that is named cannot be read.
    """
    found = [_read(Path(path)) for path in settings.runners]
    fitting = [r for r in found if _fits(r, device, memory_mode)]
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
    """Return a runner, read again only when the file has changed: every plan asks."""
    del modified_ns, size
    return read_runner(path)

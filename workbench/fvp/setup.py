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

_NO_RUNNER = "No runner for simulators is named on this machine."
_HOW = (
    "Name one in the panel Simulator or with: workbench fvp set --runner ELF; `workbench doctor` "
    "tells how to build it."
)


@dataclass(frozen=True)
class Setup:
    """What a project's program is run with."""

    device: Device
    installed: Installed
    runner: RunnerElf
    settings: MachineSettings


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
        found = [_read(Path(path)) for path in settings.runners]
    except WorkbenchError as error:
        return error.infos[0]
    runner = next((r for r in found if _fits(r, device, memory_mode)), None)
    if runner is None:
        message = f"No runner of this machine is built for {target} with {memory_mode}."
        return ErrorInfo(message=message, hint=_HOW)
    installed = finding.find(device.simulator, settings)
    if installed is None:
        message = f"No simulator for {target}: {device.simulator.binary} was not found."
        return ErrorInfo(message=message, hint=finding.how_to_get(device.simulator))
    return Setup(device, installed, runner, settings)


def _fits(runner: RunnerElf, device: Device, memory_mode: str) -> bool:
    family = not runner.families or device.family in runner.families
    memory = runner.dedicated in {None, memory_mode.startswith("Dedicated")}
    return family and memory and runner.placement in {"semihosting", "unknown"}


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

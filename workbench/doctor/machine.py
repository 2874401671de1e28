"""What a machine has for running programs: simulators, runners, toolchain, ExecuTorch's sources."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.doctor.findings import Finding
from workbench.errors import WorkbenchError
from workbench.fvp import finding
from workbench.fvp.building import SCRIPT, known_checkouts
from workbench.fvp.machine import MachineSettings, load_settings
from workbench.fvp.runner_elf import RunnerElf, read_runner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.fvp.simulators import Simulator

_TOOLCHAIN = "arm-none-eabi-gcc"
_TOOL_TIMEOUT_S = 10.0
_LICENCE_VARIABLES = ("ARMLMD_LICENSE_FILE", "LM_LICENSE_FILE")


def machine_findings() -> Iterator[Finding]:
    """Yield everything looked for, in a fixed order; nothing is downloaded or agreed to."""
    try:
        settings = load_settings()
    except WorkbenchError as error:
        info = error.infos[0]
        yield Finding(name="machine.json", state="missing", why=info.message, remedy=info.hint)
        settings = MachineSettings()
    for simulator, installed in finding.find_all(settings):
        yield _simulator(simulator, installed)
    yield _licence()
    yield from _runners(settings)
    yield _toolchain()
    yield _checkout(settings)


def _simulator(simulator: Simulator, installed: finding.Installed | None) -> Finding:
    why = (
        f"{simulator.title} measures programs; without it cycles are estimated by Vela and "
        "outputs computed by the TOSA reference model"
    )
    if installed is None:
        remedy = finding.how_to_get(simulator)
        return Finding(name=simulator.binary, state="optional", why=why, remedy=remedy)
    try:
        finding.check(installed)
    except WorkbenchError as error:
        info = error.infos[0]
        return Finding(name=simulator.binary, state="different", version=str(installed.path),
                       why=info.message, remedy=info.hint)  # fmt: skip
    version = finding.version_of(installed)
    told = f"{version or 'no version'}, {installed.path} ({installed.origin})"
    if version:
        return Finding(name=simulator.binary, state="ok", version=told, why=why)
    return Finding(
        name=simulator.binary, state="different", version=told,
        why="it does not answer --version: its installation is not complete",
        remedy="Start it with --version in a terminal and read what it says; Corstone-320 needs "
        "the folder python/lib beside its folder models.",
    )  # fmt: skip


def _licence() -> Finding:
    """Tell of licences that are set up; none is accepted and none asked for here."""
    named = [f"{name}={os.environ[name]}" for name in _LICENCE_VARIABLES if os.environ.get(name)]
    folder = Path.home() / ".armlm"
    found = [*named, *([str(folder)] if folder.is_dir() else [])]
    return Finding(
        name="Arm licence", state="ok" if found else "optional", version=", ".join(found),
        why="Corstone-300 and Corstone-320 of version 11.27 need none beside the terms that their "
        "installer shows; later ones ask for a user-based licence",
        remedy="" if found else "Use version 11.27, or activate a licence yourself: armlm activate",
    )  # fmt: skip


def _runners(settings: MachineSettings) -> Iterator[Finding]:
    for path in settings.runners:
        name = f"runner {Path(path).name}"
        try:
            runner = read_runner(Path(path))
        except WorkbenchError as error:
            info = error.infos[0]
            yield Finding(name=name, state="different", why=info.message, remedy=info.hint)
        else:
            yield Finding(name=name, state="ok", version=_told(runner))
    if not settings.runners:
        yield Finding(
            name="runner", state="optional",
            why="a simulator boots a runner (arm_executor_runner) that loads the program",
            remedy="Build one from an ExecuTorch checkout: workbench fvp build FILE.pte "
            "--checkout DIR; or name one: workbench fvp set --runner ELF",
        )  # fmt: skip


def _told(runner: RunnerElf) -> str:
    npu = " or ".join(f"Ethos-{family.upper()}" for family in runner.families) or "unknown NPU"
    memory = {True: "dedicated SRAM", False: "shared SRAM", None: "unknown memory mode"}
    serving = ", several samples a start" if runner.serves else ""
    return f"{npu}, {memory[runner.dedicated]}, {runner.placement}{serving}"


def _toolchain() -> Finding:
    path = shutil.which(_TOOLCHAIN)
    return Finding(
        name=_TOOLCHAIN, state="ok" if path else "optional",
        version=f"{_tool_version(path)}, {path}" if path else "",
        why="builds the runner that boots a program on a simulator or a board",
        remedy="" if path else "Install the Arm GNU Toolchain for arm-none-eabi "
        "(developer.arm.com, Arm GNU Toolchain Downloads) and put its bin folder on the PATH.",
    )  # fmt: skip


def _tool_version(path: str) -> str:
    try:
        with subprocess.Popen(
            [path, "--version"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            text = process.communicate(timeout=_TOOL_TIMEOUT_S)[0].decode(errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return "no version"
    match = re.search(r"\d+\.\d+\.\d+", text)
    return match.group() if match else "no version"


def _checkout(settings: MachineSettings) -> Finding:
    named = settings.executorch
    found = next((p for p in known_checkouts(named) if (p / SCRIPT).is_file()), None)
    return Finding(
        name="ExecuTorch checkout",
        state="ok" if found else "different" if named else "optional",
        version=str(found or named),
        why=f"its {SCRIPT} builds runners",
        remedy="" if found else "git clone --recurse-submodules "
        "https://github.com/pytorch/executorch (tag v1.5.1), then examples/arm/setup.sh, which "
        "asks for Arm's licence; then: workbench fvp set --executorch DIR",
    )  # fmt: skip

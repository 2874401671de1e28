"""Environment check: what is installed, what is missing, why it matters, how to install it."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.deploy.boards import Board, all_boards, runtime_difference
from workbench.deploy.simulators import discovery
from workbench.deploy.simulators.compatibility import RunnerElf, read_runner
from workbench.deploy.simulators.discovery import MachineSettings, load_settings
from workbench.deploy.simulators.runner_build import SCRIPT, known_checkouts
from workbench.errors import WorkbenchError
from workbench.pipeline.cache import default_root
from workbench.project.frozen import Frozen
from workbench.project.trust import default_store
from workbench.targets.nnpa.command import COMPILER, CONTAINER_TOOL, IMAGE, ZDLC_IMAGE
from workbench.tool_output import tool_output
from workbench.toolchain_versions import PROVE, status
from workbench.toolchains.registry import OWN_TITLE, title_of, toolchains, tools_of
from workbench.toolchains.releases import support_of
from workbench.toolchains.versions import tool_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.deploy.simulators.discovery import Simulator


class Finding(Frozen):
    """One check. ``state`` is "ok", "different", "missing" or "optional"."""

    name: str
    state: str
    version: str = ""
    why: str = ""
    remedy: str = ""


_TOOLCHAIN = "arm-none-eabi-gcc"
_TOOL_TIMEOUT_S = 10.0
_LICENCE_VARIABLES = ("ARMLMD_LICENSE_FILE", "LM_LICENSE_FILE")


def machine_findings() -> Iterator[Finding]:
    """Yield all checks of this machine in a fixed order; nothing is downloaded or accepted."""
    try:
        settings = load_settings()
    except WorkbenchError as error:
        info = error.infos[0]
        yield Finding(name="machine.json", state="missing", why=info.message, remedy=info.hint)
        settings = MachineSettings()
    for simulator, installed in discovery.find_all(settings):
        yield _simulator(simulator, installed)
    yield _licence()
    yield from _runners(settings)
    yield _tool(
        _TOOLCHAIN,
        "builds the runner for simulators and boards",
        "Install the Arm GNU Toolchain for arm-none-eabi (developer.arm.com, Arm GNU Toolchain "
        "Downloads) and add its bin folder to the PATH.",
    )
    yield _tool(
        "qemu-system-arm",
        "runs firmware on an emulated processor (workbench firmware prove)",
        "Install QEMU 7.2 or newer, in Debian the package qemu-system-arm.",
    )
    yield _checkout(settings)
    for name, board in all_boards().items():
        if isinstance(board, Board) and (differs := runtime_difference(board, tool_version("executorch"))):
            yield Finding(
                name=f"board {name}",
                state="different",
                version=board.executorch,
                why=differs,
                remedy="Update the SDK's ExecuTorch, or make programs with that release.",
            )


def _simulator(simulator: Simulator, installed: discovery.Installed | None) -> Finding:
    why = (
        f"{simulator.title} measures programs; without it, cycles are estimated by "
        "Vela and outputs computed by the TOSA reference model"
    )
    if installed is None:
        remedy = discovery.how_to_get(simulator)
        return Finding(name=simulator.binary, state="optional", why=why, remedy=remedy)
    try:
        discovery.check(installed)
    except WorkbenchError as error:
        info = error.infos[0]
        return Finding(
            name=simulator.binary,
            state="different",
            version=str(installed.path),
            why=info.message,
            remedy=info.hint,
        )
    version = discovery.version_of(installed)
    version_text = f"{version or 'no version'}, {installed.path} ({installed.origin})"
    if version:
        return Finding(name=simulator.binary, state="ok", version=version_text, why=why)
    return Finding(
        name=simulator.binary,
        state="different",
        version=version_text,
        why="no answer to --version: the installation is incomplete",
        remedy="Start it with --version in a terminal; Corstone-320 needs the folder "
        "python/lib beside its folder models.",
    )


def _licence() -> Finding:
    """Yield the licence state; no licence is accepted here."""
    named = [f"{name}={os.environ[name]}" for name in _LICENCE_VARIABLES if os.environ.get(name)]
    folder = Path.home() / ".armlm"
    variables = [*named, *([str(folder)] if folder.is_dir() else [])]
    return Finding(
        name="Arm licence",
        state="ok" if variables else "optional",
        version=", ".join(variables),
        why="Corstone-300 and Corstone-320 version 11.27 only need the terms shown by "
        "their installer; later versions need a user-based licence",
        remedy="" if variables else "Use version 11.27, or activate a licence: armlm activate",
    )


def _runners(settings: MachineSettings) -> Iterator[Finding]:
    for path in settings.runners:
        name = f"runner {Path(path).name}"
        try:
            runner = read_runner(Path(path))
        except WorkbenchError as error:
            info = error.infos[0]
            yield Finding(name=name, state="different", why=info.message, remedy=info.hint)
        else:
            yield Finding(name=name, state="ok", version=_runner_text(runner))
    if not settings.runners:
        yield Finding(
            name="runner",
            state="optional",
            why="boots on a simulator and runs the program (arm_executor_runner)",
            remedy="Build one from an ExecuTorch checkout: workbench fvp build FILE.pte "
            "--checkout DIR; or set one: workbench fvp set --runner ELF",
        )


def _runner_text(runner: RunnerElf) -> str:
    npu = " or ".join(f"Ethos-{family.upper()}" for family in runner.families) or "unknown NPU"
    memory = {True: "dedicated SRAM", False: "shared SRAM", None: "unknown memory mode"}
    serving = ", several samples per start" if runner.serves else ""
    return f"{npu}, {memory[runner.dedicated]}, {runner.placement}{serving}"


def _tool(name: str, why: str, remedy: str) -> Finding:
    path = shutil.which(name)
    return Finding(
        name=name,
        state="ok" if path else "optional",
        version=f"{_tool_version(path)}, {path}" if path else "",
        why=why,
        remedy="" if path else remedy,
    )


def _tool_version(path: str) -> str:
    try:
        text = tool_output([path, "--version"], _TOOL_TIMEOUT_S).text
    except OSError:
        return "no version"
    match = re.search(r"\d+\.\d+\.\d+", text)
    return match.group() if match else "no version"


def _checkout(settings: MachineSettings) -> Finding:
    named = settings.executorch
    checkout = next((p for p in known_checkouts(named) if os.path.isfile(p / SCRIPT)), None)
    return Finding(
        name="ExecuTorch checkout",
        state="ok" if checkout else "different" if named else "optional",
        version=str(checkout or named),
        why=f"its {SCRIPT} builds runners",
        remedy=""
        if checkout
        else "git clone --recurse-submodules https://github.com/pytorch/executorch (tag "
        "v1.5.1), then examples/arm/setup.sh, which asks for Arm's licence; then: "
        "workbench fvp set --executorch DIR",
    )


_WHY = (
    "compiles for IBM Telum II; on any machine it reports which products become "
    "int8, but its libraries run on a z17 only. Without it, that number is "
    "predicted"
)


def compiler_findings() -> tuple[Finding, Finding]:
    """Return whether the compiler is installed, and a container runtime; nothing is downloaded."""
    return _finding(COMPILER, _WHY, f"Build it from source, or use the container: {IMAGE}."), _finding(
        CONTAINER_TOOL,
        (f"runs the compiler's container: {IMAGE}, or {ZDLC_IMAGE} with an account at icr.io"),
        f"Install Docker, then: docker pull {IMAGE}",
    )


def _finding(name: str, why: str, remedy: str) -> Finding:
    path = shutil.which(name)
    return Finding(
        name=name,
        state="ok" if path else "optional",
        version=path or "",
        why=why,
        remedy="" if path else remedy,
    )


# The verified versions; those of the toolchain are the built-in set (.ci/constraints.txt).
PROVEN = {
    "torch": "2.13.0",
    "torchao": "0.18.0",
    "executorch": "1.5.1",
    "ethos-u-vela": "5.1.0",
    "tosa-tools": "2026.5.0",
    "onnx": "1.21.0",
    "onnxscript": "0.7.2",
    "onnxruntime": "1.31",
    "PySide6-Essentials": "6.11",
    "pyqtgraph": "0.14",
}


SET = ("torch", "torchao", "executorch", "ethos-u-vela")


def findings() -> list[Finding]:
    """Return all checks in a fixed order."""
    packages = (_package(name, version) for name, version in PROVEN.items())
    return [
        _python(),
        *packages,
        *_display(),
        _acceleration(),
        *toolchain_findings(),
        *machine_findings(),
        *compiler_findings(),
        _cache(),
    ]


def _python() -> Finding:
    version = platform.python_version()
    good = sys.version_info[:2] in {(3, 11), (3, 12)}
    return Finding(
        name="Python",
        state="ok" if good else "different",
        version=version,
        why="the toolchain's wheels exist for 3.11 and 3.12",
        remedy="" if good else "Install Python 3.11 and create the environment with it.",
    )


# Shared libraries that Qt loads for a window under X11, and the Debian packages that have them:
# those of ``.ci/install``.
DISPLAY_LIBRARIES = {
    "libGL.so.1": "libgl1",
    "libEGL.so.1": "libegl1",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
}


def _display() -> Iterator[Finding]:
    """Yield whether the window has its shared libraries; only Linux has them apart from Qt."""
    if not sys.platform.startswith("linux"):
        return
    absent = [name for name in DISPLAY_LIBRARIES if not _loads(name)]
    packages = " ".join(DISPLAY_LIBRARIES[name] for name in absent)
    yield Finding(
        name="libraries of the window",
        state="optional" if absent else "ok",
        version="" if absent else f"{len(DISPLAY_LIBRARIES)} found",
        why=f"the window does not start without {', '.join(absent)}" if absent else "",
        remedy=f"apt-get install {packages}" if absent else "",
    )


def _loads(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def _package(name: str, proven: str) -> Finding:
    version = tool_version(name)
    if version == "none":
        return Finding(
            name=name,
            state="missing",
            why="required by the workbench",
            remedy=f"pip install {name}=={proven}",
        )
    # Other releases than those of the built-in set are verified in sets.
    in_set = name in SET and support_of({n: tool_version(n) for n in SET}).state == "proven"
    same = in_set or version.split("+")[0].startswith(proven)
    remedy = "" if same else f"pip install {name}=={proven} to get the verified version"
    return Finding(name=name, state="ok" if same else "different", version=version, remedy=remedy)


_SUPPORT = {"proven": "ok", "unproven": "different", "unusable": "missing"}


def toolchain_findings() -> Iterator[Finding]:
    """Yield whether the releases of each toolchain are proven, run unproven, or cannot run."""
    try:
        names = ("", *toolchains())
    except WorkbenchError as error:
        info = error.infos[0]
        yield Finding(name="toolchains", state="missing", why=info.message, remedy=info.hint)
        return
    for name in names:
        title = f"toolchain {name or OWN_TITLE}"
        try:
            tools = tools_of(name)
        except WorkbenchError as error:
            info = error.infos[0]
            yield Finding(name=title, state="missing", why=info.message, remedy=info.hint)
            continue
        support = support_of(tools)
        words = {"proven": "proven", "unproven": "runs, unproven", "unusable": "cannot run"}
        yield Finding(
            name=title,
            state=_SUPPORT[support.state],
            version=title_of(tools),
            why=f"{words[support.state]}. {support.reason}".rstrip(),
            remedy="" if support.state == "proven" else "See the guide, Proven releases.",
        )


def _acceleration() -> Finding:
    acceleration = status()
    return Finding(
        name="acceleration",
        state="ok" if acceleration.active else "different",
        version="on" if acceleration.active else "off",
        why=acceleration.reason or "proven byte for byte for these versions",
        remedy="" if acceleration.active else f"Run '{PROVE}', or install the versions named above.",
    )


def _cache() -> Finding:
    root = default_root()
    folder = root if root.exists() else next(p for p in root.parents if p.exists())
    good = os.access(folder, os.W_OK)
    free = shutil.disk_usage(folder).free
    return Finding(
        name="cache",
        state="ok" if good and free > 1 << 30 else "missing",
        version=f"{free / 2**30:.0f} GiB free",
        why=(f"results are stored in {root.name}; permissions in {default_store().parent.name}"),
        remedy="" if good else "Set QUANTIZATION_WORKBENCH_CACHE to a writable folder.",
    )

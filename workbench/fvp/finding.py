"""Where simulators are on this machine, which version, and whether they can be started at all."""

from __future__ import annotations

import os
import platform
import re
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import Place, WorkbenchError, failure
from workbench.fvp.simulators import SIMULATORS, Simulator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from workbench.fvp.machine import MachineSettings

_VERSION = re.compile(r"\b(\d+\.\d+[._]\d+)\b")
_VERSION_TIMEOUT_S = 20.0
_HOSTS = {62: ("x86_64", "amd64"), 183: ("aarch64", "arm64")}
_HOST_NAMES = {62: "x86-64", 183: "Arm of 64 bits", 40: "Arm of 32 bits", 3: "x86"}
# Where ExecuTorch's setup script puts simulators, below its checkout.
_SCRATCH = "examples/arm/arm-scratch"


@dataclass(frozen=True)
class Installed:
    """A simulator on this machine; ``origin`` says how it was found."""

    simulator: Simulator
    path: Path
    origin: str


def find(simulator: Simulator, settings: MachineSettings, named: str = "") -> Installed | None:
    """Return where a simulator is: named now, configured, on the PATH, or in a usual folder."""
    if named:
        return Installed(simulator, _binary_at(Path(named).expanduser(), simulator), "named")
    if configured := settings.simulators.get(simulator.family):
        path = _binary_at(Path(configured).expanduser(), simulator)
        return Installed(simulator, path, "configured")
    if on_path := shutil.which(simulator.binary):
        return Installed(simulator, Path(on_path), "on the PATH")
    for folder in _usual_folders(settings):
        for found in _in_folder(folder, simulator):
            return Installed(simulator, found, "in a usual folder")
    return None


def find_all(settings: MachineSettings) -> list[tuple[Simulator, Installed | None]]:
    """Return every simulator of the table with where it is."""
    return [(simulator, find(simulator, settings)) for simulator in SIMULATORS]


def how_to_get(simulator: Simulator) -> str:
    """Return how to get a simulator; its licence is for the user to accept."""
    return (
        f"Download {simulator.download} (Arm Ecosystem FVPs, developer.arm.com, version 11.27 for "
        "Linux), run its installer and accept its licence yourself; then put the folder "
        "models/Linux64_GCC-9.3 on the PATH, or name it: workbench fvp set --simulator "
        f"{simulator.family}=PATH."
    )


def check(installed: Installed) -> None:
    """Return if the simulator can be started here.

    Raises:
        WorkbenchError: it is missing, not executable, or built for another processor.
    """
    path = installed.path
    if not path.is_file():
        raise _wrong(path, "is not there", how_to_get(installed.simulator))
    if not os.access(path, os.X_OK):
        raise _wrong(path, "is not executable", f"Run: chmod +x '{path}'")
    with path.open("rb") as file:
        head = file.read(20)
    if head[:4] == b"\x7fELF" and len(head) == 20:
        machine = struct.unpack_from("<H", head, 18)[0]
        if platform.machine().lower() not in _HOSTS.get(machine, ()):
            built = _HOST_NAMES.get(machine, f"machine {machine}")
            raise _wrong(
                path, f"is built for {built}, this machine is {platform.machine()}",
                "Download the archive for this machine: Linux64 for x86-64, Linux64_armv8l "
                "for Arm.",
            )  # fmt: skip
    elif head[:2] != b"#!":
        raise _wrong(path, "is no program of this system", how_to_get(installed.simulator))


def version_of(installed: Installed) -> str:
    """Return what the simulator says its version is; "" if it says none in time."""
    try:
        with subprocess.Popen(
            [str(installed.path), "--version"], env=environment(installed.path),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:  # fmt: skip
            try:
                text, _ = process.communicate(timeout=_VERSION_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                return ""
    except OSError:
        return ""
    match = _VERSION.search(text.decode(errors="replace"))
    return match.group(1).replace("_", ".") if match else ""


def environment(path: Path, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment to start a simulator in.

    Newer ones bring their own Python and libraries, in folders beside ``models``; a Python
    configured for this program would mislead that one.
    """
    made = {k: v for k, v in base.items() if k not in {"PYTHONHOME", "PYTHONPATH"}}
    root = path.resolve().parent.parent.parent
    libraries = [p for p in (root / "python" / "lib", root / "fmtplib") if p.is_dir()]
    if libraries:
        before = [made["LD_LIBRARY_PATH"]] if made.get("LD_LIBRARY_PATH") else []
        made["LD_LIBRARY_PATH"] = os.pathsep.join([*map(str, libraries), *before])
        made["PYTHONHOME"] = str(root / "python")
    return made


def _binary_at(path: Path, simulator: Simulator) -> Path:
    """Return the binary: the file itself, or the one in the folder that was named."""
    if path.is_dir():
        return next(_in_folder(path, simulator), path / simulator.binary)
    return path


def _usual_folders(settings: MachineSettings) -> Iterator[Path]:
    home = Path.home()
    if settings.executorch:
        yield Path(settings.executorch).expanduser() / _SCRATCH
    yield from (home / "executorch" / _SCRATCH, home / "FVPs-on-Mac" / "bin", home)
    yield from (Path("/opt/arm"), Path("/opt"), Path("/usr/local"))


def _in_folder(folder: Path, simulator: Simulator) -> Iterator[Path]:
    patterns = (
        simulator.binary,
        f"models/*/{simulator.binary}",
        f"{simulator.install_glob}/models/*/{simulator.binary}",
    )
    for pattern in patterns:
        try:
            yield from (path for path in sorted(folder.glob(pattern)) if path.is_file())
        except OSError:
            return


def _wrong(path: Path, what: str, hint: str) -> WorkbenchError:
    return failure(f"The simulator {path} {what}.", hint, Place(kind="file", id=str(path)))

"""SIMULATORS: the FVPs with an Ethos-U, their parameters and usual locations.

Source: ExecuTorch, ``backends/arm/scripts/run_fvp.sh`` and ``fvp_utils.sh``, and
``backends/arm/test/runner_utils.py`` (parameters for semihosting).
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from workbench.errors import Place, WorkbenchError, failure, not_written
from workbench.files import is_open_to_others, make_private_folder, read_limited, write_file
from workbench.project.frozen import Finite
from workbench.project.trust import default_store
from workbench.targets.ethos_u.devices import FAMILIES_BY_NAME
from workbench.text import whole_number
from workbench.tool_output import tool_output

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True)
class Simulator:
    """One FVP. ``npu`` and ``cpu`` are the prefixes of the components' parameters.

    ``bus_bytes`` is the width of the NPU's data ports [bytes]; ``install_glob`` is the folder that
    Arm's installer and ExecuTorch's setup script create.
    """

    family: str
    binary: str
    title: str
    npu: str
    cpu: str
    settings: tuple[str, ...]
    bus_bytes: int
    install_glob: str
    download: str


_MPS3 = (
    "mps3_board.visualisation.disable-visualisation=1",
    "mps3_board.telnetterminal0.start_telnet=0",
    "mps3_board.uart0.out_file='-'",
    "mps3_board.uart0.shutdown_on_eot=1",
)
_MPS4 = (
    "mps4_board.visualisation.disable-visualisation=1",
    "vis_hdlcd.disable_visualisation=1",
    "mps4_board.telnetterminal0.start_telnet=0",
    "mps4_board.uart0.out_file='-'",
    "mps4_board.uart0.unbuffered_output=1",
    "mps4_board.uart0.shutdown_on_eot=1",
)

SIMULATORS: tuple[Simulator, ...] = (
    Simulator(
        "u55",
        "FVP_Corstone_SSE-300_Ethos-U55",
        "Corstone-300 with Ethos-U55",
        "ethosu",
        "cpu0",
        _MPS3,
        8,
        "FVP*orstone*300*",
        "Corstone-300",
    ),
    Simulator(
        "u65",
        "FVP_Corstone_SSE-300_Ethos-U65",
        "Corstone-300 with Ethos-U65",
        "ethosu",
        "cpu0",
        _MPS3,
        16,
        "FVP*orstone*300*",
        "Corstone-300",
    ),
    Simulator(
        "u85",
        "FVP_Corstone_SSE-320",
        "Corstone-320 with Ethos-U85",
        "mps4_board.subsystem.ethosu",
        "mps4_board.subsystem.cpu0",
        _MPS4,
        16,
        "FVP*orstone*320*",
        "Corstone-320",
    ),
)
SIMULATORS_BY_FAMILY = {simulator.family: simulator for simulator in SIMULATORS}


@dataclass(frozen=True)
class Device:
    """An NPU as configured in a simulator: generation and MACs."""

    target: str
    family: str
    macs: int

    @property
    def simulator(self) -> Simulator:
        """The simulator that contains this NPU."""
        return SIMULATORS_BY_FAMILY[self.family]


def device_of(target: str) -> Device:
    """Return the NPU of a target id such as ``ethos-u55-128``.

    Raises:
        WorkbenchError: no simulator contains such an NPU.
    """
    parts = target.split("-")
    family = FAMILIES_BY_NAME.get(parts[1]) if len(parts) == 3 and parts[0] == "ethos" else None
    if family is not None and (macs := whole_number(parts[2])) in family.macs:
        return Device(target, family.name, macs)
    known = [f"ethos-{f.name}-{macs}" for f in FAMILIES_BY_NAME.values() for macs in f.macs]
    raise failure(
        f"No simulator for device {target!r}.",
        f"Choose one of {', '.join(known)}.",
        Place(kind="option", id="target"),
        code="simulator-device-unknown",
    )


_VERSION = re.compile(r"\b(\d+\.\d+[._]\d+)\b")
_VERSION_TIMEOUT_S = 20.0
_HOSTS = {62: ("x86_64", "amd64"), 183: ("aarch64", "arm64")}
_HOST_NAMES = {62: "x86-64", 183: "64-bit Arm", 40: "32-bit Arm", 3: "x86"}
# Folder of ExecuTorch's setup script for simulators, below its checkout.
_SCRATCH = "examples/arm/arm-scratch"


@dataclass(frozen=True)
class Installed:
    """An installed simulator; ``origin`` is how it was found."""

    simulator: Simulator
    path: Path
    origin: str


def find(simulator: Simulator, settings: MachineSettings, named: str = "") -> Installed | None:
    """Return the simulator that was given, configured, on the PATH, or in a usual folder."""
    if named:
        return Installed(simulator, _binary_at(Path(named).expanduser(), simulator), "named")
    if configured := settings.simulators.get(simulator.family):
        path = _binary_at(Path(configured).expanduser(), simulator)
        return Installed(simulator, path, "configured")
    if on_path := shutil.which(simulator.binary):
        return Installed(simulator, Path(on_path), "on the PATH")
    for folder in _usual_folders(settings):
        for binary in _in_folder(folder, simulator):
            return Installed(simulator, binary, "in a usual folder")
    return None


def find_all(settings: MachineSettings) -> list[tuple[Simulator, Installed | None]]:
    """Return every simulator of the table with its location."""
    return [(simulator, find(simulator, settings)) for simulator in SIMULATORS]


def how_to_get(simulator: Simulator) -> str:
    """Return how to install a simulator; the user accepts the licence."""
    return (
        f"Download {simulator.download} (Arm Ecosystem FVPs, developer.arm.com, "
        "version 11.27 for Linux), run its installer and accept its licence. Then "
        "add the folder models/Linux64_GCC-9.3 to the PATH, or run: workbench fvp "
        f"set --simulator {simulator.family}=PATH."
    )


def check(installed: Installed) -> None:
    """Return if the simulator can be started.

    Raises:
        WorkbenchError: it is missing, not executable, or built for another processor.
    """
    path = installed.path
    if not os.path.isfile(path):
        raise _wrong(path, "does not exist", how_to_get(installed.simulator), code="simulator-missing")
    if not os.access(path, os.X_OK):
        raise _wrong(path, "is not executable", f"Run: chmod +x '{path}'", code="simulator-not-executable")
    with path.open("rb") as file:
        head = file.read(20)
    if head[:4] == b"\x7fELF" and len(head) == 20:
        machine = struct.unpack_from("<H", head, 18)[0]
        if platform.machine().lower() not in _HOSTS.get(machine, ()):
            built = _HOST_NAMES.get(machine, f"machine {machine}")
            raise _wrong(
                path,
                f"is built for {built}; this machine is {platform.machine()}",
                "Download the archive for this machine: Linux64 for x86-64, Linux64_armv8l for Arm.",
                code="simulator-wrong-architecture",
            )
    elif head[:2] != b"#!":
        raise _wrong(
            path,
            "is not an executable of this system",
            how_to_get(installed.simulator),
            code="simulator-not-a-program",
        )


def version_of(installed: Installed) -> str:
    """Return the simulator's version; "" if it prints none in time."""
    command = [str(installed.path), "--version"]
    try:
        output = tool_output(command, _VERSION_TIMEOUT_S, environment(installed.path))
    except OSError:
        return ""
    match = _VERSION.search(output.text)
    return match.group(1).replace("_", ".") if match else ""


def environment(path: Path, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment for starting a simulator.

    Recent simulators contain their own Python and libraries in folders beside ``models``; a
    PYTHONHOME of this program would break them.
    """
    variables = {k: v for k, v in base.items() if k not in {"PYTHONHOME", "PYTHONPATH"}}
    root = path.resolve().parent.parent.parent
    libraries = [p for p in (root / "python" / "lib", root / "fmtplib") if p.is_dir()]
    if libraries:
        before = [variables["LD_LIBRARY_PATH"]] if variables.get("LD_LIBRARY_PATH") else []
        variables["LD_LIBRARY_PATH"] = os.pathsep.join([*map(str, libraries), *before])
        variables["PYTHONHOME"] = str(root / "python")
    return variables


def _binary_at(path: Path, simulator: Simulator) -> Path:
    """Return the binary: the path itself, or the binary in that folder."""
    if os.path.isdir(path):
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


def _wrong(path: Path, what: str, hint: str, code: str) -> WorkbenchError:
    return failure(f"The simulator {path} {what}.", hint, Place(kind="file", id=str(path)), code=code)


FILE = "machine.json"
_MAX_BYTES = 1 << 20


class BoardLink(Finite):
    """How a board is reached: its serial port, and the user's command that flashes it.

    The command runs without a shell; ``{elf}``, ``{pte}``, ``{bpte}``, ``{header}`` and
    ``{folder}`` stand for the firmware and the deliverables, ``{name}`` for the project as in their
    names; ``elf`` may have ``{name}`` too. Without a command, the board is only read. ``simulate``
    makes the stage *Simulate* run on the board instead of an FVP.
    """

    port: str = Field(min_length=1)
    baud: int = Field(default=115200, gt=0)
    flash: str = ""
    elf: str = ""
    timeout_s: float = Field(default=120.0, gt=0, allow_inf_nan=False)
    simulate: bool = False

    def firmware(self, stem: str) -> Path | None:
        """Return the path of the firmware for a project; None if there is none.

        Args:
            stem: The project's name as in the names of its deliverables.
        """
        if not self.elf:
            return None
        return Path(self.elf.replace("{name}", stem)).expanduser().absolute()


class MachineSettings(Finite):
    """The user's simulator settings. ``simulators`` is keyed by NPU generation, e.g. ``u55``.

    ``addresses`` maps the path of a runner to the address of its program. ``fast``, ``trace`` and
    ``timeout_s`` apply to runs of projects. ``board`` is the board at this machine,
    ``firmware`` the last one that was proved on the emulated board.
    """

    simulators: Mapping[str, str] = Field(default_factory=dict)
    runners: tuple[str, ...] = ()
    addresses: Mapping[str, int] = Field(default_factory=dict)
    executorch: str = ""
    fast: bool = False
    trace: bool = False
    timeout_s: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    board: BoardLink | None = None
    firmware: str = ""


def settings_path() -> Path:
    """Return the settings file in the user's configuration folder."""
    return default_store().parent / FILE


def runners_folder() -> Path:
    """Return the folder of runners that were built here."""
    return default_store().parent / "runners"


def load_settings() -> MachineSettings:
    """Return the settings; defaults if there is no file.

    Raises:
        WorkbenchError: the file is damaged, or other users can change it: it names programs.
    """
    path = settings_path()
    if is_open_to_others(path) or is_open_to_others(path.parent):
        raise failure(
            f"Other users can change {path}, which names programs to run.",
            "Make it and its folder yours alone (chmod go-w).",
            Place(kind="file", id=str(path)),
            code="machine-settings-open-to-others",
        )
    try:
        return MachineSettings.model_validate_json(read_limited(path, _MAX_BYTES))
    except FileNotFoundError:
        return MachineSettings()
    except (OSError, ValidationError) as error:
        raise failure(
            f"{path} is not a valid settings file.",
            "Correct or delete it, then set the paths of simulators and runners again.",
            Place(kind="file", id=str(path)),
            str(error),
            code="machine-settings-damaged",
        ) from error


def save_settings(settings: MachineSettings) -> None:
    """Write the settings.

    Raises:
        WorkbenchError: The file cannot be written; the old settings are unchanged.
    """
    path = settings_path()
    try:
        make_private_folder(path.parent)
        write_file(path, settings.model_dump_json(indent=1).encode())
    except OSError as error:
        raise not_written(path, error, "Make the folder writable.") from error


def simulating_board() -> BoardLink | None:
    """Return the board that *Simulate* runs on; None for a simulator, or if the file is damaged."""
    try:
        link = load_settings().board
    except WorkbenchError:
        return None
    return link if link is not None and link.simulate else None


def adopt_runner(path: Path, address: int | None = None) -> MachineSettings:
    """Put a runner first in the settings; return the new settings.

    Args:
        path: The runner.
        address: The address of its program; None for a file or built-in program.
    """
    settings = load_settings()
    others = (runner for runner in settings.runners if runner != str(path))
    addresses = {k: v for k, v in settings.addresses.items() if k != str(path)}
    if address is not None:
        addresses[str(path)] = address
    changes = {"runners": (str(path), *others), "addresses": addresses}
    settings = settings.model_copy(update=changes)
    save_settings(settings)
    return settings

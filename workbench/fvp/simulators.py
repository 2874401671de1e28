"""SIMULATORS: one row for each FVP with an Ethos-U, with its parameters and usual places.

Source: ExecuTorch, ``backends/arm/scripts/run_fvp.sh`` and ``fvp_utils.sh``, and
``backends/arm/test/runner_utils.py`` (parameters for semihosting).
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.errors import Place, failure
from workbench.targets.ethos_u_devices import FAMILIES_BY_NAME


@dataclass(frozen=True)
class Simulator:
    """One FVP. ``npu`` and ``cpu`` are the prefixes of those components' parameters.

    ``bus_bytes`` is the width of the NPU's data ports [bytes]; ``install_glob`` names the folder
    that Arm's installer and ExecuTorch's setup script make; ``needs_python`` says that the binary
    is linked with the Python that is installed beside it.
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
    needs_python: bool = False


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
        "u55", "FVP_Corstone_SSE-300_Ethos-U55", "Corstone-300 with Ethos-U55",
        "ethosu", "cpu0", _MPS3, 8, "FVP*orstone*300*", "Corstone-300",
    ),
    Simulator(
        "u65", "FVP_Corstone_SSE-300_Ethos-U65", "Corstone-300 with Ethos-U65",
        "ethosu", "cpu0", _MPS3, 16, "FVP*orstone*300*", "Corstone-300",
    ),
    Simulator(
        "u85", "FVP_Corstone_SSE-320", "Corstone-320 with Ethos-U85",
        "mps4_board.subsystem.ethosu", "mps4_board.subsystem.cpu0", _MPS4, 16,
        "FVP*orstone*320*", "Corstone-320", needs_python=True,
    ),
)  # fmt: skip
SIMULATORS_BY_FAMILY = {simulator.family: simulator for simulator in SIMULATORS}


@dataclass(frozen=True)
class Device:
    """An NPU as a simulator is told of it: its generation and its MACs."""

    target: str
    family: str
    macs: int

    @property
    def simulator(self) -> Simulator:
        """The simulator that has this NPU."""
        return SIMULATORS_BY_FAMILY[self.family]


def device_of(target: str) -> Device:
    """Return the NPU that a target id such as ``ethos-u55-128`` names.

    Raises:
        WorkbenchError: no simulator has such an NPU.
    """
    parts = target.split("-")
    family = FAMILIES_BY_NAME.get(parts[1]) if len(parts) == 3 and parts[0] == "ethos" else None
    if family is not None and parts[2].isdecimal() and int(parts[2]) in family.macs:
        return Device(target, family.name, int(parts[2]))
    known = [f"ethos-{f.name}-{macs}" for f in FAMILIES_BY_NAME.values() for macs in f.macs]
    raise failure(
        f"No simulator has the device {target!r}.",
        f"Choose one of {', '.join(known)}.",
        Place(kind="option", id="target"),
    )

"""Which sets of releases are proven, and what the program does with others.

One row for each release of ExecuTorch; a new release is a new row (guide, "Add a release").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from workbench.project.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

SupportState = Literal["proven", "unproven", "unusable"]


@dataclass(frozen=True)
class Release:
    """A release of ExecuTorch and what it was proven with.

    Attributes:
        executorch: The release, as "1.5.1".
        torch: Releases of torch, as "2.13".
        torchao: Releases of torchao.
        vela: Releases of Vela.
        create: The release of torch that a new environment gets.
        accelerated: Whether the accelerations are proven with the first of each.
        lacks: Options of targets that it does not have.
        remarks: What is different there.
    """

    executorch: str
    torch: tuple[str, ...]
    torchao: tuple[str, ...]
    vela: tuple[str, ...]
    create: str
    accelerated: bool
    lacks: tuple[str, ...] = ()
    remarks: str = ""


RELEASES: tuple[Release, ...] = (
    Release(
        "1.5.1",
        ("2.13", "2.14", "2.15"),
        ("0.18",),
        ("5.1", "5.2"),
        "2.13.0",
        accelerated=True,
        remarks="The built-in set has torch 2.13 and Vela 5.1. With torch 2.14.1 and "
        "2.15.0 two of the accelerations are off, and every byte of nine networks is the same at 0.21 to "
        "0.39 of the time of the tools. 63 programs of "
        "the corrections' networks are right with torch 2.14.1, and 63 with Vela 5.2, beside "
        "56 of networks that Vela compiles wrongly without corrections. The samples digits, motions, "
        "detector, anomaly_detection and mobilenet_v2 are right in each. With torch 2.15.0 all "
        "corrections are on, 70 of 70 programs of their networks are right, with the SQNR of the "
        "built-in set, and the programs of the five samples are equal byte for byte. "
        "The index has torch 2.15 with CUDA alone; it ran on the CPU with stand-ins for CUDA's libraries.",
    ),
    Release(
        "1.4.1",
        ("2.13",),
        ("0.18",),
        ("5.1",),
        "2.13.0",
        accelerated=False,
        lacks=("external_weights", "sdpa_guard"),
        remarks="Not accelerated: stages run at the speed of the tools. 104 of 104 programs of 26 "
        "networks were right, within 1 dB of 1.5.1; the median has 4 % more cycles. Of 101 programs of "
        "the corrections' networks 96 are right; one cannot be compiled (see the faults of the "
        "compiler), and four with sums or means beside each other are compiled wrongly, which Verify "
        "tells: they are right in 1.5.1. Right are 56 of networks that Vela compiles wrongly without "
        "corrections, and the same five samples.",
    ),
)
# Releases that cannot run, or were not tried, and why.
OTHERS: tuple[tuple[str, str], ...] = (
    ("1.5.0", "Runs, unproven: it was not tried; 1.5.1 mends it."),
    ("1.4.0", "Runs, unproven: it was not tried; 1.4.1 mends it."),
    (
        "1.3.1",
        "Cannot run. pip refuses to install executorch[ethos-u]: its Vela 5.0.0 and its tosa-tools "
        "2026.2.1 ask for different releases of flatbuffers. Installed without dependencies, it lacks "
        "passes that corrections follow (FoldScalarMulIntoConvPass), and its tables of 16 bits and its "
        "passes' access to the program are others: a port of its own.",
    ),
    ("1.2.0 and older", "Cannot run. They have no hooks for passes and no NodeFinder."),
    ("Vela 5.0", "Unproven: pip does not install it beside the tosa-tools of ExecuTorch 1.4 and 1.5."),
)
OLDEST = "1.4"


class Support(Frozen):
    """Whether the program works with a set of versions.

    ``reason`` says why not, or what is not proven; "" where all is.
    """

    state: SupportState
    reason: str = ""


def support_of(versions: Mapping[str, str]) -> Support:
    """Return whether the program works with a set of versions.

    Args:
        versions: By package, as ``tool_versions`` gives them.
    """
    executorch = versions.get("executorch", "none")
    if executorch == "none":
        return Support(state="unusable", reason="ExecuTorch is not installed.")
    if _numbers(executorch) < _numbers(OLDEST):
        reason = f"ExecuTorch {executorch} is older than {OLDEST}, and its passes differ too much."
        return Support(state="unusable", reason=reason)
    release = next((row for row in RELEASES if row.executorch == executorch), None)
    if release is None:
        known = ", ".join(row.executorch for row in RELEASES)
        reason = f"ExecuTorch {executorch} is not among the proven releases ({known})."
        return Support(state="unproven", reason=reason)
    unproven = [
        f"{package} {versions.get(package, 'none')}"
        for package, proven in (
            ("torch", release.torch),
            ("torchao", release.torchao),
            ("ethos-u-vela", release.vela),
        )
        if not any(_is_of(versions.get(package, "none"), number) for number in proven)
    ]
    if unproven:
        reason = f"Not proven with ExecuTorch {executorch}: {', '.join(unproven)}."
        return Support(state="unproven", reason=reason)
    return Support(state="proven")


def lacking_options(versions: Mapping[str, str]) -> tuple[str, ...]:
    """Return the options of targets that a release of ExecuTorch does not have."""
    release = ".".join(versions.get("executorch", "").split(".")[:2])
    return next((row.lacks for row in RELEASES if row.executorch.startswith(f"{release}.")), ())


def created_with(executorch: str) -> str:
    """Return the release of torch that an environment with a release of ExecuTorch gets."""
    row = next((row for row in RELEASES if row.executorch == executorch), RELEASES[0])
    return row.create


def _is_of(version: str, release: str) -> bool:
    return version.split(".")[:2] == release.split(".")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())

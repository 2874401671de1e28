"""The interface of targets: options, devices and the torch-free specification."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from workbench.ids import PresetId, StageId, TargetId

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from pydantic import JsonValue

    from workbench.errors import ErrorInfo
    from workbench.graph.snapshot import GraphSnapshot
    from workbench.project.configs import AnyConfig, Config
    from workbench.project.model import RuleKind, TargetChoice


@dataclass(frozen=True)
class Choice:
    """One value of an option, with a label."""

    value: JsonValue
    title: str


@dataclass(frozen=True)
class OptionSpec:
    """One option of a target as shown in forms; empty ``choices`` mean free input.

    ``kind`` is "choice", "switch", "text", "number", "real" or "file"; a file dialog lists files
    that match ``patterns``. Options with the same ``group`` are shown under its name.
    """

    name: str
    title: str
    description: str
    kind: str
    default: JsonValue
    choices: tuple[Choice, ...] = field(default=())
    patterns: str = ""
    group: str = ""


@dataclass(frozen=True)
class Variant:
    """One device of a target, e.g. an NPU with its number of MAC units.

    Devices of one ``kind`` support the same operators; "" if the target has no device.
    """

    id: str
    title: str
    kind: str = ""


class Reason(NamedTuple):
    """Why an operator stays in float, or what is special about it: a code, and a sentence."""

    cause: str
    text: str


class TargetSpec(Protocol):
    """The torch-free side of a target: options, limits, and the dependencies of each stage.

    ``toolchain`` is the module of its torch side; ``estimator`` is the function that estimates the
    cost of a lowered program on one of the variants, "" if there is none. ``emulation`` marks
    results of targets without a device, else ""; ``config_type`` is the type of config that rules
    assign, ``first_config`` the initial preset; ``places`` is whether rules may keep parts of a
    model off the device, and ``float_off_device`` whether the quantizer leaves those in float;
    ``remedy`` is the hint of ``warnings``. ``folder`` is the base of the project's relative paths;
    without it, files are not read.
    """

    id: TargetId
    title: str
    variants: tuple[Variant, ...]
    stages: tuple[StageId, ...]
    toolchain: str
    estimator: str
    emulation: str
    config_type: type[Config]
    first_config: PresetId
    places: bool
    float_off_device: bool
    remedy: str

    def options(self, choice: TargetChoice, folder: Path | None = None) -> tuple[OptionSpec, ...]:
        """Return the options for a choice, with the values that are valid for the other options."""
        ...

    def complete(self, choice: TargetChoice, folder: Path | None = None) -> TargetChoice:
        """Return the choice with every option filled in and invalid combinations replaced."""
        ...

    def files(self, choice: TargetChoice, folder: Path) -> Mapping[str, Path]:
        """Return the files that options refer to, by option; their content enters the key.

        Raises:
            WorkbenchError: a reference does not exist.
        """
        ...

    def facet(self, choice: TargetChoice, name: str) -> JsonValue:
        """Return the part of the choice that one stage depends on: "quantizer", "trials" or "compile"."""
        ...

    def check(self, choice: TargetChoice, folder: Path | None = None) -> list[ErrorInfo]:
        """Return every problem of the choice itself."""
        ...

    def refusal(self, choice: TargetChoice, config: AnyConfig | None, kind: RuleKind) -> str:
        """Return why the target does not support a config in a rule of that kind; "" if it does."""
        ...

    def warnings(self, choice: TargetChoice, config: AnyConfig | None, operators: Sequence[str]) -> list[str]:
        """Return known problems of these operators with the config."""
        ...

    def forecast(
        self,
        choice: TargetChoice,
        graph: GraphSnapshot,
        wide: Collection[str],
        narrow: Collection[str],
        integer: Collection[str] = (),
    ) -> list[ErrorInfo]:
        """Return known reasons why the toolchain rejects the whole program, or compiles it wrongly.

        ``wide`` are the nodes with 16-bit activations that may run on the NPU, ``narrow`` those
        with 4-bit per-channel weights, ``integer`` all that are quantized and may run on the NPU.
        """
        ...

    def figures(self, choice: TargetChoice, folder: Path | None = None) -> Mapping[str, str]:
        """Return a few facts for display (clock, MACs)."""
        ...

    def macs_per_cycle(self, variant: str) -> int:
        """Return the peak 8-bit multiply-accumulates per cycle of a device; 0 if unknown."""
        ...


class Emulated:
    """What targets share that have no device on this machine, and no compiler that refuses."""

    estimator: str = ""
    emulation: str

    def files(self, choice: TargetChoice, folder: Path) -> Mapping[str, Path]:
        """Return no files: no option refers to one."""
        del choice, folder
        return {}

    def forecast(
        self,
        choice: TargetChoice,
        graph: GraphSnapshot,
        wide: Collection[str],
        narrow: Collection[str],
        integer: Collection[str] = (),
    ) -> list[ErrorInfo]:
        """Return nothing: no compiler rejects programs here."""
        del choice, graph, wide, narrow, integer
        return []

    def figures(self, choice: TargetChoice, folder: Path | None = None) -> Mapping[str, str]:
        """Return the origin of the numbers."""
        del choice, folder
        return {"Numbers": self.emulation}

    def macs_per_cycle(self, variant: str) -> int:
        """Return 0: there is no device, and no cycles are estimated."""
        del variant
        return 0

"""What a target is, to everything that does not know which one it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

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
    """One value a user may pick, in words."""

    value: JsonValue
    title: str


@dataclass(frozen=True)
class OptionSpec:
    """One option of a target as a form shows it; ``choices`` empty means free input.

    ``kind`` is "choice", "switch", "text", "number", "real" or "file"; a dialog for a file lists
    those that fit ``patterns``. Options of a ``group`` stand together under its name.
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
    """One concrete device of a target, e.g. an NPU with its number of MAC units.

    Devices of one ``kind`` take the same operators; "" where nothing is placed on a device.
    """

    id: str
    title: str
    kind: str = ""


class TargetSpec(Protocol):
    """The torch-free side of a target: options, limits, and what each stage depends on.

    ``toolchain`` names the module with its torch side; ``estimator`` the function that estimates
    the cost of a lowered program on one of the variants, "" where there is none. ``emulation`` is
    what results are marked with where no device is behind them, else ""; ``config_type`` the kind
    of config that rules take, ``first_config`` the preset to begin with; ``places`` whether
    rules may keep parts of a model off the device; ``remedy`` what helps against ``warnings``.
    Where a ``folder`` can be given, it is where the paths of a project start; without it files are
    not looked into.
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
    remedy: str

    def options(self, choice: TargetChoice, folder: Path | None = None) -> tuple[OptionSpec, ...]:
        """Return the options for a choice, each with only the values valid beside the others."""
        ...

    def complete(self, choice: TargetChoice, folder: Path | None = None) -> TargetChoice:
        """Return the choice with every option filled in and every invalid combination mended."""
        ...

    def files(self, choice: TargetChoice, folder: Path) -> Mapping[str, Path]:
        """Return the files that options name, by option: what they hold decides, not their place.

        Raises:
            WorkbenchError: a name means no file.
        """
        ...

    def facet(self, choice: TargetChoice, name: str) -> JsonValue:
        """Return the part of the choice that one stage depends on: "quantizer" or "compile"."""
        ...

    def check(self, choice: TargetChoice, folder: Path | None = None) -> list[ErrorInfo]:
        """Return every problem of the choice itself."""
        ...

    def refusal(self, choice: TargetChoice, config: AnyConfig | None, kind: RuleKind) -> str:
        """Return why the target cannot take a config in a rule of that kind; "" when it can."""
        ...

    def warnings(
        self, choice: TargetChoice, config: AnyConfig | None, operators: Sequence[str]
    ) -> list[str]:
        """Return what is known to go wrong with these operators under the config."""
        ...

    def forecast(
        self, choice: TargetChoice, graph: GraphSnapshot, wide: Collection[str],
        narrow: Collection[str],
    ) -> list[ErrorInfo]:  # fmt: skip
        """Return what is known to make the tools refuse the program as a whole.

        ``wide`` are the nodes with 16-bit activations that may run on the NPU, ``narrow`` those
        with 4-bit weights of a scale a channel.
        """
        ...

    def figures(self, choice: TargetChoice, folder: Path | None = None) -> Mapping[str, str]:
        """Return a few facts to show beside the choice (clock, MACs)."""
        ...

    def macs_per_cycle(self, variant: str) -> int:
        """Return the most 8-bit multiply-accumulates of a device in a cycle; 0 if unknown."""
        ...

"""Number formats target: any format on the operands of MASE's operations, emulated in float.

There is no device and no compiler; results are marked as emulated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.errors import ErrorInfo, WorkbenchError
from workbench.ids import PresetId, StageId, TargetId
from workbench.project.configs import FormatConfig, PluginConfig
from workbench.project.model import PLUGIN_KINDS, RuleKind, TargetChoice
from workbench.targets.base import Emulated, OptionSpec, Variant
from workbench.targets.formats.parameters import PREFIXES, ROLES, impossible, read
from workbench.targets.formats.schemes import spec_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pydantic import JsonValue

    from workbench.project.configs import AnyConfig, Config

EMULATED = "emulated, not deployable here"


class Formats(Emulated):
    """The row of the target table for emulated number formats."""

    id: TargetId = "formats"
    title: str = "Number formats (emulated)"
    variants: tuple[Variant, ...] = (Variant("formats", "Number formats (emulated)"),)
    stages: tuple[StageId, ...] = ("import_model", "export", "prepare", "calibrate", "convert", "evaluate")
    toolchain: str = "workbench.engine.formats.toolchain"
    emulation: str = EMULATED
    config_type: type[Config] = FormatConfig
    first_config: PresetId = "integer-8"
    places: bool = False
    float_off_device: bool = False
    remedy: str = ""

    def options(self, choice: TargetChoice, folder: Path | None = None) -> tuple[OptionSpec, ...]:
        """Return no options: rules contain all settings."""
        del choice, folder
        return ()

    def complete(self, choice: TargetChoice, folder: Path | None = None) -> TargetChoice:
        """Return the choice without options of other targets."""
        del folder
        return TargetChoice(id=choice.id)

    def facet(self, choice: TargetChoice, name: str) -> JsonValue:
        """Return the target's id, the only dependency of the stages."""
        del name
        return choice.id

    def check(self, choice: TargetChoice, folder: Path | None = None) -> list[ErrorInfo]:
        """Return no problems: options of other targets are ignored."""
        del choice, folder
        return []

    def refusal(self, choice: TargetChoice, config: AnyConfig | None, kind: RuleKind) -> str:
        """Return why such a rule does not support the config: parameters, or not a format."""
        del choice
        if kind == "io":
            return "Number formats apply to operands of operations, not to inputs and outputs."
        if kind in PLUGIN_KINDS or isinstance(config, PluginConfig):
            return "Plug-ins quantize to integers; this target supports number formats only."
        if isinstance(config, FormatConfig):
            return _format_refusal(config)
        return "This target supports number formats, not integer configs." if config else ""

    def warnings(self, choice: TargetChoice, config: AnyConfig | None, operators: Sequence[str]) -> list[str]:
        """Return nothing: unsupported operands are rejected at run time."""
        del choice, config, operators
        return []


def _format_refusal(config: FormatConfig) -> str:
    """Return what is wrong with a format's parameters; "" if they are valid."""
    try:
        spec = spec_of(config.scheme)
        if not spec.operand:
            return f"{spec.name} is applied to arrays only (workbench formats quantize)."
        if config.mase_compatible and not spec.mase:
            return f"MASE has no {spec.name}; remove mase-compatible."
        for role in ROLES:
            if role == "data" or _speaks_of(config, PREFIXES[role]):
                given = read(spec.name, spec.parameters, config.parameters, role)
                if reason := impossible(spec.name, given):
                    return reason
    except WorkbenchError as error:
        return " ".join(info.message for info in error.infos)
    return ""


def _speaks_of(config: FormatConfig, prefix: str) -> bool:
    return any(key.startswith(prefix) for key in config.parameters)

"""IBM Telum II's accelerator NNPA: int8 dynamic quantization by onnx-mlir, emulated."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from workbench.errors import ErrorInfo, Place
from workbench.ids import STAGE_IDS, PresetId, StageId, TargetId
from workbench.project.configs import DynamicConfig, PluginConfig
from workbench.project.model import PLUGIN_KINDS, RuleKind, TargetChoice
from workbench.targets.base import Emulated, OptionSpec, Variant
from workbench.targets.nnpa.command import COMPILER, CONTAINER_TOOL
from workbench.targets.nnpa.options import OPTIONS, SILENT, WHAT_IF, quantizes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pydantic import JsonValue

    from workbench.project.configs import AnyConfig, Config

EMULATED = "emulated on this machine; nothing ran on NNPA"


class Nnpa(Emulated):
    """The row of the target table for IBM Telum II's NNPA."""

    id: TargetId = "ibm-nnpa"
    title: str = "IBM Telum II NNPA (emulated, exported as ONNX)"
    variants: tuple[Variant, ...] = (Variant("nnpa", "IBM Telum II NNPA (z17)"),)
    stages: tuple[StageId, ...] = tuple(stage for stage in STAGE_IDS if stage != "run")
    toolchain: str = "workbench.engine.nnpa.toolchain"
    emulation: str = EMULATED
    config_type: type[Config] = DynamicConfig
    first_config: PresetId = "int8-dyn"
    places: bool = True
    float_off_device: bool = True
    remedy: str = "Set it in the target's options: Options… in the window, or workbench target."

    def options(self, choice: TargetChoice, folder: Path | None = None) -> tuple[OptionSpec, ...]:
        """Return the compiler's quantization options, and the arithmetic."""
        del choice, folder
        return OPTIONS

    def complete(self, choice: TargetChoice, folder: Path | None = None) -> TargetChoice:
        """Return the choice with every option filled in; unknown options are removed."""
        del folder
        filled: dict[str, JsonValue] = {}
        for option in OPTIONS:
            given = choice.options.get(option.name, option.default)
            known = [entry.value for entry in option.choices]
            fits = given in known if known else isinstance(given, type(option.default))
            filled[option.name] = given if fits else option.default
        return TargetChoice(id=choice.id, options=filled)

    def facet(self, choice: TargetChoice, name: str) -> JsonValue:
        """Return what one stage depends on: all options, and the installed compilers."""
        options: dict[str, JsonValue] = {"id": choice.id, **self.complete(choice).options}
        if name == "compile":
            options["compilers"] = [shutil.which(COMPILER), shutil.which(CONTAINER_TOOL)]
        return options

    def check(self, choice: TargetChoice, folder: Path | None = None) -> list[ErrorInfo]:
        """Return the options with an invalid value."""
        del folder
        infos = []
        for option in OPTIONS:
            given = choice.options.get(option.name, option.default)
            known = [entry.value for entry in option.choices]
            if given not in known if known else not isinstance(given, type(option.default)):
                hint = f"Known: {', '.join(map(str, known))}." if known else option.description
                infos.append(
                    ErrorInfo(
                        message=f"Invalid value for {option.title}: {given!r}.",
                        hint=hint,
                        where=Place(kind="option", id=f"target.{option.name}"),
                        code="nnpa-option-invalid",
                    )
                )
        return infos

    def refusal(self, choice: TargetChoice, config: AnyConfig | None, kind: RuleKind) -> str:
        """Return why such a rule does not support the config; "" if it does."""
        del choice
        if kind == "io":
            return "NNPA quantizes matrix products; inputs and outputs stay float32."
        if kind in PLUGIN_KINDS or isinstance(config, PluginConfig):
            return "Plug-ins need calibrated ranges; NNPA uses dynamic ranges."
        if config is None or isinstance(config, DynamicConfig):
            return ""
        return "NNPA supports int8 with dynamic ranges (int8-dyn), or float."

    def warnings(self, choice: TargetChoice, config: AnyConfig | None, operators: Sequence[str]) -> list[str]:
        """Return warnings for the combination of options and rule."""
        del operators
        if config is None:
            return []
        options = self.complete(choice).options
        sentences = [] if quantizes(options) else [SILENT]
        return [*sentences, WHAT_IF] if options["weights"] == "asym" else sentences

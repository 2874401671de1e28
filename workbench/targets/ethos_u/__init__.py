"""Arm Ethos-U target: devices, their system configurations, memory modes and limits.

Source: ethosu/config_files/Arm/vela.ini of Vela 5.1.0; limits per NPU measured with
ExecuTorch 1.5.1 and Vela 5.1.0. Vela accepts any configuration on any accelerator, so this is the
only family check.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import ErrorInfo, WorkbenchError
from workbench.ids import STAGE_IDS, PresetId, StageId, TargetId
from workbench.project.configs import FormatConfig, PluginConfig, QuantConfig
from workbench.project.model import RuleKind, TargetChoice
from workbench.targets.base import Choice, OptionSpec, Variant
from workbench.targets.ethos_u.checks import check_flags, check_memory, check_own, check_values, problem
from workbench.targets.ethos_u.corrections import CORRECTIONS, corrections_off, is_enabled, switched_off
from workbench.targets.ethos_u.devices import (
    CONFIGS_BY_NAME,
    ETRECORD,
    EXTERNAL_WEIGHTS,
    FAMILIES,
    MEMORY_MODES,
    family_of,
    memory_modes,
    system_configs,
)
from workbench.targets.ethos_u.forecast import (
    WIDE_SUMS,
    WIDE_TRANSPOSED,
    WRONG_AXIS,
    branch_refusals,
    convolution_refusals,
    operator_refusals,
    product_refusals,
)
from workbench.targets.ethos_u.options import EXTRAS, changed_extras, changed_passes
from workbench.targets.ethos_u.rewrites import rewrites_off
from workbench.targets.ethos_u.vela_ini import OPTION as OWN_INI_OPTION
from workbench.targets.ethos_u.vela_ini import VelaIni, ini_of, ini_path

if TYPE_CHECKING:
    from pydantic import JsonValue

    from workbench.graph.snapshot import GraphSnapshot
    from workbench.project.configs import AnyConfig, Config


_PLAIN: tuple[OptionSpec, ...] = (
    OptionSpec(
        "integer_io",
        "Integer inputs and outputs",
        ("The program has integer inputs and outputs, without quantize and dequantize on the CPU."),
        "switch",
        default=False,
    ),
    OptionSpec(
        "optimise",
        "Optimise for",
        "Size minimises SRAM and ignores the cache size.",
        "choice",
        "Performance",
        (Choice("Performance", "Performance"), Choice("Size", "Size")),
    ),
    OptionSpec(
        "arena_cache_bytes",
        "SRAM limit [bytes]",
        "Upper limit for the scheduler; empty uses the limit of the memory mode.",
        "number",
        None,
    ),
    OptionSpec("extra_flags", "More options of Vela", "As on Vela's command line.", "text", ""),
    OptionSpec(
        EXTERNAL_WEIGHTS,
        "Separate weights file (.ptd)",
        ("Writes the weights to a .ptd beside the program, for a runtime that loads named data."),
        "switch",
        default=False,
    ),
    OptionSpec(
        ETRECORD,
        "ETRecord (.etrecord)",
        "Writes what ExecuTorch's Inspector needs to name operators and modules in an ETDump.",
        "switch",
        default=True,
    ),
    OptionSpec(
        OWN_INI_OPTION,
        "Own Vela .ini",
        "A file with your own system configurations and memory modes, relative to "
        "the project; empty for Vela's.",
        "file",
        "",
        patterns="Vela configurations (*.ini)",
    ),
)


# The device that stands for its family, and the options that its cycles depend on most. Limits of SRAM
# are not among them: budgets are tried one after the other, and each would run *Prepare* again.
_STANDING = {"u55": "ethos-u55-128", "u65": "ethos-u65-256", "u85": "ethos-u85-256"}
_OF_MEMORY = ("system_config", "memory_mode", OWN_INI_OPTION)


class EthosU:
    """The row of the target table for Ethos-U."""

    id: TargetId = "ethos-u"
    title: str = "Arm Ethos-U"
    variants: tuple[Variant, ...] = tuple(
        Variant(f"ethos-{f.name}-{macs}", f"Ethos-{f.name.upper()}, {macs} MACs", f"Ethos-{f.name.upper()}")
        for f in FAMILIES
        for macs in f.macs
    )
    stages: tuple[StageId, ...] = STAGE_IDS
    toolchain: str = "workbench.engine.ethos_u.toolchain"
    estimator: str = "workbench.engine.ethos_u.estimate:estimate"
    emulation: str = ""
    config_type: type[Config] = QuantConfig
    first_config: PresetId = "a8w8"
    places: bool = True
    float_off_device: bool = False
    remedy: str = "Assign a8w8 to that module, or leave it in float."

    def options(self, choice: TargetChoice, folder: Path | None = None) -> tuple[OptionSpec, ...]:
        """Return the options, each with its values that are valid for the other options."""
        family = family_of(choice.id)
        current = self.complete(choice, folder).options
        configs, modes = _memory_choices(choice.id, current, _readable_ini(choice, folder))
        return (
            OptionSpec(
                "system_config",
                "System configuration",
                "Clock and memory bandwidths that Vela assumes.",
                "choice",
                family.system_config,
                configs,
            ),
            OptionSpec(
                "memory_mode",
                "Memory mode",
                "Memory of weights and tensors.",
                "choice",
                family.memory_mode,
                modes,
            ),
            *_PLAIN,
            *EXTRAS,
        )

    def complete(self, choice: TargetChoice, folder: Path | None = None) -> TargetChoice:
        """Return the choice with every option filled in and invalid values replaced.

        An own .ini, separate weights, a missing ETRecord and the extras are present only if set.
        """
        if choice.id not in {v.id for v in self.variants}:
            return choice
        given = choice.options
        config, mode = _mended_memory(choice, _readable_ini(choice, folder))
        own = {OWN_INI_OPTION: given[OWN_INI_OPTION]} if given.get(OWN_INI_OPTION) else {}
        apart = {EXTERNAL_WEIGHTS: given[EXTERNAL_WEIGHTS]} if given.get(EXTERNAL_WEIGHTS) else {}
        record = {} if given.get(ETRECORD, True) else {ETRECORD: False}
        options: dict[str, JsonValue] = {
            "system_config": config,
            "memory_mode": mode,
            "integer_io": given.get("integer_io", False),
            "optimise": given.get("optimise", "Performance"),
            "arena_cache_bytes": given.get("arena_cache_bytes"),
            "extra_flags": given.get("extra_flags", ""),
            **own,
            **apart,
            **record,
            **changed_extras(given),
        }
        return TargetChoice(id=choice.id, options=options)

    def files(self, choice: TargetChoice, folder: Path) -> Mapping[str, Path]:
        """Return the files that options refer to, by option."""
        reference = choice.options.get(OWN_INI_OPTION)
        return {OWN_INI_OPTION: ini_path(str(reference), folder)} if reference else {}

    def facet(self, choice: TargetChoice, name: str) -> JsonValue:
        """Return what one stage depends on: quantizer, TOSA version and transformations; trials; all."""
        if name == "trials":
            tried = self.tried(choice)
            return {"id": tried.id, **tried.options}
        if name == "quantizer":
            # Which rewrites take fewer cycles depends on the family, where the specification is the same.
            family = family_of(choice.id)
            spec: dict[str, JsonValue] = {"tosa_spec": family.tosa_spec, "family": family.name}
            if passes := changed_passes(choice.options):
                spec["passes"] = passes
            if off := switched_off(choice.options, "quantizer"):
                spec["corrections_off"] = off
            if slow := rewrites_off(choice.options):
                spec["rewrites_off"] = slow
            return spec
        complete = self.complete(choice)
        return {"id": complete.id, **complete.options}

    def tried(self, choice: TargetChoice) -> TargetChoice:
        """Return the choice that rewrites are tried for: its own device where its memory is its own.

        Else it is the device that stands for the family, since what is prepared serves all of it.
        """
        usual = self.complete(TargetChoice(id=_STANDING[family_of(choice.id).name]))
        options = self.complete(choice).options
        own = {name: options[name] for name in _OF_MEMORY if options.get(name) != usual.options.get(name)}
        return TargetChoice(id=choice.id, options=own) if own else TargetChoice(id=usual.id)

    def check(self, choice: TargetChoice, folder: Path | None = None) -> list[ErrorInfo]:
        """Return every problem of the choice: device, family, memory mode, flags.

        An own .ini is checked only if ``folder`` is given.
        """
        variants = [v.id for v in self.variants]
        if choice.id not in variants:
            hint = f"Known: {', '.join(variants)}."
            return [problem("target.id", f"Unknown device {choice.id}.", hint, code="device-unknown")]
        own = choice.options.get(OWN_INI_OPTION)
        memory = check_own(choice, folder) if own else check_memory(choice)
        return [*memory, *check_values(choice), *check_flags(choice.options)]

    def refusal(self, choice: TargetChoice, config: AnyConfig | None, kind: RuleKind) -> str:
        """Return why the target does not support the config in such a rule; "" if it does."""
        del choice
        if kind == "pattern":
            return "The Ethos-U quantizer supports names, not patterns."
        if kind == "quantizer" and not isinstance(config, PluginConfig):
            return "Such a rule needs a plug-in's quantizer, which sets the precision itself."
        if isinstance(config, PluginConfig):
            return ""
        if isinstance(config, QuantConfig):
            return _integers_refusal(config, kind)
        if isinstance(config, FormatConfig):
            return "Number formats are only emulated; no Ethos-U supports them."
        return "Ethos-U needs calibrated ranges; it does not support dynamic ranges." if config else ""

    def warnings(self, choice: TargetChoice, config: AnyConfig | None, operators: Sequence[str]) -> list[str]:
        """Return known problems of these operators with the config."""
        if not isinstance(config, QuantConfig) or config.activation.dtype != "int16":
            return []
        if family_of(choice.id).name == "u85":
            return []
        infos = []
        if any(".matmul." in name or ".bmm." in name for name in operators):
            infos.append("matmul in 16 bit stays on the CPU on U55 and U65 (int8 only).")
        return infos

    def forecast(
        self,
        choice: TargetChoice,
        graph: GraphSnapshot,
        wide: Collection[str],
        narrow: Collection[str],
        integer: Collection[str] = (),
    ) -> list[ErrorInfo]:
        """Return the reasons for rejecting a whole program, and which corrections are off."""
        off = {row.id for row in CORRECTIONS if not is_enabled(row.id, choice.options)}
        infos = list[ErrorInfo]()
        if "zeros_for_transposed" in off:
            infos += operator_refusals(graph, narrow, WRONG_AXIS)
        if "sums_in_8_bits" in off:
            infos += operator_refusals(graph, wide, WIDE_SUMS)
        if family_of(choice.id).name != "u85":
            infos += branch_refusals(graph)
            if "zeros_for_transposed" in off:
                infos += operator_refusals(graph, wide, WIDE_TRANSPOSED)
            if "rounded_convolutions" in off:
                infos += convolution_refusals(graph, wide)
            if "release_passthrough" in off:
                infos += product_refusals(graph, wide)
        if integer:
            infos += corrections_off(choice.options)
        return infos

    def figures(self, choice: TargetChoice, folder: Path | None = None) -> Mapping[str, str]:
        """Return clock and MAC units of the choice."""
        name = str(self.complete(choice, folder).options.get("system_config"))
        ini = _readable_ini(choice, folder)
        config = ini.systems.get(name) if ini else CONFIGS_BY_NAME.get(name)
        macs = str(self.macs_per_cycle(choice.id))
        clock = f"{config.clock_hz / 1e6:.0f} MHz" if config else "unknown"
        return {"MAC units": macs, "Clock": clock}

    def macs_per_cycle(self, variant: str) -> int:
        """Return the number of MAC units from the device id."""
        return int(variant.rpartition("-")[2])


ETHOS_U = EthosU()


def _integers_refusal(config: QuantConfig, kind: RuleKind) -> str:
    """Return why no Ethos-U supports the integer types; "" if one does."""
    if config.activation.dtype == "uint8" and kind != "io":
        return "Ethos-U computes in signed integers; uint8 is supported for inputs and outputs only."
    if config.activation.dtype == "int16" and not config.activation.symmetric:
        return "16-bit activations must be symmetric (zero point 0) on Ethos-U."
    if config.activation.dtype == "int16" and config.weight.bits == 4:
        return "On Ethos-U, 4-bit weights need 8-bit activations."
    return ""


def _readable_ini(choice: TargetChoice, folder: Path | None) -> VelaIni | None:
    """Return the choice's own .ini; None if there is none, or it is unreadable."""
    if folder is None:
        return None
    try:
        return ini_of(choice, folder)
    except WorkbenchError:
        return None


def _memory_choices(
    device: str, current: Mapping[str, JsonValue], ini: VelaIni | None
) -> tuple[tuple[Choice, ...], tuple[Choice, ...]]:
    """Return the choices for system configuration, and for memory mode."""
    config = str(current["system_config"])
    if ini is not None:
        own = (
            Choice(s.name, f"{s.name} ({s.clock_hz // 1_000_000} MHz, {s.ports[1]})")
            for s in ini.systems.values()
        )
        return tuple(own), tuple(Choice(name, name) for name in ini.fitting(config))
    if current.get(OWN_INI_OPTION):
        mode = str(current["memory_mode"])
        return (Choice(config, config),), (Choice(mode, mode),)
    family = family_of(device)
    configs = (
        Choice(c.name, f"{c.name} ({c.clock_hz // 1_000_000} MHz, {c.external})")
        for c in system_configs(family)
    )
    modes = (Choice(m, f"{m}: {MEMORY_MODES[m]}") for m in memory_modes(family, config))
    return tuple(configs), tuple(modes)


def _mended_memory(choice: TargetChoice, ini: VelaIni | None) -> tuple[JsonValue, JsonValue]:
    """Return system configuration and memory mode; invalid ones are replaced by a default."""
    config, mode = (choice.options.get(name) for name in ("system_config", "memory_mode"))
    if choice.options.get(OWN_INI_OPTION):
        if ini is None:
            return config, mode
        config = config if config in ini.systems else next(iter(ini.systems))
        modes = ini.fitting(str(config))
        return config, mode if mode in modes else next(iter(modes), mode)
    family = family_of(choice.id)
    if config not in {c.name for c in system_configs(family)}:
        config = family.system_config
    modes = memory_modes(family, str(config))
    if mode not in modes:
        mode = family.memory_mode if family.memory_mode in modes else "Shared_Sram"
    return config, mode

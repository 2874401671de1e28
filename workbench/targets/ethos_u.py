"""Arm Ethos-U: devices, the system configurations and memory modes that fit them, and limits.

Source: ethosu/config_files/Arm/vela.ini of Vela 5.1.0; limits per NPU measured with
ExecuTorch 1.5.1 and Vela 5.1.0. Vela itself accepts any configuration on any accelerator, so
the family check here is the only one there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.errors import ErrorInfo, Place
from workbench.project.model import RuleKind, TargetChoice
from workbench.targets.base import Choice, OptionSpec, Variant

if TYPE_CHECKING:
    from pydantic import JsonValue

    from workbench.project.qconfig import QuantConfig


@dataclass(frozen=True)
class Family:
    """One generation of the NPU: its device sizes [MACs], its configurations and its defaults."""

    name: str
    macs: tuple[int, ...]
    system_config: str
    memory_mode: str
    tosa_spec: str


@dataclass(frozen=True)
class SystemConfig:
    """Clock [Hz] and the memory on the second AXI port."""

    name: str
    clock_hz: int
    external: str


FAMILIES: tuple[Family, ...] = (
    Family(
        "u55", (32, 64, 128, 256), "Ethos_U55_High_End_Embedded", "Shared_Sram",
        "TOSA-1.0+INT+int16+int4+u55",
    ),
    Family(
        "u65", (256, 512), "Ethos_U65_High_End", "Dedicated_Sram_384KB",
        "TOSA-1.0+INT+int16+int4+u55",
    ),
    Family(
        "u85", (128, 256, 512, 1024, 2048), "Ethos_U85_SYS_DRAM_Mid", "Dedicated_Sram_384KB",
        "TOSA-1.0+INT+int16+int4+cf",
    ),
)  # fmt: skip

SYSTEM_CONFIGS: tuple[SystemConfig, ...] = (
    SystemConfig("Ethos_U55_High_End_Embedded", 500_000_000, "flash"),
    SystemConfig("Ethos_U55_Deep_Embedded", 200_000_000, "flash"),
    SystemConfig("Ethos_U65_Embedded", 500_000_000, "flash"),
    SystemConfig("Ethos_U65_Mid_End", 500_000_000, "dram"),
    SystemConfig("Ethos_U65_High_End", 1_000_000_000, "dram"),
    SystemConfig("Ethos_U65_Client_Server", 1_000_000_000, "dram"),
    SystemConfig("Ethos_U85_SYS_Flash_Low", 200_000_000, "flash"),
    SystemConfig("Ethos_U85_SYS_Flash_High", 500_000_000, "flash"),
    SystemConfig("Ethos_U85_SYS_DRAM_Low", 500_000_000, "dram"),
    SystemConfig("Ethos_U85_SYS_DRAM_Mid", 1_000_000_000, "dram"),
    SystemConfig("Ethos_U85_SYS_DRAM_High", 1_000_000_000, "dram"),
)

MEMORY_MODES: Mapping[str, str] = {
    "Sram_Only": "everything in SRAM",
    "Shared_Sram": "weights external, tensors in SRAM shared with the CPU",
    "Dedicated_Sram": "weights and tensors external, SRAM as the NPU's cache",
    "Dedicated_Sram_256KB": "weights and tensors external, 256 KiB of SRAM as cache",
    "Dedicated_Sram_384KB": "weights and tensors external, 384 KiB of SRAM as cache",
    "Dedicated_Sram_512KB": "weights and tensors external, 512 KiB of SRAM as cache",
}

# Flags that Vela 5.1.0 accepts and ignores, and flags the workbench sets itself.
DEPRECATED_FLAGS = frozenset({
    "--debug-force-regor", "--disable-chaining", "--disable-fwd", "--disable-cascading",
    "--disable-buffering", "--disable-ifm-reuse", "--verbose-operators", "--verbose-packing",
    "--verbose-tensor-purpose", "--verbose-progress", "--max-block-dependency",
    "--recursion-limit", "--timing", "--hillclimb-max-iterations",
})  # fmt: skip
RESERVED_FLAGS = frozenset({
    "--accelerator-config", "--output-format", "--config", "--system-config", "--memory-mode",
    "--output-dir", "--optimise", "--arena-cache-size",
})  # fmt: skip

_FAMILIES = {family.name: family for family in FAMILIES}
_CONFIGS = {config.name: config for config in SYSTEM_CONFIGS}


def family_of(target_id: str) -> Family:
    """Return the NPU generation of a device id such as ``ethos-u55-128``."""
    return _FAMILIES[target_id.split("-")[1]]


def system_configs(family: Family) -> list[SystemConfig]:
    """Return the system configurations made for a generation."""
    prefix = f"Ethos_{family.name.upper()}_"
    return [config for config in SYSTEM_CONFIGS if config.name.startswith(prefix)]


def memory_modes(family: Family, system_config: str) -> list[str]:
    """Return the memory modes that compile: a dedicated SRAM needs DRAM behind it."""
    config = _CONFIGS.get(system_config)
    if family.name == "u55" or (config is not None and config.external == "flash"):
        return ["Sram_Only", "Shared_Sram"]
    return list(MEMORY_MODES)


class EthosU:
    """The row of the target table for Ethos-U."""

    id = "ethos-u"
    title = "Arm Ethos-U"
    variants = tuple(
        Variant(f"ethos-{f.name}-{macs}", f"Ethos-{f.name.upper()}, {macs} MACs")
        for f in FAMILIES
        for macs in f.macs
    )
    stages = (
        "import_model", "export", "prepare", "calibrate", "convert", "evaluate", "lower",
        "verify", "run", "package",
    )  # fmt: skip
    toolchain = "workbench.engine.toolchains.ethos_u"

    def options(self, choice: TargetChoice) -> tuple[OptionSpec, ...]:
        """Return the options, each with only the values that are valid beside the others."""
        family = family_of(choice.id)
        current = self.complete(choice).options
        configs = tuple(
            Choice(c.name, f"{c.name} ({c.clock_hz // 1_000_000} MHz, {c.external})")
            for c in system_configs(family)
        )
        modes = tuple(
            Choice(m, f"{m}: {MEMORY_MODES[m]}")
            for m in memory_modes(family, str(current["system_config"]))
        )
        return (
            OptionSpec(
                "system_config", "System configuration",
                "Clock and memory bandwidths that Vela assumes.", "choice",
                family.system_config, configs,
            ),
            OptionSpec(
                "memory_mode", "Memory mode", "Where weights and tensors live.", "choice",
                family.memory_mode, modes,
            ),
            OptionSpec(
                "integer_io", "Integer input and output",
                "The program takes and gives integers; no quantize or dequantize on the CPU.",
                "switch", default=False,
            ),
            OptionSpec(
                "optimise", "Optimise for", "Size uses the least SRAM and ignores the cache size.",
                "choice", "Performance",
                (Choice("Performance", "Performance"), Choice("Size", "Size")),
            ),
            OptionSpec(
                "arena_cache_bytes", "SRAM limit [bytes]",
                "Upper limit for the scheduler; empty leaves it to the memory mode.", "number",
                None,
            ),
            OptionSpec("extra_flags", "More Vela flags", "As on Vela's command line.", "text", ""),
        )  # fmt: skip

    def complete(self, choice: TargetChoice) -> TargetChoice:
        """Return the choice with every option filled in; what does not fit gets the default."""
        if choice.id not in {v.id for v in self.variants}:
            return choice
        family = family_of(choice.id)
        given = choice.options
        config = given.get("system_config")
        if config not in {c.name for c in system_configs(family)}:
            config = family.system_config
        modes = memory_modes(family, str(config))
        mode = given.get("memory_mode")
        if mode not in modes:
            mode = family.memory_mode if family.memory_mode in modes else "Shared_Sram"
        options: dict[str, JsonValue] = {
            "system_config": config,
            "memory_mode": mode,
            "integer_io": given.get("integer_io", False),
            "optimise": given.get("optimise", "Performance"),
            "arena_cache_bytes": given.get("arena_cache_bytes"),
            "extra_flags": given.get("extra_flags", ""),
        }
        return TargetChoice(id=choice.id, options=options)

    def facet(self, choice: TargetChoice, name: str) -> JsonValue:
        """Return what one stage depends on; the quantizer sees only the TOSA specification."""
        if name == "quantizer":
            return {"tosa_spec": family_of(choice.id).tosa_spec}
        complete = self.complete(choice)
        return {"id": complete.id, **complete.options}

    def check(self, choice: TargetChoice) -> list[ErrorInfo]:
        """Return every problem of the choice: device, family, memory mode, flags."""
        variants = [v.id for v in self.variants]
        if choice.id not in variants:
            hint = f"Known: {', '.join(variants)}."
            return [_problem("target.id", f"There is no device {choice.id}.", hint)]
        return [*_check_memory(choice), *_check_values(choice), *_check_flags(choice)]

    def refusal(self, choice: TargetChoice, config: QuantConfig | None, kind: RuleKind) -> str:
        """Return why the target cannot take the config in such a rule; "" when it can."""
        del choice
        if config is None:
            return ""
        if config.activation.dtype == "uint8" and kind != "io":
            return "Ethos-U computes in signed integers; uint8 is for inputs and outputs only."
        if config.activation.dtype == "int16" and not config.activation.symmetric:
            return "16-bit activations must be symmetric (zero point 0) on Ethos-U."
        if config.activation.dtype == "int16" and config.weight.bits == 4:
            return "4-bit weights go with 8-bit activations on Ethos-U."
        return ""

    def warnings(
        self, choice: TargetChoice, config: QuantConfig | None, operators: Sequence[str]
    ) -> list[str]:
        """Return what is known to go wrong with these operators under the config."""
        if config is None or config.activation.dtype != "int16":
            return []
        if family_of(choice.id).name == "u85":
            return []
        found = []
        if any("softmax" in name for name in operators):
            found.append("softmax in 16 bit can make Vela refuse the whole program on U55 and U65.")
        if any(".matmul." in name or ".bmm." in name for name in operators):
            found.append("matmul in 16 bit stays on the CPU on U55 and U65 (int8 only).")
        return found

    def figures(self, choice: TargetChoice) -> Mapping[str, str]:
        """Return clock and MAC units of the choice."""
        config = _CONFIGS.get(str(self.complete(choice).options.get("system_config")))
        macs = choice.id.rsplit("-", 1)[-1]
        clock = f"{config.clock_hz / 1e6:.0f} MHz" if config else "unknown"
        return {"MAC units": macs, "Clock": clock}


def _problem(option: str, message: str, hint: str = "") -> ErrorInfo:
    return ErrorInfo(message=message, hint=hint, where=Place(kind="option", id=option))


def _check_memory(choice: TargetChoice) -> list[ErrorInfo]:
    family = family_of(choice.id)
    config, mode = choice.options.get("system_config"), choice.options.get("memory_mode")
    problems = []
    names = [c.name for c in system_configs(family)]
    if config is not None and config not in names:
        problems.append(_problem(
            "target.options.system_config",
            f"{config} is not a system configuration of Ethos-{family.name.upper()}.",
            f"Valid: {', '.join(names)}.",
        ))  # fmt: skip
    modes = memory_modes(family, str(config or family.system_config))
    if mode is not None and mode not in modes:
        problems.append(_problem(
            "target.options.memory_mode",
            f"{mode} does not fit {config or family.system_config}.",
            f"Valid: {', '.join(modes)}.",
        ))  # fmt: skip
    return problems


def _check_values(choice: TargetChoice) -> list[ErrorInfo]:
    known = {
        "system_config": str, "memory_mode": str, "integer_io": bool, "optimise": str,
        "arena_cache_bytes": int, "extra_flags": str,
    }  # fmt: skip
    problems = []
    for name, value in choice.options.items():
        place = f"target.options.{name}"
        if name not in known:
            problems.append(_problem(place, f"There is no option {name}."))
        elif value is not None and not isinstance(value, known[name]):
            problems.append(_problem(place, f"{value!r} is not a {known[name].__name__}."))
    if choice.options.get("optimise", "Performance") not in {"Performance", "Size"}:
        problems.append(_problem("target.options.optimise", "Choose Performance or Size."))
    limit = choice.options.get("arena_cache_bytes")
    if isinstance(limit, int) and not 0 < limit <= 1 << 32:
        problems.append(_problem("target.options.arena_cache_bytes", f"{limit} is out of range."))
    return problems


def _check_flags(choice: TargetChoice) -> list[ErrorInfo]:
    flags = choice.options.get("extra_flags")
    problems = []
    for word in flags.split() if isinstance(flags, str) else []:
        name = word.split("=")[0]
        if name in DEPRECATED_FLAGS:
            problems.append(_problem(
                "target.options.extra_flags", f"Vela 5.1 ignores {name}.", "Leave it out."
            ))  # fmt: skip
        elif name in RESERVED_FLAGS:
            problems.append(_problem(
                "target.options.extra_flags", f"{name} is set by the workbench.",
                "Use the option of that name.",
            ))  # fmt: skip
    return problems


def clock_hz(system_config: str) -> int:
    """Return the NPU clock [Hz] that a system configuration assumes."""
    return _CONFIGS[system_config].clock_hz


def has_control_flow(target_id: str) -> bool:
    """Return whether a device runs conditions and loops: TOSA's control flow extension."""
    return "+cf" in family_of(target_id).tosa_spec

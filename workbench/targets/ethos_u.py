"""Arm Ethos-U: devices, the system configurations and memory modes that fit them, and limits.

Source: ethosu/config_files/Arm/vela.ini of Vela 5.1.0; limits per NPU measured with
ExecuTorch 1.5.1 and Vela 5.1.0. Vela itself accepts any configuration on any accelerator, so
the family check here is the only one there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from workbench.errors import ErrorInfo, Place
from workbench.project.model import RuleKind, TargetChoice
from workbench.targets.base import Choice, OptionSpec, Variant
from workbench.targets.ethos_u_devices import (
    CONFIGS_BY_NAME,
    DEPRECATED_FLAGS,
    FAMILIES,
    MEMORY_MODES,
    RESERVED_FLAGS,
    family_of,
    memory_modes,
    system_configs,
)

if TYPE_CHECKING:
    from pydantic import JsonValue

    from workbench.project.qconfig import QuantConfig


class EthosU:
    """The row of the target table for Ethos-U."""

    id: str = "ethos-u"
    title: str = "Arm Ethos-U"
    variants: tuple[Variant, ...] = tuple(
        Variant(f"ethos-{f.name}-{macs}", f"Ethos-{f.name.upper()}, {macs} MACs")
        for f in FAMILIES
        for macs in f.macs
    )
    stages: tuple[str, ...] = (
        "import_model", "export", "prepare", "calibrate", "convert", "evaluate", "lower",
        "verify", "run", "package",
    )  # fmt: skip
    toolchain: str = "workbench.engine.toolchains.ethos_u"
    estimator: str = "workbench.engine.compilers.vela:estimate"

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
        config = CONFIGS_BY_NAME.get(str(self.complete(choice).options.get("system_config")))
        macs = str(self.macs_per_cycle(choice.id))
        clock = f"{config.clock_hz / 1e6:.0f} MHz" if config else "unknown"
        return {"MAC units": macs, "Clock": clock}

    def macs_per_cycle(self, variant: str) -> int:
        """Return the number of MAC units, which the device's name ends with."""
        return int(variant.rsplit("-", 1)[-1])


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

"""Validation of an Ethos-U device and its options."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.errors import ErrorInfo, Place, WorkbenchError
from workbench.targets.ethos_u.devices import (
    DEPRECATED_FLAGS,
    ETRECORD,
    EXTERNAL_WEIGHTS,
    LISTING_FLAGS,
    RESERVED_FLAGS,
    family_of,
    memory_modes,
    system_configs,
)
from workbench.targets.ethos_u.options import EXTRAS_BY_NAME, FLAGS, vela_flags, wrong_extras
from workbench.targets.ethos_u.vela_ini import OPTION as OWN_INI_OPTION
from workbench.targets.ethos_u.vela_ini import ini_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workbench.project.model import TargetChoice


def problem(option: str, message: str, hint: str = "", *, code: str) -> ErrorInfo:
    """Return a problem of one option."""
    return ErrorInfo(message=message, hint=hint, where=Place(kind="option", id=option), code=code)


def check_memory(choice: TargetChoice) -> list[ErrorInfo]:
    """Return the problems of names from Vela's own .ini."""
    family = family_of(choice.id)
    config, mode = choice.options.get("system_config"), choice.options.get("memory_mode")
    problems = []
    names = [c.name for c in system_configs(family)]
    if config is not None and config not in names:
        problems.append(
            problem(
                "target.options.system_config",
                f"{config} is not a system configuration of Ethos-{family.name.upper()}.",
                f"Valid: {', '.join(names)}.",
                code="vela-system-config-unknown",
            )
        )
    modes = memory_modes(family, str(config or family.system_config))
    if mode is not None and mode not in modes:
        problems.append(
            problem(
                "target.options.memory_mode",
                f"{mode} does not fit {config or family.system_config}.",
                f"Valid: {', '.join(modes)}.",
                code="vela-memory-mode-unfit",
            )
        )
    return problems


def check_own(choice: TargetChoice, folder: Path | None) -> list[ErrorInfo]:
    """Return the problems of an own .ini, and of the names chosen from it."""
    if folder is None:
        return []
    try:
        ini = ini_of(choice, folder)
    except WorkbenchError as error:
        return list(error.infos)
    assert ini is not None
    config, mode = (choice.options.get(name) for name in ("system_config", "memory_mode"))
    if config not in ini.systems:
        what = f"The .ini has no system configuration {config or 'without a name'}."
        return [
            problem(
                "target.options.system_config",
                what,
                f"It has {', '.join(ini.systems)}.",
                code="vela-config-system-missing",
            )
        ]
    modes = ini.fitting(str(config))
    if mode not in modes:
        hint = f"It has {', '.join(modes)}." if modes else "Its arena must be in Sram or Dram."
        what = f"The .ini has no memory mode {mode or 'without a name'} that fits {config}."
        return [problem("target.options.memory_mode", what, hint, code="vela-config-memory-mode-missing")]
    return []


def check_values(choice: TargetChoice) -> list[ErrorInfo]:
    """Return a problem for every option that is unknown, of a wrong type or out of range."""
    known = {
        "system_config": str,
        "memory_mode": str,
        "integer_io": bool,
        "optimise": str,
        "arena_cache_bytes": int,
        "extra_flags": str,
        OWN_INI_OPTION: str,
        EXTERNAL_WEIGHTS: bool,
        ETRECORD: bool,
    }
    faults: list[tuple[str, str, str]] = []
    for name, value in choice.options.items():
        if name in EXTRAS_BY_NAME:
            continue
        if name not in known:
            faults.append((name, f"Unknown option {name}.", "target-option-unknown"))
        elif value is not None and not isinstance(value, known[name]):
            message = f"{value!r} is not a {known[name].__name__}."
            faults.append((name, message, "target-option-type"))
    if choice.options.get("optimise", "Performance") not in {"Performance", "Size"}:
        faults.append(("optimise", "Choose Performance or Size.", "vela-optimise-invalid"))
    limit = choice.options.get("arena_cache_bytes")
    if isinstance(limit, int) and not 0 < limit <= 1 << 32:
        message = f"{limit} is out of range."
        faults.append(("arena_cache_bytes", message, "vela-arena-cache-out-of-range"))
    extras = [(*wrong, "target-option-invalid") for wrong in wrong_extras(choice.options)]
    return [
        problem(f"target.options.{name}", message, code=code) for name, message, code in [*faults, *extras]
    ]


def flags_of(options: Mapping[str, Any]) -> list[str]:
    """Return Vela's flags for complete options, in addition to the fixed ones.

    Raises:
        WorkbenchError: one of them is refused.
    """
    if problems := check_flags(options):
        raise WorkbenchError(problems)
    return vela_flags(options)


def check_flags(options: Mapping[str, Any]) -> list[ErrorInfo]:
    """Return a problem for flags that Vela ignores, that compile nothing, and that are options."""
    flags = options.get("extra_flags")
    problems = []
    for word in flags.split() if isinstance(flags, str) else []:
        name = _unabbreviated(word.split("=")[0])
        if name in DEPRECATED_FLAGS:
            refusal = f"Vela 5.1 ignores {name}.", "Leave it out.", "vela-flag-ignored"
        elif name in LISTING_FLAGS:
            refusal = f"Vela compiles nothing with {name}.", "Leave it out.", "vela-flag-lists"
        elif name in RESERVED_FLAGS or name in FLAGS.values():
            refusal = f"{name} is set by the workbench.", "Use the option of that name.", "vela-flag-reserved"
        else:
            continue
        message, hint, code = refusal
        problems.append(problem("target.options.extra_flags", message, hint, code=code))
    return problems


def _unabbreviated(name: str) -> str:
    """Return the flag that Vela takes a word for: its parser completes what begins a flag."""
    known = DEPRECATED_FLAGS | LISTING_FLAGS | RESERVED_FLAGS | frozenset(FLAGS.values())
    if name in known or not name.startswith("-"):
        return name
    return next((flag for flag in sorted(known) if flag.startswith(name)), name)

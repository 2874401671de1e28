"""EXTRAS: rarely used options of Vela and of ExecuTorch's transformations.

A choice contains them only if they differ from the tools' defaults, so that new options do not
change existing projects. Source: ``vela --help`` of 5.1.0 and ExecuTorch 1.5.1,
``backends/arm/common/pipeline_config.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from workbench.targets.base import Choice, OptionSpec
from workbench.targets.ethos_u.corrections import CORRECTIONS, GROUP, Correction
from workbench.targets.ethos_u.rewrites import GROUP as FASTER
from workbench.targets.ethos_u.rewrites import REWRITES, Rewrite

if TYPE_CHECKING:
    from pydantic import JsonValue

COMPILER, TRANSFORMATIONS, ON_CPU = "Vela", "Before compiling", "On the CPU"
CPU_KERNELS = "cpu_kernels"
# ExecuTorch's CPU names; they determine CMSIS-NN's scratch size.
CMSIS_NN_CPUS = {"cmsis_nn": "M55", "cmsis_nn_dsp": "M33"}
_ITSELF = Choice("", "Default")
# ExecuTorch's default replacements for infinities.
NEGATIVE_INFINITY, POSITIVE_INFINITY = -256.0, 255.0


def _switch_of(row: Correction | Rewrite, group: str) -> OptionSpec:
    return OptionSpec(row.id, row.title, row.instead, "switch", default=True, group=group)


EXTRAS: tuple[OptionSpec, ...] = (
    OptionSpec(
        "tensor_allocator",
        "Tensor allocator",
        ("HillClimb searches longest for the smallest SRAM; LinearAlloc never reuses memory."),
        "choice",
        "",
        (
            _ITSELF,
            Choice("HillClimb", "HillClimb"),
            Choice("Greedy", "Greedy"),
            Choice("LinearAlloc", "LinearAlloc"),
        ),
        group=COMPILER,
    ),
    OptionSpec(
        "cop_format",
        "Driver action format",
        "COP2 is for direct-drive drivers under Linux.",
        "choice",
        "",
        (_ITSELF, Choice("COP1", "COP1"), Choice("COP2", "COP2")),
        group=COMPILER,
    ),
    OptionSpec(
        "separate_io_regions",
        "Separate regions for inputs and outputs",
        "For drivers that map them separately; needs COP2.",
        "switch",
        default=False,
        group=COMPILER,
    ),
    OptionSpec(
        "softmax",
        "Softmax",
        "Masked takes fills by a mask apart for the NPU; stable leaves them to the CPU. Masks that "
        "bounded_masks rewrites, which are most in 8 bits, are not affected.",
        "choice",
        "",
        (_ITSELF, Choice("MASKED", "Masked"), Choice("STABLE", "Stable")),
        group=TRANSFORMATIONS,
    ),
    OptionSpec(
        "leaky_relu",
        "Leaky ReLU",
        "As clamp, multiply and add, or as one table.",
        "choice",
        "",
        (_ITSELF, Choice("DECOMPOSE", "Decomposed"), Choice("TABLE", "Table")),
        group=TRANSFORMATIONS,
    ),
    OptionSpec(
        "sdpa_guard",
        "Guard for masked attention rows",
        "Added by scaled_dot_product_attention for rows of minus infinity; can be "
        "removed only if no row is fully masked.",
        "choice",
        "",
        (
            _ITSELF,
            Choice("PRESERVE", "Keep"),
            Choice("REMOVE", "Remove"),
            Choice("REMOVE_WHEN_PROVEN", "Remove if provably unneeded"),
        ),
        group=TRANSFORMATIONS,
    ),
    OptionSpec(
        "negative_infinity",
        "Replacement for minus infinity",
        "Infinities cannot be quantized; attention masks contain many of them. Masks that "
        "bounded_masks rewrites have none.",
        "real",
        NEGATIVE_INFINITY,
        group=TRANSFORMATIONS,
    ),
    OptionSpec(
        "positive_infinity",
        "Replacement for infinity",
        "Infinities cannot be quantized.",
        "real",
        POSITIVE_INFINITY,
        group=TRANSFORMATIONS,
    ),
    OptionSpec(
        CPU_KERNELS,
        "CPU kernels",
        "The library that quantizes and dequantizes, and whether CMSIS-NN computes "
        "int8 operators that the NPU does not support (channels last). Default: "
        "quantized_decomposed and float.",
        "choice",
        "",
        (
            _ITSELF,
            Choice("cortex_m", "cortex_m at the border"),
            Choice("cmsis_nn", "cortex_m and CMSIS-NN, M55 or M85"),
            Choice("cmsis_nn_dsp", "cortex_m and CMSIS-NN, M33"),
        ),
        group=ON_CPU,
    ),
    *(_switch_of(row, GROUP) for row in CORRECTIONS if not row.saves_cycles),
    *(_switch_of(row, FASTER) for row in REWRITES),
    *(_switch_of(row, FASTER) for row in CORRECTIONS if row.saves_cycles),
)
EXTRAS_BY_NAME = {option.name: option for option in EXTRAS}
FLAGS = {
    "tensor_allocator": "--tensor-allocator",
    "cop_format": "--cop-format",
    "separate_io_regions": "--separate-io-regions",
}
_PASSES = tuple(option.name for option in EXTRAS if option.group == TRANSFORMATIONS)


def changed_extras(options: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the extras of a choice that differ from their defaults."""
    return {
        option.name: options[option.name]
        for option in EXTRAS
        if options.get(option.name) not in {None, option.default}
    }


def changed_passes(options: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the extras that change the program before quantization or compilation."""
    return {name: value for name, value in changed_extras(options).items() if name in _PASSES}


def vela_flags(options: Mapping[str, Any]) -> list[str]:
    """Return Vela's flags for complete options, in addition to the fixed ones."""
    flags = []
    if options["optimise"] != "Performance":
        flags.append(f"--optimise={options['optimise']}")
    if options["arena_cache_bytes"]:
        flags.append(f"--arena-cache-size={options['arena_cache_bytes']}")
    for name, value in changed_extras(options).items():
        if name in FLAGS:
            flags.append(FLAGS[name] if value is True else f"{FLAGS[name]}={value}")
    return [*flags, *str(options["extra_flags"]).split()]


def wrong_extras(options: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
    """Yield the name of each extra with an invalid value, and a message."""
    for option in EXTRAS:
        value = options.get(option.name)
        if value is None:
            continue
        if option.kind == "choice" and value not in {choice.value for choice in option.choices}:
            known = ", ".join(str(c.value) for c in option.choices if c.value)
            yield option.name, f"{value!r} is not one of {known}."
        elif option.kind == "switch" and not isinstance(value, bool):
            yield option.name, f"{value!r} is neither true nor false."
        elif option.kind == "real" and not _is_finite(value):
            yield option.name, f"{value!r} is not a finite number."
    least, most = (
        options.get(name, default)
        for name, default in (
            ("negative_infinity", NEGATIVE_INFINITY),
            ("positive_infinity", POSITIVE_INFINITY),
        )
    )
    if _is_finite(least) and _is_finite(most) and not float(str(least)) < float(str(most)):
        yield "negative_infinity", "It must be less than the replacement for infinity."


def _is_finite(value: JsonValue) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(float(str(value)))

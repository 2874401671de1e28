"""Number formats and their parameters, without torch."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from workbench.errors import Place, failure
from workbench.results.programs import FLOAT_BITS
from workbench.targets.formats.parameters import ParameterSpec as P
from workbench.targets.formats.parameters import Role, read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


Family = Literal["integer", "float", "log", "sign", "block", "mx"]


@dataclass(frozen=True)
class SchemeSpec:
    """One number format as shown in forms and lists.

    Attributes:
        name: MASE's name, if it has one.
        title: Display name.
        family: Formats of one family share an engine module.
        parameters: In the order of forms.
        differences: Differences of the mase-compatible form; () if none.
        block: Whether elements share an exponent or a scale.
        mase: Whether MASE has it; otherwise there is only the textbook form.
        operand: Whether rules may use it for an operand (else it applies to arrays only).
        aliases: Alternative names.
        source: Definition of the textbook form.
    """

    name: str
    title: str
    family: Family
    parameters: tuple[P, ...]
    differences: tuple[str, ...] = ()
    block: bool = False
    mase: bool = True
    operand: bool = True
    aliases: tuple[str, ...] = ()
    source: str = ""


_WIDTH = P("width", "int", "Bits of an element, sign included.", least=1, most=32)
_FRAC = P("frac_width", "int", "Fraction bits; none is half the width.", optional=True, least=-64, most=64)
_SIGNED = P("is_signed", "bool", "Two's complement instead of unsigned.", False, True)
_FLOOR = P("floor", "bool", "Round down instead of to nearest even.", False, False)
_EXPONENT = P("exponent_width", "int", "Bits of the exponent.", least=1, most=11)
_BIAS = P(
    "exponent_bias",
    "int",
    "Subtracted from the stored exponent; none is 2^(E-1)-1.",
    required=False,
    optional=True,
    least=-1100,
    most=1100,
)
_BIAS_WIDTH = P("exponent_bias_width", "int", "Bits of the bias that a block shares.", least=1, most=11)
_BLOCK = P("block_size", "ints", "Block size per dimension from the right; -1 is all of it.", least=-1)
_SKIP = P(
    "skip_first_dim",
    "bool",
    "Never share along dimension 0; none depends on the role.",
    required=False,
    optional=True,
)
_UNUSED_WIDTH = P("width", "int", "Not used; the format has a fixed width.", required=False, optional=True)
_STOCHASTIC = P("stochastic", "bool", "Draw the sign with the hard sigmoid's probability.", False, False)
_BIPOLAR = P("bipolar", "bool", "Signs -1 and 1 instead of 0 and 1.", False, True)
_LEVELS = P("levels", "int", "Number of binary residuals.", required=False, default=2, least=1, most=8)
_MEANS = P(
    "means", "numbers", "Size of each residual; none is R..1 over their sum.", required=False, optional=True
)
_MX_BLOCK = P("block_size", "int", "Elements that share a scale.", required=False, default=32, least=1)
_MX_DIM = P(
    "block_dim",
    "int",
    "Dimension of the blocks; none depends on the role.",
    required=False,
    optional=True,
    least=-8,
    most=7,
)
_SCALE_BITS = P(
    "scale_bits", "int", "Bits of the shared power of two.", required=False, default=8, least=2, most=8
)
_SEARCH = P(
    "quantile_search", "bool", "Search a percentile for clipping (mase-compatible only).", False, False
)


def _unused(name: str) -> P:
    return P(name, "number", "Not used; accepted for MASE's configurations.", False, optional=True)


_NO_CARRY = "A value in the top half step of a binade rounds down instead of up to the next power."
_TINY = "Values of at most 1e-8 pass unquantized."
_INF_NAN = "Infinity becomes NaN instead of the largest value."
_LOG2 = "Exponents come from a float32 logarithm with 1e-9 added, off by a few floats below 2^k."
_LAYOUT = "Arrays of four or more dimensions, and 3-D weights, are refused."

_UNDERFLOW = "Rounded down, a negative value too small for the type times 2^f becomes 0, not -1 step."

SPECS: tuple[SchemeSpec, ...] = (
    SchemeSpec(
        "integer",
        "Fixed point, rounded to nearest even",
        "integer",
        (_WIDTH, _FRAC, _SIGNED, _FLOOR),
        (_UNDERFLOW,),
        source="two's complement fixed point, Q notation",
    ),
    SchemeSpec(
        "fixed",
        "Fixed point with a quantized output",
        "integer",
        (_WIDTH, _FRAC, _SIGNED, _FLOOR),
        ("Only linear, activations, add, sub, mul, matmul and bmm take it.", _UNDERFLOW),
        source="two's complement fixed point, Q notation",
    ),
    SchemeSpec(
        "integer_floor",
        "Fixed point, rounded down",
        "integer",
        (_WIDTH, _FRAC, _SIGNED),
        (_UNDERFLOW,),
        source="two's complement fixed point, truncated",
    ),
    SchemeSpec(
        "scale_integer",
        "Integer with a scale per row",
        "integer",
        (_WIDTH, _SIGNED, _unused("quantile")),
        ("The scale is 2^(w-1)/(max+1e-9), so that the largest positive value saturates.",),
        operand=False,
        source="symmetric absolute-maximum quantization",
    ),
    SchemeSpec(
        "flexround",
        "FlexRound's activation grid",
        "integer",
        (
            P("width", "int", "Bits of an element.", least=1, most=32, aliases=("bit_width",)),
            _FRAC,
            P("symmetric", "bool", "Signed rather than unsigned.", False, True),
        ),
        (
            "Arrays below 10 elements or 1e-5 in size pass unquantized.",
            "Values are clipped before they are rounded.",
        ),
        aliases=("flexround(activation)",),
        operand=False,
        source="Lee et al. 2023, FlexRound, arXiv 2306.00317",
    ),
    SchemeSpec(
        "minifloat_ieee",
        "Minifloat with subnormals, all codes finite",
        "float",
        (_WIDTH, _EXPONENT, _BIAS),
        (_NO_CARRY, _TINY, _INF_NAN, _LOG2),
        source="IEEE 754-2019, 3.3 and 4.3.1, without codes for infinity and NaN",
    ),
    SchemeSpec(
        "minifloat_denorm",
        "Minifloat without a hidden bit",
        "float",
        (_WIDTH, _EXPONENT, _BIAS),
        ("Powers of two lose one step.", _NO_CARRY, _TINY, _INF_NAN, _LOG2),
        source="sign, exponent and unnormalized fraction",
    ),
    SchemeSpec(
        "log",
        "Powers of two",
        "log",
        (_WIDTH, _BIAS),
        (
            "Zero becomes the smallest positive power.",
            "Thresholds are shifted by a tenth of the smallest power.",
            "Small negative values become positive.",
        ),
        source="Miyashita et al. 2016, arXiv 1603.01025, 3.2 LogQuant",
    ),
    SchemeSpec(
        "binary",
        "One bit: a sign",
        "sign",
        (_UNUSED_WIDTH, _STOCHASTIC, _BIPOLAR),
        (
            "NaN becomes -1.",
            "The result is float32 whatever the input is.",
            "Zero and one: only 4-D, scaled by the mean of |x| of each slice; stochastic draws"
            " nothing, the threshold moves to -1.",
        ),
        source="Courbariaux et al. 2015, arXiv 1511.00363, 2.2 and 2.3",
    ),
    SchemeSpec(
        "binary_residual",
        "Sum of signs",
        "sign",
        (
            _UNUSED_WIDTH,
            _STOCHASTIC,
            _BIPOLAR,
            _LEVELS,
            _MEANS,
            P("residual_sign", "bool", "Whether the data is binarized.", False, True),
            P("binary_training", "bool", "Weights are signs, not values.", False, True),
        ),
        (
            "Levels come stacked on a new first dimension (one level: not).",
            "A residual of zero has no sign and stays zero.",
            "Four levels or more fail.",
            "Gradients vanish where a residual exceeds 1 and carry the means.",
        ),
        source="Ghasemzadeh et al. 2018, ReBNet, arXiv 1711.01243, 3.1",
    ),
    SchemeSpec(
        "ternary",
        "Minus, zero, plus",
        "sign",
        (
            _UNUSED_WIDTH,
            P("scaling_factor", "bool", "Scale by the mean of nonzeros.", False, True),
            _unused("mean"),
            _unused("median"),
            _unused("max"),
            _unused("maximum"),
            _unused("threshold"),
        ),
        (
            "The threshold is 0.75 of the mean of |x| instead of 0.7.",
            "Only 4-D.",
            "A slice of zeros becomes NaN with the scale on.",
        ),
        source="Li and Liu 2016, Ternary Weight Networks, arXiv 1605.04711, 2.3",
    ),
    SchemeSpec(
        "block_fp",
        "Block floating point",
        "block",
        (_WIDTH, _EXPONENT, _BIAS, _BLOCK, _SKIP),
        (
            "A block whose largest value is a power of two saturates it.",
            _TINY,
            _INF_NAN,
            "With an exponent up to 2^128 large blocks become NaN.",
            _LAYOUT,
        ),
        block=True,
        source="Darvish Rouhani et al. 2020, MSFP, NeurIPS 33",
    ),
    SchemeSpec(
        "block_minifloat",
        "Minifloat with a bias per block",
        "block",
        (_WIDTH, _EXPONENT, _BIAS_WIDTH, _BLOCK, _SKIP),
        (
            "The bias has the wrong sign: small blocks vanish, large ones saturate.",
            _NO_CARRY,
            _TINY,
            _INF_NAN,
            "There is no gradient.",
            _LAYOUT,
        ),
        block=True,
        source="Fox et al. 2021, Block Minifloat, ICLR",
    ),
    SchemeSpec(
        "block_log",
        "Powers of two with a bias per block",
        "block",
        (_WIDTH, _BIAS_WIDTH, _BLOCK, _SKIP),
        (
            "Zero becomes the smallest positive power of its block.",
            "Thresholds are shifted by a tenth of the smallest power.",
            "The second operand of matmul is not quantized.",
            _LAYOUT,
        ),
        block=True,
        source="Miyashita et al. 2016 with the bias of Fox et al. 2021",
    ),
    SchemeSpec(
        "mxint_hardware",
        "Integers with a shared exponent on tiles",
        "mx",
        (_WIDTH, _EXPONENT, P("parallelism", "ints", "Tile of the last two dimensions.", least=1)),
        (
            "The fraction has 2^(E-1) bits whatever the width is.",
            "Values are rounded down, not to nearest.",
            "There is no gradient.",
            "Tiles must divide the array.",
        ),
        block=True,
        source="OCP Microscaling Formats v1.0, 5.3.2, on tiles",
    ),
    SchemeSpec(
        "logicnets",
        "Integer inputs of truth tables",
        "integer",
        (_WIDTH, _FRAC, _SIGNED),
        source="Umuroglu et al. 2020, arXiv 2004.03021",
    ),
    SchemeSpec(
        "lutnet",
        "Residual-sign inputs of look-up tables",
        "sign",
        (
            _UNUSED_WIDTH,
            _unused("frac_width"),
            _LEVELS,
            _MEANS,
            P("k", "int", "Inputs of a table.", False, 2, least=1, most=8),
            P("binarization_level", "int", "Binary weights.", False, 1, least=0, most=1),
            P("input_expanded", "bool", "Whether every table has its own inputs.", False, True),
            P("in_dim", "int", "Number of input features.", False, optional=True, aliases=("dim",)),
        ),
        ("Levels come stacked on a new first dimension.", "A residual of zero has no sign and stays zero."),
        source="Wang et al. 2019, LUTNet, arXiv 1904.00938",
    ),
    SchemeSpec(
        "mxint",
        "Microscaling integers",
        "mx",
        (
            P("width", "int", "Bits of an element.", least=2, most=16, aliases=("element_bits",)),
            _MX_BLOCK,
            _MX_DIM,
            _SCALE_BITS,
            _SEARCH,
        ),
        (
            "A block whose largest value is a power of two saturates it.",
            "Blocks run on from row to row; the number of elements must divide.",
            "A block above 2^127 becomes NaN.",
        ),
        block=True,
        source="OCP Microscaling Formats v1.0, 5.3.2 and 6.3",
    ),
    SchemeSpec(
        "mxfp",
        "Microscaling floats",
        "mx",
        (
            P(
                "exponent_width",
                "int",
                "Bits of an element's exponent.",
                least=1,
                most=5,
                aliases=("element_exp_bits",),
            ),
            P(
                "frac_width",
                "int",
                "Bits of an element's fraction.",
                least=1,
                most=3,
                aliases=("element_frac_bits",),
            ),
            _UNUSED_WIDTH,
            _MX_BLOCK,
            _MX_DIM,
            _SCALE_BITS,
            _SEARCH,
        ),
        (
            "All codes are finite: E4M3 reaches 480, E5M2 114688.",
            "A carry into an odd exponent is lost: 1.99 becomes 1.",
            "Subnormals are truncated or lost.",
            "The last 8 bits of a float32 are cut before rounding.",
            "Blocks run on from row to row; the number of elements must divide.",
        ),
        block=True,
        source="OCP Microscaling Formats v1.0, 5.3.1 and 6.3",
    ),
    SchemeSpec(
        "nvfp4",
        "E2M1 in blocks of 16 with E4M3 scales and one float32 scale",
        "mx",
        (P("block_size", "int", "Elements that share a scale.", False, 16, least=1), _MX_DIM),
        block=True,
        mase=False,
        source="NVIDIA Blackwell NVFP4: E2M1, E4M3 block scales, float32 tensor scale",
    ),
    SchemeSpec(
        "minifloat_mx",
        "The element format of MASE's microscaling",
        "mx",
        (
            P("exponent_width", "int", "Bits of the exponent.", least=1, most=8, aliases=("exp_bits",)),
            P("frac_width", "int", "Bits of the fraction.", least=1, most=22, aliases=("frac_bits",)),
            P("is_finite", "bool", "All codes are numbers.", False, True),
            P(
                "round_mode",
                "choice",
                "Nearest, to zero, away from zero, to zero.",
                False,
                "rn",
                choices=("rn", "rz", "ru", "rd"),
            ),
        ),
        (
            "A carry into an odd exponent is lost.",
            "Subnormals are truncated or lost.",
            "The last 8 bits of a float32 are cut before rounding.",
        ),
        aliases=("minifloat_mx(internal)",),
        operand=False,
        source="OCP Microscaling Formats v1.0, 5.3.1",
    ),
)


_BY_NAME = {name: spec for spec in SPECS for name in (spec.name, *spec.aliases)}


def spec_of(name: str) -> SchemeSpec:
    """Return the number format of that name.

    Raises:
        WorkbenchError: there is none.
    """
    if (spec := _BY_NAME.get(name)) is not None:
        return spec
    close = difflib.get_close_matches(name, _BY_NAME)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    raise failure(
        f"Unknown number format {name!r}.",
        f"{hint}Known: {', '.join(spec.name for spec in SPECS)}.",
        Place(kind="option", id="scheme"),
        code="format-unknown",
    )


# Blocks of data are along the last dimension, those of a weight along the second (the reduction
# dimension), those of a bias along its only one.
_DIMENSIONS: Mapping[str, int] = {"data": -1, "weight": 1, "bias": 0}


def skips_first(parameters: Mapping[str, Any], role: Role) -> bool:
    """Return whether blocks never span the first dimension; by default true for data."""
    skip = parameters["skip_first_dim"]
    return role == "data" if skip is None else bool(skip)


def block_sizes(shape: Sequence[int], parameters: Mapping[str, Any], role: Role) -> tuple[int, ...]:
    """Return the size of a block along each dimension.

    With ``skip_first_dim`` a block has one index of the first dimension; 1-D arrays ignore it.
    """
    rank = len(shape)
    wanted = ([-1] * rank + list(parameters["block_size"]))[-rank:]
    sizes = [n if b == -1 else min(b, n) for n, b in zip(shape, wanted, strict=True)]
    if skips_first(parameters, role) and rank > 1:
        sizes[0] = 1
    return tuple(sizes)


def shared_dimension(rank: int, parameters: Mapping[str, Any], role: Role) -> int:
    """Return the dimension of microscaling blocks, given or from the role; not validated."""
    size = parameters["block_dim"]
    return min(_DIMENSIONS[role], rank - 1) if size is None else int(size)


def blocks_per_element(
    parameters: Mapping[str, Any], role: Role, shape: Sequence[int], *, across: bool
) -> float:
    """Return the number of blocks divided by the number of elements.

    Args:
        parameters: Parameters of a block format, with defaults filled in.
        role: Role of the tensor.
        shape: Its shape; all sizes above 0.
        across: Microscaling blocks continue across rows, as in MASE, and are all complete.
    """
    if "parallelism" in parameters:
        return _counted(tuple(shape)[-2:], tuple(parameters["parallelism"])[-len(shape) :])
    size = parameters["block_size"]
    if not isinstance(size, int):
        return _counted(shape, block_sizes(shape, parameters, role))
    if across or not shape:
        return 1 / size
    return _counted((shape[shared_dimension(len(shape), parameters, role)],), (size,))


def _counted(shape: Sequence[int], sizes: Sequence[int]) -> float:
    return math.prod(-(-n // b) / n for n, b in zip(shape, sizes, strict=True))


_TERNARY_BITS = 2.0
_NVFP4_ELEMENT, _NVFP4_SCALE = 4.0, 8.0


def bits_of(
    scheme: str, params: Mapping[str, Any], role: Role, shape: Sequence[int], *, mase_compatible: bool = False
) -> float:
    """Return the average number of bits per element of a tensor.

    Args:
        scheme: Name of a number format.
        params: Its parameters, bare or with MASE's prefixes.
        role: Role of the tensor.
        shape: Its shape, which limits block sizes.
        mase_compatible: Microscaling blocks continue across rows.

    Raises:
        WorkbenchError: unknown format, or missing or invalid parameters.
    """
    spec = spec_of(scheme)
    parameters = read(spec.name, spec.parameters, params, role)
    bits = _element(spec.name, parameters, role)
    shared = _SHARED.get(spec.name)
    if shared is None or 0 in shape:
        return bits
    return bits + shared(parameters) * blocks_per_element(parameters, role, shape, across=mase_compatible)


# Bits shared by a block: an exponent for block_fp and similar formats, a scale for microscaling.
_SHARED: Mapping[str, Callable[[Mapping[str, Any]], float]] = {
    "nvfp4": lambda _: _NVFP4_SCALE,
    "mxint": lambda parameters: float(parameters["scale_bits"]),
    "mxfp": lambda parameters: float(parameters["scale_bits"]),
    "mxint_hardware": lambda parameters: float(parameters["exponent_width"]),
    "block_fp": lambda parameters: float(parameters["exponent_width"]),
    "block_minifloat": lambda parameters: float(parameters["exponent_bias_width"]),
    "block_log": lambda parameters: float(parameters["exponent_bias_width"]),
}


def _residual(parameters: Mapping[str, Any], role: Role) -> float:
    """Return the bits of a sum of signs: one per level for data, one for a weight."""
    if role == "data":
        return float(parameters["levels"]) if parameters.get("residual_sign", True) else FLOAT_BITS
    return 1.0 if role == "weight" and parameters.get("binary_training", True) else FLOAT_BITS


_ELEMENTS: Mapping[str, Callable[[Mapping[str, Any], Role], float]] = {
    "binary": lambda *_: 1.0,
    "binary_residual": _residual,
    "lutnet": _residual,
    "logicnets": lambda parameters, role: float(parameters["width"]) if role == "data" else FLOAT_BITS,
    "ternary": lambda *_: _TERNARY_BITS,
    "nvfp4": lambda *_: _NVFP4_ELEMENT,
    "mxfp": lambda parameters, _: 1.0 + parameters["exponent_width"] + parameters["frac_width"],
    "minifloat_mx": lambda parameters, _: 1.0 + parameters["exponent_width"] + parameters["frac_width"],
}


def _element(name: str, parameters: Mapping[str, Any], role: Role) -> float:
    own = _ELEMENTS.get(name)
    return float(parameters["width"]) if own is None else own(parameters, role)

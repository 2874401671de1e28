"""Elementwise operations.

Source: Vela 5.1.0 (Apache-2.0), the register generators and ``ethosu55/ethos_u55_constraints.cpp``
(the fixed shift of the operand of an addition that has no scale of its own).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from workbench.npu.arithmetic import Integers, Rounding, rescale
from workbench.npu.faults import Fault, ModeFault
from workbench.npu.output_stage import OutputStage
from workbench.npu.registers import NO_STORAGE, FeatureMap, Scale
from workbench.npu.state import State

_Array = npt.NDArray[Any]

_MODES_U55 = {
    0: "MUL",
    1: "ADD",
    2: "SUB",
    3: "MIN",
    4: "MAX",
    5: "LRELU",
    6: "ABS",
    7: "CLZ",
    8: "SHR",
    9: "SHL",
}
_MODES_U85 = _MODES_U55 | {
    10: "LSR",
    11: "DIV",
    16: "EQ",
    17: "NE",
    18: "GE",
    19: "GT",
    33: "AND",
    34: "OR",
    35: "XOR",
    36: "NOT",
    42: "AND_NOT",
}
_ONE_OPERAND = {"LRELU", "ABS", "CLZ", "NOT"}
_UNSCALED_U55 = {"MIN", "MAX", "SHL", "SHR", "CLZ"}
# U55, U65: the operand without a scale moves left by so much; the other one's first rounding.
_UNSCALED_SHIFT = {8: 19, 16: 14}
_DOUBLE_SHIFT = {8: 20, 16: 15}
_BOTH_16, _FIRST_32 = 0, 1
_SHIFT_MOST = 62
_WIDE = 32
# Samples, height, width, depth.
_AXES = 4


@dataclass(frozen=True)
class _Operand:
    """Values less their zero point, and where they came from."""

    values: Integers
    source: FeatureMap


def elementwise(state: State, parameter: int) -> None:
    """Carry out NPU_OP_ELEMENTWISE; the parameter is the mode.

    Raises:
        Fault: the NPU has no such mode.
    """
    code = parameter & 63
    name = (_MODES_U85 if state.device.u85 else _MODES_U55).get(code)
    if name is None:
        raise ModeFault(f"NPU_OP_ELEMENTWISE names the mode {code}, which this NPU does not have.")
    rows, columns, depth = state.registers.ofm_shape
    state.spend(rows * columns * depth)
    state.memory.demand_room(state.registers.feature_map("OFM"), (rows, columns, depth))
    (_u85 if state.device.u85 else _u55)(state, name)


def _u55(state: State, name: str) -> None:
    registers = state.registers
    first = _read(state, "IFM", (False, False, False))
    scale: Scale | None = None
    if registers["OFM_PRECISION"] >> 8 & 1 and name not in _UNSCALED_U55:
        scale = registers.ofm_scale
    if name == "LRELU":
        _leaky(state, first.values)
        return
    if name in _ONE_OPERAND:
        _finish(state, _unary(name, first), scale)
        return
    broadcast = registers["IFM2_BROADCAST"]
    if broadcast >> 7 & 1:
        second = _constant_u55(state)
    else:
        axes = bool(broadcast & 1), bool(broadcast >> 1 & 1), bool(broadcast >> 2 & 1)
        second = _read(state, "IFM2", axes)
    a, b = (second, first) if broadcast >> 6 & 1 else (first, second)
    values = (a.values, b.values)
    if name in {"ADD", "SUB"} and first.source.bits < 32:
        values = _scaled_u55(state, a.values, b.values, first.source)
    bits = first.source.bits
    rounding = registers.rounding("OFM")
    scale = _of_wide_product(scale) if name == "MUL" and bits == _WIDE else scale
    _finish(state, _combined(name, values, bits, rounding), scale)


def _constant_u55(state: State) -> _Operand:
    source = _scalar_source(state)
    value = state.registers.word("IFM2_SCALAR", signed=source.signed) - source.zero_point
    return _Operand(np.full((1, 1, 1), value, np.int64), source)


def _scalar_source(state: State) -> FeatureMap:
    """Return type and zero point of IFM2 where it is no tensor in memory."""
    registers = state.registers
    precision = registers["IFM2_PRECISION"]
    signed = bool(precision & 1)
    return FeatureMap(
        side="IFM2",
        region=0,
        dtype=np.dtype(f"{'i' if signed else 'u'}{1 << (precision >> 2 & 3)}"),
        bricks=False,
        zero_point=registers.word("IFM2_ZERO_POINT", signed=signed),
        bases=(0, 0, 0, 0),
        height0=1,
        height1=1,
        width0=1,
        strides=(0, 0, 0),
        storage=NO_STORAGE,
    )


def _scaled_u55(state: State, a: Integers, b: Integers, ifm: FeatureMap) -> tuple[Any, Any]:
    """Return the operands of an addition or subtraction with their scales.

    OPA and OPB are the scales of the operands A and B, after the operands were exchanged.
    """
    registers = state.registers
    mode = registers["IFM_PRECISION"] >> 8 & 3
    if mode == _BOTH_16:
        return a * (registers["OPA_SCALE"] & 0xFFFF), b * (registers["OPB_SCALE"] & 0xFFFF)
    if mode > _FIRST_32 + 1:
        raise ModeFault(f"IFM_PRECISION names the scale mode {mode}, which does not exist.")
    value = registers["OPA_SCALE"]
    scale, shift = value & 0xFFFFFFFF, value >> 32 & 63
    rounding, double_shift = registers.rounding("IFM"), _DOUBLE_SHIFT[ifm.bits]
    kept = _UNSCALED_SHIFT[ifm.bits]
    if mode == _FIRST_32:
        return rescale(a, scale, shift, rounding, double_shift), b << kept
    return a << kept, rescale(b, scale, shift, rounding, double_shift)


def _leaky(state: State, values: Integers) -> None:
    """LRELU of the U55 and U65: negative values are scaled, others are not."""
    scale = state.registers.ofm_scale
    below = rescale(values, scale.scale, scale.shift, scale.rounding, scale.double_shift)
    _finish(state, np.where(values >= 0, values, below), None)


def _u85(state: State, name: str) -> None:
    registers = state.registers
    first = _operand_u85(state, "IFM")
    bits = first.source.bits
    scale: Scale | None = registers.ofm_scale
    if name == "LRELU":
        positive, negative = (_scaled_u85(state, first, side) for side in ("IFM", "IFM2"))
        result = np.where(first.values >= 0, positive, negative)
    elif name in _ONE_OPERAND:
        scaled = _Operand(_scaled_u85(state, first, "IFM"), first.source)
        result = _unary(name, scaled)
    else:
        second = _operand_u85(state, "IFM2")
        values = _scaled_u85(state, first, "IFM"), _scaled_u85(state, second, "IFM2")
        result = _combined(name, values, bits, registers.ofm_scale.rounding)
        scale = _of_wide_product(scale) if name == "MUL" and bits == _WIDE else scale
    _finish(state, result, scale)


def _of_wide_product(scale: Scale | None) -> Scale | None:
    """Return the scale of a product of two int32: in double rounding the shift alone.

    Source: the commands of Vela 5.1.0 for TFLite's softmax of 8 and 16 bits against LiteRT's
    reference kernel, which multiplies by the rounded upper half of a doubled product.
    """
    if scale is None or scale.rounding is not Rounding.DOUBLE:
        return scale
    return Scale(1, scale.shift, Rounding.NATURAL)


def _operand_u85(state: State, side: Literal["IFM", "IFM2"]) -> _Operand:
    registers = state.registers
    broadcast = registers.get(f"{side}_BROADCAST")
    precision = registers[f"{side}_PRECISION"]
    if broadcast & 8 or precision >> 14 & 3 == NO_STORAGE:
        source = registers.feature_map(side)
        value = registers["OP_SCALAR"] & 0xFFFFFFFF
        value -= (value >> 31) << 32
        return _Operand(np.full((1, 1, 1), value - source.zero_point, np.int64), source)
    axes = bool(broadcast & 1), bool(broadcast >> 1 & 1), bool(broadcast >> 2 & 1)
    return _read(state, side, axes)


def _scaled_u85(state: State, operand: _Operand, side: Literal["IFM", "IFM2"]) -> Integers:
    scale = state.registers.operand_scale(side)
    return rescale(operand.values, scale.scale, scale.shift, scale.rounding, scale.double_shift)


def _read(state: State, side: Literal["IFM", "IFM2"], broadcast: tuple[bool, bool, bool]) -> _Operand:
    """Return a tensor of the OFM's size, of size 1 along the axes that are broadcast."""
    source = state.registers.feature_map(side)
    height, width, depth = (
        1 if repeated else size for repeated, size in zip(broadcast, state.registers.ofm_shape, strict=True)
    )
    values = state.tensor(source, (height, width, depth))
    return _Operand(values.astype(np.int64) - source.zero_point, source)


def _unary(name: str, operand: _Operand) -> Integers:
    values, bits = operand.values, operand.source.bits
    if name == "ABS":
        return np.abs(values)
    if name == "NOT":
        return ~values
    unsigned = (values & (1 << bits) - 1).astype(np.float64)
    # Exact up to 53 bits; CLZ is defined for 32.
    _, exponent = np.frexp(unsigned)
    return (bits - exponent).astype(np.int64)


def _combined(name: str, operands: tuple[Any, Any], bits: int, rounding: Rounding) -> Integers:
    a, b = operands
    if name in {"SHL", "SHR", "LSR"}:
        return _shifted(name, (a, b), bits, rounding)
    values: Integers = _BINARY[name](a, b)
    return values


def _shifted(name: str, operands: tuple[Integers, Integers], bits: int, rounding: Rounding) -> Integers:
    """Return shifts by the second operand; amounts below 0 are refused."""
    a, b = operands
    if b.size and int(b.min()) < 0:
        raise Fault("A value is shifted by a negative amount.")
    b = np.minimum(b, _SHIFT_MOST)
    if name == "LSR":
        return (a & (1 << bits) - 1) >> b
    if name == "SHR":
        half = np.where(b > 0, np.int64(1) << np.maximum(b - 1, 0), 0)
        return (a + half if rounding is Rounding.NATURAL else a) >> b
    wrapped = ((a << b) + (1 << 31) & 0xFFFFFFFF) - (1 << 31)
    return np.asarray(wrapped, np.int64)


def _quotient(a: Integers, b: Integers) -> Integers:
    """Return quotients toward zero."""
    if not np.all(b):
        raise Fault("A value is divided by zero; what the hardware gives is not public.")
    quotient: Integers = np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))
    return quotient


def _truth(compare: Callable[..., Any]) -> Callable[..., Any]:
    """Return a comparison that gives -1 where it holds, else 0."""
    return lambda a, b: -compare(a, b).astype(np.int64)


_BINARY: dict[str, Callable[..., Any]] = {
    "MUL": np.multiply,
    "ADD": np.add,
    "SUB": np.subtract,
    "MIN": np.minimum,
    "MAX": np.maximum,
    "DIV": _quotient,
    "AND": np.bitwise_and,
    "OR": np.bitwise_or,
    "XOR": np.bitwise_xor,
    "AND_NOT": lambda a, b: a & ~b,
    "EQ": _truth(np.equal),
    "NE": _truth(np.not_equal),
    "GE": _truth(np.greater_equal),
    "GT": _truth(np.greater),
}


def _finish(state: State, values: Integers, scale: Scale | None) -> None:
    if state.device.u85 and state.registers.get("ACC_FORMAT") >> 6 & 1:
        raise Fault("An elementwise operation has its output switched off.")
    count = len(values) if values.ndim == _AXES else 1
    shape = (count, *state.registers.ofm_shape)
    OutputStage(state, scale).finish(np.broadcast_to(values, shape))

"""Elementwise operators, selections, casts and reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.engine.ethos_u.tosa.arithmetic import magnitude, within
from workbench.engine.ethos_u.tosa.program import LIMITS, STORED, Array, NotExecuted

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.engine.ethos_u.tosa.arithmetic import Call

_SHIFT_MOST = 31


def _wide(values: Array) -> Array:
    return values.astype(np.int64)


def add(call: Call) -> Array:
    """ADD, in 32 bits where no sum can leave them."""
    return _sum(call, np.add)


def subtract(call: Call) -> Array:
    """SUB."""
    return _sum(call, np.subtract)


def _sum(call: Call, operation: Callable[..., Any]) -> Array:
    a, b = call.inputs
    if call.output.dtype == "INT32" and magnitude(a) + magnitude(b) <= LIMITS["INT32"][1]:
        return np.asarray(operation(a, b))
    return within(operation(_wide(a), _wide(b)), call.output.dtype)


def multiply(call: Call) -> Array:
    """MUL; products of 32 bits are shifted with rounding."""
    a, b, shift = call.inputs[0], call.inputs[1], call.number(2)
    product = np.multiply(a, b, dtype=np.int64)
    if shift:
        product += np.int64(1) << shift - 1
        product >>= shift
    return within(product, call.output.dtype)


def divide(call: Call) -> Array:
    """INTDIV, toward zero."""
    a, b = map(_wide, call.inputs)
    if not b.all():
        raise NotExecuted("a division by zero")
    quotient = np.abs(a) // np.abs(b)
    return within(np.where((a < 0) != (b < 0), -quotient, quotient), call.output.dtype)


def maximum(call: Call) -> Array:
    """MAXIMUM."""
    return np.maximum(*call.inputs)


def minimum(call: Call) -> Array:
    """MINIMUM."""
    return np.minimum(*call.inputs)


def clamp(call: Call) -> Array:
    """CLAMP; the limits are bytes of the type of the values."""
    kind = STORED[call.types[0]]
    least, most = (
        np.frombuffer(np.asarray(call.attribute(name), np.uint8).tobytes(), kind)[0]
        for name in ("MinVal", "MaxVal")
    )
    return np.asarray(np.minimum(np.maximum(call.inputs[0], least), most))


def absolute(call: Call) -> Array:
    """ABS."""
    return within(np.abs(_wide(call.inputs[0])), call.output.dtype)


def negate(call: Call) -> Array:
    """NEGATE: zero point of the output less value less its zero point, clipped below 32 bits."""
    values = call.number(2) - (_wide(call.inputs[0]) - call.number(1))
    if call.output.dtype == "INT32":
        return within(values, "INT32")
    return np.clip(values, *LIMITS[call.output.dtype]).astype(STORED[call.output.dtype])


def shift_left(call: Call) -> Array:
    """LOGICAL_LEFT_SHIFT."""
    return _shifted(call, np.left_shift, signed=True)


def shift_right(call: Call) -> Array:
    """LOGICAL_RIGHT_SHIFT: zeros come in from above."""
    return _shifted(call, np.right_shift, signed=False)


def _shifted(call: Call, operation: Callable[..., Any], *, signed: bool) -> Array:
    a, b = call.inputs
    bits = 8 * a.dtype.itemsize
    if b.size and (int(b.min()) < 0 or int(b.max()) > _SHIFT_MOST):
        raise NotExecuted("a shift outside of 0 to 31")
    wide = _wide(a) if signed else _wide(a) & (1 << bits) - 1
    return np.asarray(operation(wide, _wide(b)).astype(a.dtype))


def arithmetic_shift(call: Call) -> Array:
    """ARITHMETIC_RIGHT_SHIFT, with or without rounding."""
    a, b = map(_wide, call.inputs)
    if b.size and (int(b.min()) < 0 or int(b.max()) >= 8 * call.inputs[0].dtype.itemsize):
        raise NotExecuted("a shift outside of its range")
    result = a >> b
    if call.attribute("Round"):
        result = result + np.where(b > 0, a >> np.maximum(b - 1, 0) & 1, 0)
    return result.astype(call.inputs[0].dtype)


def leading_zeros(call: Call) -> Array:
    """CLZ of 32 bits."""
    unsigned = (_wide(call.inputs[0]) & 0xFFFFFFFF).astype(np.float64)
    _, exponent = np.frexp(unsigned)
    return (32 - exponent).astype(np.int32)


def select(call: Call) -> Array:
    """SELECT."""
    condition, chosen, other = call.inputs
    return np.where(condition, chosen, other)


def cast(call: Call) -> Array:
    """CAST among integers and truth values; higher bits are dropped."""
    values, target = call.inputs[0], call.output.dtype
    if target == "BOOL":
        return values != 0
    if target == "INT4" or call.types[0] == "INT4":
        raise NotExecuted("a cast of INT4")
    return values.astype(STORED[target])


def plain(operation: Callable[..., Any]) -> Callable[[Call], Array]:
    """Return a kernel of a function of numpy that keeps types."""
    return lambda call: np.asarray(operation(*call.inputs))


def reduced(operation: Callable[..., Any]) -> Callable[[Call], Array]:
    """Return a kernel that folds one axis to length one."""

    def kernel(call: Call) -> Array:
        axis = int(call.attribute("Axis")) + 1
        return np.asarray(operation(call.inputs[0], axis=axis, keepdims=True))

    return kernel


def reduce_sum(call: Call) -> Array:
    """REDUCE_SUM."""
    axis = int(call.attribute("Axis")) + 1
    sums = call.inputs[0].sum(axis=axis, keepdims=True, dtype=np.int64)
    return within(sums, call.output.dtype)


def argmax(call: Call) -> Array:
    """ARGMAX: the first of equal ones."""
    return call.inputs[0].argmax(int(call.attribute("Axis")) + 1).astype(np.int32)

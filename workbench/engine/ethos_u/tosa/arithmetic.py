"""Ranges, scaling with rounding, and tables, exact or refused.

Source: TOSA 1.0 specification, "Integer Behavior" (``apply_scale_32``, ``apply_scale_16``,
``apply_lookup_s``, ``reciprocal_scale``). Where the specification calls a result unpredictable,
``NotExecuted`` is raised: what it is then is for the reference model to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.engine.ethos_u.tosa.program import LIMITS, STORED, Array, NotExecuted, Operator, Tensor

# Elements that are computed at a time, so that intermediate values stay in the processor's cache.
PIECE = 1 << 15
_EXACT_FLOAT = 1 << 52
_TABLE_STEP_BITS = 7


@dataclass(frozen=True)
class Call:
    """One operator with its values.

    Attributes:
        inputs: Each of shape (samples, *shape of the tensor); one sample stands for all where a
            value does not depend on the sample.
        types: TOSA types of the inputs.
        output: Shape and type of the (first) output.
    """

    operator: Operator
    inputs: tuple[Array, ...]
    types: tuple[str, ...]
    output: Tensor

    def attribute(self, name: str) -> Any:
        """Return an attribute by its name in the schema."""
        return self.operator.attributes[name]

    def number(self, index: int) -> int:
        """Return an input that is one number and the same for all samples."""
        values = self.inputs[index]
        if values.size != 1:
            raise NotExecuted("a parameter that depends on the sample")
        return int(values.reshape(-1)[0])

    def fixed(self, index: int) -> Array:
        """Return an input that is the same for all samples, without the axis of samples."""
        values = self.inputs[index]
        if len(values) != 1:
            raise NotExecuted("a parameter that depends on the sample")
        return values[0]


def magnitude(values: Array) -> int:
    """Return the largest absolute value."""
    return max(int(values.max()), -int(values.min())) if values.size else 0


def within(values: Array, dtype: str) -> Array:
    """Return values in the type that stores ``dtype``.

    Raises:
        NotExecuted: one lies outside; the specification calls that unpredictable.
    """
    least, most = LIMITS[dtype]
    if values.size and (int(values.min()) < least or int(values.max()) > most):
        raise NotExecuted(f"a result outside of {dtype}")
    return values.astype(STORED[dtype], copy=False)


def pieces(values: Array) -> Iterator[slice]:
    """Yield slices of the first axis of about ``PIECE`` elements."""
    row = max(1, values[:1].size)
    step = max(1, PIECE // row)
    for first in range(0, len(values), step):
        yield slice(first, first + step)


@dataclass(frozen=True)
class Scaling:
    """Scales of all elements or of each channel (the last axis), and the zero points.

    ``least`` and ``most`` limit the result; ``doubles`` is whether shifts above 31 round twice;
    ``wide`` is whether multipliers have 32 bits instead of 16.
    """

    multiplier: Array
    shift: Array
    input_zero: int
    output_zero: int
    least: int
    most: int
    doubles: bool = False
    wide: bool = True

    def apply(self, values: Array, dtype: type[np.generic]) -> Array:
        """Return scaled values of shape (rows, channels) in a type that holds the limits.

        Raises:
            NotExecuted: a value is one for which the specification names no result.
        """
        results = np.empty(values.shape, dtype)
        bound = magnitude(values) + abs(self.input_zero)
        shift = self.shift.astype(np.int64)
        self._demand_range(values, bound, shift)
        largest = bound * magnitude(self.multiplier) + (1 << int(shift.max()) - 1)
        exact = largest < _EXACT_FLOAT and not (self.doubles and int(shift.max()) > 31)
        compute = self._in_floats if exact else self._in_integers
        for piece in pieces(values):
            compute(values[piece], results[piece])
        return results

    def _demand_range(self, values: Array, bound: int, shift: Array) -> None:
        """Refuse what has no result: ``value`` of more than ``shift`` bits, results of above 32."""
        top = LIMITS["INT32"][1]
        if self.wide:
            safe = bound < 1 << int(shift.min()) - 1
        else:
            safe = bound * magnitude(self.multiplier) >> int(shift.min()) < top
        if safe:
            return
        least, most = (v.astype(np.int64) - self.input_zero for v in (values.min(0), values.max(0)))
        if self.wide:
            half = np.int64(1) << shift - 1
            if (least < -half).any() or (most >= half).any():
                raise NotExecuted("a value too large for its shift")
            return
        multiplier = self.multiplier.astype(np.int64)
        if max(magnitude(v * multiplier >> shift) for v in (least, most)) >= top:
            raise NotExecuted("a scaled value outside of INT32")

    def _in_floats(self, values: Array, out: Array) -> None:
        """Scale where products, and sums with one half, are exact in 53 bits."""
        factor = self.multiplier / np.exp2(self.shift.astype(np.float64))
        scaled = np.subtract(values, self.input_zero, dtype=np.float64)
        scaled *= factor
        scaled += 0.5
        np.floor(scaled, out=scaled)
        scaled += self.output_zero
        np.clip(scaled, self.least, self.most, out=scaled)
        # Through signed integers: results above the signed range keep their bits.
        out[...] = scaled.astype(np.int64) if self.most > np.iinfo(out.dtype).max else scaled

    def _in_integers(self, values: Array, out: Array) -> None:
        shift = self.shift.astype(np.int64)
        wide = values.astype(np.int64)
        wide -= self.input_zero
        rounding: Array = np.int64(1) << shift - 1
        if self.doubles:
            second = np.where(wide >= 0, 1 << 30, -(1 << 30))
            rounding = rounding + np.where(shift > 31, second, 0)
        wide *= self.multiplier.astype(np.int64)
        wide += rounding
        wide >>= shift
        wide += self.output_zero
        np.clip(wide, self.least, self.most, out=wide)
        out[...] = wide


def rescale(call: Call) -> Array:
    """RESCALE."""
    values, of_channels = call.inputs[0], bool(call.attribute("PerChannel"))
    kind, target = call.types[0], call.output.dtype
    unsigned_in, unsigned_out = (bool(call.attribute(name)) for name in ("InputUnsigned", "OutputUnsigned"))
    zero_in = _zero(call, 3, kind, unsigned=unsigned_in)
    zero_out = _zero(call, 4, target, unsigned=unsigned_out)
    if unsigned_in:
        values = values.view(_unsigned(kind))
    least, most = LIMITS[target]
    if unsigned_out:
        least, most = 0, most - least
    multiplier, shift = (call.fixed(k).reshape(-1)[: None if of_channels else 1] for k in (1, 2))
    if int(shift.min()) < 2 or int(shift.max()) > 62 or int(multiplier.min()) < 0:
        raise NotExecuted("a scale outside of its range")
    mode = int(call.attribute("RoundingMode"))
    if mode == _INEXACT:
        raise NotExecuted("a rounding that is not exact")
    wide = bool(call.attribute("Scale32"))
    scaling = Scaling(multiplier, shift, zero_in, zero_out, least, most, mode == _DOUBLE, wide)
    stored = STORED[target]
    depth = values.shape[-1] if values.ndim > 1 else 1
    rows = values.reshape(-1, depth)
    return scaling.apply(rows, stored).reshape(values.shape)


_INEXACT, _DOUBLE = 2, 3


def _zero(call: Call, index: int, dtype: str, *, unsigned: bool) -> int:
    value = call.number(index)
    return value + (1 << 8 * np.dtype(STORED[dtype]).itemsize) if unsigned and value < 0 else value


def _unsigned(dtype: str) -> npt.DTypeLike:
    return np.uint8 if dtype == "INT8" else np.uint16


def reciprocal(count: int) -> tuple[int, int]:
    """Return multiplier and shift that divide by a number of elements."""
    k = max(0, (count - 1).bit_length())
    return (((1 << 30) + 1) << k) // count, 30 + k


def table(call: Call) -> Array:
    """TABLE: 256 entries of 8 bits, or 513 of 16 bits with interpolation to 32."""
    values, entries = call.inputs[0], call.fixed(1)
    if call.types[0] == "INT8":
        return np.asarray(entries[values.astype(np.int16) + 128])
    wide = entries.astype(np.int64)
    slopes = np.diff(wide)
    position = values.astype(np.int32) + (1 << 15)
    entry = position >> _TABLE_STEP_BITS
    fraction = position & (1 << _TABLE_STEP_BITS) - 1
    slope = slopes[entry]
    if magnitude(slope) > LIMITS["INT16"][1]:
        raise NotExecuted("a slope outside of INT16")
    return within((wide[entry] << _TABLE_STEP_BITS) + slope * fraction, "INT32")

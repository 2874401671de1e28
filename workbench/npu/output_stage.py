"""From accumulators to memory: bias, scale, zero point, clamp, table, store.

Source: Vela 5.1.0, ``regor/compiler/graphir_optimiser.cpp`` (tables) and the register generators
(what is clamped). Where public sources do not say what the hardware does, a finding is reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.npu import arithmetic
from workbench.npu.arithmetic import Integers, Rounding
from workbench.npu.faults import ModeFault, TableFault
from workbench.npu.registers import CHAINED, NO_STORAGE, FeatureMap, Registers, Scale
from workbench.npu.state import State

_Array = npt.NDArray[Any]

_CHUNK = 1 << 15
# Integers below this are exact in float64, with room for one addition.
_EXACT = float(1 << 52)
_TABLE_U55, _TANH, _SIGMOID = 16, (3, 10), (4, 11)
_FORCED = {2: (False, 8), 3: (True, 8), 5: (True, 16)}
# Functions of the U85: whether the index is signed, whether the table has pairs, its type.
_TABLES_U85 = {
    1: (False, False, "u1"),
    4: (True, False, "i1"),
    5: (True, False, "i2"),
    7: (True, False, "i4"),
    8: (True, True, "i2"),
    9: (True, True, "i4"),
}
_SLOT_U55 = 256
# Orders of the output axes by the transposition in OFM_PRECISION.
_TRANSPOSED = {0: (0, 1, 2), 1: (1, 0, 2), 2: (0, 2, 1), 3: (1, 2, 0), 6: (2, 0, 1), 7: (2, 1, 0)}


class _Table:
    """256 entries, or 512 pairs of base and slope."""

    def __init__(self, data: _Array, *, signed: bool, pairs: bool, wide: bool = False) -> None:
        self._data, self._signed, self._pairs, self._wide = data, signed, pairs, wide

    @property
    def size(self) -> int:
        """The memory it takes [bytes]."""
        return int(self._data.nbytes)

    def look_up(self, values: Integers) -> Integers:
        """Return what the table holds for values.

        Raises:
            Fault: a value lies outside of the table.
        """
        half = 1 << 15 if self._pairs else 1 << 7
        least = -half if self._signed else 0
        if values.size and (int(values.min()) < least or int(values.max()) >= least + 2 * half):
            raise TableFault("A value lies outside of the table that it is looked up in.")
        if self._pairs:
            return arithmetic.interpolate(values, self._data, wide=self._wide)
        outputs: Integers = self._data[values - least].astype(np.int64)
        return outputs


@dataclass(frozen=True)
class ChannelScales:
    """Bias, scale and shift of each channel."""

    bias: Integers
    scale: Integers
    shift: Integers


@dataclass(frozen=True)
class _Clamp:
    """Limits of the result; ``active`` says whether they are in force."""

    active: bool
    least: int
    most: int


class OutputStage:
    """The settings of the output stage for one operation, ready to be applied to accumulators."""

    def __init__(self, state: State, scale: Scale | None, channels: ChannelScales | None = None) -> None:
        """Read the settings.

        Args:
            state: Of the run.
            scale: One scale for all elements; None where ``channels`` has them, or for none.
            channels: Biases, and scales if ``scale`` is None.
        """
        self._state = state
        self.ofm = state.registers.feature_map("OFM")
        state.memory.demand_room(self.ofm, state.registers.ofm_shape)
        self._bias = channels.bias if channels is not None else None
        self._rounding, self._double = Rounding.NATURAL, 0
        self._scale: Any = 1
        self._shift: Any = 0
        if scale is not None:
            self._scale, self._shift = scale.scale, scale.shift
            self._rounding, self._double = scale.rounding, scale.double_shift
        elif channels is not None:
            self._scale, self._shift = channels.scale, channels.shift
            self._rounding, self._double = state.registers.ofm_rounding
        function = _function(state.registers)
        self._clamp = _clamp(state.registers, self.ofm, function)
        self._table = function.table(state, self.ofm)
        if self._table is not None:
            state.counters.table_bytes = self._table.size
        self._limits = np.iinfo(self.ofm.dtype)
        self._prepare_floats()

    def _prepare_floats(self) -> None:
        """Find up to which accumulator the result is exact when computed in float64.

        ``acc * scale / 2**shift`` and the sum with the constant part are whole multiples of
        ``2**-shift``; they are exact as long as they stay below ``2**53`` such parts.
        """
        scale, shift = np.asarray(self._scale, np.float64), np.asarray(self._shift, np.float64)
        identity = bool((scale == 1).all() and not shift.any())
        self._exact_below = -1.0
        if self._rounding is not Rounding.NATURAL and not identity:
            return
        parts = np.exp2(shift)
        half = np.where(shift > 0, parts / 2, 0)
        bias = 0.0 if self._bias is None else self._bias.astype(np.float64)
        constant = np.abs(bias) * scale + half + abs(self.ofm.zero_point) * parts
        self._exact_below = float(np.min((_EXACT - constant) / np.maximum(scale, 1)))
        self._factor = scale / parts
        self._constant = bias * self._factor + half / parts + self.ofm.zero_point

    def finish(self, accumulators: _Array, bound: float | None = None) -> None:
        """Write the results of accumulators of (samples, height, width, depth).

        Args:
            accumulators: Whole numbers in any type that holds them exactly, without bias.
            bound: A magnitude that none of them exceeds; None where it is not known.
        """
        results = np.empty(accumulators.shape, self.ofm.dtype)
        self.fill(results, accumulators, bound)
        self.store(results)

    def fill(self, results: _Array, accumulators: _Array, bound: float | None = None) -> None:
        """Put the results of accumulators into a contiguous array of the same shape."""
        depth = accumulators.shape[-1]
        given, taken = accumulators.reshape(-1, depth), results.reshape(-1, depth)
        for rows in _chunks(given.shape):
            taken[rows] = self.apply(given[rows], bound)

    def apply(self, accumulators: _Array, bound: float | None = None) -> _Array:
        """Return results in the type of the OFM; of the shape of the accumulators."""
        if self._state.counts_all:
            self._count_peak(accumulators)
        if bound is None or bound >= self._exact_below:
            bound = float(arithmetic.magnitude(accumulators)) if self._exact_below > 0 else 0.0
        values: _Array
        if bound < self._exact_below:
            values = np.multiply(accumulators, self._factor, dtype=np.float64)
            values += self._constant
            np.floor(values, out=values)
        else:
            values = accumulators.astype(np.int64)
            if self._bias is not None:
                values = values + self._bias
            values = arithmetic.rescale(values, self._scale, self._shift, self._rounding, self._double)
            values = values + self.ofm.zero_point
        return self._limited(values)

    def _limited(self, values: _Array) -> _Array:
        """Clamp, look up, and convert to the type of the OFM."""
        clamp, limits = self._clamp, self._limits
        least, most = clamp.least, clamp.most
        if clamp.active:
            if self._state.counts_all:
                beyond = np.count_nonzero(values < least) + np.count_nonzero(values > most)
                self._state.counters.saturated += int(beyond)
            values = np.minimum(np.maximum(values, least), most)
            if self._table is None and least >= limits.min and most <= limits.max:
                return values.astype(self.ofm.dtype)
        whole = values.astype(np.int64)
        if self._table is not None:
            whole = self._table.look_up(whole)
        return self._stored(whole)

    def _stored(self, values: Integers) -> _Array:
        """Convert values that no clamp limits to the OFM."""
        limits = self._limits
        if values.size and (int(values.min()) < limits.min or int(values.max()) > limits.max):
            self._state.remark(
                "warning",
                "store-range",
                f"Results do not fit the {self.ofm.bits} bits of the OFM; what the hardware "
                "stores then is not public.",
            )
            if self.ofm.bits >= 32:
                values = np.clip(values, limits.min, min(limits.max, (1 << 63) - 1))
        return values.astype(self.ofm.dtype)

    def _count_peak(self, accumulators: _Array) -> None:
        counters = self._state.counters
        if counters.accumulator_bits:
            sums = accumulators if self._bias is None else accumulators + self._bias
            peak = int(arithmetic.magnitude(np.asarray(sums)))
            counters.accumulator_peak = max(counters.accumulator_peak, peak)

    def check_accumulators(self, accumulators: _Array, bound: float) -> None:
        """Report sums that the accumulators of the hardware cannot hold.

        Args:
            accumulators: Without bias.
            bound: A magnitude that none of them exceeds.
        """
        bits = self._state.counters.accumulator_bits
        if not bits:
            return
        largest = 0 if self._bias is None else arithmetic.magnitude(self._bias)
        limit = 1 << bits - 1
        if bound + largest < limit:
            return
        sums = accumulators.astype(np.int64)
        if self._bias is not None:
            sums = sums + self._bias
        if ((sums >= limit) | (sums < -limit)).any():
            self._state.remark(
                "warning",
                "accumulator-range",
                f"A sum leaves the {bits} bits of the accumulators; what the hardware does then "
                "is not public.",
            )

    def store(self, results: _Array) -> None:
        """Write results of (samples, height, width, depth) to memory or to a chain buffer."""
        state = self._state
        state.counters.ofm = results.shape[1:]
        if results.size:
            state.last_elements = results[:, -1, -1, -1].copy()
        if self.ofm.storage == CHAINED:
            state.chains[self.ofm.region] = results
        elif self.ofm.storage != NO_STORAGE:
            state.memory.write(self.ofm, _turned(state.registers, results))


def _chunks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Yield slices over the first axis so that a piece stays in the processor's cache."""
    row = max(1, int(np.prod(shape[1:], dtype=np.int64)))
    step = max(1, _CHUNK // row)
    for first in range(0, shape[0], step):
        yield slice(first, first + step)


def _turned(registers: Registers, results: _Array) -> _Array:
    """Return the OFM with its axes transposed and reversed as the U85 writes it."""
    if not registers.device.u85:
        return results
    precision = registers["OFM_PRECISION"]
    order, reverse = precision >> 11 & 7, precision >> 9 & 3
    if order not in _TRANSPOSED:
        raise ModeFault(f"OFM_PRECISION names the transposition {order}, which does not exist.")
    turned = results.transpose(0, *(axis + 1 for axis in _TRANSPOSED[order]))
    return np.flip(turned, reverse) if reverse else turned


@dataclass(frozen=True)
class _Function:
    """The activation function: its code, and how many bits a clamp is forced to (U55, U65)."""

    code: int
    slot: int
    u85: bool
    forced: tuple[bool, int] | None = None

    def signed_in(self, ofm: FeatureMap) -> bool:
        """Whether the clamp's limits have a sign."""
        if self.forced is not None:
            return self.forced[0]
        if self.u85 and self.code:
            return _TABLES_U85[self.code][0]
        return ofm.signed

    def table(self, state: State, ofm: FeatureMap) -> _Table | None:
        """Return the table it uses, or None."""
        if not self.code:
            return None
        if not self.u85:
            return self._table_u55(state, ofm)
        signed, has_pairs, dtype = _TABLES_U85[self.code]
        if has_pairs:
            pairs = state.memory.table(2048 * self.slot, 2048).view("<i2").reshape(512, 2)
            return _Table(pairs, signed=True, pairs=True, wide=dtype == "i4")
        size = 256 * np.dtype(dtype).itemsize
        data = state.memory.table(size * self.slot, size).view(f"<{dtype}")
        return _Table(data, signed=signed, pairs=False)

    def _table_u55(self, state: State, ofm: FeatureMap) -> _Table:
        start = _SLOT_U55 * self.slot
        bits = self.forced[1] if self.forced is not None else ofm.bits
        signed = self.signed_in(ofm)
        if bits == 16 and signed:
            pairs = state.memory.table(start, 2048).view("<i2").reshape(512, 2)
            return _Table(pairs, signed=True, pairs=True, wide=ofm.bits == 32)
        if bits != 8:
            raise ModeFault(f"A table for {'signed' if signed else 'unsigned'} values of {bits} bits.")
        if ofm.bits == 32:
            return _Table(state.memory.table(start, 1024).view("<i4"), signed=signed, pairs=False)
        dtype = "i1" if ofm.signed else "u1"
        return _Table(state.memory.table(start, 256).view(dtype), signed=signed, pairs=False)


def _function(registers: Registers) -> _Function:
    """Return the activation function.

    Raises:
        Fault: it does not exist, or is one whose values are not public.
    """
    value, u85 = registers["ACTIVATION"], registers.device.u85
    code = value & 31
    if code in (_TANH[u85], _SIGMOID[u85]):
        raise ModeFault(
            "The NPU's own tanh and sigmoid are used; their values are not public.",
            "Vela uses tables instead when it compiles TOSA.",
        )
    if u85:
        if code and code not in _TABLES_U85:
            raise ModeFault(f"ACTIVATION names the function {code}, which does not exist.")
        return _Function(code, value >> 5 & 7, u85=True)
    clip = value >> 12 & 7
    if clip and clip not in _FORCED:
        raise ModeFault(f"ACTIVATION names the clip range {clip}, which does not exist.")
    if code and not _TABLE_U55 <= code < _TABLE_U55 + 8:
        raise ModeFault(f"ACTIVATION names the function {code}, which does not exist.")
    return _Function(code, max(code - _TABLE_U55, 0), u85=False, forced=_FORCED.get(clip))


def _clamp(registers: Registers, ofm: FeatureMap, function: _Function) -> _Clamp:
    """Return the clamp. On the U55 and U65 results of 32 bits are clamped only by force."""
    if function.u85:
        active = not registers["ACTIVATION"] >> 12 & 1
    else:
        active = ofm.bits < 32 or function.forced is not None
    signed = function.signed_in(ofm)
    least = registers.word("ACTIVATION_MIN", signed=signed)
    return _Clamp(active, least, registers.word("ACTIVATION_MAX", signed=signed))

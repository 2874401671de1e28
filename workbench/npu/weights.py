"""The weight streams of the NPU, decoded. Damaged streams raise.

Source of both formats: Vela 5.1.0 (Apache-2.0), ``mlw_codec/source/mlw_decode.cpp``,
``mlw_encode_fwd.cpp``.

A compressed stream is a row of slices. In a slice, weights and runs of zeros are Golomb-Rice
codes, interleaved in chunks: where the unary part of a chunk's weights says how many bits follow,
the remainders come one chunk later. Python walks from chunk to chunk and only adds up where each
part starts; numpy takes all symbols of a slice apart at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.npu.faults import Fault, WeightFault

Weights = npt.NDArray[np.int16]
_Array = npt.NDArray[Any]

_CHUNK = 12
_RAW_CHUNK_WIDE = 8
_RUN_CHUNK_WIDE = 8
_NO_RUNS, _END, _RAW = 6, 7, 7
_ZDIV_LARGEST = 3
_WDIV_LARGEST = 5
_AHEAD = 8
_ONES = bytes(value.bit_count() for value in range(1 << _CHUNK))
_ENDED = bytes(_CHUNK - count for count in _ONES)
_FAST_HEADER = 32
_FAST_PALETTE_AT, _FAST_PALETTE, _FAST_BITS = 112, 16, 9


def decode(data: bytes | memoryview | npt.NDArray[np.uint8], limit: int) -> Weights:
    """Return the weights of a compressed stream, in the order of the stream.

    Args:
        data: The whole stream.
        limit: The most weights that make sense; more are refused before they are kept.

    Raises:
        Fault: the stream ends within a slice, has a code that does not exist, or is too long.
    """
    stream = _Stream(bytes(data), limit)
    values: list[Weights] = []
    count = 0
    palette = _Palette()
    while (runs := stream.next_slice()) is not None:
        decoded, palette = _slice(stream, runs, palette)
        values.append(decoded)
        count += decoded.size
        if count > limit:
            raise _too_long(limit)
    return np.concatenate(values) if values else np.zeros(0, np.int16)


def decode_fast(data: bytes | memoryview | npt.NDArray[np.uint8], count: int) -> Weights:
    """Return the weights of a stream in the fast format of the U85.

    Args:
        data: A header of 32 bytes and the body: bytes, or indices of two or four bits.
        count: How many weights it has; the stream does not say.

    Raises:
        Fault: it is too short.
    """
    raw = np.frombuffer(bytes(data), np.uint8)
    header, body = int.from_bytes(raw[:_FAST_HEADER].tobytes(), "little"), raw[_FAST_HEADER:]
    bits = 8 if header & 1 else 2 if header & 2 else 4
    if body.size * 8 < count * bits:
        raise WeightFault(f"The weight stream has {body.size * 8 // bits:,} weights of {count:,}.")
    if header & 1:
        zero = np.int16(np.int8(np.uint8(header >> 104 & 0xFF)))
        return np.asarray(body[:count].view(np.int8).astype(np.int16) - zero, np.int16)
    entries = np.array(
        [header >> _FAST_PALETTE_AT + _FAST_BITS * i & 511 for i in range(_FAST_PALETTE)], np.int16
    )
    per_byte = 8 // bits
    parts = [body >> bits * index & (1 << bits) - 1 for index in range(per_byte)]
    indices = np.stack(parts, 1).ravel()[:count]
    return np.asarray(_signed(entries)[indices], np.int16)


def _too_long(limit: int) -> Fault:
    return WeightFault(f"The weight stream has more than the {limit:,} weights that are expected.")


def _signed(codes: _Array) -> Weights:
    """Return numbers from codes with the sign in bit 0."""
    values: Weights = np.where(codes & 1, -(codes >> 1), codes >> 1).astype(np.int16)
    return values


class _Stream:
    """Bits, the lowest of a byte first; ``words[b]`` are the 64 bits from byte b on."""

    def __init__(self, data: bytes, limit: int) -> None:
        self.bits, self.limit = 8 * len(data), limit
        self.at = 0
        padded = np.frombuffer(data + bytes(16), np.uint8)
        windows: _Array = np.ndarray((len(data) + 8,), "<u8", padded.data, 0, (1,))
        self.array: npt.NDArray[np.uint64] = np.ascontiguousarray(windows)
        self.words = memoryview(self.array.data)

    def take(self, count: int) -> int:
        """Return the next bits as an integer; at most 57 of them."""
        at = self.at
        if at + count > self.bits:
            raise WeightFault("The weight stream ends within a slice.")
        self.at = at + count
        word: int = self.words[at >> 3]
        return word >> (at & 7) & (1 << count) - 1

    def next_slice(self) -> int | None:
        """Return how runs of zeros are coded in the slice that begins here; None at the end."""
        while self.bits - self.at >= _ZDIV_LARGEST:
            code = self.take(3)
            if code != _END:
                return code
            self.at = (self.at + 7) & ~7
        return None


@dataclass(frozen=True)
class _Palette:
    """Weights by index; an index behind them is a weight itself, less ``direct``."""

    entries: _Array = field(default_factory=lambda: np.zeros(0, np.int64))
    bits: int = 0
    direct: int = 0

    @property
    def index_bits(self) -> int:
        """The width of a raw index."""
        size = self.entries.size
        return (size - 1).bit_length() if size else self.bits

    def values(self, indices: _Array) -> Weights:
        """Return the weights of indices."""
        size = self.entries.size
        beyond = indices - size + self.direct
        if size:
            known = self.entries[np.minimum(indices, size - 1)]
            codes = np.where(indices < size, known, beyond)
        else:
            codes = beyond
        if int(codes.max()) > 511:
            raise WeightFault("The weight stream has a weight of more than 9 bits.")
        return _signed(codes)


@dataclass
class _Chunks:
    """Per chunk of a slice: unary bits and where the remainders start [bits]."""

    unary: Sequence[int] | _Array = field(default_factory=list)
    second: Sequence[int] | _Array = field(default_factory=list)
    remainders: Sequence[int] | _Array = field(default_factory=list)
    run_unary: list[int] = field(default_factory=list)
    run_remainders: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class _Header:
    """How the codes of a slice are made."""

    count: int
    divisor: int
    truncated: bool
    raw: bool
    has_runs: bool
    runs: int
    run_divisor: int

    @property
    def chunk(self) -> int:
        """Symbols of one chunk, at most."""
        return _RAW_CHUNK_WIDE if self.raw and self.divisor > _WDIV_LARGEST else _CHUNK

    @property
    def run_chunk(self) -> int:
        """Bits of unary code for runs in one chunk."""
        return _CHUNK if self.run_divisor < _ZDIV_LARGEST else _RUN_CHUNK_WIDE


def _slice(stream: _Stream, zdiv: int, palette: _Palette) -> tuple[Weights, _Palette]:
    if zdiv > _ZDIV_LARGEST and zdiv != _NO_RUNS:
        raise WeightFault(f"The weight stream has the divisor {zdiv} of zero runs, which does not exist.")
    count, wdiv = stream.take(15) + 1, stream.take(3)
    if wdiv > _WDIV_LARGEST and wdiv != _RAW:
        raise WeightFault(f"The weight stream has the divisor {wdiv}, which does not exist.")
    truncated, new = bool(stream.take(1)), bool(stream.take(1))
    if new:
        palette = _read_palette(stream)
    has_runs = zdiv != _NO_RUNS
    header = _Header(
        count=count,
        divisor=palette.index_bits if wdiv == _RAW else wdiv,
        truncated=truncated,
        raw=wdiv == _RAW,
        has_runs=has_runs,
        runs=(count + new) if has_runs else 0,
        run_divisor=zdiv if has_runs else 0,
    )
    chunks = _walk(stream, header)
    weights = palette.values(_weight_symbols(stream, header, chunks))
    if not has_runs:
        return weights, palette
    runs = _run_symbols(stream, header, chunks)
    if weights.size + int(runs.sum()) > stream.limit:
        raise _too_long(stream.limit)
    return _with_runs(weights, runs), palette


def _read_palette(stream: _Stream) -> _Palette:
    direct, size, bits = stream.take(5), stream.take(5), stream.take(3) + 2
    entries = [stream.take(bits) for _ in range(size + 1 if size else 0)]
    return _Palette(np.array(entries, np.int64), bits, direct)


def _walk(stream: _Stream, header: _Header) -> _Chunks:
    """Step over a slice and note where every part of every chunk starts."""
    chunks = (_walk_runs if header.has_runs else _walk_plain)(stream, header)
    _demand_inside(stream)
    return chunks


def _walk_plain(stream: _Stream, header: _Header) -> _Chunks:
    """A slice without runs: chunks of unary bits, each followed by the remainders before it."""
    if header.raw:
        return _walk_raw(stream, header)
    words, ones, at = stream.words, _ONES, stream.at
    symbols = bytes([_CHUNK]) * (1 << _CHUNK) if header.truncated else _ENDED
    divisor, left, pending = header.divisor, header.count, 0
    starts: list[int] = []
    try:
        while left > 0:
            starts.append(at)
            word = words[at >> 3] >> (at & 7)
            extra = ones[word & 0xFFF]
            at += _CHUNK + extra + pending * divisor
            pending = symbols[word >> _CHUNK & (1 << extra) - 1]
            left -= pending
    except IndexError:
        raise WeightFault("The weight stream ends within a slice.") from None
    stream.at = at + (pending + left) * divisor
    first = np.array(starts, np.int64)
    bits = stream.array[first >> 3] >> (first & 7).astype(np.uint64)
    unary = (bits & np.uint64(0xFFF)).astype(np.int64)
    lengths = np.frombuffer(_ONES, np.uint8)[unary].astype(np.int64)
    second = (bits >> np.uint64(_CHUNK)).astype(np.int64)
    # The remainders of a chunk stand behind the unary bits of the next one.
    behind = np.append((first + _CHUNK + lengths)[1:], at)
    return _Chunks(unary, second, behind)


def _walk_raw(stream: _Stream, header: _Header) -> _Chunks:
    """A slice of indices without unary bits."""
    count = -(-header.count // header.chunk)
    first = stream.at + np.arange(count, dtype=np.int64) * header.chunk * header.divisor
    stream.at += header.count * header.divisor
    nothing = np.zeros(count, np.int64)
    return _Chunks(nothing, nothing, first)


def _walk_runs(stream: _Stream, header: _Header) -> _Chunks:
    """A slice with runs: weights get at most eight symbols ahead of them, runs not at all.

    A chunk is the first unary bits of its weights, the unary bits of its runs, the second unary
    bits of its weights, and the remainders of the chunk before.
    """
    words, ones, at, raw = stream.words, _ONES, stream.at, header.raw
    size, run_size = header.chunk, header.run_chunk
    symbols = bytes([size]) * (1 << _CHUNK) if raw or header.truncated else _ENDED
    unary, second, remainders = list[int](), list[int](), list[int]()
    run_unary, run_remainders = list[int](), list[int]()
    weights = runs = 0
    pending = run_pending = -1
    while at <= stream.bits:
        word, ahead, first, bits = words[at >> 3] >> (at & 7), weights - runs, 0, 0
        with_weights = ahead < _AHEAD and weights < header.count
        with_runs = ahead >= 0 and runs < header.runs
        if with_weights and not raw:
            first, word, at = word & 0xFFF, word >> _CHUNK, at + _CHUNK
        if with_runs:
            bits, word, at = word & (1 << run_size) - 1, word >> run_size, at + run_size
        at += ones[first]
        if pending >= 0:
            remainders.append(at)
            at += pending * header.divisor
        if run_pending >= 0:
            run_remainders.append(at)
            at += run_pending * header.run_divisor
        if not with_weights and not with_runs:
            break
        pending = run_pending = -1
        if with_weights:
            word &= (1 << ones[first]) - 1
            unary.append(first)
            second.append(word)
            pending = min(symbols[word], header.count - weights)
            weights += pending
        if with_runs:
            run_unary.append(bits)
            run_pending = min(run_size - ones[bits], header.runs - runs)
            runs += run_size - ones[bits]
    stream.at = at
    return _Chunks(unary, second, remainders, run_unary, run_remainders)


def _demand_inside(stream: _Stream) -> None:
    if stream.at > stream.bits:
        raise WeightFault("The weight stream ends within a slice.")


def _weight_symbols(stream: _Stream, header: _Header, chunks: _Chunks) -> _Array:
    """Return the indices of a slice's weights."""
    positions = np.arange(header.chunk)
    unary = np.array(chunks.unary, np.int64)[:, None] >> positions & 1
    if header.raw:
        codes = unary
    else:
        second = np.array(chunks.second, np.int64)[:, None]
        # Each set bit takes the next bit of the second part.
        taken = np.cumsum(unary, 1) - unary
        codes = unary * (1 + (second >> taken & 1))
    ends = np.ones_like(codes, np.bool_) if header.truncated or header.raw else codes < 2
    return _symbols(stream, (codes, ends), header.count, header.divisor, chunks.remainders)


def _run_symbols(stream: _Stream, header: _Header, chunks: _Chunks) -> _Array:
    """Return the lengths of a slice's runs of zeros."""
    positions = np.arange(header.run_chunk)
    codes = np.array(chunks.run_unary, np.int64)[:, None] >> positions & 1
    return _symbols(stream, (codes, codes == 0), header.runs, header.run_divisor, chunks.run_remainders)


def _symbols(
    stream: _Stream,
    unary: tuple[_Array, _Array],
    count: int,
    divisor: int,
    remainders: Sequence[int] | _Array,
) -> _Array:
    """Return quotients with their remainders.

    Args:
        stream: Where the remainders are.
        unary: What each bit adds to the quotient, and whether a symbol ends there; a row for
            each chunk. A quotient goes on from one chunk into the next.
        count: How many symbols there are; unary code behind the last one is filling.
        divisor: Bits of each remainder.
        remainders: Where the remainders of each chunk start [bits].
    """
    codes, ends = unary
    width = codes.shape[1]
    last = np.flatnonzero(ends)[:count]
    if last.size < count:
        raise WeightFault("The weight stream ends within a slice.")
    total = np.cumsum(codes)[last]
    quotients = np.diff(total, prepend=0)
    if not divisor:
        return quotients
    chunk = last // width
    before = np.cumsum(ends.sum(1))
    rank = np.arange(count) - (before - ends.sum(1))[chunk]
    at = np.array(remainders, np.int64)[chunk] + rank * divisor
    words = stream.array[at >> 3] >> (at & 7).astype(np.uint64)
    low = (words & np.uint64((1 << divisor) - 1)).astype(np.int64)
    return np.asarray((quotients << divisor) + low)


def _with_runs(weights: Weights, runs: _Array) -> Weights:
    """Return weights with a run of zeros behind each, and one before the first if there is one."""
    lead = runs.size - weights.size
    first = int(runs[0]) if lead else 0
    positions = np.arange(weights.size) + first
    positions[1:] += np.cumsum(runs[lead:])[:-1]
    values = np.zeros(weights.size + int(runs.sum()), np.int16)
    values[positions] = weights
    return values

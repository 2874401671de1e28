"""The weights of an operation: read from memory, decoded, put in order, kept by content."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.npu import weight_order
from workbench.npu.accumulators import cores
from workbench.npu.faults import WeightFault
from workbench.npu.registers import FeatureMap, Kernel
from workbench.npu.state import State
from workbench.npu.weight_order import Geometry
from workbench.npu.weights import decode, decode_fast

_Array = npt.NDArray[Any]

_STREAMS_U55 = ("WEIGHT", "WEIGHT1")
_STREAMS_U85 = ("WEIGHT", "WEIGHT1", "WEIGHT2", "WEIGHT3")


@dataclass(frozen=True)
class Weights:
    """Weights of one operation, ready for products.

    Attributes:
        matrix: Shape (kernel height * width * IFM depth, OFM depth), float32.
        sums: The largest sum of absolute weights of a channel.
        zeros: How many weights are zero.
    """

    matrix: _Array
    sums: int
    zeros: int


def load_weights(state: State, ifm: FeatureMap, kernel: Kernel, *, depthwise: bool) -> Weights:
    """Return the weights of an operation, decoded or from the cache."""
    registers = state.registers
    geometry = _geometry(state, ifm, kernel, depthwise=depthwise)
    fast = state.device.u85 and bool(registers.get("WEIGHT_FORMAT") & 1)
    names = (_STREAMS_U85 if state.device.u85 else _STREAMS_U55)[: geometry.streams]
    streams = [_stream(state, name) for name in (names[:1] if fast else names)]
    digest = hashlib.blake2b(digest_size=16)
    for stream in streams:
        digest.update(len(stream).to_bytes(8, "little"))
        digest.update(stream)
    key = (digest.digest(), geometry, fast)
    weights: Weights | None = state.weights.get(key)
    if weights is None:
        weights = _decoded(state, geometry, streams, fast=fast)
        state.weights.put(key, weights, weights.matrix.nbytes)
    state.counters.weights += weights.matrix.size
    state.counters.zero_weights += weights.zeros
    return weights


def _stream(state: State, name: str) -> bytes:
    registers = state.registers
    size = registers.get(f"{name}_LENGTH") & 0xFFFFFFFF
    if not size:
        return b""
    state.counters.weight_bytes += size
    base = registers.address(f"{name}_BASE")
    return state.memory.shared_bytes_at(registers.region("WEIGHT"), base, size).tobytes()


def _geometry(state: State, ifm: FeatureMap, kernel: Kernel, *, depthwise: bool) -> Geometry:
    registers, device = state.registers, state.device
    depth = registers.ofm_shape[2]
    ublock = device.ofm_ublock
    if device.u85:
        microblock = registers["ACC_FORMAT"] >> 8 & 7
        ublock = weight_order.microblock_depth(device.macs, microblock)
    return Geometry(
        ofm_depth=depth,
        height=kernel.height,
        width=kernel.width,
        ifm_depth=1 if depthwise else (registers["IFM_DEPTH_M1"] & 0xFFFF) + 1,
        block_depth=registers["OFM_BLK_DEPTH_M1"] + 1,
        ifm_bits=ifm.bits,
        ofm_ublock=ublock,
        depthwise=depthwise,
        part_kernel=kernel.part_kernel,
        dilation_y=kernel.dilation_y,
        dilation_x=kernel.dilation_x,
        streams=device.cores if device.u85 else cores(state),
        stride_y=kernel.stride_y,
        stride_x=kernel.stride_x,
        macs=device.macs,
        sparse=device.u85 and bool(registers.get("WEIGHT_FORMAT") & 0x10),
    )


def _decoded(state: State, geometry: Geometry, streams: list[bytes], *, fast: bool) -> Weights:
    """Decode streams and put their weights in order.

    Raises:
        Fault: they do not fit the operation.
    """
    size = int(np.prod(geometry.shape, dtype=np.int64))
    # Filling makes a stream longer than its weights, at most by the blocks' sizes.
    limit = state.options.limits.memory_bytes // 32
    if size > limit:
        raise WeightFault(f"The operation has {size:,} weights; a run may have {limit:,}.")
    flat = np.zeros(size, np.int16)
    if fast:
        _demand_bits(8 * len(streams[0]) * 4, size)
        positions = weight_order.woven_u85(geometry)
        weight_order.placed(decode_fast(streams[0], len(positions)), positions, flat)
    else:
        order = weight_order.order_u85 if state.device.u85 else weight_order.order_u55
        decoded = [decode(stream, limit) for stream in streams]
        _demand_bits(sum(map(len, decoded)), size)
        for number, stream in enumerate(decoded):
            if number < geometry.ofm_depth or state.device.u85:
                weight_order.placed(stream, order(geometry, number), flat)
    volume = flat.reshape(geometry.ofm_depth, size // geometry.ofm_depth)
    sums = int(np.abs(volume.astype(np.int32)).sum(1, dtype=np.int64).max())
    matrix = np.ascontiguousarray(volume.T.astype(np.float32))
    return Weights(matrix, sums, int(size - np.count_nonzero(flat)))


def _demand_bits(present: int, needed: int) -> None:
    if present < needed:
        raise WeightFault(f"The weight stream has {present:,} weights, the operation needs {needed:,}.")

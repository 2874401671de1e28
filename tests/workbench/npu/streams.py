"""Small delegates written by hand, and those that Vela compiled."""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path

import numpy as np

from workbench.pte.npu_commands import name_of

DATA = Path(__file__).parents[2] / "data" / "npu"
_BLOCK = struct.Struct("<16sIB11x")
_FAMILIES = {"u55": 0, "u65": 1, "u85": 2}
_CODES = [*range(0x200), *range(0x4000, 0x4200)]

# A copy of 1 x 4 x 8 elements of int8 from scratch 0 to scratch 64, as a pool of single elements.
COPY = {
    "IFM_PAD_TOP": 0,
    "IFM_PAD_LEFT": 0,
    "IFM_PAD_RIGHT": 0,
    "IFM_PAD_BOTTOM": 0,
    "IFM_DEPTH_M1": 7,
    "IFM_PRECISION": 1,
    "IFM_UPSCALE": 0,
    "IFM_ZERO_POINT": 0,
    "IFM_WIDTH0_M1": 3,
    "IFM_HEIGHT0_M1": 0,
    "IFM_HEIGHT1_M1": 0,
    "IFM_REGION": 1,
    "IFM_BASE0": 0,
    "IFM_BASE1": 0,
    "IFM_BASE2": 0,
    "IFM_BASE3": 0,
    "IFM_STRIDE_X": 8,
    "IFM_STRIDE_Y": 32,
    "IFM_STRIDE_C": 1,
    "OFM_WIDTH_M1": 3,
    "OFM_HEIGHT_M1": 0,
    "OFM_DEPTH_M1": 7,
    "OFM_PRECISION": 1 | 1 << 8 | 2 << 14,
    "OFM_ZERO_POINT": 0,
    "OFM_WIDTH0_M1": 3,
    "OFM_HEIGHT0_M1": 0,
    "OFM_HEIGHT1_M1": 0,
    "OFM_REGION": 1,
    "OFM_BASE0": 64,
    "OFM_BASE1": 0,
    "OFM_BASE2": 0,
    "OFM_BASE3": 0,
    "OFM_STRIDE_X": 8,
    "OFM_STRIDE_Y": 32,
    "OFM_STRIDE_C": 1,
    "KERNEL_WIDTH_M1": 0,
    "KERNEL_HEIGHT_M1": 0,
    "KERNEL_STRIDE": 0,
    "ACC_FORMAT": 0,
    "ACTIVATION": 0,
    "ACTIVATION_MIN": 0xFF80,
    "ACTIVATION_MAX": 0x7F,
    "OFM_SCALE": 1,
}
# The same operands for an addition: IFM2 lies at 32.
SECOND = {
    "IFM2_BROADCAST": 0,
    "IFM2_PRECISION": 1,
    "IFM2_ZERO_POINT": 0,
    "IFM2_WIDTH0_M1": 3,
    "IFM2_HEIGHT0_M1": 0,
    "IFM2_HEIGHT1_M1": 0,
    "IFM2_REGION": 1,
    "IFM2_BASE0": 32,
    "IFM2_BASE1": 0,
    "IFM2_BASE2": 0,
    "IFM2_BASE3": 0,
    "IFM2_STRIDE_X": 8,
    "IFM2_STRIDE_Y": 32,
    "IFM2_STRIDE_C": 1,
    "OPA_SCALE": 1,
    "OPB_SCALE": 1,
}


def dma(source, target, length):
    """Return the settings of a copy between (region, address) pairs."""
    return {
        "DMA0_SRC_REGION": source[0],
        "DMA0_SRC": source[1],
        "DMA0_DST_REGION": target[0],
        "DMA0_DST": target[1],
        "DMA0_LEN": length,
    }


class Stream:
    """Commands, one after the other."""

    def __init__(self, family="u55", macs=128):
        self.family, self.macs, self.words = family, macs, []
        u85 = family == "u85"
        self._codes = {name_of(code, u85=u85): code for code in _CODES}

    @property
    def offset(self):
        """Where the next command starts [bytes]."""
        return 4 * len(self.words)

    def set(self, settings=None, **more):
        """Add settings; values of commands with payload hold the parameter above 32 bits."""
        for name, value in {**(settings or {}), **more}.items():
            code = self._codes[f"NPU_SET_{name}"]
            if code & 0x4000:
                self.words += [code | (value >> 32 & 0xFFFF) << 16, value & 0xFFFFFFFF]
            else:
                self.words.append(code | (value & 0xFFFF) << 16)
        return self

    def do(self, operation, parameter=0, payload=None):
        """Add an operation."""
        code = self._codes[f"NPU_OP_{operation}"]
        self.words.append(code | parameter << 16)
        if payload is not None:
            self.words.append(payload)
        return self

    def blob(self, weights=b"\0" * 16, scratch=128, ports=((0, 32), (64, 32))):
        """Return the delegate; ports are offset and bytes of the input and of the output."""
        log2 = self.macs.bit_length() - 1
        words = [
            struct.unpack("<I", b"COP1")[0],
            1,
            _FAMILIES[self.family] << 28 | log2,
            0,
            2 | (len(self.words) >> 16 & 0xFF) << 8 | (len(self.words) & 0xFFFF) << 16,
            *self.words,
        ]
        sides = [struct.pack("<i9i", 1, 1, 1, 1, 1, 1, size, 1, offset, 1) for offset, size in ports]
        return b"".join(
            _block(name, data)
            for name, data in (
                ("vela_bin_stream", b""),
                ("cmd_data", struct.pack(f"<{len(words)}I", *words)),
                ("weight_data", weights),
                ("scratch_size", struct.pack("<I", scratch)),
                ("inputs", sides[0]),
                ("outputs", sides[1]),
                ("vela_end_stream", b""),
            )
        )


def _block(name, data):
    return _BLOCK.pack(name.encode(), len(data), 0) + data + bytes(-len(data) % 16)


@cache
def compiled(file="cases"):
    """Return programs of Vela 5.1.0 by name: blob, inputs, outputs of the TOSA reference model."""
    with np.load(DATA / f"{file}.npz") as stored:
        cases = {}
        for key in stored.files:
            name, part = key.split("/")
            cases.setdefault(name, {})[part] = stored[key]
    return {name: Compiled(parts) for name, parts in cases.items()}


class Compiled:
    """One compiled program with a test vector."""

    def __init__(self, parts):
        self.blob = parts["blob"].tobytes()
        self.inputs = [parts[f"in{i}"] for i in range(9) if f"in{i}" in parts]
        self.outputs = [parts[f"out{i}"] for i in range(9) if f"out{i}" in parts]

    def differs(self, outputs):
        """Return whether any byte of the outputs is another."""
        wanted = [values.tobytes() for values in self.outputs]
        return wanted != [np.ascontiguousarray(values).tobytes() for values in outputs]

"""Runners for the double of a simulator: small ELF files that say what real ones say.

Behind the sections stands what the double acts on; the product never reads that part.
"""

from __future__ import annotations

import marshal
import struct

MARK = b"\nACTED-OUT-BY-THE-DOUBLE:"
POOL_SYMBOLS = {
    "method": "method_allocation_pool",
    "scratch": "temp_allocation_pool",
    "files": "input_file_allocation_pool",
    "fast scratch": "dedicated_sram",
    "planned fast memory": "planned_fast_memory_pool",
}
EVENTS = {
    "u55": "AXI0_RD_DATA_BEAT_RECEIVED AXI1_RD_DATA_BEAT_RECEIVED AXI0_WR_DATA_BEAT_WRITTEN NPU_IDLE",
    "u85": "SRAM_RD_DATA_BEAT_RECEIVED SRAM_WR_DATA_BEAT_WRITTEN EXT_RD_DATA_BEAT_RECEIVED "
    "EXT_WR_DATA_BEAT_WRITTEN NPU_IDLE MAC_ACTIVE WD_ACTIVE",
}
EVENTS["u65"] = EVENTS["u55"]
USAGE = {
    "semihosting": "app -m model.pte -i input.bin [-i input2.bin] -o output_basename",
    "embedded": "app -o output_basename -i input.bin [-i input2.bin]",
    "bare": "",
}
MIB = 1 << 20


def runner(
    family="u55", *, placement="semihosting", pools=None, serves=False, kernels=(), backend=True,
    stripped=False, machine=40, program=b"", etdump=False,
):  # fmt: skip
    """Return the bytes of a runner built for an NPU generation."""
    pools = {"method": MIB, "scratch": 2 * MIB, "files": MIB} | (pools or {})
    texts = [
        "Starting running %d inferences...",
        USAGE[placement],
        f"Ethos-U PMU Events:[{', '.join('ETHOSU_PMU_' + e for e in EVENTS[family].split())}]",
        "SERVER_INFERENCE_DONE" if serves else "",
        "EthosUBackend" if backend else "",
        "etdump.bin" if etdump else "",
        *kernels,
    ]
    data = b"\0".join(text.encode() for text in texts) + b"\0" + program
    names = b"\0" + b"".join(POOL_SYMBOLS[name].encode() + b"\0" for name in pools)
    table = bytes(16)
    for name, size in pools.items():
        at = names.index(b"\0" + POOL_SYMBOLS[name].encode() + b"\0") + 1
        table += struct.pack("<IIIBBH", at, 0x31000000, size, 0x11, 0, 1)
    acted = {
        "family": family, "placement": placement, "pools": pools, "serves": serves,
        "kernels": list(kernels), "etdump": etdump,
    }  # fmt: skip
    content = data + names + table + MARK + marshal.dumps(acted)
    at, sections = 52, [(0, 0, 0), (1, 52, len(data))]
    if not stripped:
        at += len(data)
        sections += [(3, at, len(names)), (2, at + len(names), len(table))]
    headers = b"".join(
        struct.pack("<10I", 0, kind, 2 if kind == 1 else 0, 0, start, size, 2 if kind == 2 else 0, 0, 1, 16)
        for kind, start, size in sections
    )
    end = 52 + len(content)
    header = b"\x7fELF\x01\x01\x01" + bytes(9) + struct.pack(
        "<HHIIIIIHHHHHH", 2, machine, 1, 0, 0, end, 0, 52, 0, 0, 40, len(sections), 0
    )  # fmt: skip
    return header + content + headers


def acted_out(data):
    """Return what the double acts on."""
    return marshal.loads(data[data.index(MARK) + len(MARK) :])

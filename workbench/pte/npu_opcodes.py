"""Names of the NPU's commands by their code.

A command's word holds the code in its low 16 bits and a parameter above; codes from 0x4000 on are
followed by a word of payload. Sources: Vela 5.1.0, ``ethosu/vela/ethos_u55_regs`` (Ethos-U55 and
U65), and, for what only the Ethos-U85 has, the listings that Vela writes with
``--verbose-register-command-stream``.
"""

from __future__ import annotations

WITH_PAYLOAD = 0x4000

_OPERATIONS = {
    0x000: "STOP", 0x001: "IRQ", 0x002: "CONV", 0x003: "DEPTHWISE", 0x005: "POOL",
    0x006: "ELEMENTWISE", 0x007: "RESIZE", 0x010: "DMA_START", 0x011: "DMA_WAIT",
    0x012: "KERNEL_WAIT", 0x013: "PMU_MASK",
}  # fmt: skip
_SETTINGS = {
    0x100: "IFM_PAD_TOP", 0x101: "IFM_PAD_LEFT", 0x102: "IFM_PAD_RIGHT", 0x103: "IFM_PAD_BOTTOM",
    0x104: "IFM_DEPTH_M1", 0x105: "IFM_PRECISION", 0x107: "IFM_UPSCALE", 0x108: "IFM_BROADCAST",
    0x109: "IFM_ZERO_POINT", 0x10A: "IFM_WIDTH0_M1", 0x10B: "IFM_HEIGHT0_M1",
    0x10C: "IFM_HEIGHT1_M1", 0x10D: "IFM_IB_END", 0x10F: "IFM_REGION", 0x111: "OFM_WIDTH_M1",
    0x112: "OFM_HEIGHT_M1", 0x113: "OFM_DEPTH_M1", 0x114: "OFM_PRECISION",
    0x115: "OFM_BLK_WIDTH_M1", 0x116: "OFM_BLK_HEIGHT_M1", 0x117: "OFM_BLK_DEPTH_M1",
    0x118: "OFM_ZERO_POINT", 0x11A: "OFM_WIDTH0_M1", 0x11B: "OFM_HEIGHT0_M1",
    0x11C: "OFM_HEIGHT1_M1", 0x11F: "OFM_REGION", 0x120: "KERNEL_WIDTH_M1",
    0x121: "KERNEL_HEIGHT_M1", 0x122: "KERNEL_STRIDE", 0x123: "PARALLEL_MODE",
    0x124: "ACC_FORMAT", 0x125: "ACTIVATION", 0x126: "ACTIVATION_MIN", 0x127: "ACTIVATION_MAX",
    0x128: "WEIGHT_REGION", 0x129: "SCALE_REGION", 0x12D: "AB_START", 0x12E: "WEIGHT_FORMAT",
    0x12F: "BLOCKDEP", 0x130: "DMA0_SRC_REGION", 0x131: "DMA0_DST_REGION", 0x132: "DMA0_SIZE0",
    0x133: "DMA0_SIZE1", 0x180: "IFM2_BROADCAST", 0x181: "IFM2_SCALAR", 0x185: "IFM2_PRECISION",
    0x189: "IFM2_ZERO_POINT", 0x18A: "IFM2_WIDTH0_M1", 0x18B: "IFM2_HEIGHT0_M1",
    0x18C: "IFM2_HEIGHT1_M1", 0x18D: "IFM2_IB_START", 0x18F: "IFM2_REGION",
    0x4000: "IFM_BASE0", 0x4001: "IFM_BASE1", 0x4002: "IFM_BASE2", 0x4003: "IFM_BASE3",
    0x4004: "IFM_STRIDE_X", 0x4005: "IFM_STRIDE_Y", 0x4006: "IFM_STRIDE_C", 0x4010: "OFM_BASE0",
    0x4011: "OFM_BASE1", 0x4012: "OFM_BASE2", 0x4013: "OFM_BASE3", 0x4014: "OFM_STRIDE_X",
    0x4015: "OFM_STRIDE_Y", 0x4016: "OFM_STRIDE_C", 0x4020: "WEIGHT_BASE",
    0x4021: "WEIGHT_LENGTH", 0x4022: "SCALE_BASE", 0x4023: "SCALE_LENGTH", 0x4024: "OFM_SCALE",
    0x4025: "OPA_SCALE", 0x4026: "OPB_SCALE", 0x4030: "DMA0_SRC", 0x4031: "DMA0_DST",
    0x4032: "DMA0_LEN", 0x4033: "DMA0_SKIP0", 0x4034: "DMA0_SKIP1", 0x4080: "IFM2_BASE0",
    0x4081: "IFM2_BASE1", 0x4082: "IFM2_BASE2", 0x4083: "IFM2_BASE3", 0x4084: "IFM2_STRIDE_X",
    0x4085: "IFM2_STRIDE_Y", 0x4086: "IFM2_STRIDE_C", 0x4090: "WEIGHT1_BASE",
    0x4091: "WEIGHT1_LENGTH", 0x4092: "SCALE1_BASE", 0x4093: "SCALE1_LENGTH",
}  # fmt: skip
_U85 = {
    0x12A: "RESIZE_X_SCALE_N_M1", 0x12B: "RESIZE_Y_SCALE_N_M1", 0x12C: "RESIZE_X_OFFSET",
    0x12D: "RESIZE_Y_OFFSET", 0x134: "DMA0_IDX_REGION", 0x4025: "IFM_SCALE", 0x4026: "IFM2_SCALE",
    0x4027: "OP_SCALAR", 0x4033: "DMA0_SRC_STRIDE0", 0x4035: "DMA0_DST_STRIDE0",
    0x4037: "DMA0_IDX", 0x4038: "DMA0_IDX_MAX", 0x4096: "RESIZE_X_STEP", 0x4097: "RESIZE_Y_STEP",
    0x4034: "DMA0_SRC_STRIDE1", 0x4036: "DMA0_DST_STRIDE1", 0x4039: "DMA0_IDX_SKIP1",
    0x4092: "WEIGHT2_BASE", 0x4093: "WEIGHT2_LENGTH", 0x4094: "WEIGHT3_BASE",
    0x4095: "WEIGHT3_LENGTH",
}  # fmt: skip
_BRANCH = 0x4100
# Codes that mean something else on the Ethos-U85, or nothing.
_NOT_ON_U85 = {0x10D, 0x18D, 0x181, 0x123}


def name_of(code: int, *, u85: bool) -> str:
    """Return a command's name as Arm's tools write it; its code where none is known."""
    if code in _OPERATIONS:
        return f"NPU_OP_{_OPERATIONS[code]}"
    if u85 and code == _BRANCH:
        return "NPU_OP_BRANCH"
    setting = _U85.get(code) if u85 else None
    if setting is None and not (u85 and code in _NOT_ON_U85):
        setting = _SETTINGS.get(code)
    return f"NPU_SET_{setting}" if setting else f"command 0x{code:04x}"

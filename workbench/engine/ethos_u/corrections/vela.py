"""Corrections of what Vela is asked for: context managers, which yield what they changed."""

import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from ethosu.vela import vela
from ethosu.vela.ethos_u55_regs.ethos_u55_regs import cmd0, cmd1


@contextmanager
def one_table_in_chain() -> Iterator[list[str]]:
    """Compile without chains where two tables would meet in one.

    Fault: For U85 Vela loads all tables of a chain before it, but table memory holds one of 16-bit
        values: the second load evicts the first, and the first function computes with the table of
        the second.
    Instead: A delegate with such a chain is compiled again without chains, which costs cycles and
        memory traffic.
    Right because: Without chains, every table is loaded in front of its operation.
    Network: torch.tanh(torch.sigmoid(conv(x)) * y) in a16w8 for U85; LSTM
    Tools: ethos-u-vela 5.1.0
    """
    with _compiled_without("Grouping", _has_two_tables_in_a_chain) as apart:
        yield apart


@contextmanager
def waits_for_second_images() -> Iterator[list[str]]:
    """Compile without buffered weights where they would be copied over memory in use.

    Fault: For U55 and U65 Vela writes an operation over two images, where it broadcasts, as one
        for each image. It takes the second image for empty when it looks for what a copy has to
        wait for: weights may be copied over it while the operation still reads or writes it.
    Instead: A delegate with such a copy is compiled again with its weights read where they are,
        which costs cycles.
    Right because: Nothing is copied to where feature maps are.
    Network: (linear(x).unsqueeze(-2) - places).square().sum(-1) over (2, 6, 16) in a8w8
    Tools: ethos-u-vela 5.1.0
    """
    with _compiled_without("WeightBuffering", _copies_over_kernels) as apart:
        yield apart


@contextmanager
def _compiled_without(feature: str, is_wrong: Callable[[bool, list[int]], bool]) -> Iterator[list[str]]:
    """Compile delegates again without a feature of Vela's scheduler where their commands are wrong.

    Args:
        feature: Its name among the options of Vela's compiler.
        is_wrong: Called with whether it is a U85, and the words of the commands.
    """
    stock = vela.regor
    apart: list[str] = []

    class _Regor:
        count = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(stock, name)

        def compile(self, *arguments: Any, options: str, **rest: Any) -> Any:
            model = stock.compile(*arguments, options=options, **rest)
            number, _Regor.count = _Regor.count, _Regor.count + 1
            stream = getattr(model, "command_stream", None)
            if stream is None or not is_wrong(*_commands(np.asarray(stream))):
                return model
            apart.append(f"delegate {number}")
            separate = re.sub(r"(?m)^disable_feature=(.+)$", rf"disable_feature={feature}|\1", options)
            separate = re.sub(r"(?m)^disable_feature=$", f"disable_feature={feature}", separate)
            return stock.compile(*arguments, options=separate, **rest)

    vela.regor = _Regor()
    try:
        yield apart
    finally:
        vela.regor = stock


_STREAM, _U85, _PAYLOAD = 2, 2, 0x4000


def _commands(data: Any) -> tuple[bool, list[int]]:
    """Return whether commands are for a U85, and their words; none if there are no commands."""
    words = [int(word) for word in data.reshape(-1).view(np.uint8).view("<u4")]
    at, is_u85 = 1, False
    while at < len(words):
        word = words[at]
        kind, length = word & 0xFF, word >> 16 & 0xFFFF
        if kind == 1:
            is_u85, at = words[at + 1] >> 28 == _U85, at + 2
        elif kind == _STREAM:
            length |= (word >> 8 & 0xFF) << 16
            return is_u85, words[at + 1 : at + 1 + length]
        at += 1
    return is_u85, []


def _decoded(words: list[int]) -> Iterator[tuple[int, int, int | None]]:
    """Yield the code, the parameter and the payload of each command; None if it has no payload."""
    at = 0
    while at < len(words):
        has_payload = bool(words[at] & _PAYLOAD)
        yield words[at] & 0x3FF, words[at] >> 16, words[at + 1] if has_payload else None
        at += 2 if has_payload else 1


# Codes of Ethos-U85's commands (Vela 5.1.0, ``ethos_u85_interface.hpp``).
_OFM_PRECISION, _ACTIVATION, _KERNELS = 0x114, 0x125, (0x002, 0x003, 0x005, 0x006, 0x007)
_IN_CHAIN, _TABLE_OF_2_KIB = 2, (8, 9)


def _has_two_tables_in_a_chain(is_u85: bool, words: list[int]) -> bool:
    """Return whether commands have a chain with two operations of large tables."""
    tables = activation = precision = 0
    for code, parameter, payload in _decoded(words if is_u85 else []):
        if payload is not None:
            continue
        if code == _OFM_PRECISION:
            precision = parameter
        elif code == _ACTIVATION:
            activation = parameter
        elif code in _KERNELS:
            tables += (activation & 0x1F) in _TABLE_OF_2_KIB
            if precision >> 14 & 3 != _IN_CHAIN:
                if tables > 1:
                    return True
                tables = 0
    return False


# Kernels that a U55 or U65 has under way at most, and the bit of a copy to the memory of tables.
_UNDER_WAY, _TO_TABLES = 2, 0x100
_SIZES = {
    "IFM": ("IFM_HEIGHT0_M1", "IFM_WIDTH0_M1", "IFM_DEPTH_M1"),
    "IFM2": ("IFM2_HEIGHT0_M1", "IFM2_WIDTH0_M1", "OFM_DEPTH_M1"),
    "OFM": ("OFM_HEIGHT_M1", "OFM_WIDTH_M1", "OFM_DEPTH_M1"),
}
# The bit of a second operand that is a number, and the operations of one operand.
_SCALAR, _OF_ONE = 0x80, (5, 6, 7)
_Bytes = tuple[int, int, int]


def _copies_over_kernels(is_u85: bool, words: list[int]) -> bool:
    """Return whether a copy to memory does not wait for a kernel that uses its destination."""
    settings = dict[str, int]()
    running = deque[list[_Bytes]](maxlen=_UNDER_WAY)
    for code, parameter, payload in _decoded([] if is_u85 else words):
        if payload is not None:
            settings[cmd1(code).name[8:]] = parameter << 32 | payload
        elif (name := cmd0(code).name).startswith("NPU_SET_"):
            settings[name[8:]] = parameter
        elif name == "NPU_OP_KERNEL_WAIT":
            while len(running) > parameter:
                running.popleft()
        elif name in ("NPU_OP_CONV", "NPU_OP_DEPTHWISE", "NPU_OP_POOL", "NPU_OP_ELEMENTWISE"):
            has_second = name == "NPU_OP_ELEMENTWISE" and parameter not in _OF_ONE
            has_second = has_second and not settings["IFM2_BROADCAST"] & _SCALAR
            sides = ("IFM", "OFM", *(("IFM2",) if has_second else ()))
            running.append([_used_bytes(settings, side) for side in sides])
        elif name == "NPU_OP_DMA_START" and not settings["DMA0_DST_REGION"] & _TO_TABLES:
            start = settings["DMA0_DST"]
            copied = settings["DMA0_DST_REGION"] & 7, start, start + settings["DMA0_LEN"]
            if any(_overlap(copied, used) for kernel in running for used in kernel):
                return True
    return False


def _used_bytes(settings: dict[str, int], side: str) -> _Bytes:
    """Return region, first address and end of a feature map."""
    height, width, depth = (settings[name] for name in _SIZES[side])
    if side == "IFM2" and settings["IFM2_BROADCAST"] & 4:
        depth = 0
    precision = settings[f"{side}_PRECISION"]
    size = 1 << (precision >> (1 if side == "OFM" else 2) & 3)
    first = settings[f"{side}_BASE0"]
    end = first + height * settings[f"{side}_STRIDE_Y"] + width * settings[f"{side}_STRIDE_X"]
    if precision >> 6 & 1:
        end += depth // 16 * settings[f"{side}_STRIDE_C"] + min(depth + 1, 16) * size
    else:
        end += (depth + 1) * size
    return settings[f"{side}_REGION"] & 7, first, end


def _overlap(one: _Bytes, other: _Bytes) -> bool:
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]


# By correction, the functions whose work it copies or replaces, each with the digest of its code;
# one set for each release that has another.
_PROCESS_REGOR = ((("ethosu.vela.vela:process_regor", "57e307738a1b2d2d"),),)
PINS = {"one_table_in_chain": _PROCESS_REGOR, "waits_for_second_images": _PROCESS_REGOR}

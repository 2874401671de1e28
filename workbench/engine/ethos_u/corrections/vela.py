"""Corrections of what Vela is asked for: context managers, which yield what they changed."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from ethosu.vela import vela


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
            if stream is None or not _has_two_tables_in_a_chain(np.asarray(stream)):
                return model
            apart.append(f"delegate {number}")
            separate = re.sub(r"(?m)^disable_feature=(.+)$", r"disable_feature=Grouping|\1", options)
            separate = re.sub(r"(?m)^disable_feature=$", "disable_feature=Grouping", separate)
            return stock.compile(*arguments, options=separate, **rest)

    vela.regor = _Regor()
    try:
        yield apart
    finally:
        vela.regor = stock


# Codes of Ethos-U85's commands (Vela 5.1.0, ``ethos_u85_interface.hpp``).
_STREAM, _U85, _PAYLOAD = 2, 2, 0x4000
_OFM_PRECISION, _ACTIVATION, _KERNELS = 0x114, 0x125, (0x002, 0x003, 0x005, 0x006, 0x007)
_IN_CHAIN, _TABLE_OF_2_KIB = 2, (8, 9)


def _has_two_tables_in_a_chain(data: Any) -> bool:
    """Return whether commands for a U85 have a chain with two operations of large tables."""
    words = [int(word) for word in data.reshape(-1).view(np.uint8).view("<u4")]
    at, is_u85 = 1, False
    while at < len(words):
        word = words[at]
        kind, length = word & 0xFF, word >> 16 & 0xFFFF
        if kind == 1:
            is_u85, at = words[at + 1] >> 28 == _U85, at + 2
        elif kind == _STREAM:
            length |= (word >> 8 & 0xFF) << 16
            return is_u85 and _chains_tables(words[at + 1 : at + 1 + length])
        at += 1
    return False


def _chains_tables(words: list[int]) -> bool:
    at = tables = activation = precision = 0
    while at < len(words):
        code, parameter = words[at] & 0x3FF, words[at] >> 16
        has_payload = bool(words[at] & _PAYLOAD)
        at += 2 if has_payload else 1
        if has_payload:
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


# By correction, the functions whose work it copies or replaces, each with the digest of its code;
# one set for each release that has another.
PINS = {"one_table_in_chain": ((("ethosu.vela.vela:process_regor", "57e307738a1b2d2d"),),)}

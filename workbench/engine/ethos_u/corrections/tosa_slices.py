"""Slices and paddings that Vela lets operators read at a wrong place."""

from typing import Any

from torch import fx

from .tosa_nodes import (
    CONVOLUTIONS,
    IN_PLACE,
    NOT_JOINED,
    READING_SLICES,
    TOSA,
    WINDOWED,
    image_of,
    source_of,
    strides_of,
)

# Vela splits windows with a larger stride for U85; U55 and U65 leave them to the CPU.
MOST_STRIDE = 3
# Vela writes a larger dilation as a larger kernel with zeros.
_MOST_DILATION = 2


def loses_its_offset(value: fx.Node) -> bool:
    """Return whether an operator that reads a slice, also in another layout, reads wrongly."""
    return any(
        loses_its_offset(reader) if reader.target in IN_PLACE else _reads_wrongly(reader)
        for reader in value.users
    )


def is_repeated_in_a_chain(value: fx.Node) -> bool:
    """Return whether an operator behind another one on elements repeats a slice that it reads."""
    for reader in value.users:
        if reader.target in IN_PLACE[1:]:
            if is_repeated_in_a_chain(reader):
                return True
        elif reader.target not in NOT_JOINED and reader.op == "call_function":
            others = [other for other in reader.all_input_nodes if other is not value]
            is_smaller = value.meta["val"].numel() < reader.meta["val"].numel()
            if is_smaller and any(source_of(o, IN_PLACE).op == "call_function" for o in others):
                return True
    return False


def is_convolved_in_other_images(value: fx.Node) -> bool:
    """Return whether a convolution reads a padding with zeros as images of another shape."""
    if value.kwargs.get("value", 0) != 0:
        return False
    readers = list(value.users)
    for reader in readers:
        if reader.target == TOSA.RESHAPE.default:
            readers.extend(reader.users)
        elif reader.target in WINDOWED:
            source: Any = reader.args[0]
            if image_of(source) != image_of(value):
                return True
    return False


def _reads_wrongly(reader: fx.Node) -> bool:
    """Return whether an operator reads a slice with a wrong offset or shape."""
    if reader.target == TOSA.DEPTHWISE_CONV2D.default and has_several_outputs(reader):
        return True
    if reader.target in CONVOLUTIONS and reader.meta["val"].shape[0] > 1:
        return True
    if reader.target in WINDOWED and max(reader.args[5]) > _MOST_DILATION:
        return True
    return reader.target in READING_SLICES or max(strides_of(reader)) > MOST_STRIDE


def has_several_outputs(node: fx.Node) -> bool:
    """Return whether a depthwise convolution has several outputs a channel."""
    return bool(node.args[0].meta["val"].shape[-1] != node.meta["val"].shape[-1])

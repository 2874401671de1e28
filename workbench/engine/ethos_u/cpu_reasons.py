"""Why operators are on the CPU, in words: of the device in use, with the limit that holds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import torch

from workbench.engine.ethos_u.corrections.partition import moves
from workbench.engine.ethos_u.npu_exclusions import KeptOff
from workbench.engine.fx import programs
from workbench.text import listed

if TYPE_CHECKING:
    from workbench.results import CpuCause

_ONLY_MOVES = "It only moves or reshapes values: alone, there is nothing to compute on the NPU."
_KNOWN: dict[str, tuple[CpuCause, str]] = {
    "Node was not marked as quantized in the Arm backend.": ("float", "It was not quantized."),
    "One or more inputs were not quantized.": ("beside", "One of its inputs is float."),
    "Not included in BaseTOSASupportList or a registered tosa_support_check": (
        "float",
        "The NPU has no such operator for float tensors, and this one was not quantized.",
    ),
    "Partition contained only ops which are removed in the TOSA lowering, leading to an empty partition.": (
        "empty",
        _ONLY_MOVES,
    ),
}
_CONVERSIONS: dict[CpuCause, str] = {
    "border": "Converts between float and integer at the border of the program; integer "
    "inputs and outputs avoid it.",
    "conversion": "Converts between integer and float for an operator on the CPU, and disappears with it.",
}


# An operator as ExecuTorch prints it, with its signature.
_SCHEMA = re.compile(r"<EdgeOpOverload: ([\w.]+)>: schema = \S+\(.*\) -> [\w()\[\], ]+")
_REMEMBERED = "Converts state for the next run: caches stay float, and the NPU computes with integers."


# What ExecuTorch says of its checks for U55, which it makes for U65 too, and what is meant. It counts
# the sides of kernels in the other order than Vela, and names limits that it does not have.
# Sources: ExecuTorch 1.5.1 ``backends/arm/operator_support``; the limits of Vela 5.1.0 are those of
# ``ethosu/vela/tflite_supported_operators.py``.
_LIMITS = (
    (r"Op is not supported on U55\.", "{device} has no such operator; Ethos-U85 has."),
    (
        r"(Avg|Max)pool2d needs stride <= 3, got (.*)",
        "Strides of pools on {device} are at most 3; these are {1}.",
    ),
    (
        r"(Avg|Max)pool2d needs kernel_y < 256, kernel_x\*kernel_y<=65536, got (.*)",
        "ExecuTorch takes kernels of pools on {device} with at most 256 columns and 65,536 places; this one "
        "is {1}.",
    ),
    (
        r"(Avg|Max)pool2d needs N == 1, rest dims <= 65536, got shape (.*)",
        "Inputs of pools on {device} have at most 65,536 channels, rows and columns; this one is {1}.",
    ),
    (
        r"Avgpool2d with padding needs kernel dims < 8, got (.*)",
        "Means of windows on {device} have at most 8 rows and columns, and strides of at most 3, where they "
        "reach beyond the picture or leave its last rows or columns out; these are {0}.",
    ),
    (
        r"Avgpool2d needs N==1, got N==(\d+)",
        "Means of windows on {device} are of one picture at a time; these are {0}.",
    ),
    (
        r"Convolution needs to have kernel_y<=64, kernel_x\*kernel_y<=4096, got kernel \((\d+), (\d+)\)",
        "ExecuTorch takes kernels on {device} with at most 64 columns and 4,096 places; this one has {0} "
        "rows and {1} columns.",
    ),
    (
        r"Kernel Height \* Kernel Width must be in the range \[1;4096\] but got (\d+)",
        "Kernels on {device} have at most 64 rows and 4,096 places; this one has {0} places.",
    ),
    (
        r"Failed condition on stride, pad and dilation combination\.",
        "Strides of convolutions on {device} are at most 3 where they pad or have a dilation.",
    ),
    (
        r"Unsupported stride of (\(.*?\)) for Ethos-U55\..*",
        "Strides of transposed convolutions on {device} are 1 or 2, the same in both directions; these are "
        "{0}. One row, with a kernel of one row, may have (1, 2), and one column (2, 1).",
    ),
)


def _of_device(reason: str, device: str) -> str:
    """Return what a check for U55 says, of the device in use."""
    for pattern, sentence in _LIMITS:
        if match := re.fullmatch(pattern, reason):
            return sentence.format(*match.groups(), device=device)
    return re.sub(r"\b(Ethos-)?U55\b", device, reason)


def in_words(
    reason: str, op: str, device: str, *, at_border: bool, remembered: bool = False
) -> tuple[CpuCause, str]:
    """Return the partitioner's reason for leaving an operator on the CPU: an id and a sentence.

    Args:
        reason: The partitioner's reason; "" for conversions without one.
        op: The operator.
        device: The family, such as "Ethos-U65".
        at_border: Whether it reads an input of the program or produces an output.
        remembered: Whether it reads or writes state.
    """
    if KeptOff.__name__ in reason:
        return "rule", "A rule keeps it off the NPU."
    if "quantize_per" in op and remembered:
        return "conversion", _REMEMBERED
    if "quantize_per" in op and not reason.startswith("Op "):
        cause: CpuCause = "border" if at_border else "conversion"
        return cause, _CONVERSIONS[cause]
    if "fp dtype" in reason:
        return "beside", f"Its input is float; the NPU needs integers. ({reason})"
    if "unsupported dtype torch.int16" in reason:
        return "int16", f"{device} supports it in 8 bits only, and it has 16. ({reason})"
    return _KNOWN.get(reason, ("other", _of_device(_SCHEMA.sub(r"\1", reason), device)))


def unreported(node: torch.fx.Node) -> tuple[CpuCause, str]:
    """Return why an operator is on the CPU for which the partitioner reports nothing.

    Corrections leave operators that only move values out of partitions that would only pass a value
    through. Source: ExecuTorch 1.5.1 reports no reason for bitwise operators on other types than
    bool (``operator_support/bool_bitwise_support.py``).
    """
    if moves(node):
        return "empty", _ONLY_MOVES
    values = [source.meta.get("val") for source in node.all_input_nodes]
    inputs = [
        f"{str(value.dtype).removeprefix('torch.')} of rank {value.dim()}"
        for value in values
        if isinstance(value, torch.Tensor)
    ]
    taken = listed(inputs) if inputs else "sizes"
    return "other", f"ExecuTorch has no way to put {programs.op_of(node)} of {taken} on the NPU."

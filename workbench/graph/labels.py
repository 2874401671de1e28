"""Labels of the graph drawing: shortened names, and text widths estimated without fonts."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from workbench.text import whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workbench.graph.snapshot import Node

_OVERLOADS = frozenset({"default", "Tensor", "Scalar", "out", "int", "dim", "self", "dim_IntList"})
LONGEST = 34
TIMES = "\u00d7"
ELLIPSIS = "…"


def operator_name(op: str) -> str:
    """Return ``conv2d`` for ``aten.conv2d.default``; other names as they are."""
    parts = op.split(".")
    return parts[1] if len(parts) >= 3 or (len(parts) == 2 and parts[1] not in _OVERLOADS) else op


def type_label(type_name: str) -> str:
    """Return ``Conv2d`` for ``torch.nn.modules.conv.Conv2d``."""
    return type_name.rpartition(".")[2]


def dtype_label(dtype: str) -> str:
    """Return ``f32`` for ``float32`` and ``i8`` for ``int8``."""
    for name, short in (("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "i")):
        if dtype.startswith(name):
            return short + dtype[len(name) :]
    return dtype


def local_name(node_id: str) -> str:
    """Return the name of an operation within its nested graph."""
    return node_id.rpartition("/")[2]


def node_title(node: Node, weight: Sequence[int] = ()) -> str:
    """Return an operation's label.

    Its operator, with kernel, stride and channels where it has them; the grid for quantize
    operators. ``weight`` is the shape of its second input.
    """
    if node.kind in ("input", "output"):
        return local_name(node.id)
    if node.kind == "observer":
        low, high = node.attrs.get("min_val"), node.attrs.get("max_val")
        span = f" {float(low):.3g} to {float(high):.3g}" if low and high else ""
        return f"{node.op.removesuffix('Observer')} {dtype_label(node.attrs.get('dtype', ''))}{span}"
    grid = node.outputs[0].qparams if node.outputs else None
    if grid is None or node.kind not in ("quantize", "dequantize"):
        name = operator_name(node.op)
        return f"{name}{_details(name, node.attrs, weight)}"
    if len(grid.scale) > 1:
        return f"{node.kind} {dtype_label(grid.dtype)} per channel"
    return f"{node.kind} {dtype_label(grid.dtype)} ({grid.scale[0]:.3g}, {grid.zero_point[0]})"


def _details(name: str, attrs: Mapping[str, str], weight: Sequence[int]) -> str:
    """Return kernel, stride and channels of a convolution, a linear or a pooling operator."""
    if name == "linear" and len(weight) == 2:
        return f" {weight[1]}→{weight[0]}"
    is_convolution = name.startswith("conv") and len(weight) >= 3
    kernel = weight[2:] if is_convolution else _numbers(attrs.get("kernel_size", ""))
    if not kernel:
        return ""
    stride = _numbers(attrs.get("stride", ""))
    words = [TIMES.join(map(str, kernel))]
    if stride and set(stride) != {1}:
        words.append("s" + TIMES.join(map(str, stride if len(set(stride)) > 1 else stride[:1])))
    if is_convolution:
        groups = max(1, *_numbers(attrs.get("groups", "1")))
        before, after = weight[1] * groups, weight[0]
        if "transpose" in name:
            before, after = weight[0], weight[1] * groups
        is_depthwise = groups > 1 and groups == before
        words += ["depthwise"] if is_depthwise else [f"{groups} groups"] if groups > 1 else []
        words.append(f"· {before}→{after}")
    return f" {' '.join(words)}"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


def elide(text: str, longest: int = LONGEST) -> str:
    """Shorten a long name in its middle."""
    text = " ".join(text[: 4 * longest].split()) if len(text) > longest else text
    if len(text) <= longest:
        return text
    head = longest // 2
    return text[:head] + ELLIPSIS + text[head - longest + 1 :]


def text_width(text: str, size: float = 12.0) -> float:
    """Estimate the width of a text [px] in a proportional font of ``size`` px.

    Equal on every machine, so that layouts are reproducible; views elide longer text.
    """
    if text.isascii():
        return len(text) * size * 0.58
    wide = sum(1 for char in text if unicodedata.east_asian_width(char) in "WF")
    return (len(text) - wide) * size * 0.58 + wide * size * 1.05


def natural(name: str) -> tuple[tuple[int, int | str], ...]:
    """Return a sort key for natural order: ``layer2`` before ``layer10``."""
    parts = re.split(r"(\d+)", name)
    numbers = ((part, whole_number(part)) for part in parts if part)
    return tuple((1, part) if number is None else (0, number) for part, number in numbers)

"""How values are compared, and what may stand in a masked place of them."""

import operator
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import fx

from .graph_writer import Writer

_ATEN = torch.ops.aten
# What is masked has this part of the weight of the least score: exp(-14) is 8e-7.
_MARGIN = 14.0
# Whose place is asked for must differ from the least score, by this part of their spread.
_APART = 0.125


def called(node: Any) -> str:
    """Return the name of the operator that a node calls; "" for anything else."""
    schema = getattr(getattr(node, "target", None), "_schema", None)
    return str(schema.name).rpartition("::")[2] if schema is not None else ""


class Compared(NamedTuple):
    """How a value is compared, which says what a mask may be.

    Attributes:
        dims: Over which dimensions.
        margin: How far beyond all others a masked value has to be.
        side: 1 where what is masked is less than all others, -1 where it is larger.
        part: What is added to the margin, as a part of the spread of the values.
    """

    dims: list[int]
    margin: float
    side: int
    part: float = 0.0


OF_ROWS = Compared([-1], _MARGIN, 1)


def comparison(node: fx.Node) -> Compared | None:
    """Return how a value is compared; None where it is not, in two ways, or read in another way too."""
    every_row = list(_comparisons(node, 1.0, 1))
    rows = [row for row in every_row if row is not None]
    if len(rows) < len(every_row):
        return None
    dims = next((row.dims for row in rows if row.dims), list(range(len(node.meta["val"].shape))))
    if not rows or len({row.side for row in rows}) > 1:
        return None
    return Compared(dims, max(r.margin for r in rows), rows[0].side, max(r.part for r in rows))


def _comparisons(node: fx.Node, factor: float, side: int) -> Iterator[Compared | None]:
    """Yield how each reader compares a value, without dimensions where it is not over some; else None."""
    for reader in node.users:
        name, args = called(reader), reader.args
        second: Any = args[1] if len(args) > 1 else None
        dims = list(second) if isinstance(second, list | tuple) else [second]
        if name in {"softmax", "_softmax", "logsumexp"}:
            yield Compared(dims, _MARGIN * factor, side)
        elif name in {"amax", "amin"} or str(reader.target) in {"aten.max.dim", "aten.min.dim"}:
            yield Compared(dims, 0.0, side if "max" in name else -side)
        elif name in {"argmax", "argmin"} and isinstance(second, int):
            yield Compared(dims, 0.0, side if name == "argmax" else -side, _APART)
        elif name in {"exp", "sigmoid"}:
            yield Compared([], _MARGIN * factor, side)
        elif name == "topk":
            _, _, dim, is_largest = (*args, -1, True)[:4] if len(args) == 2 else (*args, True)[:4]
            is_read = any(part.args[1] == 0 and part.users for part in reader.users)
            # Its values may be weights of a softmax.
            margin = _MARGIN * factor if is_read else 0.0
            yield Compared([dim], margin, side if is_largest else -side, _APART)  # type: ignore[list-item]
        elif (change := _changed_by(reader, node)) != 0.0:
            yield from _comparisons(reader, factor / abs(change), side if change > 0 else -side)
        elif name not in _QUESTIONS:
            yield None


# What asks for infinities, and not for the values.
_QUESTIONS = {"isinf", "isneginf", "isposinf", "isnan", "isfinite", "eq", "ne", "ones_like", "zeros_like"}


def _changed_by(reader: fx.Node, node: fx.Node) -> float:
    """Return the factor with which a reader returns a value, shifted or not; 0 for any other reader."""
    name, args = called(reader), reader.args
    number = args[1] if len(args) > 1 and isinstance(args[1], int | float) else 0.0
    if name in {"dropout", "to", "_to_copy", "alias", "clone"}:
        return 1.0
    if name in {"neg", "rsub"}:
        return -1.0
    if name in {"mul", "div"} and number:
        return float(number) if name == "mul" else 1 / float(number)
    # Less its own maximum or the logarithm of its sum, as before an exponential.
    is_shifted = name == "sub" and args[0] is node and _is_extreme_of(args[1], node)
    return 1.0 if is_shifted else 0.0


def _is_extreme_of(value: Any, node: fx.Node) -> bool:
    while (
        called(value) in {"detach", "alias", "clamp", "clamp_min"}
        or getattr(value, "target", None) is operator.getitem
    ):
        value = value.args[0]
    return called(value) in {"amax", "amin", "max", "min", "logsumexp"} and value.args[0] is node


def masked_scores(write: Writer, scores: fx.Node, inverse: fx.Node, known: Compared) -> Any:
    """Return scores with the least of them, less a margin, where the inverse of a mask is 1."""
    low = low_of(write, scores, known)
    gap = write(_ATEN.sub.Tensor, scores, low)
    return write(_ATEN.sub.Tensor, scores, write(_ATEN.mul.Tensor, gap, inverse))


def low_of(write: Writer, scores: fx.Node, known: Compared) -> fx.Node:
    """Return the least score less a margin, or the largest and a margin."""
    ends = (_ATEN.amin.default, _ATEN.amax.default)[:: known.side]
    low = write(ends[0], scores, known.dims, True)
    if known.part:
        spread = write(_ATEN.sub.Tensor, write(ends[1], scores, known.dims, True), low)
        low = write(_ATEN.sub.Tensor, low, write(_ATEN.mul.Tensor, spread, known.part))
    return write(_ATEN.sub.Tensor, low, known.side * known.margin) if known.margin else low

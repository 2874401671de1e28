"""Puts values in the place of parts of other values, in a float graph.

This file stands on torch alone, because a generated script carries it along.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.fx.traceback import NodeSource

from workbench.engine.fx.aliases import mode_of, name_of

_ATEN = torch.ops.aten


@dataclass(frozen=True)
class Piece:
    """Entries of a value along a dimension: ``count`` of them, from ``start`` on."""

    node: fx.Node
    start: int
    count: int


@dataclass(frozen=True)
class Entries:
    """Entries of a dimension: every ``step``-th; ``select`` is of one without the dimension."""

    dim: int
    start: int
    count: int = 1
    step: int = 1
    select: bool = False


class Pieces:
    """Makes nodes that put values together, before the node that is looked at.

    A value that was put together of pieces is remembered with them: what is put over it again, and
    what is read of it, takes the pieces themselves.
    """

    def __init__(self, graph: fx.Graph) -> None:
        self._graph = graph
        self._at: Any = None
        self._created = list[fx.Node]()
        self._joined = dict[fx.Node, tuple[int, list[Piece]]]()
        self._widened = dict[fx.Node, fx.Node]()

    def before(self, node: fx.Node) -> None:
        """Make the nodes that follow before this one, in its module and with its origin."""
        self._at = node

    def call(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        """Add a call of an operator, and return its node."""
        with self._graph.inserting_before(self._at):
            node = self._graph.call_function(target, args, kwargs)
        values = fx.map_arg((args, kwargs), lambda given: given.meta["val"])
        meta = {key: self._at.meta[key] for key in _COPIED_META if key in self._at.meta}
        mode = next((m for m in map(mode_of, self._graph.nodes) if m is not None), None)
        with torch.no_grad(), mode if mode is not None else torch.no_grad():
            value = target(*values[0], **values[1])
        node.meta = {**meta, "from_node": [NodeSource(self._at)], "val": value}
        self._created.append(node)
        return node

    def full(self, like: fx.Node, number: Any, shape: Sequence[int] | None = None) -> fx.Node:
        """Return a tensor of one number in the type, and by default the shape, of a value."""
        value = like.meta["val"]
        sizes = [*(value.shape if shape is None else shape)]
        return self.call(_ATEN.full.default, sizes, plain_number(number), dtype=value.dtype)

    def part(self, source: fx.Node, dim: int, start: int, count: int, step: int, select: bool) -> fx.Node:
        """Return entries of a value along a dimension; with ``select`` one without it."""
        if step != 1:
            end = start + (count - 1) * step + 1
            return self.call(_ATEN.slice.Tensor, source, dim, start, end, step)
        pieces = _cut_pieces(self._pieces(source, dim), start, count)
        if not select:
            return self._join(dim, pieces)
        (piece,) = pieces
        if piece.node in self._widened and self._joined.get(source, (-1,))[0] == dim:
            return self._widened[piece.node]
        return self.call(_ATEN.select.int, piece.node, dim, piece.start)

    def put(self, source: fx.Node, new: fx.Node, at: Entries) -> fx.Node:
        """Return a value with another one in the place of some entries along a dimension."""
        dim, start, count, step = at.dim, at.start, at.count, at.step
        if at.select:
            wide = self.call(_ATEN.unsqueeze.default, new, dim)
            self._widened[wide] = new
            new = wide
        size = source.meta["val"].shape[dim]
        if count == 0:
            return source
        if step != 1 and count > _FEW_PARTS:
            return self._spread(source, new, dim, start, count, step)
        pieces, given = self._pieces(source, dim), self._pieces(new, dim)
        result = _cut_pieces(pieces, 0, start)
        if step == 1:
            result += [*given, *_cut_pieces(pieces, start + count, size - start - count)]
            return self._join(dim, result)
        for position in range(count):
            after = start + position * step + 1
            end = after + step - 1 if position + 1 < count else size
            result += [*_cut_pieces(given, position, 1), *_cut_pieces(pieces, after, end - after)]
        return self._join(dim, result)

    def _spread(self, source: fx.Node, new: fx.Node, dim: int, start: int, count: int, step: int) -> fx.Node:
        """Put many entries at every ``step``-th place, as columns beside those that stay."""
        shape = [*source.meta["val"].shape]
        rows = count if start + count * step <= shape[dim] else count - 1
        end = start + rows * step
        body = self.part(source, dim, start, rows * step, 1, select=False)
        columns = self.call(_ATEN.reshape.default, body, [*shape[:dim], rows, step, *shape[dim + 1 :]])
        rest = self.part(columns, dim + 1, 1, step - 1, 1, select=False)
        first = self.part(new, dim, 0, rows, 1, select=False)
        first = self.call(_ATEN.unsqueeze.default, first, dim + 1)
        whole = self.call(_ATEN.cat.default, [first, rest], dim + 1)
        whole = self.call(_ATEN.reshape.default, whole, [*shape[:dim], rows * step, *shape[dim + 1 :]])
        pieces = self._pieces(source, dim)
        result = [*_cut_pieces(pieces, 0, start), Piece(whole, 0, rows * step)]
        if rows < count:
            result += [Piece(new, rows, 1)]
            end += 1
        return self._join(dim, [*result, *_cut_pieces(pieces, end, shape[dim] - end)])

    def drop_unused(self, in_use: set[fx.Node]) -> None:
        """Remove the nodes made here that nothing reads."""
        for node in reversed(self._created):
            if not node.users and node not in in_use:
                self._graph.erase_node(node)

    def _pieces(self, node: fx.Node, dim: int) -> list[Piece]:
        known, pieces = self._joined.get(node, (-1, []))
        return pieces if known == dim else [Piece(node, 0, node.meta["val"].shape[dim])]

    def _join(self, dim: int, pieces: list[Piece]) -> fx.Node:
        """Return a value that is made of pieces one after the other."""
        merged = _merged(pieces)
        if len(merged) == 1:
            return self._one(dim, merged[0])
        ends = [0, 0]
        core = list(merged)
        for end, index in ((0, 0), (1, -1)):
            # Zeros at an end are a padding, which has the grid of what is padded.
            if len(core) > 1 and filling(core[index].node) == 0:
                ends[end] = core.pop(index).count
        parts = [self._one(dim, piece) for piece in core]
        node = parts[0] if len(parts) == 1 else self.call(_ATEN.cat.default, parts, dim)
        if any(ends):
            behind = node.meta["val"].dim() - 1 - dim
            node = self.call(_ATEN.constant_pad_nd.default, node, [*[0, 0] * behind, *ends], 0.0)
        self._joined[node] = (dim, merged)
        return node

    def _one(self, dim: int, piece: Piece) -> fx.Node:
        shape = [*piece.node.meta["val"].shape]
        if (piece.start, piece.count) == (0, shape[dim]):
            return piece.node
        number = filling(piece.node)
        if number is not None:
            shape[dim] = piece.count
            return self.full(piece.node, number, shape)
        end = piece.start + piece.count
        return self.call(_ATEN.slice.Tensor, piece.node, dim, piece.start, end)


_FEW_PARTS = 16
_COPIED_META = ("nn_module_stack", "stack_trace", "torch_fn", "source_fn_stack")


def _cut_pieces(pieces: list[Piece], start: int, count: int) -> list[Piece]:
    """Return a part of pieces that follow each other."""
    result, at = list[Piece](), 0
    for piece in pieces:
        first, last = max(start, at), min(start + count, at + piece.count)
        if first < last:
            result.append(Piece(piece.node, piece.start + first - at, last - first))
        at += piece.count
    return result


def _merged(pieces: list[Piece]) -> list[Piece]:
    """Return pieces with neighbours that belong together as one."""
    result = list[Piece]()
    for piece in pieces:
        last = result[-1] if result else None
        if (
            last is not None
            and last.node is piece.node
            and (last.start + last.count == piece.start or filling(piece.node) is not None)
        ):
            result[-1] = Piece(piece.node, last.start, last.count + piece.count)
        else:
            result.append(piece)
    return result


def filling(node: fx.Node) -> Any:
    """Return the number that a node fills its result with; None for other nodes."""
    name = name_of(node)
    for kind, number in (("zeros", 0), ("ones", 1)):
        if name in {kind, f"{kind}_like", f"new_{kind}"}:
            return number
    position = {"full": 1, "full_like": 1, "new_full": 2}.get(name, len(node.args))
    given = node.args[position] if position < len(node.args) else None
    return given if isinstance(given, bool | int | float | complex) else None


def plain_number(number: Any) -> Any:
    """Return a complex number without an imaginary part as a real one: programs have no others."""
    return number.real if isinstance(number, complex) and not number.imag else number

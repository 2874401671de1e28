"""Operations of MASE's table in an exported graph, with the nodes of their operands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import fx

from workbench.engine import programs
from workbench.engine.fx_tensors import overload
from workbench.targets.number_formats.operators import OPERATORS, SOFTSIGN

if TYPE_CHECKING:
    from collections.abc import Iterator

_PRODUCTS = frozenset({"matmul", "bmm"})
_SUMS = frozenset({"add", "sub", "mul"})
_ABS = "aten.abs.default"


@dataclass(frozen=True)
class Operand:
    """One operand: who reads it, at which place of its arguments, as what ("x", "w", "b")."""

    reader: fx.Node
    place: int | str
    name: str
    source: fx.Node

    def replace(self, source: fx.Node) -> None:
        """Let the reader read another node there."""
        if isinstance(self.place, int):
            self.reader.update_arg(self.place, source)
        else:
            self.reader.update_kwarg(self.place, source)


@dataclass(frozen=True)
class Found:
    """One operation.

    Attributes:
        node: What computes it; the last of several.
        operation: Its name in MASE's table.
        operands: Its floating tensors.
        inside: The other nodes it consists of.
    """

    node: fx.Node
    operation: str
    operands: tuple[Operand, ...]
    inside: tuple[fx.Node, ...] = field(default=())


def operations(graph: fx.Graph) -> Iterator[Found]:
    """Yield every operation of a graph, in order."""
    found: dict[fx.Node, Found] = {}
    taken: set[fx.Node] = set()
    for node in graph.nodes:
        name = OPERATORS.get(programs.op_of(node)) if node.op == "call_function" else None
        if name is None:
            continue
        if name == SOFTSIGN:
            each = _softsign(node)
        else:
            each = Found(node, name, tuple(_operands(node, name)))
        if each is not None:
            found[node] = each
            taken.update(each.inside)
    yield from (each for node, each in found.items() if node not in taken)


def _operands(node: fx.Node, name: str) -> Iterator[Operand]:
    """Yield the operands that are floating tensors; numbers have no format."""
    for place, source in _arguments(node):
        if not isinstance(source, fx.Node) or not _is_float(source):
            continue
        said = _argument(node, place)
        if place == 0:
            yield Operand(node, place, "x", source)
        elif name in _PRODUCTS | _SUMS or said == "weight":
            yield Operand(node, place, "w", source)
        elif said == "bias":
            yield Operand(node, place, "b", source)


def _arguments(node: fx.Node) -> Iterator[tuple[int | str, Any]]:
    yield from enumerate(node.args)
    yield from node.kwargs.items()


def _argument(node: fx.Node, place: int | str) -> str:
    """Return the operator's own name of an argument."""
    known = overload(node.target)
    if isinstance(place, str) or known is None:
        return str(place)
    return str(known._schema.arguments[place].name)  # noqa: SLF001 - no public name


def _softsign(node: fx.Node) -> Found | None:
    """Return x / (1 + |x|), which is all there is of a softsign in a graph; None for others."""
    x, total = node.args[:2]
    if not isinstance(x, fx.Node) or not isinstance(total, fx.Node):
        return None
    if OPERATORS.get(programs.op_of(total)) != "add" or 1 not in total.args[:2]:
        return None
    size = next((a for a in total.args[:2] if isinstance(a, fx.Node)), None)
    if size is None or programs.op_of(size) != _ABS or size.args[0] is not x or not _is_float(x):
        return None
    operands = Operand(size, 0, "x", x), Operand(node, 0, "x", x)
    return Found(node, SOFTSIGN, operands, (size, total))


def _is_float(source: fx.Node) -> bool:
    value = source.meta.get("val")
    return value is None or bool(value.is_floating_point())

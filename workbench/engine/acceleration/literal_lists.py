"""Long lists of numbers, such as the multipliers of each channel, enter a graph in one go."""

# ruff: noqa: SLF001 - the insides of the toolchain are what this file is about

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LITERALS: frozenset[type] = frozenset((int, float, bool, str, type(None)))


def all_literal(values: Any) -> bool:
    """Tell whether every element is a plain number, a text or None: no tracer changes those."""
    return LITERALS.issuperset(map(type, values))


@contextmanager
def literal_lists() -> Iterator[None]:
    """Spare lists of literals the visit of each element when they become arguments of a node."""
    from torch.fx import proxy
    from torch.fx.immutable_collections import immutable_list

    table = proxy._create_arg_bypass
    stock = dict(table)
    for kind, made in ((tuple, tuple), (list, list), (immutable_list, list)):
        table[kind] = _whole(made, stock[kind])
    try:
        yield
    finally:
        table.update(stock)


def _whole(made: type, stock: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def create_arg(self: Any, values: Any) -> Any:
        return made(values) if all_literal(values) else stock(self, values)

    return create_arg

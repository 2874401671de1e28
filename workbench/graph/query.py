"""Graph search: names, operators, types, shapes, modules and value comparisons."""

from __future__ import annotations

import fnmatch
import operator
import re
from typing import TYPE_CHECKING

from workbench.errors import failure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from workbench.graph.snapshot import GraphSnapshot, Node

    Test = Callable[[Node], bool]
    Numbers = Mapping[str, Mapping[str, float]]

_TERM = re.compile(r'-?(?:\w+:)?"[^"]*"?|\S+')
_NUMBER = re.compile(
    r"(?P<name>[A-Za-z_]\w*)(?P<sign><=|>=|!=|<|>|=)(?P<value>[-+]?[\d.]+(?:e[-+]?\d+)?)", re.I
)
_SHAPE = re.compile(r"(?:\w+|\*)(?:[,×](?:\w+|\*))+|\d+(?:x\d+)+")  # noqa: RUF001
_SIGNS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "!=": operator.ne,
}
_FIELDS: dict[str, Callable[[Node], tuple[str, ...]]] = {
    "name": lambda node: (node.id, node.attrs.get("target", "")),
    "op": lambda node: (node.op,),
    "kind": lambda node: (node.kind,),
    "module": lambda node: (node.module,),
    "dtype": lambda node: tuple(info.dtype for info in node.outputs),
    "source": lambda node: (node.source,),
}
_SEARCHED = ("name", "op", "kind", "module", "dtype")


def find(text: str, snapshot: GraphSnapshot, numbers: Numbers | None = None) -> tuple[str, ...]:
    """Return the ids of the operations that match a query, in execution order.

    All words must match. A word is searched in names, operators, modules, kinds and types,
    case-insensitively; ``"conv2d"`` in quotes matches exactly; ``*`` is a wildcard; ``op:``,
    ``module:``, ``dtype:``, ``kind:``, ``name:`` and ``source:`` restrict a word; ``1,3,224,224``
    is a shape, with ``*`` for any size; ``sqnr<20`` compares a value; a leading minus excludes. An
    empty query matches nothing.

    Args:
        text: The query.
        snapshot: The graph to search.
        numbers: Values per operation by metric, e.g. ``{"sqnr": {"conv": 31.0}}``.

    Raises:
        WorkbenchError: a comparison uses an unknown metric.
    """
    words = [word for word in _TERM.findall(text) if word.strip('-"')]
    tests = [_test(word, numbers or {}) for word in words]
    if not tests:
        return ()
    return tuple(node.id for node in snapshot.nodes if all(test(node) for test in tests))


def _test(word: str, numbers: Numbers) -> Test:
    if word.startswith("-"):
        inner = _test(word[1:], numbers)
        return lambda node: not inner(node)
    number = _NUMBER.fullmatch(word)
    if number:
        return _comparison(number["name"], number["sign"], number["value"], numbers)
    if _SHAPE.fullmatch(word) and not word.isalpha():
        return _shape(re.split(r"[,×x]" if word[0].isdigit() else r"[,×]", word))  # noqa: RUF001
    field, colon, rest = word.partition(":")
    if colon and rest and field.lower() in _FIELDS:
        return _text(rest, (field.lower(),))
    return _text(word, _SEARCHED)


def _comparison(name: str, sign: str, value: str, numbers: Numbers) -> Test:
    known = {key.lower(): values for key, values in numbers.items()}
    values = known.get(name.lower())
    if values is None:
        there = ", ".join(sorted(numbers)) or "none yet; run an evaluation first"
        raise failure(
            f"Unknown metric '{name}'.", f"Available metrics: {there}.", code="query-metric-unknown"
        )
    try:
        limit = float(value)
    except ValueError as error:
        raise failure(
            f"'{value}' is not a number.", "Example: sqnr<20.", code="query-value-invalid"
        ) from error
    compare = _SIGNS[sign]
    return lambda node: node.id in values and compare(values[node.id], limit)


def _shape(sizes: list[str]) -> Test:
    def test(node: Node) -> bool:
        return any(
            len(info.shape) == len(sizes)
            and all(want in ("*", str(size)) for want, size in zip(sizes, info.shape, strict=True))
            for info in node.outputs
        )

    return test


def _text(word: str, fields: tuple[str, ...]) -> Test:
    is_exact = word.startswith('"')
    wanted = word.strip('"') if is_exact else word.lower()

    def matches(value: str) -> bool:
        if is_exact:
            return value == wanted or wanted in value.split(".")
        value = value.lower()
        return fnmatch.fnmatchcase(value, wanted) if "*" in wanted else wanted in value

    readers = [_FIELDS[field] for field in fields]
    return lambda node: any(matches(value) for reader in readers for value in reader(node))

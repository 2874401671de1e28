"""Corrections before ExecuTorch writes average pools as operators of TOSA: of types, mostly.

A correction gets the graph and its delegate, and yields the names of the nodes that it changed.
"""

from collections.abc import Iterator

import torch
from executorch.backends.arm._passes import InsertTableOpsPass
from executorch.exir.dialects._ops import ops as exir_ops
from torch import fx

from .lowering import Delegate

_POOL = exir_ops.edge.aten.avg_pool2d.default
_VIEW = exir_ops.edge.aten.view_copy.default
_CAST = exir_ops.edge.dim_order_ops._to_dim_order_copy.default  # noqa: SLF001 - its only name
_MATCHED = (exir_ops.edge.aten.where.self, exir_ops.edge.aten.sub.Tensor)


class _Chosen:
    """The functions that are computed by tables, of some nodes."""

    def __init__(self, tables: object, nodes: set[fx.Node]) -> None:
        self._tables, self._nodes = tables, nodes

    def __contains__(self, node: fx.Node) -> bool:
        return node in self._nodes

    def __getitem__(self, node: fx.Node) -> object:
        return self._tables[node]  # type: ignore[index]


def tables_before_pools(graph: fx.Graph, delegate: Delegate) -> Iterator[str]:
    """Write functions before average pools as tables first.

    Fault: A function that a table computes, such as a sigmoid, counts as float until it is a table,
        and the average pool behind it, which becomes one of TOSA earlier, is refused ("Unsupported
        input dtype torch.float32").
    Instead: Those functions become tables before the pools are written.
    Right because: They are the same tables, and both stay in integers.
    Network: torch.nn.functional.avg_pool2d(conv(x).sigmoid(), 2)
    Tools: executorch 1.5.1
    """
    tables = InsertTableOpsPass(delegate.program)
    chosen: set[fx.Node] = set()
    for pool in graph.find_nodes(op="call_function", target=_POOL):
        grid = (pool.meta.get("input_qparams") or {}).get(0)
        if grid is None or not grid.dtype.is_signed or grid.dtype.is_floating_point:
            continue
        functions = {n for n in _float_sources(pool) if n in tables.table_ops}
        if functions:
            # The zero points of the pool get the type of its value.
            pool.meta["val"] = pool.meta["val"].to(grid.dtype)
            chosen |= functions
    if not chosen:
        return
    names = sorted(node.name for node in chosen)
    tables.table_ops = _Chosen(tables.table_ops, chosen)
    tables.call(graph.owning_module)
    yield from names


def types_of_choices(graph: fx.Graph, delegate: Delegate) -> Iterator[str]:
    """Leave integers that are chosen beside a function uncast.

    Fault: A function that a table computes, such as a sigmoid, counts as float until it is a table,
        and so does a number that fills a tensor. What is chosen or subtracted beside it, a constant
        or another value, is cast to float, and lowering ends ("Expected matching dtypes but got
        torch.int8 and torch.float32").
    Instead: The cast is left out.
    Right because: Both are integers of one grid as soon as the function is a table, and the number a
        constant.
    Network: y = conv(x).sigmoid(); torch.where(y > y.flip(3), y, torch.tensor(0.5)) for U85
    Tools: executorch 1.5.1
    """
    del delegate
    for cast in graph.find_nodes(op="call_function", target=_CAST):
        source = cast.all_input_nodes[0]
        kind = source.meta["val"].dtype
        views = [reader for reader in cast.users if reader.target == _VIEW]
        readers = [*(r for r in cast.users if r not in views), *(r for view in views for r in view.users)]
        is_quantized = all(r.target in _MATCHED and r.meta.get("input_qparams") for r in readers)
        if kind in {torch.int8, torch.int16} and cast.meta["val"].is_floating_point() and is_quantized:
            cast.replace_all_uses_with(source)
            for view in views:
                view.meta["val"] = view.meta["val"].to(kind)
            graph.erase_node(cast)
            yield cast.name


def _float_sources(pool: fx.Node) -> Iterator[fx.Node]:
    """Yield what counts as float among all that a pool's values come from."""
    waiting, seen = list(pool.all_input_nodes), set[fx.Node]()
    while waiting:
        node = waiting.pop()
        value = node.meta.get("val")
        is_float = isinstance(value, torch.Tensor) and value.dtype is torch.float32
        if node in seen or node.op != "call_function" or not is_float:
            continue
        seen.add(node)
        yield node
        waiting.extend(node.all_input_nodes)

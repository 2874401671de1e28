"""Which values of a float graph share memory, as eager execution has it.

This file stands on torch alone, because a generated script carries it along.
"""

import math
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode


class Memory(fx.Interpreter):
    """The values of a graph, executed operator by operator on fake tensors.

    Operators run as they do in eager mode: ``dropout`` of a model in evaluation returns its input,
    ``contiguous`` and ``reshape`` return a view where they can. What shares memory in a run of the
    model shares memory here.
    """

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.values: dict[fx.Node, Any] = {}
        self.order = {node: index for index, node in enumerate(module.graph.nodes)}
        mode = next((m for m in map(mode_of, module.graph.nodes) if m is not None), None)
        with torch.no_grad(), mode or FakeTensorMode(allow_non_fake_inputs=True):
            for node in module.graph.nodes:
                self.values[node] = self._value(node)
        self.shared = dict[int, list[fx.Node]]()
        for node, value in self.values.items():
            if isinstance(value, torch.Tensor):
                self.shared.setdefault(storage(value), []).append(node)
        self._peers = {key: set(nodes) for key, nodes in self.shared.items()}
        self._parents = {node: self._parent(node) for node in self.values}
        self._spans = self._descent()

    def _value(self, node: fx.Node) -> Any:
        known = node.meta.get("val")
        is_plain = isinstance(node.target, torch._ops.OpOverload) or (  # noqa: SLF001
            node.target is operator.getitem
        )
        if node.op != "call_function" or not is_plain:
            return known
        args, kwargs = fx.map_arg((node.args, node.kwargs), self.values.get)
        try:
            return node.target(*args, **kwargs)  # type: ignore[operator]
        except Exception:  # noqa: BLE001 - operators whose result depends on data
            return known

    def aliases(self, node: fx.Node) -> list[fx.Node]:
        """Return the nodes that share the memory of a node, itself included, in their order."""
        value = self.values.get(node)
        return self.shared.get(storage(value), [node]) if isinstance(value, torch.Tensor) else []

    def parent(self, node: fx.Node) -> fx.Node | None:
        """Return the node that a value is a view of; None for one that has memory of its own."""
        return self._parents.get(node)

    def comes_from(self, node: fx.Node, origin: fx.Node) -> bool:
        """Return whether a node is another one, or a view of it or of a view of it."""
        first, last = self._spans[origin]
        return first <= self._spans[node][0] <= last

    def _descent(self) -> dict[fx.Node, tuple[int, int]]:
        """Return the first and last number below each node, numbered from parents to children."""
        children = dict[fx.Node | None, list[fx.Node]]()
        for node, parent in self._parents.items():
            children.setdefault(parent, []).append(node)
        first, spans = dict[fx.Node, int](), dict[fx.Node, tuple[int, int]]()
        waiting = [(node, False) for node in children.get(None, ())]
        while waiting:
            node, is_left = waiting.pop()
            if is_left:
                spans[node] = (first[node], len(first) - 1)
                continue
            first[node] = len(first)
            waiting.append((node, True))
            waiting += [(child, False) for child in children.get(node, ())]
        return spans

    def _parent(self, node: fx.Node) -> fx.Node | None:
        value = self.values.get(node)
        if node.op != "call_function" or not isinstance(value, torch.Tensor):
            return None
        peers = self._peers[storage(value)]
        for source in node.all_input_nodes:
            owner = source
            if node.target is operator.getitem and source.all_input_nodes:
                owner = source.all_input_nodes[0]
            if owner in peers:
                return owner
        return None


def mode_of(node: fx.Node) -> Any:
    """Return the mode of a node's fake tensor; None where it has none."""
    return getattr(node.meta.get("val"), "fake_mode", None)


def storage(value: torch.Tensor) -> int:
    """Return what identifies the memory of a tensor."""
    return int(value.untyped_storage()._cdata)  # noqa: SLF001 - no public name


def same_view(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether two tensors of one memory are the same elements in the same order."""
    return (
        a.shape == b.shape
        and a.dtype == b.dtype
        and a.stride() == b.stride()
        and a.storage_offset() == b.storage_offset()
    )


_COMPARED = 1 << 24


def overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether two tensors of one memory have an element in common."""
    if a.dtype != b.dtype or _end(a) <= b.storage_offset() or _end(b) <= a.storage_offset():
        return a.dtype != b.dtype
    step = math.gcd(*(s for t in (a, b) for n, s in zip(t.shape, t.stride(), strict=True) if n > 1))
    if step and (a.storage_offset() - b.storage_offset()) % step:
        return False
    extent = max(_end(a), _end(b))
    if extent > _COMPARED:
        return True
    seen = torch.zeros(extent, dtype=torch.bool)
    seen.as_strided(a.shape, a.stride(), a.storage_offset()).fill_(True)
    return bool(seen.as_strided(b.shape, b.stride(), b.storage_offset()).any())


def _end(value: torch.Tensor) -> int:
    steps = ((size - 1) * step for size, step in zip(value.shape, value.stride(), strict=True))
    return int(value.storage_offset() + sum(steps) + 1)


def name_of(node: fx.Node) -> str:
    """Return an operator's name without namespace and overload, e.g. ``slice``; "" for others."""
    schema = getattr(node.target, "_schema", None)
    return str(schema.name).rpartition("::")[2] if schema is not None else ""


IDLE_IN_PLACE = frozenset(("dropout_", "feature_dropout_", "alpha_dropout_", "feature_alpha_dropout_"))


def is_write(node: fx.Node) -> bool:
    """Return whether an operator changes the elements of its first argument.

    A dropout in place of a model in evaluation does not.
    """
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or not schema.is_mutable:
        return False
    if name_of(node) in IDLE_IN_PLACE and not node.args[2]:
        return False
    if output_of(node) is not None:
        return False
    is_shape_only = torch.Tag.inplace_view in node.target.tags  # type: ignore[union-attr]
    return bool(node.args and isinstance(node.args[0], fx.Node)) and not is_shape_only


def output_of(node: fx.Node) -> fx.Node | None:
    """Return the tensor that a call was given for its result, as in ``torch.mul(x, 2, out=y)``."""
    schema = getattr(node.target, "_schema", None)
    names = [argument.name for argument in schema.arguments if argument.is_out] if schema else []
    given = node.kwargs.get(names[0]) if len(names) == 1 else None
    return given if isinstance(given, fx.Node) else None


# Writes that ExecuTorch and its passes take only as operators that return a new value.
_TO_PLACES = frozenset(
    (
        "addbmm_",
        "addmm_",
        "addmv_",
        "addr_",
        "baddbmm_",
        "copy_",
        "cumprod_",
        "fill_diagonal_",
        "index_add_",
        "index_copy_",
        "index_fill_",
        "index_put_",
        "index_reduce_",
        "masked_scatter_",
        "put_",
        "renorm_",
        "scatter_",
        "scatter_add_",
        "scatter_reduce_",
    )
)


def writes_seen_elsewhere(module: fx.GraphModule, state: set[fx.Node]) -> Iterator[fx.Node]:
    """Yield the writes whose effect is read by other ways than through their result.

    A write to an input is one: it changes the sample that the caller gave. So is an assignment by a
    mask or a list, for which the NPU has other operators, and each in ``_TO_PLACES``.

    Args:
        module: A float graph.
        state: Placeholders that the graph may change, which are its state.
    """
    writes = [node for node in module.graph.nodes if is_write(node)]
    if not writes:
        return
    memory = Memory(module)
    for write in writes:
        target: Any = write.args[0]
        peers = memory.aliases(target)
        base = peers[0] if peers else target
        if base.op in {"placeholder", "get_attr"}:
            if base not in state:
                yield write
            continue
        if name_of(write) in _TO_PLACES or any(_reads(memory, write, target, peer) for peer in peers):
            yield write


def _reads(memory: Memory, write: fx.Node, target: fx.Node, peer: fx.Node) -> bool:
    """Return whether something reads an alias after a write that it does not come from."""
    if memory.comes_from(peer, write):
        return False
    later = [user for user in peer.users if memory.order[user] > memory.order[write]]
    return bool(later) and overlap(memory.values[peer], memory.values[target])

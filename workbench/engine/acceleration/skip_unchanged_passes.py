"""A retrace that is known to give its own graph again is skipped.

An ``ExportPass`` runs its graph node by node and builds a new one, also where the pass has nothing
to change. What the new graph is depends on the old one and on the pass alone. So once a retrace
gave the same graph as it got (names, arguments, order, metadata), the next retrace of that graph
gives it again, unless its pass changes something. This file answers such a retrace with the graph
itself. It is certain of that if:

- The graph is as the last retrace left it: no node, argument or value was exchanged since.
- The graph has plain operators only: no control flow, no delegates, no symbolic sizes.
- The pass overrides no hook of the retrace, or its row in ``ROWS`` finds from the nodes that
  none is changed. A row is pinned to the source of its pass.

What differs: the history of a node (``from_node``) has no entries for skipped retraces.
"""

# ruff: noqa: SLF001 - the insides of the toolchain are what this file is about

from __future__ import annotations

import operator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.engine.acceleration.fx_speedups import LITERALS
from workbench.engine.toolchain_patches.patching import changed, replaced, sources_match

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Acts = Callable[[Any, Any], bool]

PINS = (
    ("executorch.exir.pass_base:_ExportPassBase", "e3bb4b9433da1295"),
    ("executorch.exir.pass_base:ExportPass", "ecd27d71bde94add"),
    ("executorch.backends.arm._passes.arm_pass:ArmPass", "89eb39e034cc2a34"),
)

# What a pass can override of a retrace, but for what is done before and after it.
_HOOKS = (
    "call_operator",
    "call_getitem",
    "placeholder",
    "output",
    "call_submodule",
    "inputs",
    "ExportTracer",
    "ExportInterpreter",
)

# Metadata that is no part of a comparison: history, and a counter of autograd's.
_HISTORY = frozenset(("from_node", "seq_nr"))


@contextmanager
def skip_unchanged_passes() -> Iterator[None]:
    """Answer retraces that change nothing with their own graph while the block runs."""
    from executorch.exir.pass_base import PassResult, _ExportPassBase

    if not sources_match("The skipping of idle retraces", PINS):
        yield
        return
    graph = _SettledGraph()
    stock = _ExportPassBase.call

    def call(self: Any, graph_module: Any) -> Any:
        if graph.is_settled(graph_module, self) and _is_idle(self, graph_module.graph):
            return PassResult(graph_module, True)
        result = stock(self, graph_module)
        graph.note(graph_module, result.graph_module, self)
        return result

    with replaced(_ExportPassBase, "call", call):
        yield


class _SettledGraph:
    """The graph that a retrace gave last as it got it, and how it was then."""

    def __init__(self) -> None:
        from executorch.backends.arm._passes.arm_pass import ArmPass
        from executorch.backends.arm.tosa.specification import TosaLoweringContext
        from executorch.exir.dialects.backend._ops import BackendOpOverload
        from executorch.exir.dialects.edge._ops import EdgeOpOverload
        from torch._ops import OpOverload

        # The last one alone: the state holds the whole graph.
        self._settled: tuple[Any, tuple[Any, ...]] | None = None
        self._operators = frozenset((OpOverload, EdgeOpOverload, BackendOpOverload))
        self._arm, self._comparison = ArmPass, _Comparison()
        self._specification = TosaLoweringContext.tosa_spec_var

    def is_settled(self, module: Any, graph_pass: Any) -> bool:
        """Return whether ``module`` is as a retrace of this kind left it."""
        if self._settled is None or self._settled[0] is not module:
            return False
        now, state = self._state(module, graph_pass), self._settled[1]
        return len(now) == len(state) and all(map(operator.is_, now, state))

    def note(self, before: Any, after: Any, graph_pass: Any) -> None:
        """Keep the state of ``after`` if the retrace of ``before`` gave the same graph."""
        self._settled = None
        if self._is_plain(after.graph) and self._comparison.is_same(before.graph, after.graph):
            self._settled = after, self._state(after, graph_pass)

    def _state(self, module: Any, graph_pass: Any) -> tuple[Any, ...]:
        """Return everything that a retrace reads, to be compared by identity."""
        state = [isinstance(graph_pass, self._arm), self._specification.get(None)]
        for node in module.graph.nodes:
            meta = node.meta
            state += (
                node,
                node.target,
                node.args,
                node.kwargs,
                meta.get("val"),
                meta.get("input_qparams"),
                meta.get("output_qparams"),
            )
        return tuple(state)

    def _is_plain(self, graph: Any) -> bool:
        return all(
            node.op in ("placeholder", "output")
            or (
                node.op == "call_function"
                and (type(node.target) in self._operators or node.target is operator.getitem)
            )
            for node in graph.nodes
        )


class _Comparison:
    """Whether two graphs are equal, but for the history of their nodes."""

    def __init__(self) -> None:
        from torch._subclasses.fake_tensor import FakeTensor
        from torch.fx import Node

        self._node, self._tensor = Node, FakeTensor

    def is_same(self, graph: Any, other: Any) -> bool:
        """Return whether names, operators, arguments and metadata of all nodes are equal."""
        return len(graph.nodes) == len(other.nodes) and all(
            one.name == two.name
            and one.op == two.op
            and one.target == two.target
            and self._is_same_argument(one.args, two.args)
            and self._is_same_argument(one.kwargs, two.kwargs)
            and self._is_same_metadata(one.meta, two.meta)
            for one, two in zip(graph.nodes, other.nodes, strict=True)
        )

    def _is_same_argument(self, one: Any, two: Any) -> bool:
        kind = type(one)
        if one is two or kind is not type(two):
            return one is two
        if kind is self._node or kind in LITERALS:
            return bool(one.name == two.name if kind is self._node else _exact(one) == _exact(two))
        if isinstance(one, (list, tuple)):
            if LITERALS.issuperset(map(type, one)):
                return _is_same_row(one, two)
            return len(one) == len(two) and all(map(self._is_same_argument, one, two))
        if isinstance(one, dict):
            return list(one) == list(two) and self._is_same_argument(tuple(one.values()), tuple(two.values()))
        return False

    def _is_same_metadata(self, one: dict[str, Any], two: dict[str, Any]) -> bool:
        if [key for key in one if key not in _HISTORY] != [key for key in two if key not in _HISTORY]:
            return False
        return all(
            self._is_same_value(value, two[key]) if key == "val" else value is two[key]
            for key, value in one.items()
            if key not in _HISTORY and key != "tensor_meta"
        )

    def _is_same_value(self, one: Any, two: Any) -> bool:
        """Return whether two fake values have the same shape, type and layout."""
        kind = type(one)
        if kind is not type(two):
            return False
        if kind is self._tensor:
            # Symbolic sizes have no value to compare.
            static = all(type(size) is int for size in (*one.shape, *one.stride()))
            return static and _traits(one) == _traits(two)
        if isinstance(one, (list, tuple)):
            return len(one) == len(two) and all(map(self._is_same_value, one, two))
        return kind in LITERALS and bool(one == two)


def _is_same_row(one: Any, two: Any) -> bool:
    """Return whether two lists of literals are equal, signs of zeros and types included."""
    if one != two or list(map(type, one)) != list(map(type, two)):
        return False
    return 0.0 not in one or list(map(_exact, one)) == list(map(_exact, two))


def _exact(value: Any) -> Any:
    """Return a literal so that -0.0 differs from 0.0."""
    return value.hex() if type(value) is float else value


def _traits(tensor: Any) -> tuple[Any, ...]:
    return (
        tensor.shape,
        tensor.stride(),
        tensor.dtype,
        tensor.fake_device,
        tensor.storage_offset(),
        tensor.untyped_storage().nbytes(),
        tensor.requires_grad,
        tensor.constant is None,
        id(tensor.fake_mode),
    )


def _is_idle(graph_pass: Any, graph: Any) -> bool:
    """Return whether a pass changes no node of a plain graph by its hooks."""
    from executorch.backends.arm._passes.arm_pass import ArmPass
    from executorch.exir.pass_base import ExportPass

    kind = type(graph_pass)
    stock = ArmPass if isinstance(graph_pass, ArmPass) else ExportPass
    own = {name for name in _HOOKS if getattr(kind, name) is not getattr(stock, name)}
    if own.union(_HOOKS).intersection(vars(graph_pass)) or not own <= {"call_operator"}:
        return False
    if not own:
        return True
    path = f"{kind.__module__}:{kind.__qualname__}"
    row = ROWS.get(path)
    if row is None or changed(((path, row.pin),)):
        return False
    return not any(
        node.op == "call_function" and node.target is not operator.getitem and row.acts(graph_pass, node)
        for node in graph.nodes
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """How a pass with a ``call_operator`` of its own leaves a node as it is.

    Attributes:
        pin: The digest of the source of the pass.
        acts: Whether the pass may change a node; true where that is not certain.
    """

    pin: str
    acts: Acts


def _value(node: Any) -> Any:
    return node.meta["val"]


def _is_view(_pass: Any, node: Any) -> bool:
    return bool(getattr(node.target, "is_view", True))


def _reads_scalar_as_tensor(_pass: Any, node: Any) -> bool:
    """Return whether an argument of a tensor is a plain number or a symbol."""
    import torch
    from torch.fx import Node

    for index, argument in enumerate(node.target._schema.arguments):
        if not isinstance(argument.type, torch.TensorType):
            continue
        if argument.name in node.kwargs:
            value = node.kwargs[argument.name]
        elif index < len(node.args):
            value = node.args[index]
        else:
            continue
        tensor = isinstance(value, Node) and isinstance(_value(value), torch.Tensor)
        if value is not None and not tensor:
            return True
    return False


def _mixes_types(_pass: Any, node: Any) -> bool:
    """Return whether an operator whose types are promoted reads other than one type of floats."""
    import torch
    from torch.fx import Node

    aten = torch.ops.aten
    promoted = (
        aten.add.Tensor,
        aten.mul.Tensor,
        aten.sub.Tensor,
        aten.div.Tensor,
        aten.div.Tensor_mode,
        aten.minimum.default,
    )
    if node.target not in promoted:
        return False
    types = {_value(one).dtype if isinstance(one, Node) else None for one in node.args}
    return len(types) > 1 or not all(kind and kind.is_floating_point for kind in types)


def _splits_groups(graph_pass: Any, node: Any) -> bool:
    if node.target not in graph_pass.target_ops:
        return False
    groups, transposed = graph_pass._get_groups_and_transposed(node.target, node.args)
    shape = _value(node.args[0]).shape
    depthwise = not transposed and shape[1] == groups and len(shape) != 5
    return groups != 1 and not depthwise


def _is_float_gelu(graph_pass: Any, node: Any) -> bool:
    return node.target in graph_pass.target_ops and not graph_pass._is_quantized_meta(node.meta)


def _permutes_many_axes(graph_pass: Any, node: Any) -> bool:
    return node.target in graph_pass.target_ops and _value(node.args[0]).dim() > 4


def _permutes_too_much(graph_pass: Any, node: Any) -> bool:
    from executorch.backends.arm.tosa.specification import get_context_spec

    return (
        node.target in graph_pass.target_ops
        and get_context_spec().is_U55_subset
        and graph_pass._violates_u55_worst_case_constraint(_value(node.args[0]).shape)
    )


def _has_symbolic_shape(graph_pass: Any, node: Any) -> bool:
    """Return whether a list among the arguments holds the value of a shape."""
    import torch

    return node.target == torch.ops.aten.sym_size.int or any(
        isinstance(given, (list, tuple))
        and (graph_pass._has_shape_node_arg(given) or graph_pass._has_raw_symint_arg(given))
        for given in node.args
    )


_EXIR = "executorch.exir.passes"
_ARM = "executorch.backends.arm._passes"
ROWS: dict[str, _Row] = {
    f"{_EXIR}.replace_broken_ops_with_function_ops_pass:ReplaceBrokenOpsWithFunctionalOpsPass": (
        _Row("6c0712e372d27826", _is_view)
    ),
    f"{_EXIR}.scalar_to_tensor_pass:ScalarToTensorPass": _Row("d9dbc490ca42c0b4", _reads_scalar_as_tensor),
    f"{_EXIR}.sym_to_tensor_pass:SymToTensorPass": _Row("e27d0e886841edd5", _reads_scalar_as_tensor),
    f"{_EXIR}.remove_mixed_type_operators:RemoveMixedTypeOperators": _Row("4dff2987379f9922", _mixes_types),
    f"{_ARM}.decompose_grouped_conv_pass:DecomposeGroupedConvPass": _Row("8e76781b33099941", _splits_groups),
    f"{_ARM}.decompose_gelu_pass:DecomposeGeluPass": _Row("f5237feab6e51113", _is_float_gelu),
    f"{_ARM}.rewrite_high_rank_singleton_permute_pass:RewriteHighRankSingletonPermutePass": (
        _Row("5d2379cd3c2782e5", _permutes_many_axes)
    ),
    f"{_ARM}.decompose_permute_for_u55_pass:DecomposePermuteForU55Pass": (
        _Row("b3f2f54ea27ac494", _permutes_too_much)
    ),
    f"{_ARM}.symbolic_to_tosa_shape_pass:SymbolicToTosaShapesPass": (
        _Row("ef0e13d9f66c2ed8", _has_symbolic_shape)
    ),
}

"""The retrace of a pass does the same for each node with less work around it.

An ``ExportPass`` runs a graph node by node and builds a new one. What is left out here has no
effect on the new graph: text of every node for messages that nobody reads, generators around each
node, copies of metadata that are overwritten at once, a walk over the arguments for each of four
purposes instead of one. All points that a pass can override are called as before.

The source of every function that is stood in for is pinned in ``PINS``. What is lost: debug logs of
``torch.fx.proxy`` and ``torch.fx.interpreter`` for each node.
"""

# ruff: noqa: SLF001 - the insides of the toolchain are what this file is about

from __future__ import annotations

import copy
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from workbench.engine.acceleration.fx_speedups import LITERALS, all_literal
from workbench.engine.toolchain_patches.patching import replaced, sources_match

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Classes of which most of what a retrace calls is stood in for are pinned whole.
PINS = (
    ("executorch.exir.pass_base:_ExportPassBase", "e3bb4b9433da1295"),
    ("executorch.exir.pass_base:ExportPass", "ecd27d71bde94add"),
    ("torch.fx.interpreter:Interpreter", "576d7261f6e19a21"),
    ("torch.fx.traceback:set_current_meta", "c5d0953b79231b71"),
    ("torch.fx.traceback:NodeSource.__init__", "700ca99e3b512e3f"),
    ("torch.fx.proxy:TracerBase", "46b06a0f08fb8227"),
    ("torch.fx._symbolic_trace:Tracer.create_arg", "3c4050f251ded5ad"),
    ("torch.fx.experimental.proxy_tensor:PythonKeyTracer", "84846a4170e49234"),
    ("torch.fx.experimental.proxy_tensor:_should_save_eager_input_vals", "61c44358515b2f82"),
)


@contextmanager
def fast_retrace() -> Iterator[None]:
    """Retrace with less work for each node while the block runs."""
    from executorch.exir.pass_base import ExportPass, _ExportPassBase

    if not sources_match("The lean retrace", PINS):
        yield
        return
    base, interpreter = _ExportPassBase, _ExportPassBase.ExportInterpreter
    builder = _Builder(frozenset((base.ExportTracer, ExportPass.ExportTracer)), base._fx, base.placeholder)
    with ExitStack() as stack:
        # Plain functions, which become methods when they are read from an instance.
        stack.enter_context(replaced(base, "_fx", _fx(builder)))
        stack.enter_context(replaced(base, "placeholder", _placeholder(builder)))
        run_node = _run_node(interpreter, base.placeholder)
        stack.enter_context(replaced(interpreter, "run_node", run_node))
        yield


def _fx(builder: _Builder) -> Callable[..., Any]:
    def fx(self: Any, kind: str, target: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        return builder.call(self, (kind, target, args, kwargs, meta))

    return fx


def _placeholder(builder: _Builder) -> Callable[..., Any]:
    def placeholder(self: Any, name: str, arg: Any, meta: Any) -> Any:
        return builder.placeholder(self, name, arg, meta)

    return placeholder


class _Builder:
    """Adds the nodes of a retrace to its new graph."""

    def __init__(
        self,
        tracers: frozenset[type],
        original_call: Callable[..., Any],
        original_placeholder: Callable[..., Any],
    ) -> None:
        import torch
        from executorch.exir.dialects.backend._ops import BackendOpOverload
        from executorch.exir.dialects.edge._ops import EdgeOpOverload
        from executorch.exir.pass_base import ProxyValue
        from torch._ops import OpOverload
        from torch._subclasses.fake_tensor import FakeTensor
        from torch.fx import Proxy, proxy, traceback
        from torch.fx.immutable_collections import immutable_list
        from torch.utils import _pytree

        self._tracers = tracers
        self._original_call = original_call
        self._original_placeholder = original_placeholder
        self._edge = frozenset((EdgeOpOverload, BackendOpOverload))
        self._aten = OpOverload
        self._value = ProxyValue
        self._proxy = Proxy
        self._fake = FakeTensor
        self._modules = (proxy, traceback)
        self._list = immutable_list
        self._pytree = _pytree
        kinds = (torch.dtype, torch.device, torch.memory_format, torch.layout)
        self._plain = LITERALS.union(kinds)
        # By aten operator: the name of its nodes, and whether they keep their inputs' metadata.
        self._of_aten: dict[Any, tuple[str, bool]] = {}

    def call(self, owner: Any, call: tuple[str, Any, Any, Any, Any]) -> Any:
        """Stand in for ``_ExportPassBase._fx``: call ``target`` and add a node for it."""
        kind, target, args, kwargs, meta = call
        tracer = owner.tracer
        sort = type(target)
        known = sort is self._aten or sort in self._edge
        odd = tracer.record_stack_traces or tracer.check_mutable_operations
        if kind != "call_function" or not known or odd or type(tracer) not in self._tracers:
            return self._original_call(owner, *call)
        result = getattr(owner.interpreter, kind)(target, self._data(args), self._data(kwargs))
        name, keeps_inputs = self._traits(tracer, target) if sort is self._aten else (None, False)
        node = tracer.graph.create_node(
            kind, target, self._argument(tracer, args), self._argument(tracer, kwargs), name
        )
        _give_meta(tracer, node, meta.data, self._modules)
        proxy = tracer.proxy(node)
        if keeps_inputs and "eager_input_vals" not in meta.data:
            node.meta["eager_input_vals"] = _input_values(node)
        node.meta.update(meta.data)
        self._set_value(tracer, node, result)
        return self._value(result, proxy)

    def placeholder(self, owner: Any, name: str, value: Any, meta: Any) -> Any:
        """Stand in for ``_ExportPassBase.placeholder``: add an input to the new graph."""
        tracer = owner.tracer
        if tracer.record_stack_traces or type(tracer) not in self._tracers:
            return self._original_placeholder(owner, name, value, meta)
        node = tracer.graph.create_node("placeholder", name, (), {})
        _give_scope(tracer, node)
        node.meta = meta.data
        node.meta["val"] = value
        return self._value(value, tracer.proxy(node))

    def _traits(self, tracer: Any, target: Any) -> tuple[str, bool]:
        from torch.fx.experimental.proxy_tensor import _should_save_eager_input_vals

        traits = self._of_aten.get(target)
        if traits is None:
            name = tracer.graph._target_to_str(target.overloadpacket.__name__)
            traits = self._of_aten[target] = (name, _should_save_eager_input_vals(target, None))
        return traits

    def _data(self, value: Any) -> Any:
        """Return an argument with the data of each value instead of the value."""
        kind = type(value)
        if kind is self._value:
            return value.data
        if kind in self._plain:
            return value
        if kind is tuple:
            return tuple([self._data(one) for one in value])
        if kind is list:
            return value[:] if all_literal(value) else [self._data(one) for one in value]
        if kind is dict:
            return {key: self._data(one) for key, one in value.items()}
        return self._pytree.tree_map_only(self._value, lambda one: one.data, value)

    def _argument(self, tracer: Any, value: Any) -> Any:
        """Return an argument with the node of each value instead of the value."""
        kind = type(value)
        if kind is self._value:
            proxy = value.proxy_or_node
            return proxy.node if type(proxy) is self._proxy else tracer.create_arg(value.proxy)
        if kind in self._plain:
            return value
        if kind is tuple:
            return tuple([self._argument(tracer, one) for one in value])
        if kind is list or kind is self._list:
            whole = all_literal(value)
            return list(value) if whole else [self._argument(tracer, one) for one in value]
        if kind is dict and all(type(key) is str for key in value):
            return {key: self._argument(tracer, one) for key, one in value.items()}
        proxies = self._pytree.tree_map_only(self._value, lambda one: one.proxy, value)
        return tracer.create_arg(proxies)

    def _set_value(self, tracer: Any, node: Any, result: Any) -> None:
        if type(result) is self._fake:
            node.meta["val"] = result
            node.meta["tensor_meta"] = None
        else:
            tracer.set_metadata(node, result)


def _give_scope(tracer: Any, node: Any) -> None:
    scope = tracer.scope
    tracer.node_name_to_scope[node.name] = (scope.module_path, scope.module_type)


def _give_meta(tracer: Any, node: Any, replacement: dict[str, Any], modules: tuple[Any, Any]) -> None:
    """Give ``node`` the metadata of the node that is being retraced.

    Args:
        tracer: The tracer of the new graph.
        node: The new node.
        replacement: What the caller writes over the metadata next: its keys need no copies.
        modules: ``torch.fx.proxy`` and ``torch.fx.traceback``.

    Source: torch 2.13 ``fx/proxy.py``, ``TracerBase.create_node``.
    """
    proxy, traceback = modules
    _give_scope(tracer, node)
    if not traceback.should_preserve_node_meta:
        if tracer.module_stack:
            node.meta["nn_module_stack"] = copy.copy(tracer.module_stack)
        return
    current, meta = traceback.current_meta, node.meta
    trace = current.get("stack_trace")
    if trace:
        node.stack_trace = trace
        if traceback.GRADIENT_ACC_SPECIAL_STACK in trace:
            meta["is_gradient_acc"] = True
            meta["autograd_backward"] = True
    for field in proxy._COPY_META_FIELDS:
        if field in current:
            # The place among the keys counts, the value comes with the replacement.
            meta[field] = None if field in replacement else copy.copy(current[field])
    sequence_number = proxy._get_seq_nr(node.name)
    if sequence_number is not None:
        meta["seq_nr"] = sequence_number
    _give_replayed(node, traceback.get_current_replay_node())
    if current.get("autograd_backward", False):
        meta["autograd_backward"] = True


def _give_replayed(node: Any, replayed: Any) -> None:
    if replayed is None:
        return
    node.meta["is_functional_regenerated"] = True
    if "custom" in replayed.meta:
        node.meta["custom"] = replayed.meta.get("custom")
    if "stack_trace" in replayed.meta:
        node.stack_trace = replayed.meta.get("stack_trace")


def _input_values(node: Any) -> Any:
    """Return the fake tensors of a node's inputs, which only torch's compiler reads.

    Source: torch 2.13 ``fx/experimental/proxy_tensor.py``, ``PythonKeyTracer.create_node``.
    """
    from torch import Tensor
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.fx.experimental.proxy_tensor import extract_val
    from torch.fx.node import Node, map_aggregate

    def value_of(argument: Any) -> Any:
        value = argument.meta.get("val") if isinstance(argument, Node) else None
        if value is None or (isinstance(value, Tensor) and not isinstance(value, FakeTensor)):
            return None
        return extract_val(value)

    return map_aggregate((node.args, node.kwargs), value_of)


class _NodeText:
    """The text of a node, written when it is read."""

    __slots__ = ("_node",)

    def __init__(self, node: Any) -> None:
        self._node = node

    def __str__(self) -> str:
        return str(self._node.format_node())


def _run_node(interpreter: Any, placeholder: Callable[..., Any]) -> Callable[..., Any]:
    """Return what stands in for ``ExportInterpreter.run_node``.

    Args:
        interpreter: ``_ExportPassBase.ExportInterpreter``.
        placeholder: The method of passes that do not override theirs, as it now is.
    """
    from torch.fx import traceback
    from torch.fx.node import map_arg

    sources = _Sources()

    def run_node(self: Any, node: Any) -> Any:
        self.node = node
        self.callback.node_debug_str = _NodeText(node)
        if node.op == "placeholder" and type(self.callback).placeholder is placeholder:
            # Whatever is in force while it runs, its metadata is that of the old input.
            return self.placeholder(node.target, node.args, node.kwargs)
        env = self.env

        def value(argument: Any) -> Any:
            try:
                return env[argument]
            except KeyError:
                # Raises the stock error for a value that is not there.
                return self.map_nodes_to_values(argument, node)

        args, kwargs = map_arg(node.args, value), map_arg(node.kwargs, value)
        if not traceback.should_preserve_node_meta or not node.meta:
            return getattr(self, node.op)(node.target, args, kwargs)
        saved = traceback.current_meta
        try:
            meta = node.meta.copy()
            meta["from_node"] = [sources.of(node, f"Interpreter_{type(self).__name__}")]
            traceback.current_meta = meta
            return getattr(self, node.op)(node.target, args, kwargs)
        finally:
            traceback.current_meta = saved

    return run_node


class _Sources:
    """Makes the entries of the provenance of nodes, which share their ancestors."""

    def __init__(self) -> None:
        from torch.fx.traceback import NodeSource, NodeSourceAction

        self._source = NodeSource
        self._created = NodeSourceAction.CREATE
        # The text of an operator with its schema is long, and the same at each of its nodes.
        self._texts: dict[int, tuple[Any, str]] = {}

    def of(self, node: Any, pass_name: str) -> Any:
        """Return the entry that says a node was made from ``node``.

        Source: torch 2.13 ``fx/traceback.py``, ``NodeSource.__init__``.
        """
        source = self._source.__new__(self._source)
        source.pass_name = pass_name
        source.action = [self._created]
        source.node_info = self._source.NodeInfo(node.name, self._text(node.target), id(node.graph))
        ancestors = node.meta.get("from_node")
        source.from_node = [] if ancestors is None else copy.copy(ancestors)
        source._action_string = None
        source._dict = None
        return source

    def _text(self, target: Any) -> str:
        if isinstance(target, str):
            return target
        known = self._texts.get(id(target))
        if known is None:
            known = (target, str(target))
            # Of what has a schema: the text of other targets may change.
            if hasattr(target, "_schema"):
                self._texts[id(target)] = known
        return known[1]

"""Operators that a decomposition calls through functionalization are remembered as well.

``run_decompositions`` calls every operator of a program twice: once to learn what the outputs are,
and once to trace it. Both times torch wraps each tensor for functionalization (``FunctionalTensor``
around a C++ wrapper around a fake tensor), which takes ten times as long as the operator itself.

In a program without changes in place there is nothing to functionalize, but for tensors that an
operator taken apart writes into: what reads those is called as ever. Another operator called again
with the same metadata is answered at once: the first time with a new wrapped tensor, in the trace
with one new node besides, made by the same functions of torch as ever.

In the trace this holds only where the operator became one node, with tensors of the call and plain
values as its arguments. An operator that has no decomposition becomes the same node for every
shape; another one is looked at for each shape. What ``fake_tensor_cache`` does not remember is
called as ever. The memory lives as long as one decomposition.
"""

# ruff: noqa: SLF001 - the insides of the toolchain are what this file is about

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.engine.acceleration.decompositions import is_functional
from workbench.engine.acceleration.fake_tensor_cache import (
    Keys,
    UnfitError,
    described_result,
    maker,
    switches,
    unread_arguments,
)
from workbench.engine.toolchain_patches.patching import replaced, sources_match

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The functions whose work is done here, or whose effects on a node are reproduced.
_PROXY = "torch.fx.experimental.proxy_tensor"
_FUNCTIONAL = "torch._subclasses.functional_tensor"
PINS = (
    (f"{_FUNCTIONAL}:FunctionalTensorMode.__torch_dispatch__", "af73dc27c27b1bb5"),
    (f"{_FUNCTIONAL}:FunctionalTensor.__new__", "883b41e388baf89d"),
    (f"{_PROXY}:proxy_call", "ce2b624cf231fd97"),
    (f"{_PROXY}:ProxyTorchDispatchMode.__torch_dispatch__", "13183ce08c9979ab"),
    (f"{_PROXY}:TorchFunctionMetadataMode.__torch_function__", "35c84f039e062747"),
    (f"{_PROXY}:set_original_aten_op", "64e413d727130402"),
    (f"{_PROXY}:track_tensor_tree", "ba40a766bfbf7d8c"),
    (
        "torch._functorch._aot_autograd.collect_metadata_analysis:run_functionalized_fw_and_collect_metadata",
        "44240d74c0a9ba2b",
    ),
)


@contextmanager
def decomposition_cache() -> Iterator[None]:
    """Answer operators from memory while a functional program is decomposed."""
    import torch
    from torch.export import exported_program
    from torch.fx import Interpreter

    if not sources_match("The memory of functionalized operators", PINS):
        yield
        return
    program = exported_program.ExportedProgram
    stock_run, stock_call = program.run_decompositions, Interpreter.call_function
    memories: list[_Memory] = []
    mode_of, functional = torch._C._get_dispatch_mode, torch._C._TorchDispatchModeKey.FUNCTIONAL
    overload = torch._ops.OpOverload

    def run_decompositions(self: Any, *args: Any, **options: Any) -> Any:
        if memories or not is_functional(self):
            return stock_run(self, *args, **options)
        memories.append(_Memory())
        try:
            return stock_run(self, *args, **options)
        finally:
            memories.clear()

    def call_function(self: Any, target: Any, args: Any, kwargs: Any) -> Any:
        if memories and type(target) is overload and mode_of(functional) is not None:
            return memories[0].call(target, args, kwargs, lambda: stock_call(self, target, args, kwargs))
        return stock_call(self, target, args, kwargs)

    with ExitStack() as stack:
        stack.enter_context(replaced(program, "run_decompositions", run_decompositions))
        stack.enter_context(replaced(Interpreter, "call_function", call_function))
        yield


@dataclass(frozen=True, slots=True)
class _Tensor:
    """Stands for the tensor of that number among the arguments of a call."""

    number: int


@dataclass(frozen=True, slots=True)
class _Argument:
    """Stands for the argument of a call at that position."""

    position: int


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of an operator, with fake tensors as its arguments.

    ``tensors`` are those among the arguments, in order; ``unread`` are the positions of arguments
    that the operator does not read, and ``key`` holds all that its result depends on.
    """

    op: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    tensors: list[Any]
    unread: frozenset[int]
    key: Any


@dataclass(frozen=True, slots=True)
class _Node:
    """The node that a call became, with stand-ins in its arguments."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class _Memory:
    """Results and nodes by key, for one decomposition."""

    def __init__(self) -> None:
        import torch
        from torch._ops import mode_stack_state_for_pre_dispatch
        from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode
        from torch.fx.experimental import proxy_tensor

        self._results: dict[Any, Any] = {}
        self._nodes: dict[Any, _Node] = {}
        self._unread_of: dict[Any, frozenset[int] | None] = {}
        self._keys, self._keys_without_shapes = Keys(), Keys(with_shapes=False)
        self._makers = {unsafe: maker(unsafe) for unsafe in (False, True)}
        self._torch, self._c, self._proxies = torch, torch._C, proxy_tensor
        self._kinds = torch._C._TorchDispatchModeKey
        self._wrapped, self._functional_mode = FunctionalTensor, FunctionalTensorMode
        self._pre_dispatch_modes = mode_stack_state_for_pre_dispatch().count
        self._tracer: Any = None

    def call(self, op: Any, args: Any, kwargs: Any, original: Callable[[], Any]) -> Any:
        """Return the result of ``op``, from memory or by ``original()``, which is then remembered."""
        try:
            fake, functional, proxy = self._modes()
            with self._c.DisableTorchFunction():
                call = self._call(op, args, kwargs, fake)
            result = self._results.get(call.key) or self._computed(call, fake, functional, proxy)
            node, proxies = None, list[Any]()
            if proxy is not None:
                proxies = [self._proxy(tensor, proxy.tracer) for tensor in call.tensors]
                node = self._node(call, fake, proxy)
        except (UnfitError, TypeError):
            return original()
        if result is not None and (proxy is None or node is not None):
            with self._modes_off(functional, proxy):
                value = result.create()
                if node is not None:
                    self._trace(call, node, proxies, value, proxy.tracer)
                return self._wrapped(self._torch._to_functional_tensor(value), functional)
        last = None if proxy is None else proxy.tracer.graph._root._prev
        outcome = original()
        with suppress(UnfitError):
            self._results[call.key] = self._described(call, outcome, fake, functional)
            if proxy is not None:
                self._remember_node(call, outcome, last, fake, proxy)
        return outcome

    def _modes(self) -> tuple[Any, Any, Any]:
        """Return the modes of fake tensors, of functionalization, and of a trace or None.

        Raises:
            UnfitError: Other modes or settings are on.
        """
        c, kinds = self._c, self._kinds
        fake, functional, proxy = map(c._get_dispatch_mode, (kinds.FAKE, kinds.FUNCTIONAL, kinds.PROXY))
        if (
            fake is None
            or type(functional) is not self._functional_mode
            or c._len_torch_dispatch_stack() != (2 if proxy is None else 3)
            or c._is_any_autocast_enabled()
            or c.is_grad_enabled()
            or c.is_inference_mode_enabled()
            or self._pre_dispatch_modes()
        ):
            raise UnfitError
        watching = [c._get_function_stack_at(i) for i in range(c._len_torch_function_stack())]
        if proxy is None and not watching:
            return fake, functional, None
        known = self._proxies
        if (
            type(proxy) is not known.ProxyTorchDispatchMode
            or proxy.pre_dispatch
            or proxy.emulate_precision_casts
            or [type(one) for one in watching] != [known.TorchFunctionMetadataMode]
            or watching[0].tracer is not proxy.tracer
            or (self._tracer or proxy.tracer) is not proxy.tracer
        ):
            raise UnfitError
        self._tracer = proxy.tracer
        return fake, functional, proxy

    @contextmanager
    def _modes_off(self, functional: Any, proxy: Any) -> Iterator[None]:
        """Do without the modes, as within an operator; fake tensors stay as they are."""
        c, kinds = self._c, self._kinds
        with c.DisableTorchFunction():
            c._unset_dispatch_mode(kinds.FUNCTIONAL)
            if proxy is not None:
                c._unset_dispatch_mode(kinds.PROXY)
            try:
                yield
            finally:
                if proxy is not None:
                    c._set_dispatch_mode(proxy)
                c._set_dispatch_mode(functional)

    def _unwrap(self, value: Any) -> Any:
        """Return nested arguments with fake tensors in place of wrapped ones."""
        kind = type(value)
        if kind is self._wrapped:
            # What was written into, as by a circular pad taken apart, is not up to date inside.
            if value.requires_grad or self._torch._functionalize_has_data_mutation(value.elem):
                raise UnfitError
            return self._torch._from_functional_tensor(value.elem)
        if kind is tuple:
            return tuple([self._unwrap(one) for one in value])
        if kind is dict:
            return {name: self._unwrap(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._unwrap(one) for one in value]
        if isinstance(value, self._torch.Tensor):
            raise UnfitError
        return value

    def _call(self, op: Any, args: Any, kwargs: Any, fake: Any) -> _Call:
        """Return a call with its key.

        Raises:
            UnfitError: The operator or an argument is not remembered.
            TypeError: A size is symbolic.
        """
        if op not in self._unread_of:
            unread = unread_arguments(op)
            # A default that is passed is left out of the node, which depends on the value.
            if unread and any(op._schema.arguments[i].has_default_value() for i in unread):
                unread = frozenset()
            self._unread_of[op] = unread
        known = self._unread_of[op]
        if known is None:
            raise UnfitError
        bare, options = self._unwrap(args), self._unwrap(kwargs)
        arguments = self._keys.of_arguments(bare, options, fake, known)
        tensors = list(_tensors((bare, options), self._torch.Tensor))
        return _Call(op, bare, options, tensors, known, (op, arguments, switches(self._torch)))

    def _computed(self, call: _Call, fake: Any, functional: Any, proxy: Any) -> Any:
        """Return what the result of an operator is made from, called with its fake tensors alone.

        None while a program is traced, and for operators that functionalization decomposes.

        Raises:
            UnfitError: It is not remembered.
        """
        if proxy is not None or _is_composite(call.op):
            return None
        with self._modes_off(functional, proxy):
            value = call.op(*call.args, **call.kwargs)
        if not isinstance(value, self._torch.Tensor):
            raise UnfitError
        result = self._results[call.key] = described_result(value, fake, call.tensors, self._makers)
        return result

    def _described(self, call: _Call, outcome: Any, fake: Any, functional: Any) -> Any:
        """Return what the result of a call is made from again.

        Raises:
            UnfitError: It is not remembered.
        """
        if type(outcome) is not self._wrapped or outcome.requires_grad:
            raise UnfitError
        inner = self._torch._from_functional_tensor(outcome.elem)
        described = described_result(inner, fake, call.tensors, self._makers)
        again = self._wrapped(self._torch._to_functional_tensor(described.create()), functional)
        keys = self._c._dispatch_keys
        for one, other in ((outcome, again), (outcome.elem, again.elem)):
            if keys(one) != keys(other) or vars(one).keys() != vars(other).keys():
                raise UnfitError
        return described

    def _proxy(self, tensor: Any, tracer: Any) -> Any:
        """Return the proxy of a fake tensor.

        Raises:
            UnfitError: It has none, or its value is known.
        """
        tracked = tracer.tensor_tracker.get(tensor)
        if tracked is None or tracked.constant is not None:
            raise UnfitError
        return tracked.proxy

    def _node(self, call: _Call, fake: Any, proxy: Any) -> _Node | None:
        """Return the node that a call becomes, or None if that is not known."""
        node = self._nodes.get(call.key)
        if node is None and _becomes_itself(call.op, proxy):
            node = self._nodes.get(self._key_without_shapes(call, fake))
            if node is not None:
                self._nodes[call.key] = node
        return node

    def _key_without_shapes(self, call: _Call, fake: Any) -> Any:
        keys = self._keys_without_shapes
        arguments = keys.of_arguments(call.args, call.kwargs, fake, call.unread)
        return call.op, arguments, call.key[-1]

    def _trace(self, call: _Call, node: _Node, proxies: list[Any], value: Any, tracer: Any) -> None:
        """Add the node of a call and track its result.

        Source: torch 2.13 ``fx/experimental/proxy_tensor.py``, ``proxy_call``.
        """
        op, target = call.op, node.target
        tracer.torch_fn_metadata = op
        tracer.torch_fn_counts[op] = tracer.torch_fn_counts.get(op, 0) + 1
        name = tracer.graph._target_to_str(target.overloadpacket.__name__)
        args, kwargs = (_filled(one, proxies, call.args) for one in (node.args, node.kwargs))
        with self._proxies.set_original_aten_op(target):
            proxy = tracer.create_proxy("call_function", target, args, kwargs, name=name)
        self._proxies.track_tensor_tree(value, proxy, constant=None, tracer=tracer)

    def _remember_node(self, call: _Call, outcome: Any, last: Any, fake: Any, proxy: Any) -> None:
        """Remember the node after ``last`` if a call became that one alone."""
        tracer = proxy.tracer
        node, end = last._next, tracer.graph._root
        alone = node is not end and node._next is end
        # Metadata holds a copy of the operator.
        if not alone or str(node.meta.get("original_aten")) != str(node.target):
            return
        inner = self._torch._from_functional_tensor(outcome.elem)
        nodes = [self._proxy(tensor, tracer).node for tensor in call.tensors]
        # With the same tensor twice, a position would be ambiguous.
        if self._proxy(inner, tracer).node is not node or len(set(nodes)) < len(nodes):
            return
        numbers = {one: _Tensor(number) for number, one in enumerate(nodes)}
        args = [_with_numbers(one, numbers) for one in node.args]
        for position in call.unread:
            given = call.args[position]
            same = node.target is call.op and type(args[position]) is type(given)
            if not same or args[position] != given:
                return
            args[position] = _Argument(position)
        kwargs = {name: _with_numbers(one, numbers) for name, one in node.kwargs.items()}
        known = _Node(node.target, tuple(args), kwargs)
        self._nodes[call.key] = known
        if _becomes_itself(call.op, proxy):
            self._nodes[self._key_without_shapes(call, fake)] = known


def _becomes_itself(op: Any, proxy: Any) -> bool:
    """Tell whether an operator has no decomposition, whatever its arguments are."""
    return op not in proxy.decomposition_table and not _is_composite(op)


def _is_composite(op: Any) -> bool:
    import torch

    composite = torch._C.DispatchKey.CompositeImplicitAutograd
    return composite in op.py_kernels or torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), composite)


def _tensors(value: Any, kind: type) -> Iterator[Any]:
    """Yield the tensors of nested arguments."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()), kind)
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _tensors(one, kind)


def _with_numbers(value: Any, numbers: dict[Any, _Tensor]) -> Any:
    """Return nested arguments of a node with numbers in place of nodes."""
    from torch.fx import Node

    if isinstance(value, Node):
        if value not in numbers:
            raise UnfitError
        return numbers[value]
    if isinstance(value, dict):
        return {name: _with_numbers(one, numbers) for name, one in value.items()}
    if isinstance(value, (tuple, list)):
        kind = tuple if isinstance(value, tuple) else list
        return kind([_with_numbers(one, numbers) for one in value])
    return value


def _filled(value: Any, proxies: list[Any], args: Any) -> Any:
    """Return nested arguments with proxies and given arguments in place of their stand-ins."""
    kind = type(value)
    if kind is _Tensor:
        return proxies[value.number]
    if kind is _Argument:
        return args[value.position]
    if kind is dict:
        return {name: _filled(one, proxies, args) for name, one in value.items()}
    if kind is tuple or kind is list:
        return kind([_filled(one, proxies, args) for one in value])
    return value

"""The result of an operator on fake tensors is remembered by what it depends on.

Lowering retraces a program dozens of times, and each retrace calls every operator on fake tensors
again. The shape, strides and type of a result follow from the operator, the metadata of its
tensors, its other arguments and a few global settings. All of these are the key. The answer is a
new fake tensor on a new meta storage, never the tensor of another call.

What is never answered from memory:

- Operators outside ``NAMESPACES``, which could read anything, but for the call of a delegate.
- Operators that change an argument, return a view, draw random numbers or return something whose
  shape depends on values.
- Arguments other than fake tensors of one mode, plain numbers, texts, types and lists of those:
  no symbolic sizes, no tensors with a known constant, no real tensors, no gradients.
- Results that share their storage with an argument or with each other, or hold a constant.
- Calls under a second dispatch mode, a torch function mode or autocast.

A value that a pass leaves outdated on purpose stays outdated: the key is what the operator is
called with, never a node.
"""

# ruff: noqa: SLF001 - the insides of the toolchain are what this file is about

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.engine.acceleration.fx_speedups import LITERALS
from workbench.engine.toolchain_patches.patching import changed, replaced, sources_match

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAMESPACES = frozenset(("aten", "quantized_decomposed", "dim_order_ops", "tosa"))

# Positions of arguments that the meta function of an operator does not read, and that function.
_META = "torch.ao.quantization.fx._decomposed"
UNREAD: dict[str, tuple[frozenset[int], tuple[str, str]]] = {
    "quantized_decomposed::quantize_per_tensor": (
        frozenset((1, 2)),
        (f"{_META}:quantize_per_tensor_meta", "c22b8041c16ac5d2"),
    ),
    "quantized_decomposed::dequantize_per_tensor": (
        frozenset((1, 2)),
        (f"{_META}:dequantize_per_tensor_meta", "ae40b1064d3fd993"),
    ),
    "tosa::RESCALE": (
        frozenset((2,)),
        ("executorch.backends.arm.tosa.dialect.ops.conversion_ops:RESCALE", "043be7e004d66df4"),
    ),
}

# The functions whose work is done here: a fake tensor is made, an operator is called.
PINS = (
    ("torch._subclasses.fake_tensor:FakeTensor.__new__", "b7c785b7d61b0fc0"),
    ("torch._subclasses.fake_tensor:FakeTensor.__init__", "50c4e33850a8b5a9"),
    ("torch.fx.interpreter:Interpreter.call_function", "ef80ffa0c7a93ac3"),
    ("executorch.exir.dialects.edge._ops:EdgeOpOverload.__call__", "5fc4208d054ab62e"),
)


@contextmanager
def fake_tensor_cache() -> Iterator[None]:
    """Answer edge, backend and aten operators on fake tensors from memory while the block runs."""
    from executorch.exir.delegate import executorch_call_delegate
    from executorch.exir.dialects.edge._ops import EdgeOpOverload
    from torch._ops import OpOverload
    from torch.fx import Interpreter

    if not sources_match("The memory of operators", PINS):
        yield
        return
    memory = _Memory()
    stock_edge, stock_function = EdgeOpOverload.__call__, Interpreter.call_function

    def call_edge(self: Any, *args: Any, **kwargs: Any) -> Any:
        return memory.call(self, stock_edge, args, kwargs)

    def call_function(self: Any, target: Any, args: Any, kwargs: Any) -> Any:
        if type(target) is OpOverload:
            return memory.call(target, OpOverload.__call__, args, kwargs)
        if target is executorch_call_delegate:
            return memory.call(target, type(target).__call__, args, kwargs)
        return stock_function(self, target, args, kwargs)

    with ExitStack() as stack:
        stack.enter_context(replaced(EdgeOpOverload, "__call__", call_edge))
        stack.enter_context(replaced(Interpreter, "call_function", call_function))
        yield


@contextmanager
def cached_shapes() -> Iterator[None]:
    """Let the fake tensors' own cache accept the four operators of quantization.

    The cache turns away every operator that is not built in, because such a one could do
    anything; these four are pure, and what they return depends on their arguments alone. Arguments
    that they do not read (``UNREAD``) are left out of the key.
    """
    import torch
    import torchao.quantization.pt2e.quantize_pt2e  # noqa: F401 - registers the operators
    from torch._subclasses import fake_tensor

    library = torch.ops.quantized_decomposed
    pure = {
        op: unread_arguments(op)
        for op in (
            library.quantize_per_tensor.default,
            library.dequantize_per_tensor.default,
            library.quantize_per_channel.default,
            library.dequantize_per_channel.default,
        )
    }
    mode = fake_tensor.FakeTensorMode
    stock_validate, stock_key = mode._validate_cache_key, mode._cache_key

    def validate(self: Any, func: Any, args: Any, kwargs: Any) -> None:
        if func not in pure:
            stock_validate(self, func, args, kwargs)

    def cache_key(self: Any, state: Any, func: Any, args: Any, kwargs: Any) -> Any:
        unread = pure.get(func)
        if unread:
            args = tuple(
                type(one).__name__ if index in unread and type(one) in LITERALS else one
                for index, one in enumerate(args)
            )
        return stock_key(self, state, func, args, kwargs)

    with replaced(mode, "_validate_cache_key", validate), replaced(mode, "_cache_key", cache_key):
        yield


class UnfitError(Exception):
    """An argument or a result that is not remembered."""


@dataclass(frozen=True, slots=True)
class _Tensor:
    """What a fake tensor is made from again."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: Any
    device: Any
    attributes: dict[str, Any]
    make: Callable[[_Tensor], Any]

    def create(self) -> Any:
        """Return a fake tensor on a storage of its own."""
        return self.make(self)


@dataclass(frozen=True, slots=True)
class _Numbers:
    """A list of integers, which the caller may change."""

    values: tuple[int, ...]

    def create(self) -> list[int]:
        return list(self.values)


@dataclass(frozen=True, slots=True)
class _Several:
    """The results of an operator that returns more than one."""

    kind: type
    parts: tuple[_Tensor, ...]

    def create(self) -> Any:
        return self.kind([part.create() for part in self.parts])


def maker(unsafe_data: bool) -> Callable[[_Tensor], Any]:
    """Return a function that makes fake tensors.

    Args:
        unsafe_data: Whether their mode lets programs ask for their address, with a warning.

    Source: torch 2.13 ``_subclasses/fake_tensor.py``, ``FakeTensor.__new__``.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    c, meta = torch._C, torch.device("meta")
    guard, empty, subclass = (c._DisableTorchDispatch, torch.empty_strided, torch.Tensor._make_subclass)
    guarded = c._set_warn_deprecated_on_mutable_data_ptr if unsafe_data else c._set_throw_on_mutable_data_ptr

    def make(known: _Tensor) -> Any:
        with guard():
            plain = empty(known.shape, known.stride, dtype=known.dtype, device=meta)
        fake = subclass(FakeTensor, plain, False, dispatch_device=True, device_for_backend_keys=known.device)
        guarded(fake)
        fake.__dict__.update(known.attributes)
        return fake

    return make


class _Memory:
    """Results by key, for one block."""

    def __init__(self) -> None:
        import torch
        from executorch.backends.arm.tosa.specification import TosaLoweringContext
        from executorch.exir.delegate import executorch_call_delegate
        from torch._ops import mode_stack_state_for_pre_dispatch

        self._results: dict[Any, _Tensor | _Numbers | _Several] = {}
        # A delegate runs a program of such operators, which nothing changes after it was made.
        self._unread_of: dict[Any, frozenset[int] | None] = {executorch_call_delegate: frozenset()}
        self._held: dict[tuple[int, int], Any] = {}
        self._keys = Keys()
        self._fake = torch._C._TorchDispatchModeKey.FAKE
        self._specification = TosaLoweringContext.tosa_spec_var
        self._shapes = TosaLoweringContext.shape_env_var
        self._pre_dispatch_modes = mode_stack_state_for_pre_dispatch().count
        self._makers = {unsafe: maker(unsafe) for unsafe in (False, True)}
        self._torch, self._c = torch, torch._C

    def call(self, op: Any, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Return the result of ``op``, made anew from memory or by ``original(op, ...)``."""
        try:
            key, mode = self._key(op, args, kwargs)
            known = self._results.get(key)
        except (UnfitError, TypeError):
            return original(op, *args, **kwargs)
        if known is not None:
            return known.create()
        result = original(op, *args, **kwargs)
        with suppress(UnfitError):
            self._results[key] = described_result(result, mode, (args, kwargs), self._makers)
        return result

    def _key(self, op: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
        c = self._c
        try:
            unread = self._unread_of[op]
        except KeyError:
            unread = self._unread_of[op] = unread_arguments(op)
        modes = c._len_torch_dispatch_stack()
        if unread is None or modes > 1 or c._len_torch_function_stack():
            raise UnfitError
        mode = c._get_dispatch_mode(self._fake) if modes else _mode_of(args)
        if mode is None or c._is_any_autocast_enabled() or self._pre_dispatch_modes():
            raise UnfitError
        arguments = self._keys.of_arguments(args, kwargs, mode, unread)
        return (op, mode, modes, arguments, switches(self._torch), self._context()), mode

    def _context(self) -> tuple[int, int]:
        """Return what of TOSA is in force, by identity.

        Two specifications are equal for ExecuTorch 1.5.1 if version and profiles are, even when
        their extensions differ or one is for Ethos-U55.
        """
        in_force = (self._specification.get(None), self._shapes.get(None))
        context = (id(in_force[0]), id(in_force[1]))
        # Held, so that no other object takes its place in memory.
        self._held.setdefault(context, in_force)
        return context


def switches(torch: Any) -> tuple[Any, ...]:
    """Return the settings of torch that a result depends on besides the arguments of the call."""
    c = torch._C
    # Which dispatch keys are on or off; the device of tensors made without one.
    return (
        c._dispatch_tls_local_include_set().raw_repr(),
        c._dispatch_tls_local_exclude_set().raw_repr(),
        c.is_grad_enabled(),
        c.is_inference_mode_enabled(),
        torch.get_default_dtype(),
        c._get_default_device(),
    )


def unread_arguments(op: Any) -> frozenset[int] | None:
    """Return which arguments ``op`` does not read, or None if it is not remembered."""
    import torch

    base, schema = getattr(op, "_op", op), op._schema
    if isinstance(op, torch._ops.OpOverload):
        base = op
    tags = (
        torch.Tag.nondeterministic_seeded,
        torch.Tag.data_dependent_output,
        torch.Tag.dynamic_output_shape,
        torch.Tag.inplace_view,
    )
    name = str(schema.name)
    pure = (
        name.partition("::")[0] in NAMESPACES
        and name != "aten::lift_fresh_copy"
        and not schema.is_mutable
        and all(one.alias_info is None for one in (*schema.arguments, *schema.returns))
        and not any(tag in base.tags for tag in tags)
    )
    if not pure:
        return None
    positions, pin = UNREAD.get(name, (frozenset(), None))
    if pin is None or schema.overload_name or changed((pin,)):
        return frozenset()
    return positions


def _mode_of(args: Any) -> Any:
    from torch._subclasses.fake_tensor import FakeTensor

    return next((one.fake_mode for one in args if type(one) is FakeTensor), None)


class Keys:
    """What of an argument a result depends on.

    Args:
        with_shapes: Whether tensors of another shape or layout in memory have other keys.
    """

    def __init__(self, with_shapes: bool = True) -> None:
        import torch
        from executorch.exir.lowered_backend_module import LoweredBackendModule
        from torch._subclasses.fake_tensor import FakeTensor
        from torch.fx.immutable_collections import immutable_list

        self._with_shapes = with_shapes
        self._delegate = LoweredBackendModule
        self._delegates: dict[int, Any] = {}
        self._tensor = FakeTensor
        self._strided = torch.strided
        self._lists: dict[type, type] = {list: list, immutable_list: list, tuple: tuple, torch.Size: tuple}
        self._constants = frozenset((torch.dtype, torch.device, torch.memory_format, torch.layout))

    def of_arguments(self, args: Any, kwargs: Any, mode: Any, unread: frozenset[int]) -> Any:
        """Return a hashable key of all arguments; those that are not read give their kind only."""
        named = tuple([(name, self._of(value, mode)) for name, value in kwargs.items()])
        if not unread:
            return tuple([self._of(value, mode) for value in args]), named
        return tuple(
            [
                self._kind_of(value) if index in unread else self._of(value, mode)
                for index, value in enumerate(args)
            ]
        ), named

    def _of(self, value: Any, mode: Any) -> Any:
        kind = type(value)
        if kind is self._tensor:
            return self._of_tensor(value, mode)
        if kind in LITERALS:
            return kind, _exact(value)
        if kind in self._lists:
            kind_made = self._lists[kind]
            kinds = set(map(type, value))
            if LITERALS.issuperset(kinds):
                return kind_made, tuple(map(type, value)), tuple(map(_exact, value))
            return kind_made, tuple([self._of(one, mode) for one in value])
        if kind in self._constants:
            return value
        if kind is self._delegate:
            # Held, so that no other takes its place in memory.
            self._delegates[id(value)] = value
            return kind, id(value)
        raise UnfitError

    def _of_tensor(self, value: Any, mode: Any) -> Any:
        if (
            value.fake_mode is not mode
            or value.constant is not None
            or value.real_tensor is not None
            or value.layout is not self._strided
            or value.requires_grad
            or value.is_conj()
            or value.is_neg()
            or value.is_inference()
        ):
            raise UnfitError
        if not self._with_shapes:
            return value.dtype, value.fake_device
        # A symbolic size cannot be hashed, which the caller takes for unfit.
        return (value.shape, value.stride(), value.dtype, value.fake_device, value.storage_offset())

    def _kind_of(self, value: Any) -> Any:
        kind = type(value)
        if kind in LITERALS:
            return kind
        if kind in self._lists and LITERALS.issuperset(map(type, value)):
            return self._lists[kind], len(value)
        raise UnfitError


def _exact(value: Any) -> Any:
    """Return a literal so that -0.0 differs from 0.0 and NaN equals itself."""
    return value.hex() if type(value) is float else value


def described_result(
    result: Any, mode: Any, arguments: Any, makers: dict[bool, Callable[[_Tensor], Any]]
) -> _Tensor | _Numbers | _Several:
    """Return what ``result`` is made from again.

    Raises:
        UnfitError: It is not remembered.
    """
    if type(result) is list and result and all(type(one) is int for one in result):
        return _Numbers(tuple(result))
    several = type(result) in (tuple, list)
    tensors = list(result) if several else [result]
    parts = tuple(
        _described_tensor(tensor, mode, makers[mode._allow_unsafe_data_ptr_access]) for tensor in tensors
    )
    own = [tensor.untyped_storage()._cdata for tensor in tensors]
    if len(set(own)) < len(own) or _storages(arguments).intersection(own):
        raise UnfitError
    return _Several(type(result), parts) if several else parts[0]


def _described_tensor(tensor: Any, mode: Any, make: Callable[[_Tensor], Any]) -> _Tensor:
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    if type(tensor) is not FakeTensor or tensor.fake_mode is not mode:
        raise UnfitError
    attributes = dict(vars(tensor))
    plain = all(value is None or name in ("fake_mode", "_fake_device") for name, value in attributes.items())
    odd = tensor.requires_grad or tensor.is_conj() or tensor.is_neg() or tensor.storage_offset()
    if not plain or odd or tensor.layout is not torch.strided:
        raise UnfitError
    shape, stride = tuple(tensor.shape), tuple(tensor.stride())
    if not all(type(one) is int for one in shape + stride):
        raise UnfitError
    described = _Tensor(shape, stride, tensor.dtype, tensor.fake_device, attributes, make)
    if described.create().untyped_storage().nbytes() != tensor.untyped_storage().nbytes():
        raise UnfitError
    return described


def _storages(arguments: Any) -> set[int]:
    """Return the storages of all tensors in nested lists, tuples and dicts."""
    from torch import Tensor

    if isinstance(arguments, Tensor):
        return {arguments.untyped_storage()._cdata}
    if isinstance(arguments, dict):
        arguments = arguments.values()
    elif not isinstance(arguments, (list, tuple)):
        return set()
    return {storage for one in arguments for storage in _storages(one)}

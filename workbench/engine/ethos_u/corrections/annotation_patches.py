"""Patches of ExecuTorch's passes before annotation, for which it has no hook.

A correction is a context manager, which yields a list of what it changed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from executorch.backends.arm._passes.fold_scalar_mul_into_conv_pass import FoldScalarMulIntoConvPass
from executorch.backends.arm._passes.insert_int32_casts_after_int64_placeholders import (
    InsertInt32CastsAfterInt64PlaceholdersPass,
)
from executorch.backends.arm._passes.normalize_while_initial_args_pass import NormalizeWhileInitialArgsPass
from executorch.backends.transforms.replace_scalar_with_tensor import ReplaceScalarWithTensorArgPass
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.pass_base import _ExportPassBase
from torch import fx

_ATEN = torch.ops.aten
_WHILE = torch.ops.higher_order.while_loop


@contextmanager
def scalars_beside_parameters() -> Iterator[list[str]]:
    """Let scalars meet parameters.

    Fault: Where a pass makes a product of a parameter and a scalar, quantizing fails with
        "'Parameter' object has no attribute 'to_tensor'".
    Instead: The type is asked of the parameter.
    Right because: The product is the one that the pass wanted.
    Network: torch.addmm(self.bias, x, y, beta=0.5)
    Tools: executorch 1.5.1
    """
    stock = ReplaceScalarWithTensorArgPass.get_replacement
    met: list[str] = []

    def replacement(self: Any, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        if not isinstance(args[0], torch.Tensor):
            return stock(self, op, args, kwargs, meta)
        is_aten = isinstance(op, torch._ops.OpOverload)  # noqa: SLF001 - its only name
        full = torch.ops.aten.full.default if is_aten else exir_ops.edge.aten.full.default
        call = super(ReplaceScalarWithTensorArgPass, self).call_operator
        kind = {"dtype": args[0].dtype, "device": args[0].device}
        scalar = call(full, ((1,), float(args[1])), kind, meta)
        if str(op) not in met:
            met.append(str(op))
        return call(self.scalar_to_tensor_ops[op], (args[0], scalar, *args[2:]), kwargs, meta)

    ReplaceScalarWithTensorArgPass.get_replacement = replacement
    try:
        yield met
    finally:
        ReplaceScalarWithTensorArgPass.get_replacement = stock


@contextmanager
def weights_replaced() -> Iterator[None]:
    """Fold a factor behind a convolution into new weights, while the block runs.

    Stock writes the product into the tensors of the module that it is given, which are those of
    the float program: the reference for every figure changes, and a second preparation of the
    same program multiplies again.
    """
    stock = FoldScalarMulIntoConvPass._set_get_attr_tensor  # noqa: SLF001 - its only name

    def set_tensor(self: Any, node: fx.Node, tensor: torch.Tensor) -> bool:
        module, path = node.graph.owning_module, str(node.target)
        known = self._get_constant_tensor(node)
        if module is None or known is None:
            return False
        owner, _, name = path.rpartition(".")
        value = tensor.detach().to(device=known.device, dtype=known.dtype)
        if isinstance(known, torch.nn.Parameter):
            value = torch.nn.Parameter(value, requires_grad=known.requires_grad)
        setattr(module.get_submodule(owner), name, value)
        return True

    FoldScalarMulIntoConvPass._set_get_attr_tensor = set_tensor  # noqa: SLF001
    try:
        yield
    finally:
        FoldScalarMulIntoConvPass._set_get_attr_tensor = stock  # noqa: SLF001


@contextmanager
def views_reshaped() -> Iterator[list[str]]:
    """Reshape where a view is not possible.

    Fault: Einsum and attention are taken apart into operators whose results lie in another order in
        memory, and the views behind them fail ("Cannot view a tensor").
    Instead: Such a view is a reshape.
    Right because: Both give the same values.
    Network: (torch.einsum('bhwc,hkc->bhwk', x, self.rel) + y).view(b, -1, k), as in MViTv2
    Tools: executorch 1.5.1
    """
    stock = _ExportPassBase._fx  # noqa: SLF001 - its only name
    reshaped: list[str] = []

    def traced(self: Any, kind: str, target: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        if target is _ATEN.view.default and not _has_view(*args):
            target = _ATEN.reshape.default
            reshaped.append(str(args[0].node.name))
        return stock(self, kind, target, args, kwargs, meta)

    _ExportPassBase._fx = traced  # noqa: SLF001
    try:
        yield reshaped
    finally:
        _ExportPassBase._fx = stock  # noqa: SLF001


def _has_view(value: Any, shape: Any) -> bool:
    """Return whether a tensor has a view of a shape."""
    try:
        value.data.view([getattr(size, "data", size) for size in shape])
    except (RuntimeError, ValueError):
        return False
    return True


@contextmanager
def written_in_one_type() -> Iterator[list[str]]:
    """Write values into a tensor in its own type.

    Fault: Constants of 64-bit integers are made 32 bits wide, and torch refuses to write them into
        a tensor that is still 64 bits wide ("Index put requires the source and destination dtypes
        match").
    Instead: What is written gets the type of the tensor.
    Right because: Only integers whose values fit are made narrower.
    Network: inverse = torch.empty_like(order); inverse[order] = torch.arange(8), as in mixtures of
        experts
    Tools: executorch 1.5.1
    """
    stock = InsertInt32CastsAfterInt64PlaceholdersPass.call
    cast: list[str] = []

    def call(self: Any, graph_module: fx.GraphModule) -> Any:
        result = stock(self, graph_module)
        graph = result.graph_module.graph
        for node in graph.find_nodes(op="call_function", target=_ATEN.index_put.default):
            target, _, values = (node.args[0], node.args[1], node.args[2])
            wanted = target.meta["val"].dtype
            if values.meta["val"].dtype == wanted:
                continue
            with graph.inserting_before(node):
                changed = graph.call_function(_ATEN.to.dtype, (values, wanted))
            changed.meta = {**values.meta, "val": values.meta["val"].to(wanted)}
            node.update_arg(2, changed)
            cast.append(node.name)
        result.graph_module.recompile()
        return result

    InsertInt32CastsAfterInt64PlaceholdersPass.call = call
    try:
        yield cast
    finally:
        InsertInt32CastsAfterInt64PlaceholdersPass.call = stock


@contextmanager
def loops_of_single_numbers() -> Iterator[list[str]]:
    """Keep single numbers of loops without dimensions.

    Fault: Numbers in comparisons and sums get one dimension. What a loop asks for and carries gets
        it with them, and torch refuses the loop ("cond_fn must return a boolean scalar").
    Instead: The dimension is taken off before the loop reads the value.
    Right because: The value is one number with and without it.
    Network: while_loop(lambda y: y.abs().sum() > 1, lambda y: (y * 0.5,), (conv(x).relu(),)) for
        U85
    Tools: executorch 1.5.1
    """
    stock = NormalizeWhileInitialArgsPass.call
    kept: list[str] = []

    def call(self: Any, graph_module: fx.GraphModule) -> Any:
        result = stock(self, graph_module)
        for node in result.graph_module.graph.find_nodes(op="call_function", target=_WHILE):
            for argument in node.args[:2]:
                part: Any = result.graph_module.get_submodule(str(argument.target))
                kept.extend(_without_dimensions(part))
        return result

    NormalizeWhileInitialArgsPass.call = call
    try:
        yield kept
    finally:
        NormalizeWhileInitialArgsPass.call = stock


def _without_dimensions(part: fx.GraphModule) -> Iterator[str]:
    """Take the dimensions off what a condition gives, and a body where it was given none."""
    last = part.graph.output_node()
    (results,) = last.args
    given = [node.meta.get("val") for node in part.graph.find_nodes(op="placeholder")]
    if isinstance(results, fx.Node):
        results, given = [results], [torch.tensor(True)]
    for result, before in zip(results, given, strict=False):
        value = result.meta.get("val") if isinstance(result, fx.Node) else None
        if not isinstance(value, torch.Tensor) or not isinstance(before, torch.Tensor):
            continue
        if before.dim() == 0 and value.dim() > 0:
            with part.graph.inserting_before(last):
                single = part.graph.call_function(_ATEN.squeeze.default, (result,))
            single.meta = {**result.meta, "val": value.squeeze()}
            last.replace_input_with(result, single)
            yield result.name
    part.recompile()


_ARM = "executorch.backends.arm._passes"
_SCALARS = "executorch.backends.transforms.replace_scalar_with_tensor:ReplaceScalarWithTensorArgPass"
_INTEGERS = f"{_ARM}.insert_int32_casts_after_int64_placeholders:InsertInt32CastsAfterInt64PlaceholdersPass"
_LOOPS = f"{_ARM}.normalize_while_initial_args_pass:NormalizeWhileInitialArgsPass"
# By correction, the functions whose work it copies or replaces, each with the digest of its code;
# one set for each release that has another. "any": the function is called as it is.
PINS = {
    "scalars_beside_parameters": (((f"{_SCALARS}.get_replacement", "8f5003d615f1e748"),),),
    "views_reshaped": ((("executorch.exir.pass_base:_ExportPassBase._fx", "any"),),),
    "written_in_one_type": (((f"{_INTEGERS}.call", "any"),),),
    "loops_of_single_numbers": (((f"{_LOOPS}.call", "any"),),),
}

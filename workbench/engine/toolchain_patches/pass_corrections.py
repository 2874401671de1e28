"""Corrections of single passes of ExecuTorch: where one fails, or writes another number.

This file stands on torch and ExecuTorch alone, because a generated script carries it along. What
each correction is about, and for which versions it was proven, stands in
``workbench.targets.ethos_u.corrections``.
"""

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from executorch.backends.arm._passes.arm_pass import ArmPass
from executorch.backends.arm._passes.decompose_sdpa_pass import (
    DecomposeScaledDotProductAttentionPass,
)
from executorch.backends.arm._passes.insert_int32_casts_after_int64_placeholders import (
    InsertInt32CastsAfterInt64PlaceholdersPass,
)
from executorch.backends.arm._passes.normalize_while_initial_args_pass import (
    NormalizeWhileInitialArgsPass,
)
from executorch.backends.arm._passes.rewrite_avg_pool2d_pass import RewriteAvgPool2dPass
from executorch.exir.pass_base import NodeMetadata, _ExportPassBase
from torch import fx

_ATEN = torch.ops.aten
_NOTED_GRIDS = ("input_qparams", "output_qparams")


@contextmanager
def zero_points_kept() -> Iterator[list[str]]:
    """Give average pools the zero points of their grids, while the block runs.

    Stock writes a zero point as a constant with the notes of the pool, so that a later pass takes
    it for a real number and quantizes it. The pool's input and output get the same wrong number,
    which cancels except where a mean lies halfway: it goes up or down by the sign of the sum.

    Yields:
        "average pool" with a number, for each whose zero point would have changed.
    """
    stock = ArmPass.call_scalar
    kept: list[str] = []

    def scalar(self: Any, value: Any, meta: Any) -> Any:
        if isinstance(self, RewriteAvgPool2dPass) and isinstance(meta, NodeMetadata):
            grids = meta.data.get(_NOTED_GRIDS[1]) or {}
            if 0 in grids and int(grids[0].quantize_value(float(value))) != value:
                # Input and output have one each.
                kept.append(f"average pool {len(kept) // 2 + 1}")
            meta = NodeMetadata({k: v for k, v in meta.data.items() if k not in _NOTED_GRIDS})
        return stock(self, value, meta)

    ArmPass.call_scalar = scalar
    try:
        yield kept
    finally:
        ArmPass.call_scalar = stock


@contextmanager
def sizes_fixed() -> Iterator[list[str]]:
    """Let attention on constants know their sizes while the block runs.

    Stock takes the sizes of constants for variable ones: attention on them is taken apart with
    operators that ask for a size, and the quantizer fails on these.

    Yields:
        The names of the constants.
    """
    stock = DecomposeScaledDotProductAttentionPass.call
    fixed: list[str] = []

    def call(self: Any, graph_module: fx.GraphModule) -> Any:
        calls = graph_module.graph.find_nodes(
            op="call_function", target=_ATEN.scaled_dot_product_attention.default
        )
        operands = {operand for node in calls for operand in node.all_input_nodes}
        for node in operands:
            value = node.meta.get("val")
            if node.op != "get_attr" or all(isinstance(size, int) for size in value.shape):
                continue
            # The detached tensor is another one than that whose sizes are known as variable.
            tensor = operator.attrgetter(str(node.target))(graph_module).detach()
            node.meta["val"] = value.fake_mode.from_tensor(tensor, static_shapes=True)
            fixed.append(node.name)
        return stock(self, graph_module)

    DecomposeScaledDotProductAttentionPass.call = call
    try:
        yield fixed
    finally:
        DecomposeScaledDotProductAttentionPass.call = stock


@contextmanager
def views_reshaped() -> Iterator[list[str]]:
    """Reshape where a view is not possible in the passes before annotation, in the block.

    Stock takes einsum and attention apart into operators whose results lie in another order in
    memory, and runs the views behind them again, which fails.

    Yields:
        The names of the views.
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
    """Give values that are written into a tensor its type, while the block runs.

    Stock makes constants of 64-bit integers 32 bits wide, such as the numbers that invert a
    permutation, and leaves the tensor as it is; torch refuses to write them.

    Yields:
        The names of the operators that write.
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
def loops_kept_single() -> Iterator[list[str]]:
    """Keep single numbers of loops without dimensions while the block runs.

    Stock gives the numbers in comparisons and sums one dimension. What a loop asks for and carries
    gets one with them, and torch then refuses to run the loop.

    Yields:
        The names of the values.
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


_WHILE = torch.ops.higher_order.while_loop


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

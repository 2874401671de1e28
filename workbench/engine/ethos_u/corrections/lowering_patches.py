"""Patches of ExecuTorch's lowering, where a pass before or after cannot correct one.

A correction is a context manager, which yields a list of what it changed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from executorch.backends.arm._passes import FuseDuplicateUsersPass, PropagateViewCopyPermuteUpPass
from executorch.backends.arm._passes.rewrite_conv_pass import RewriteConvPass
from executorch.exir.dialects._ops import ops as exir_ops
from torch import fx

try:
    from executorch.backends.transforms.dim_maps import ViewMap
except ImportError:
    # Where it is with ExecuTorch 1.4.
    from executorch.backends.arm._passes.dim_maps import ViewMap


@contextmanager
def rounded_convolutions() -> Iterator[list[str]]:
    """Round a 16-bit convolution once, for all its readers.

    Fault: Readers that compute in 32 bits, such as a residual addition or a mean, get the sum of a
        16-bit convolution before it is rounded. Vela rejects a convolution with two results for U55
        and U65, and the values are not those of the quantized model.
    Instead: Every reader reads the 16-bit result.
    Right because: The quantized model rounds the convolution's result for every reader.
    Network: x = conv_a(image); x + conv_b(x) in a16w8 for U55
    Tools: executorch 1.5.1
    """
    if not hasattr(RewriteConvPass, "_insert_a16w8_output_branches"):
        with _no_sums_read() as rounded:
            yield rounded
        return
    stock = RewriteConvPass._insert_a16w8_output_branches  # noqa: SLF001 - its only name
    rounded = list[str]()

    def branches(self: Any, graph_module: Any, node: fx.Node, *rest: Any, **named: Any) -> None:
        del graph_module, rest, named
        direct = self._get_direct_int32_rescale_users(node)
        if direct or self._get_permute_int32_rescale_users(node):
            rounded.append(node.name)

    RewriteConvPass._insert_a16w8_output_branches = branches  # noqa: SLF001
    try:
        yield rounded
    finally:
        RewriteConvPass._insert_a16w8_output_branches = stock  # noqa: SLF001


@contextmanager
def _no_sums_read() -> Iterator[list[str]]:
    """Round every 16-bit convolution with ExecuTorch 1.4 while the block runs; see above."""
    stock = RewriteConvPass._has_int32_rescale_user  # noqa: SLF001 - its only name
    rounded: list[str] = []

    def reads_sum(self: Any, node: fx.Node) -> bool:
        if stock(self, node):
            rounded.append(node.name)
        return False

    RewriteConvPass._has_int32_rescale_user = reads_sum  # noqa: SLF001
    try:
        yield rounded
    finally:
        RewriteConvPass._has_int32_rescale_user = stock  # noqa: SLF001


@contextmanager
def layouts_moved_to_values() -> Iterator[list[str]]:
    """Move a change of layout to the operand that has a layout.

    Fault: Changes of layout are moved up through operators. Before an operator of a number and a
        value, such as 1 - x, they are moved to the first operand: where that is the number, the
        value keeps the other layout, and all elements are in a wrong order.
    Instead: They are moved to the operand that has more than one element.
    Right because: A single number is the same in every layout.
    Network: 1 - conv(x) as an output, in a8w8
    Tools: executorch 1.5.1
    """
    stock = PropagateViewCopyPermuteUpPass._move_node  # noqa: SLF001 - its only name
    moved: list[str] = []

    def move(self: Any, node: fx.Node, frontier: fx.Node, previous: fx.Node) -> None:
        values = frontier.all_input_nodes
        sizes = [operand.meta["val"].numel() for operand in values]
        shape = frontier.meta["val"].shape
        laid_out = [operand for operand in values[1:] if operand.meta["val"].shape == shape]
        if len(laid_out) != 1 or sizes[0] != 1 or shape.numel() == 1:
            stock(self, node, frontier, previous)
            return
        node.replace_all_uses_with(node.all_input_nodes[0])
        node.replace_input_with(node.all_input_nodes[0], laid_out[0])
        frontier.replace_input_with(laid_out[0], node)
        frontier.prepend(node)
        moved.append(frontier.name)

    PropagateViewCopyPermuteUpPass._move_node = move  # noqa: SLF001
    try:
        yield moved
    finally:
        PropagateViewCopyPermuteUpPass._move_node = stock  # noqa: SLF001


@contextmanager
def views_behind_slices() -> Iterator[list[str]]:
    """Leave a view behind a slice whose elements are not side by side before it.

    Fault: A view is moved before a slice of one element. Where it joins the dimensions before the
        slice with those behind it, the part that the slice then takes has other elements: those of
        the first images in place of those of each.
    Instead: Such a view stays behind the slice.
    Right because: Nothing is moved.
    Network: q, k = linear(x).view(2, 10, 2, 3, 8).permute(2, 0, 3, 1, 4), then q @
        elu(k).transpose(-1, -2), a linear attention over a batch
    Tools: executorch 1.5.1
    """
    stock = ViewMap.remap_unit_slice
    left: list[str] = []

    def remap(self: Any, producer_shape: Any, slice_dim: int, *rest: Any) -> Any:
        swap = stock(self, producer_shape, slice_dim, *rest)
        if swap is None:
            return None
        axes = self.source_to_target_axes()[: slice_dim % self.source_rank]
        sized = [targets for size, targets in zip(producer_shape, axes, strict=False) if size != 1]
        if any(swap[1] in targets for targets in sized):
            left.append(f"view to {tuple(self.target_shape)}")
            return None
        return swap

    ViewMap.remap_unit_slice = remap
    try:
        yield left
    finally:
        ViewMap.remap_unit_slice = stock


@contextmanager
def joins_of_one_value() -> Iterator[list[str]]:
    """Leave a permutation behind a join of a value with itself.

    Fault: A permutation behind a join of rows or columns is moved before it, and the operands are
        collected as a set: a value that is joined with itself is joined once. The compiler refuses
        the program, or its output has fewer elements. A dimension that the join has by name stays
        beside the new one, and lowering ends.
    Instead: Such a permutation stays behind the join, and the dimension loses its name.
    Right because: Nothing is moved, and the dimension is the same.
    Network: conv(torch.cat([x, x, x], 1)), a grey image as three channels; linear(x).flip(0).t()
        over [2, 24] for U55
    Tools: executorch 1.5.1
    """
    stock = PropagateViewCopyPermuteUpPass._maybe_split_upwards_cat_fanout  # noqa: SLF001 - its only name
    left: list[str] = []

    def split(self: Any, node: fx.Node, join: fx.Node) -> bool:
        if join.target == exir_ops.edge.aten.cat.default:
            if len(join.all_input_nodes) < len(join.args[0]):
                left.append(join.name)
                return False
            if "dim" in join.kwargs:
                join.args, join.kwargs = (join.args[0], join.kwargs["dim"]), {}
                left.append(join.name)
        return stock(self, node, join)

    PropagateViewCopyPermuteUpPass._maybe_split_upwards_cat_fanout = split  # noqa: SLF001
    try:
        yield left
    finally:
        PropagateViewCopyPermuteUpPass._maybe_split_upwards_cat_fanout = stock  # noqa: SLF001


# What an operation computes with and its arguments do not tell.
_BESIDE_ARGUMENTS = ("input_qparams", "output_qparams", "float_alpha", "float_scale", "float_input_scale")


@contextmanager
def twins_with_own_grids() -> Iterator[list[str]]:
    """Keep operations apart that differ in their grids, or as an ELU, a CELU and a SELU do.

    Fault: An operation that is written twice on one value is computed once, also where calibration
        gave the two different grids: the reader of the second takes its integers for those of its
        own grid. The numbers of an ELU are kept beside it until its table is made: ELUs of one value
        with other numbers become one.
    Instead: Only operations with the same grids and numbers are computed once.
    Right because: Nothing is joined that was apart, and the grids are all that integers mean.
    Network: torch.cat([(1 - x.sigmoid()) * x, x.sigmoid()], 1); torch.cat([elu(x), selu(x)], 1)
    Tools: executorch 1.5.1
    """
    stock = FuseDuplicateUsersPass._build_user_signature  # noqa: SLF001 - its only name
    grids_of: dict[Any, set[str]] = {}
    apart: list[str] = []

    def signature(self: Any, node: fx.Node) -> Any:
        operation = stock(self, node)
        if operation is None:
            return None
        grids = repr([node.meta.get(key) for key in _BESIDE_ARGUMENTS])
        # Another delegate may have operations of the same names.
        twins = grids_of.setdefault((id(node.graph), operation), set())
        twins.add(grids)
        if len(twins) > 1 and node.name not in apart:
            apart.append(node.name)
        return (*operation, grids)

    FuseDuplicateUsersPass._build_user_signature = signature  # noqa: SLF001
    try:
        yield apart
    finally:
        FuseDuplicateUsersPass._build_user_signature = stock  # noqa: SLF001


_ARM = "executorch.backends.arm._passes"
_CONVOLUTION = f"{_ARM}.rewrite_conv_pass:RewriteConvPass"
_MOVES = f"{_ARM}:PropagateViewCopyPermuteUpPass._move_node"
_JOINS = f"{_ARM}:PropagateViewCopyPermuteUpPass._maybe_split_upwards_cat_fanout"
# By correction, the functions whose work it copies or replaces, each with the digest of its code;
# one set for each release that has another. "any": the function is called as it is.
# ExecuTorch 1.4.1: a convolution with readers in 32 bits gives its whole sum to all of them.
PINS = {
    "rounded_convolutions": (
        (
            (f"{_CONVOLUTION}._insert_a16w8_output_branches", "1bc543015206f09f"),
            (f"{_CONVOLUTION}._get_direct_int32_rescale_users", "any"),
            (f"{_CONVOLUTION}._get_permute_int32_rescale_users", "any"),
        ),
        (
            (f"{_CONVOLUTION}._has_int32_rescale_user", "4901c8c33b3a916c"),
            (f"{_CONVOLUTION}._insert_output_conversion", "14882866a6fb770b"),
        ),
    ),
    "layouts_moved_to_values": (((_MOVES, "822b4f8059f9d107"),),),
    "views_behind_slices": (
        (("executorch.backends.transforms.dim_maps:ViewMap.remap_unit_slice", "ca4a3a3f87fd5d50"),),
        ((f"{_ARM}.dim_maps:ViewMap.remap_unit_slice", "0804b294ccf73ad3"),),
    ),
    "twins_with_own_grids": (((f"{_ARM}:FuseDuplicateUsersPass._build_user_signature", "any"),),),
    "joins_of_one_value": (((_JOINS, "any"),),),
}

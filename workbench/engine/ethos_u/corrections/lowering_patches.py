"""Patches of ExecuTorch's lowering, where a pass before or after cannot correct one.

A correction is a context manager, which yields a list of what it changed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from executorch.backends.arm._passes import PropagateViewCopyPermuteUpPass
from executorch.backends.arm._passes.rewrite_conv_pass import RewriteConvPass
from torch import fx


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


_ARM = "executorch.backends.arm._passes"
_CONVOLUTION = f"{_ARM}.rewrite_conv_pass:RewriteConvPass"
_MOVES = f"{_ARM}:PropagateViewCopyPermuteUpPass._move_node"
# By correction, the functions whose work it copies or replaces, each with the digest of its code;
# one set for each release that has another.
# ExecuTorch 1.4.1: a convolution with readers in 32 bits gives its whole sum to all of them.
PINS = {
    "rounded_convolutions": (
        (
            (f"{_CONVOLUTION}._insert_a16w8_output_branches", "1bc543015206f09f"),
            (f"{_CONVOLUTION}._get_direct_int32_rescale_users", "6aa17b8c7c9ce3e6"),
            (f"{_CONVOLUTION}._get_permute_int32_rescale_users", "de207257cce5fb76"),
        ),
        (
            (f"{_CONVOLUTION}._has_int32_rescale_user", "4901c8c33b3a916c"),
            (f"{_CONVOLUTION}._insert_output_conversion", "14882866a6fb770b"),
        ),
    ),
    "layouts_moved_to_values": (((_MOVES, "822b4f8059f9d107"),),),
}

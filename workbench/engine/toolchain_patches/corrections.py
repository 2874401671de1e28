"""Corrections of ExecuTorch's arithmetic: where stock gives a program that is not the model.

This file stands on torch, torchao and ExecuTorch alone, because a generated script carries it
along. What each correction is about, and for which versions it was proven, stands in
``workbench.targets.ethos_u.corrections``.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from ethosu.vela import vela
from executorch.backends.arm._passes import (
    PropagateViewCopyPermuteUpPass,
    decompose_cumsum_pass,
)
from executorch.backends.arm._passes.fold_scalar_mul_into_conv_pass import (
    FoldScalarMulIntoConvPass,
)
from executorch.backends.arm._passes.fuse_quantized_activation_pass import (
    FuseQuantizedActivationPass,
)
from executorch.backends.arm._passes.quant_args import QuantArgs
from executorch.backends.arm._passes.rewrite_conv_pass import RewriteConvPass
from executorch.backends.arm.constants import (
    DEQUANT_PER_TENSOR_OP,
    DQ_OPS,
    Q_OPS,
    QUANT_PER_TENSOR_OP,
)
from executorch.backends.arm.operator_support.convolution_support import ConvolutionSupported
from executorch.backends.arm.tosa.partitioner import TOSAPartitioner
from executorch.backends.transforms.replace_scalar_with_tensor import (
    ReplaceScalarWithTensorArgPass,
)
from executorch.exir.dialects._ops import ops as exir_ops
from torch import fx


@contextmanager
def clamps_kept() -> Iterator[list[str]]:
    """Keep a clamp for every ReLU whose grid goes below zero, while the block runs.

    Stock erases such a ReLU and sets the lower limit of its grid to the zero point, which nothing
    that follows obeys. A grid that starts at zero clamps by itself, and is left to stock; one that
    goes beyond the upper limit of a hardtanh does not, which ExecuTorch 1.4 erases too.

    Yields:
        The names of the ReLUs whose clamp was kept; it grows while programs are lowered.
    """
    stock = FuseQuantizedActivationPass.call
    kept: list[str] = []

    def call(self: Any, graph_module: fx.GraphModule) -> Any:
        clamps = [node for node in graph_module.graph.nodes if _loses_its_clamp(node)]
        for node in clamps:
            _separate(graph_module.graph, node)
        kept.extend(node.name for node in clamps)
        return stock(self, graph_module)

    FuseQuantizedActivationPass.call = call
    try:
        yield kept
    finally:
        FuseQuantizedActivationPass.call = stock


def _loses_its_clamp(node: fx.Node) -> bool:
    """Return whether stock would erase an activation whose grid does not start at zero."""
    stock = FuseQuantizedActivationPass
    if node.op != "call_function" or not stock._is_fuseable_quantized_activation(node):  # noqa: SLF001
        return False
    if not stock._is_fuseable_input(node.args[0]):  # noqa: SLF001
        return False
    (quantize,) = node.users
    grid = QuantArgs.from_operator(quantize.target, quantize.args)
    return bool(grid.zp != grid.qmin) or _reaches_beyond(node, grid)


def _reaches_beyond(node: fx.Node, grid: QuantArgs) -> bool:
    """Return whether a grid has values above the upper limit of a hardtanh."""
    if node.target != exir_ops.edge.aten.hardtanh.default:
        return False
    return bool(grid.quantize_value(node.args[2]).item() < grid.qmax)


def _separate(graph: fx.Graph, activation: fx.Node) -> None:
    """Put the grid of an activation also between it and its input, so that both stay."""
    source: Any = activation.args[0]
    (quantize,) = activation.users
    with graph.inserting_before(activation):
        integers = graph.call_function(QUANT_PER_TENSOR_OP, (source, *quantize.args[1:]))
        values = graph.call_function(DEQUANT_PER_TENSOR_OP, (integers, *quantize.args[1:]))
    integers.meta, values.meta = dict(quantize.meta), dict(source.meta)
    activation.replace_input_with(source, values)


@contextmanager
def negations_rescaled() -> Iterator[list[str]]:
    """Rescale a negated value whose grid is not the mirrored one of its input, in the block.

    Stock negates integers, which is right where input and output have one step. Where they do not,
    the result has the step of the input and is read with that of the output.

    Yields:
        The names of the negations; it grows while programs are lowered.
    """
    stock = FuseQuantizedActivationPass.call
    rescaled: list[str] = []

    def call(self: Any, graph_module: fx.GraphModule) -> Any:
        for node in list(graph_module.graph.nodes):
            if node.target == exir_ops.edge.aten.neg.default and _has_own_grid(node):
                rescaled.append(node.name)
        return stock(self, graph_module)

    FuseQuantizedActivationPass.call = call
    try:
        yield rescaled
    finally:
        FuseQuantizedActivationPass.call = stock


def _has_own_grid(node: fx.Node) -> bool:
    """Put the mirrored grid of its input behind a negation, if its output has another one."""
    source: Any = node.args[0]
    readers = list(node.users)
    grids = {tuple(reader.args[1:]) for reader in readers if reader.target == QUANT_PER_TENSOR_OP}
    if source.target != DEQUANT_PER_TENSOR_OP or len(grids) != 1:
        return False
    scale, zero, low, high, *rest = source.args[1:]
    # The integers of 8 bits are mirrored onto themselves; those of 16 bits are symmetric.
    mirrored = (scale, 0 if zero == 0 and high > _BYTE else low + high - zero, low, high, *rest)
    if grids == {mirrored}:
        return False
    with node.graph.inserting_after(node):
        integers = node.graph.call_function(QUANT_PER_TENSOR_OP, (node, *mirrored))
    with node.graph.inserting_after(integers):
        values = node.graph.call_function(DEQUANT_PER_TENSOR_OP, (integers, *mirrored))
    integers.meta, values.meta = dict(readers[0].meta), dict(node.meta)
    for reader in readers:
        reader.replace_input_with(node, values)
    return True


_BYTE = 255


@contextmanager
def layouts_moved_to_values() -> Iterator[list[str]]:
    """Move a change of layout to the operand that has a layout, while the block runs.

    Stock moves a change of layout before an operator of a value and a single number to its first
    operand. Where that is the number, the value keeps the other layout.

    Yields:
        The names of the operators.
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
def constants_scaled() -> Iterator[list[str]]:
    """Let a scalar meet a parameter in the passes before annotation, while the block runs.

    Stock asks the tensor beside a scalar for its type in a way that only computed tensors know,
    and fails on a parameter.

    Yields:
        The operators whose tensor was a parameter, once each.
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
def sums_in_eight_bits() -> Iterator[list[str]]:
    """Give the kernel of a cumulative sum the 8 bits that its scale speaks of.

    Stock makes the ones with the type of what was summed, in float or with 16 bits, and notes 8
    bits for them.

    Yields:
        The names of the sums.
    """
    stock = decompose_cumsum_pass.create_constant_placeholder
    stock_call = decompose_cumsum_pass.DecomposeCumsumPass.call
    quantized: set[str] = set()
    sums: list[str] = []

    def call(self: Any, graph_module: fx.GraphModule) -> Any:
        nodes = graph_module.graph.nodes
        quantized.update(f"{n.name}_kernel" for n in nodes if n.meta.get("input_qparams"))
        return stock_call(self, graph_module)

    def placeholder(program: Any, graph: Any, name: str, kind: Any, data: Any, *rest: Any) -> Any:
        if name in quantized and data.dtype is not torch.int8:
            sums.append(name.removesuffix("_kernel"))
            data = data.to(torch.int8)
        return stock(program, graph, name, kind, data, *rest)

    decompose_cumsum_pass.create_constant_placeholder = placeholder
    decompose_cumsum_pass.DecomposeCumsumPass.call = call
    try:
        yield sums
    finally:
        decompose_cumsum_pass.create_constant_placeholder = stock
        decompose_cumsum_pass.DecomposeCumsumPass.call = stock_call


@contextmanager
def convolutions_rounded() -> Iterator[list[str]]:
    """Let every reader of a 16-bit convolution read its 16-bit result, while the block runs.

    Stock gives readers that compute in 32 bits the sum before it is rounded: a convolution with
    several results, which Vela rejects for U55 and U65, and values that the quantized model does
    not have. ExecuTorch 1.4 gives the sum to all readers.

    Yields:
        The names of the convolutions with such readers; it grows while programs are lowered.
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
def quantized_by_makers() -> Iterator[list[str]]:
    """Quantize a value in the partition that computes it, while the block runs.

    Stock may put the quantization of a value into the partition of its reader, and then on the CPU:
    the partition that computes the value holds integers, and the CPU takes them for floats.

    Yields:
        The names of the nodes whose values were taken for floats.
    """
    stock = TOSAPartitioner.partition
    computed: list[str] = []

    def partition(self: Any, exported_program: Any) -> Any:
        result = stock(self, exported_program)
        for node in result.tagged_exported_program.graph.nodes:
            if node.target not in Q_OPS or TAG in node.meta:
                continue
            tag = node.args[0].meta.get(TAG)
            if tag is not None:
                node.meta[TAG] = tag
                computed.append(node.args[0].name)
        return result

    TOSAPartitioner.partition = partition
    try:
        yield computed
    finally:
        TOSAPartitioner.partition = stock


@contextmanager
def computed_weights_refused() -> Iterator[list[str]]:
    """Leave convolutions whose weights are computed to the CPU, while the block runs.

    Stock takes them, and its passes fail on weights that are no constant.

    Yields:
        The names of the convolutions.
    """
    stock = ConvolutionSupported.is_node_tosa_supported
    refused: list[str] = []

    def supported(self: Any, node: fx.Node, tosa_spec: Any) -> bool:
        weights: Any = node.args[1]
        while weights.target in DQ_OPS:
            weights = weights.args[0]
        if weights.op == "call_function":
            self.reporter.report_reject(node, "Its weights are computed; the NPU needs constants.")
            refused.append(node.name)
            return False
        return bool(stock(self, node, tosa_spec))

    ConvolutionSupported.is_node_tosa_supported = supported
    try:
        yield refused
    finally:
        ConvolutionSupported.is_node_tosa_supported = stock


@contextmanager
def passthrough_released() -> Iterator[list[str]]:
    """Leave values that a partition would only pass through outside of it, in the block.

    TOSA has no operator for a value that is an input and an output, and Vela rejects the program.

    Yields:
        The names of the nodes that stay on the CPU; it grows while programs are lowered.
    """
    stock = TOSAPartitioner.partition
    released: list[str] = []

    def partition(self: Any, exported_program: Any) -> Any:
        result = stock(self, exported_program)
        graph = result.tagged_exported_program.graph
        while chains := list(handed_through(graph)):
            for node in (node for chain in chains for node in chain):
                if node.meta.pop(TAG, None) is not None:
                    released.append(node.name)
        computing = {n.meta.get(TAG) for n in graph.nodes if not _keeps(n)}
        for node in graph.nodes:
            if node.meta.get(TAG) not in computing:
                node.meta.pop(TAG, None)
        for tag in set(result.partition_tags) - computing:
            del result.partition_tags[tag]
        return result

    TOSAPartitioner.partition = partition
    try:
        yield released
    finally:
        TOSAPartitioner.partition = stock


TAG = "delegation_tag"
_GRIDS = ("quantize_per_tensor", "dequantize_per_tensor")
_SHAPING = ("view_copy", "expand_copy", "unsqueeze_copy", "squeeze_copy", "clone", "permute_copy")


def handed_through(graph: fx.Graph) -> Iterator[list[fx.Node]]:
    """Yield each chain of nodes through which a partition passes a value unchanged; last first.

    Args:
        graph: Graph of an edge program with the partitioner's tags.
    """
    for node in graph.nodes:
        tag = node.meta.get(TAG)
        if tag is None or all(user.meta.get(TAG) == tag for user in node.users):
            continue
        chain, at = list[Any](), node
        while at.meta.get(TAG) == tag and moves(at):
            chain.append(at)
            at = at.args[0]
        grids = {tuple(member.args[1:]) for member in chain if has_grid(member)}
        if at.meta.get(TAG) != tag and len(grids) == 1 and _is_in_order(chain):
            yield chain


def has_grid(node: fx.Node) -> bool:
    """Return whether a node quantizes or dequantizes."""
    return any(name in str(node.target) for name in _GRIDS)


def moves(node: fx.Node) -> bool:
    """Return whether a node leaves all values unchanged, in this or in another order."""
    if has_grid(node):
        return True
    op = str(node.target)
    if node.op != "call_function" or not any(name in op for name in _SHAPING):
        return False
    return bool(node.args[0].meta["val"].numel() == node.meta["val"].numel())  # type: ignore[union-attr]


def _keeps(node: fx.Node) -> bool:
    """Return whether a node leaves all values and their order unchanged."""
    return moves(node) and _is_in_order([node])


def _is_in_order(chain: list[Any]) -> bool:
    """Return whether nodes that move values, the last first, leave them in their order."""
    if not any("permute" in str(node.target) for node in chain):
        return True
    first = chain[-1].args[0].meta["val"]
    order = torch.arange(first.numel())
    value = order.reshape(first.shape)
    for node in reversed(chain):
        if "permute" in str(node.target):
            value = value.permute(node.args[1])
        else:
            value = value.reshape(node.meta["val"].shape)
    return bool(torch.equal(value.reshape(-1), order))


@contextmanager
def tables_kept_apart() -> Iterator[list[str]]:
    """Compile without chains what would want two large tables in one chain, while the block runs.

    Vela loads the tables of a chain before it, into a memory that holds one of 2 KiB: the second
    one evicts the first. A delegate with such a chain is compiled again without chains.

    Yields:
        The name "delegate" with a number, for each that was compiled again.
    """
    stock = vela.regor
    apart: list[str] = []

    class _Regor:
        count = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(stock, name)

        def compile(self, *arguments: Any, options: str, **rest: Any) -> Any:
            model = stock.compile(*arguments, options=options, **rest)
            number, _Regor.count = _Regor.count, _Regor.count + 1
            stream = getattr(model, "command_stream", None)
            if stream is None or not _has_two_tables_in_a_chain(np.asarray(stream)):
                return model
            apart.append(f"delegate {number}")
            separate = re.sub(
                r"(?m)^disable_feature=(.+)$", r"disable_feature=Grouping|\1", options
            )
            separate = re.sub(r"(?m)^disable_feature=$", "disable_feature=Grouping", separate)
            return stock.compile(*arguments, options=separate, **rest)

    vela.regor = _Regor()
    try:
        yield apart
    finally:
        vela.regor = stock


# Codes of Ethos-U85's commands (Vela 5.1.0, ``ethos_u85_interface.hpp``).
_STREAM, _U85, _PAYLOAD = 2, 2, 0x4000
_OFM_PRECISION, _ACTIVATION, _KERNELS = 0x114, 0x125, (0x002, 0x003, 0x005, 0x006, 0x007)
_IN_CHAIN, _TABLE_OF_2_KIB = 2, (8, 9)


def _has_two_tables_in_a_chain(data: Any) -> bool:
    """Return whether commands for a U85 have a chain with two operations of large tables."""
    words = [int(word) for word in data.reshape(-1).view(np.uint8).view("<u4")]
    at, is_u85 = 1, False
    while at < len(words):
        word = words[at]
        kind, length = word & 0xFF, word >> 16 & 0xFFFF
        if kind == 1:
            is_u85, at = words[at + 1] >> 28 == _U85, at + 2
        elif kind == _STREAM:
            length |= (word >> 8 & 0xFF) << 16
            return is_u85 and _chains_tables(words[at + 1 : at + 1 + length])
        at += 1
    return False


def _chains_tables(words: list[int]) -> bool:
    at = tables = activation = precision = 0
    while at < len(words):
        code, parameter = words[at] & 0x3FF, words[at] >> 16
        has_payload = bool(words[at] & _PAYLOAD)
        at += 2 if has_payload else 1
        if has_payload:
            continue
        if code == _OFM_PRECISION:
            precision = parameter
        elif code == _ACTIVATION:
            activation = parameter
        elif code in _KERNELS:
            tables += (activation & 0x1F) in _TABLE_OF_2_KIB
            if precision >> 14 & 3 != _IN_CHAIN:
                if tables > 1:
                    return True
                tables = 0
    return False

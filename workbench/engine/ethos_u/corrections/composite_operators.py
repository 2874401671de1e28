"""Operators that torch writes with others, such as ``mT`` and ``narrow``, written so."""

from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.fx.experimental.proxy_tensor import make_fx

from .graph_writer import Writer

# Those that ExecuTorch has a pattern for, or takes apart itself in a better way, and those that
# other corrections write.
_KEPT = frozenset(
    {
        "adaptive_avg_pool2d",
        "batch_norm",
        "chunk",
        "concat",
        "concatenate",
        "contiguous",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "dropout",
        "einsum",
        "complex",
        "flatten",
        "grid_sampler",
        "group_norm",
        "gru",
        "gru_cell",
        "imag",
        "layer_norm",
        "linear",
        "log_softmax",
        "lstm",
        "lstm_cell",
        "matmul",
        "max",
        "max_pool2d",
        "min",
        "moveaxis",
        "movedim",
        "one_hot",
        "pad",
        "prelu",
        "real",
        "repeat_interleave",
        "reshape",
        "rnn_relu",
        "rnn_relu_cell",
        "rnn_tanh",
        "rnn_tanh_cell",
        "scaled_dot_product_attention",
        "selu",
        "softmax",
        "split",
        "stft",
        "tile",
        "to",
        "unflatten",
        "upsample_bilinear2d",
        "upsample_nearest2d",
        "var",
        "view_as",
        "where",
    }
)


def is_composite(target: Any) -> bool:
    """Return whether torch writes an operator with others, and nothing else does it better."""
    return is_decomposable(target) and target._schema.name.removeprefix("aten::") not in _KEPT  # noqa: SLF001


def is_decomposable(target: Any) -> bool:
    """Return whether torch writes an operator with others."""
    return (
        isinstance(target, torch._ops.OpOverload)  # noqa: SLF001
        and target.namespace == "aten"
        and target._can_decompose()  # noqa: SLF001
    )


def decomposed(write: Writer, *args: Any, **kwargs: Any) -> Any:
    """Write an operator with those that torch writes it with."""
    nodes: list[fx.Node] = []
    fx.map_arg((args, kwargs), nodes.append)

    def computed(*values: torch.Tensor) -> Any:
        known = dict(zip(nodes, values, strict=True))
        given, named = fx.map_arg((args, kwargs), known.__getitem__)
        return write.target(*given, **named)

    try:
        with torch.no_grad():
            traced = make_fx(computed)(*(node.meta["val"] for node in nodes))
    except DataDependentOutputException:
        # It checks values, as an inverse spectrogram its window.
        return None
    written: dict[fx.Node, Any] = {}
    places = iter(nodes)
    for node in traced.graph.nodes:
        if node.op == "placeholder":
            written[node] = next(places)
        elif node.op == "get_attr":
            written[node] = write.constant("composite", getattr(traced, str(node.target)))
        elif node.op == "call_function":
            own = fx.map_arg((node.args, node.kwargs), written.__getitem__)
            written[node] = write(node.target, *own[0], **own[1])
    result = traced.graph.output_node().args[0]
    if isinstance(result, fx.Node):
        return written[result]
    return tuple(written[part] for part in result)  # type: ignore[arg-type,union-attr]

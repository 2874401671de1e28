"""Corrections of ExecuTorch's arithmetic: where stock gives a program that is not the model.

This file stands on torch, torchao and ExecuTorch alone, because a generated script carries it
along. What each correction is about, and for which versions it was proven, stands in
``workbench.targets.ethos_u.corrections``.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from executorch.backends.arm._passes.fold_scalar_mul_into_conv_pass import (
    FoldScalarMulIntoConvPass,
)
from executorch.backends.arm._passes.fuse_quantized_activation_pass import (
    FuseQuantizedActivationPass,
)
from executorch.backends.arm._passes.quant_args import QuantArgs
from executorch.backends.arm.constants import DEQUANT_PER_TENSOR_OP, QUANT_PER_TENSOR_OP
from torch import fx
from torchao.quantization.pt2e.quantizer import QuantizationSpec


@contextmanager
def clamps_kept() -> Iterator[list[str]]:
    """Keep a clamp for every ReLU whose grid goes below zero, while the block runs.

    Stock erases such a ReLU and sets the lower limit of its grid to the zero point, which nothing
    that follows obeys. A grid that starts at zero clamps by itself, and is left to stock.

    Yields:
        The names of the ReLUs whose clamp was kept; it grows while programs are lowered.
    """
    stock = FuseQuantizedActivationPass.call
    kept: list[str] = []

    def call(self: Any, graph_module: fx.GraphModule) -> Any:
        found = [node for node in graph_module.graph.nodes if _loses_its_clamp(node)]
        for node in found:
            _separate(graph_module.graph, node)
        kept.extend(node.name for node in found)
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
    return bool(grid.zp != grid.qmin)


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


# The least step of a constant factor, by the number of values of its grid.
_LEAST_STEPS = {256: 2.0**-32, 65536: 2.0**-40}
_FACTOR_OF = ("mul", "mul_", "bmm", "mm", "matmul")
_RESHAPING = ("reshape", "view", "unsqueeze", "expand", "permute", "transpose", "squeeze", "t")


def refine_factors(annotated: fx.GraphModule) -> list[str]:
    """Let constant factors have steps as small as their values ask for.

    Args:
        annotated: A graph after annotation and before observers; its annotations are changed.

    Returns:
        The names of the constants that were too small for the least step of their observer.
    """
    refined = list[str]()
    for node in annotated.graph.nodes:
        edges = list(_factor_edges(node)) if node.op == "get_attr" else []
        specs = {id(spec): spec for spec in (_spec(*edge) for edge in edges) if spec is not None}
        fine = {key: _fine(spec) for key, spec in specs.items()}
        largest = max((_steps(spec) for spec in specs.values()), default=0.0)
        value = _constant(annotated, str(node.target)) if edges else None
        if value is None or not 0.0 < float(value.abs().max()) < largest:
            continue
        for source, reader in edges:
            notes = reader.meta["quantization_annotation"].input_qspec_map
            if id(notes.get(source)) in fine:
                notes[source] = fine[id(notes[source])]
        refined.append(node.name)
    return refined


def _factor_edges(node: fx.Node) -> Iterator[tuple[fx.Node, fx.Node]]:
    """Yield each use of a constant, reshaped or not; nothing if one is not in a product."""
    found, left = list[tuple[fx.Node, fx.Node]](), [node]
    while left:
        source = left.pop()
        for reader in source.users:
            name = getattr(reader.target, "_schema", None)
            operator = name.name.rpartition("::")[2] if name is not None else ""
            if operator not in (*_FACTOR_OF, *_RESHAPING):
                return
            found.append((source, reader))
            if operator in _RESHAPING:
                left.append(reader)
    yield from found


def _spec(source: fx.Node, reader: fx.Node) -> Any:
    """Return the spec of an input that has a step of its own; None for any other."""
    note = reader.meta.get("quantization_annotation")
    spec = note.input_qspec_map.get(source) if note is not None else None
    return spec if type(spec) is QuantizationSpec and _least(spec) is not None else None


def _least(spec: QuantizationSpec) -> float | None:
    partial = getattr(spec.observer_or_fake_quant_ctr, "p", None)
    return getattr(partial, "keywords", {}).get("eps")


def _steps(spec: QuantizationSpec) -> float:
    """Return the largest value whose grid the least step of the observer makes coarser."""
    return float(_least(spec) or 0.0) * _values(spec) / 2


def _values(spec: QuantizationSpec) -> int:
    bounds = torch.iinfo(spec.dtype)
    return bounds.max - bounds.min + 1


def _fine(spec: QuantizationSpec) -> QuantizationSpec:
    made: Any = spec.observer_or_fake_quant_ctr
    # A wrapper of a wrapper has no name, which others ask for.
    options = {**made.p.keywords, "eps": _LEAST_STEPS[_values(spec)]}
    return replace(spec, observer_or_fake_quant_ctr=made.p.func.with_args(**options))


def _constant(module: fx.GraphModule, path: str) -> Any:
    """Return the floating tensor at a path of a module; None for anything else."""
    owner, _, name = path.rpartition(".")
    value = getattr(module.get_submodule(owner), name, None)
    is_float = isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel() > 0
    return value if is_float else None

"""ExecuTorch's Cortex-M kernels for operators on the CPU.

This file depends on ExecuTorch only, because generated scripts contain it. Source:
ExecuTorch 1.5.1, ``backends/cortex_m/passes`` (replacements), its pattern checkers (operators that
its own quantizer supports), and the run-time checks of the kernels
(``backends/cortex_m/ops/op_*.cpp``). The passes rely on that quantizer; after the Ethos-U quantizer
they would leave integer operators without a kernel, or with another memory layout.
"""

import copy
from typing import Any

import torch
from executorch.backends.arm.common.annotation_meta import ArmAnnotationInfo
from executorch.exir.dialects._ops import ops

# Metadata key of the node before its kernel was selected.
ORIGIN = "before_cpu_kernels"
CHANNELS_LAST = (0, 2, 3, 1)

ATEN = ops.edge.aten
SPATIAL = (ATEN.convolution.default, ATEN.avg_pool2d.default, ATEN.max_pool2d_with_indices.default)
ELEMENTWISE = (ATEN.add.Tensor, ATEN.sub.Tensor, ATEN.mul.Tensor)
TAKEN = (*SPATIAL, *ELEMENTWISE, ATEN.linear.default, ATEN.bmm.default)
ACTIVATIONS = (ATEN.relu.default, ATEN.hardtanh.default, ATEN.clamp.default)


def with_border_kernels(manager: Any) -> Any:
    """Return an edge manager with cortex_m's quantize and dequantize operators."""
    from executorch.backends.cortex_m.passes.replace_quant_nodes_pass import ReplaceQuantNodesPass

    _name_origins(manager)
    return manager.transform([ReplaceQuantNodesPass()])


def with_cmsis_nn(manager: Any, cpu: str) -> Any:
    """Return an edge manager with CMSIS-NN's kernels for quantized CPU operators, if supported.

    Operators without a kernel, or without one for their type, shape or layout, are unchanged,
    between quantize and dequantize operators of cortex_m.

    Args:
        manager: An edge manager after delegation; only its metadata is changed.
        cpu: The member of ``CortexM`` whose instructions determine the scratch size.

    Raises:
        ValueError: an integer operator would have no kernel.
    """
    from executorch.backends.cortex_m.passes.cortex_m_pass_manager import CortexMPassManager
    from executorch.backends.cortex_m.target_config import CortexM, CortexMTargetConfig

    _name_origins(manager)
    wanted = _groups(manager.exported_program().graph)
    while True:
        copied = copy.deepcopy(manager)
        _mark(copied.exported_program().graph, {name for group in wanted for name in group})
        program = CortexMPassManager(
            copied.exported_program(), target_config=CortexMTargetConfig(CortexM[cpu])
        ).transform()
        unfit = _unfit(program.graph)
        if not unfit:
            copied._edge_programs["forward"] = program  # noqa: SLF001 - as ExecuTorch's own tools
            return copied
        kept = [group for group in wanted if not unfit.intersection(group)]
        if len(kept) == len(wanted):
            raise ValueError(f"CMSIS-NN leaves {', '.join(sorted(unfit))} without a kernel")
        wanted = kept


def _name_origins(manager: Any) -> None:
    for node in manager.exported_program().graph.nodes:
        node.meta[ORIGIN] = node.name


def _groups(graph: Any) -> list[tuple[str, ...]]:
    """Return the operators supported by CMSIS-NN, each with the activation fused into it."""
    groups: list[tuple[str, ...]] = []
    for node in graph.nodes:
        last = _last(node)
        if node.target in TAKEN and _is_int8(node, last) and _is_laid_out(node):
            groups.append((node.name,) if last.target not in ACTIVATIONS else (node.name, last.name))
    return groups


def _last(node: Any) -> Any:
    """Return the producer of the operator's value: its first output, or the fused activation."""
    users = list(node.users)
    if node.target is ATEN.max_pool2d_with_indices.default and len(users) == 1:
        return users[0]
    if len(users) == 1 and users[0].target in ACTIVATIONS and node.target is not ATEN.mul.Tensor:
        return users[0]
    return node


def _is_int8(node: Any, last: Any) -> bool:
    """Return whether all inputs and outputs are int8 only."""
    given = [
        source
        for source in node.all_input_nodes
        if source.op == "call_function" and source.meta["val"].is_floating_point()
    ]
    into = bool(given) and all(
        "dequantize_per" in str(source.target) and source.args[0].meta["val"].dtype == torch.int8
        for source in given[: 2 if node.target in (*ELEMENTWISE, ATEN.bmm.default) else 1]
    )
    out_of = bool(last.users) and all(
        "quantize_per_tensor" in str(user.target) and user.meta["val"].dtype == torch.int8
        for user in last.users
    )
    return into and out_of and all("dequantize" in str(source.target) for source in given)


def _is_laid_out(node: Any) -> bool:
    """Return whether tensors have the kernel's memory layout: channels last, or all equal."""
    tensors = [source.meta["val"] for source in node.all_input_nodes if source.op != "placeholder"]
    value = node.meta["val"]
    tensor = value[0] if isinstance(value, tuple | list) else value
    if node.target in SPATIAL:
        is_transposed = node.target is ATEN.convolution.default and node.args[6]
        # An image of one channel is in both layouts: the result says which one its readers expect.
        return not is_transposed and all(map(_is_channels_last, (*tensors[:1], tensor)))
    if node.target in ELEMENTWISE:
        alpha = node.kwargs.get("alpha", 1)
        same = all(t.shape == tensor.shape and t.dim_order() == tensor.dim_order() for t in tensors)
        return same and len(tensors) == 2 and alpha == 1
    # The replacement of a linear supports a single grid for all weights.
    is_linear = node.target is ATEN.linear.default
    return not is_linear or "per_tensor" in str(node.all_input_nodes[1].target)


def _is_channels_last(tensor: Any) -> bool:
    return tensor.dim() == 4 and (tensor.shape[1] == 1 or tensor.dim_order() == CHANNELS_LAST)


def _mark(graph: Any, names: set[str]) -> None:
    """Show only those operators as quantized to the passes."""
    for node in graph.nodes:
        if node.op == "call_function" and node.name not in names:
            info = {ArmAnnotationInfo.CUSTOM_META_KEY: dict(ArmAnnotationInfo(quantized=False))}
            node.meta["custom"] = {**node.meta.get("custom", {}), **info}


def _unfit(graph: Any) -> set[str]:
    """Return operators without float values that are no int8 operators of cortex_m."""
    names = set()
    for node in graph.nodes:
        grids = [*node.meta.get("input_qparams", {}).values()]
        grids += [*node.meta.get("output_qparams", {}).values()]
        own = "cortex_m." in str(node.target)
        wrong = not own or any(grid.dtype not in (torch.int8, torch.int32) for grid in grids)
        if node.op == "call_function" and grids and wrong:
            names.add(str(node.meta.get(ORIGIN, node.name)))
    return names

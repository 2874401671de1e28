"""Shapes, types, quantization parameters and operator names, read from torch.fx nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.export import ExportedProgram

from workbench.graph.snapshot import QParams, TensorInfo

if TYPE_CHECKING:
    from workbench.graph.snapshot import NodeKind

CHANNELS_SHOWN = 4096
_QUANTIZE_ARGUMENTS = 6


def dtype_name(dtype: Any) -> str:
    """Return ``int8`` for ``torch.int8``."""
    return str(dtype).removeprefix("torch.")


def tensors(value: Any) -> tuple[TensorInfo, ...]:
    """Return what ``node.meta['val']`` holds: one entry per output."""
    if isinstance(value, (tuple, list)):
        return tuple(
            info for item in value for info in (tensors(item) or (TensorInfo((), "none"),))
        )
    if isinstance(value, torch.Tensor):
        shape = tuple(size if isinstance(size, int) else str(size) for size in value.shape)
        return (TensorInfo(shape, dtype_name(value.dtype)),)
    if value is None:
        return ()
    return (TensorInfo((), type(value).__name__),)


def overload(target: Any) -> Any:
    """Return the ATen overload behind a call's target, also of the edge dialect; else None."""
    for candidate in (target, getattr(target, "_op", None)):
        if isinstance(candidate, torch._ops.OpOverload):  # noqa: SLF001 - it has no public name
            return candidate
    return None


def op_name(node: torch.fx.Node) -> str:
    """Return the operator, e.g. ``aten.conv2d.default``, for every kind of call."""
    if isinstance(node.target, str):
        return node.target if node.op == "call_method" else node.op
    named = overload(node.target)
    if named is not None:
        return str(named)
    return str(getattr(node.target, "__name__", node.target))


def quantize_kind(op: str) -> NodeKind | None:
    """Return whether an operator quantizes or dequantizes, or None."""
    name = op.partition(".")[2] or op
    if name.startswith("dequantize_"):
        return "dequantize"
    return "quantize" if name.startswith("quantize_") else None


class Values:
    """The tensors behind the placeholders and attributes of a program."""

    def __init__(self, program: ExportedProgram | torch.fx.GraphModule) -> None:
        self.module: torch.fx.GraphModule = (
            program.graph_module if isinstance(program, ExportedProgram) else program
        )
        self.names: dict[str, str] = {}
        self.kinds: dict[str, NodeKind] = {}
        self._tensors: dict[str, Any] = {}
        if isinstance(program, ExportedProgram):
            self._read_signature(program)

    def _read_signature(self, program: ExportedProgram) -> None:
        self._tensors = {**program.state_dict, **program.constants}
        for spec in program.graph_signature.input_specs:
            name = getattr(spec.arg, "name", "")
            if spec.kind.name != "USER_INPUT":
                self.names[name] = spec.target or ""
                self.kinds[name] = "parameter" if spec.kind.name == "PARAMETER" else "constant"
            if "_frozen_param" in (spec.target or ""):
                self.kinds[name] = "parameter"

    def get(self, node: Any) -> Any:
        """Return the value of a placeholder, an attribute or a literal; None if unknown."""
        if not isinstance(node, torch.fx.Node):
            return node
        if node.op == "get_attr":
            found: Any = self.module
            for part in str(node.target).split("."):
                found = getattr(found, part, None)
            return found
        return self._tensors.get(self.names.get(node.name, ""))


def _numbers(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return list(value.detach().flatten().tolist())
    return [value] if isinstance(value, (int, float)) else []


def qparams(node: torch.fx.Node, values: Values) -> QParams | None:
    """Return the grid that a quantize or dequantize operation uses, if it is fixed.

    Source: schemas of ``quantized_decomposed.(de)quantize_per_tensor`` (input, scale, zero_point,
    quant_min, quant_max, dtype) and ``_per_channel`` (an axis after zero_point) in torchao.
    """
    args = list(node.args)
    axis = None
    if "per_channel" in op_name(node) and len(args) > _QUANTIZE_ARGUMENTS:
        axis = int(args.pop(3))
    if len(args) < _QUANTIZE_ARGUMENTS:
        return None
    scale, zero_point = _numbers(values.get(args[1])), _numbers(values.get(args[2]))
    if not scale or not all(isinstance(limit, int) for limit in args[3:5]):
        return None
    return QParams(
        dtype_name(args[5]),
        tuple(float(step) for step in scale[:CHANNELS_SHOWN]),
        tuple(int(code) for code in zero_point[:CHANNELS_SHOWN]),
        args[3], args[4], axis,
    )  # fmt: skip


def literals(node: torch.fx.Node) -> dict[str, str]:
    """Return the arguments that are not tensors, by the operator's own names for them."""
    named_op = overload(node.target)
    names = [argument.name for argument in named_op._schema.arguments] if named_op else []  # noqa: SLF001
    named = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    found = {}
    for name, value in named.items():
        if value is None or _holds_node(value):
            continue
        found[name] = dtype_name(value)
    return found


def _holds_node(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(_holds_node(item) for item in value)
    return isinstance(value, torch.fx.Node)


def observer_attrs(observer: Any) -> dict[str, str]:
    """Return what an inserted observer watches for: its class, type, range and scheme."""
    found = {"observer": type(observer).__name__}
    for name, attribute in (
        ("dtype", "dtype"), ("quant_min", "quant_min"), ("quant_max", "quant_max"),
        ("qscheme", "qscheme"), ("axis", "ch_axis"),
    ):  # fmt: skip
        value = getattr(observer, attribute, None)
        if value is not None:
            found[name] = dtype_name(value)
    for name in ("min_val", "max_val"):
        value = getattr(observer, name, None)
        if isinstance(value, torch.Tensor) and value.numel() == 1 and value.isfinite():
            found[name] = f"{float(value):.6g}"
    return found

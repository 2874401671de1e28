"""Exported programs on disk, and queries of their graphs."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

import torch
from torch._higher_order_ops.executorch_call_delegate import executorch_call_delegate
from torch.export import ExportedProgram

from workbench.graph.snapshot import QParams, TensorInfo
from workbench.results import TensorMemory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from workbench.graph.snapshot import NodeKind


CHANNELS_SHOWN = 4096
_QUANTIZE_ARGUMENTS = 6


def raw_bytes(tensor: torch.Tensor) -> memoryview:
    """Return the bytes of a tensor's values in order, for a digest.

    A tensor of one element counts as contiguous whatever its strides are, which ``view`` refuses.
    """
    values = tensor.detach().cpu().contiguous()
    return values.as_strided((values.numel(),), (1,)).view(torch.uint8).numpy().data


def dtype_name(dtype: Any) -> str:
    """Return ``int8`` for ``torch.int8``."""
    return str(dtype).removeprefix("torch.")


def tensors(value: Any) -> tuple[TensorInfo, ...]:
    """Return the contents of ``node.meta['val']``: one entry per output."""
    if isinstance(value, (tuple, list)):
        return tuple(info for item in value for info in (tensors(item) or (TensorInfo((), "none"),)))
    if isinstance(value, torch.Tensor):
        shape = tuple(size if isinstance(size, int) else str(size) for size in value.shape)
        return (TensorInfo(shape, dtype_name(value.dtype)),)
    if value is None:
        return ()
    return (TensorInfo((), type(value).__name__),)


def overload(target: Any) -> Any:
    """Return the ATen overload of a call's target, also of the edge dialect; else None."""
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
    """The tensors of the placeholders and attributes of a program."""

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
            value: Any = self.module
            for part in str(node.target).split("."):
                value = getattr(value, part, None)
            return value
        return self._tensors.get(self.names.get(node.name, ""))


def _numbers(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return list(value.detach().flatten().tolist())
    return [value] if isinstance(value, (int, float)) else []


def qparams(node: torch.fx.Node, values: Values) -> QParams | None:
    """Return the grid of a quantize or dequantize operation, if it is constant.

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
        args[3],
        args[4],
        axis,
    )


def literals(node: torch.fx.Node) -> dict[str, str]:
    """Return the non-tensor arguments by their names in the operator's schema."""
    named_op = overload(node.target)
    names = [argument.name for argument in named_op._schema.arguments] if named_op else []  # noqa: SLF001
    named = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    values = {}
    for name, value in named.items():
        if value is None or _holds_node(value):
            continue
        values[name] = dtype_name(value)
    return values


def _holds_node(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(_holds_node(item) for item in value)
    return isinstance(value, torch.fx.Node)


def observer_attrs(observer: Any) -> dict[str, str]:
    """Return the attributes of an observer: its class, type, range and scheme."""
    attrs = {"observer": type(observer).__name__}
    for name, attribute in (
        ("dtype", "dtype"),
        ("quant_min", "quant_min"),
        ("quant_max", "quant_max"),
        ("qscheme", "qscheme"),
        ("axis", "ch_axis"),
    ):
        value = getattr(observer, attribute, None)
        if value is not None:
            attrs[name] = dtype_name(value)
    for name in ("min_val", "max_val"):
        value = getattr(observer, name, None)
        if isinstance(value, torch.Tensor) and value.numel() == 1 and value.isfinite():
            attrs[name] = f"{float(value):.6g}"
    return attrs


PROGRAM_FILE = "program.pt2"
# Marks a quantize node that applies to its readers only, not to the tensor.
DYNAMIC = "quantized by its reader"
_CONTROL_FLOW = ("cond", "while_loop")


def save(program: torch.export.ExportedProgram, folder: Path) -> None:
    """Save a program as ``program.pt2`` in a result folder.

    Example inputs are omitted: torch would pickle them, and results contain no pickles.

    Raises:
        OSError: it cannot be written.
    """
    buffer = io.BytesIO()
    inputs = program._example_inputs  # noqa: SLF001 - no public way to leave them out
    program._example_inputs = None  # noqa: SLF001
    try:
        torch.export.save(program, buffer)
    finally:
        program._example_inputs = inputs  # noqa: SLF001
    # torch's own writer of files ends the process where the disk is full.
    (folder / PROGRAM_FILE).write_bytes(buffer.getbuffer())


def load(folder: Path) -> torch.export.ExportedProgram:
    """Load a program written by ``save``."""
    return torch.export.load(str(folder / PROGRAM_FILE))


def is_control_flow(node: torch.fx.Node) -> bool:
    """Return whether a node runs one of several subgraphs."""
    return node.op == "call_function" and getattr(node.target, "__name__", "") in _CONTROL_FLOW


def has_control_flow(graph_module: torch.fx.GraphModule) -> bool:
    """Return whether a graph contains ``torch.cond`` or ``while_loop``."""
    return any(is_control_flow(node) for node in graph_module.graph.nodes)


def written_buffers(graph_module: torch.fx.GraphModule) -> dict[str, str]:
    """Return the buffers that a graph mutates, each with the last node that writes it."""
    written = {}
    for node in graph_module.graph.nodes:
        if is_write(node) and node.args[0].op == "get_attr":
            written[str(node.args[0].target)] = str(node.name)
    return written


def is_constant(node: torch.fx.Node) -> bool:
    """Return whether a node is an attribute that its graph does not mutate."""
    written = any(is_write(user) and user.args[0] is node for user in node.users)
    return node.op == "get_attr" and not written


def drop_unused(graph: torch.fx.Graph) -> None:
    """Remove unused nodes from a graph; buffer mutations are kept."""
    graph.eliminate_dead_code(lambda node: node.is_impure() or is_write(node))


def delegates(program: torch.export.ExportedProgram) -> dict[str, Any]:
    """Return the lowered modules of an edge program by name, in the order of its calls."""
    module = program.graph_module
    calls = [n for n in program.graph.nodes if n.target is executorch_call_delegate]
    names = [str(node.args[0].target) for node in calls]
    return {name: getattr(module, name) for name in names}


def is_write(node: torch.fx.Node) -> bool:
    """Return whether a node changes its first argument in place."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload):  # noqa: SLF001
        return False
    mutable = target._schema.is_mutable  # noqa: SLF001 - no public name
    return bool(mutable and node.args and isinstance(node.args[0], torch.fx.Node))


def write_nowhere(graph_module: torch.fx.GraphModule, *, but_buffers: bool = False) -> None:
    """Replace in-place operators by operators that return a new tensor.

    The value of every node then stays constant. Readers of the input after the write read the
    result. With ``but_buffers`` the program's buffers are still mutated.
    """
    order = {node: index for index, node in enumerate(graph_module.graph.nodes)}
    for node, index in order.items():
        packet = _without_write(node)
        if packet is None:
            continue
        written = node.args[0]
        assert isinstance(written, torch.fx.Node)
        if but_buffers and written.op == "get_attr":
            continue
        for user in list(written.users):
            if order[user] > index:
                user.replace_input_with(written, node)
        node.target = packet
    graph_module.recompile()


def _without_write(node: torch.fx.Node) -> Any:
    """Return the out-of-place variant of an in-place operator, or None."""
    if not isinstance(node.target, torch._ops.OpOverload):  # noqa: SLF001
        return None
    packet, _, overload = node.target.name().rpartition("::")[2].partition(".")
    if not node.target._schema.is_mutable or not packet.endswith("_"):  # noqa: SLF001
        return None
    operator = getattr(torch.ops.aten, packet[:-1], None)
    return getattr(operator, overload or "default", None)


def module_of(node: torch.fx.Node) -> str:
    """Return the dotted name of a node's innermost module; "" for the root."""
    stack = node.meta.get("nn_module_stack") or {}
    names = [str(entry[0]) for entry in stack.values()]
    return re.sub(r"@\d+$", "", names[-1]).removeprefix("L['self'].") if names else ""


def op_of(node: torch.fx.Node) -> str:
    """Return an operator's dotted name, e.g. ``aten.conv2d.default``."""
    return op_name(node)


def origin_of(node: torch.fx.Node) -> str:
    """Return the origin that the exporter recorded for a node, or ""."""
    name, origin = "", node.meta.get("from_node")
    while origin:
        name, origin = origin[0].name, origin[0].from_node
    return str(name)


def tensor_memory(program: torch.export.ExportedProgram) -> TensorMemory:
    """Return the most that is live at a time, and the largest tensor.

    A tensor lives from its operation until after its last reader, as ``torch.fx.Interpreter`` keeps
    it; weights and views count as tensors of their own. Graphs inside of branches are left out.
    """
    nodes = list(program.graph.nodes)
    last = {source: index for index, node in enumerate(nodes) for source in node.all_input_nodes}
    ended: dict[int, list[int]] = {}
    live = most = 0
    largest: tuple[int, str] = (0, "")
    for index, node in enumerate(nodes):
        for tensor in _real_tensors(node.meta.get("val")):
            size = tensor.numel() * tensor.element_size()
            live += size
            ended.setdefault(last.get(node, index), []).append(size)
            if size > largest[0]:
                largest = (size, f"{'x'.join(map(str, tensor.shape))} of {_named(node)}")
        most = max(most, live)
        live -= sum(ended.pop(index, ()))
    return TensorMemory(live_bytes=most, largest_bytes=largest[0], largest=largest[1])


def _real_tensors(value: object) -> Iterator[torch.Tensor]:
    if isinstance(value, tuple | list):
        for item in value:
            yield from _real_tensors(item)
    elif isinstance(value, torch.Tensor) and all(isinstance(size, int) for size in value.shape):
        yield value


def _named(node: torch.fx.Node) -> str:
    module = module_of(node)
    return f"{node.name} in {module}" if module else node.name

"""All tensors inside a delegate, computed by the reference model in one run.

The TOSA flatbuffer is modified to list more of its tensors as outputs: a new vector of names is
appended, and the block's table points to it. Nothing else changes, so existing outputs stay
bit-exact. Source of the layout: TOSA 1.0's schema, table ``TosaBasicBlock``.
"""

from __future__ import annotations

import itertools
import operator
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from tosa.TosaGraph import TosaGraph

from workbench.engine.ethos_u.grids import Grid, grid_of
from workbench.engine.evaluation.measures import Accumulator, blocks
from workbench.engine.evaluation.quick_modules import tapped_quantized
from workbench.engine.evaluation.tensors import Watched, visible
from workbench.engine.fx import programs
from workbench.graph.labels import operator_name
from workbench.results import IntegerQuality

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np

    from workbench.graph.snapshot import GraphSnapshot, Node

# Index of the field ``outputs`` in the table: name, operators, tensors, inputs, outputs.
_OUTPUTS = 12
_INTEGERS = ("int8", "int16", "uint8")


def output_names(flatbuffer: bytes) -> list[str]:
    """Return the names of the outputs of a TOSA program."""
    block = TosaGraph.GetRootAs(flatbuffer).Regions(0).Blocks(0)
    return [block.Outputs(i).decode() for i in range(block.OutputsLength())]


def outer_names(flatbuffer: bytes) -> set[str]:
    """Return the names of tensors outside branches and loops; only they can be outputs."""
    block = TosaGraph.GetRootAs(flatbuffer).Regions(0).Blocks(0)
    return {block.Tensors(i).Name().decode() for i in range(block.TensorsLength())}


def exposed(flatbuffer: bytes, names: Sequence[str]) -> bytes:
    """Return a TOSA program whose outputs are these tensors."""
    block = TosaGraph.GetRootAs(flatbuffer).Regions(0).Blocks(0)
    field = block._tab.Pos + block._tab.Offset(_OUTPUTS)  # noqa: SLF001 - flatbuffers' own
    edited = bytearray(flatbuffer)
    edited += bytes(-len(edited) % 4)
    struct.pack_into("<I", edited, field, len(edited) - field)
    edited += struct.pack("<I", len(names))
    offsets = len(edited)
    edited += bytes(4 * len(names))
    for index, name in enumerate(names):
        at = offsets + 4 * index
        struct.pack_into("<I", edited, at, len(edited) - at)
        text = name.encode()
        edited += struct.pack("<I", len(text)) + text + b"\0"
        edited += bytes(-len(edited) % 4)
    return bytes(edited)


@dataclass(frozen=True)
class Pair:
    """A quantized tensor, and the delegate's tensor with its integers.

    ``seen`` is the node of the quantized graph whose value is read, ``delegate`` and ``name``
    locate the integers.
    """

    node: torch.fx.Node
    seen: str
    grid: Grid
    delegate: int
    name: str


def pairs(
    prepared: torch.fx.GraphModule, converted: torch.fx.GraphModule, device: GraphSnapshot
) -> list[Pair]:
    """Return the tensors that exist in both programs, in program order.

    An operator that was fused into the previous one has that one's integers. The device graph names
    operators of the exported program; for decomposed operators, the last part counts. A tensor
    whose last part is not certain is left out: one of several results of an operator, and a change
    of layout that the compiler moved before the operator whose values it lays out.
    """
    nodes = {node.name: node for node in converted.graph.nodes}
    final = {_origin(n): n for n in converted.graph.nodes if _computes(n)}
    last = _last_parts(device, final)
    order = {operation.id: index for index, operation in enumerate(device.nodes)}
    moved = [name for name in last if _is_moved_ahead(name, device, order, last, final)]
    last = {name: part for name, part in last.items() if name not in moved}
    pairs_found = []
    for node in prepared.graph.nodes:
        if node.name not in nodes or node.op != "call_function":
            continue
        seen = visible(nodes[node.name])
        grid = grid_of(seen) if "dequantize_per_tensor" in str(seen.target) else None
        integers = _integers(nodes[node.name], last, final) if grid is not None else None
        if grid is not None and integers is not None:
            delegate, _, name = integers.id.removeprefix("delegate_").partition("/")
            pairs_found.append(Pair(nodes[node.name], seen.name, grid, int(delegate), name))
    return pairs_found


def _last_parts(device: GraphSnapshot, final: Mapping[str, torch.fx.Node]) -> dict[str, Node]:
    """Return the last TOSA operator with integers of every operator of the exported program.

    The table of a function that comes last in a decomposed operator has lost its origin: it is
    that of the operator whose integers it reads, if this ends in a function of one tensor.
    """
    last: dict[str, Node] = {}
    for operation in device.nodes:
        if operation.kind != "call" or not operation.outputs or operation.outputs[0].dtype not in _INTEGERS:
            continue
        origin = operation.attrs.get("origin", "")
        read = [name for name, known in last.items() if known in device.producers(operation.id)]
        if origin in final or operation.op != _TABLE or not read:
            last[origin] = operation
        elif (end := final.get(read[0])) is not None and _is_decomposed(end):
            del last[read[0]]
            if len(end.all_input_nodes) == 1:
                last[read[0]] = operation
    return last


_TABLE = "tosa.TABLE"
_TOSA_LAYOUTS = ("tosa.RESHAPE", "tosa.TRANSPOSE")
_LAYOUTS = ("view", "reshape", "flatten", "unflatten", "permute", "transpose", "t", "squeeze", "unsqueeze")


def _is_moved_ahead(
    name: str,
    device: GraphSnapshot,
    order: Mapping[str, int],
    last: Mapping[str, Node],
    final: Mapping[str, torch.fx.Node],
) -> bool:
    """Return whether a change of layout comes before the operator whose values it lays out.

    Where that operator is a function whose table has lost its origin, the change must read a table.
    """
    node = final.get(name)
    if node is None or not _lays_out(node) or _is_decomposed(node):
        return False
    source = node.all_input_nodes[0]
    while source.all_input_nodes and (not _computes(source) or _lays_out(source)):
        source = source.all_input_nodes[0]
    if not _computes(source):
        return False
    known = _integers(source, last, final)
    if known is not None:
        return order[last[name].id] < order[known.id]
    read = _read(last[name], device)
    while read is not None and read.op in _TOSA_LAYOUTS:
        read = _read(read, device)
    is_function = len(source.all_input_nodes) == 1 and source.target is not operator.getitem
    return is_function and read is not None and read.op != _TABLE


def _lays_out(node: torch.fx.Node) -> bool:
    return _computes(node) and operator_name(programs.op_of(node)) in _LAYOUTS


def _read(operation: Node, device: GraphSnapshot) -> Node | None:
    """Return the operator whose integers an operator reads first; None for a delegate's input."""
    return next((node for node in device.producers(operation.id) if node.kind == "call"), None)


def _is_decomposed(node: torch.fx.Node) -> bool:
    """Return whether several operators were made of the operator that a node was made of."""
    parts = (part for part in node.graph.nodes if _computes(part))
    return sum(_origin(part) == _origin(node) for part in parts) > 1


def _integers(
    node: torch.fx.Node, last: Mapping[str, Node], final: Mapping[str, torch.fx.Node]
) -> Node | None:
    """Return the TOSA operator with a node's integers: its own, or the one it is fused into."""
    at: torch.fx.Node | None = node
    while at is not None and _computes(at) and not _is_one_of_several(at):
        origin = _origin(at)
        if origin in last:
            return last[origin] if final[origin] is at else None
        at = at.all_input_nodes[0] if at.all_input_nodes else None
    return None


def _computes(node: torch.fx.Node) -> bool:
    return node.op == "call_function" and "quantize" not in str(node.target)


def _is_one_of_several(node: torch.fx.Node) -> bool:
    return node.target is operator.getitem and len(node.all_input_nodes[0].users) > 1


def _origin(node: torch.fx.Node) -> str:
    return programs.origin_of(node) or node.name


class IntegerComparison:
    """Accumulates the difference of integers and quantized model over samples, per tensor."""

    def __init__(
        self, converted: torch.fx.GraphModule, pairs: Sequence[Pair], *, is_accelerated: bool
    ) -> None:
        self.pairs, self._seen = pairs, {pair.seen for pair in pairs}
        self._converted = converted
        # A copy of a program with state would keep the first state.
        is_plain = not programs.written_buffers(converted) and not programs.has_control_flow(converted)
        self._tapped = tapped_quantized(converted, self._seen) if is_accelerated and is_plain else None
        self._layouts: dict[str, Layout] = {}
        self._sums = [Accumulator() for _ in pairs]
        self._elements, self._exact, self._most = ([0] * len(pairs) for _ in range(3))

    def add(
        self, inputs: tuple[torch.Tensor, ...], tensors: Mapping[tuple[int, str], np.ndarray[Any, Any]]
    ) -> None:
        """Add the delegates' tensors for one sample."""
        positions = {pair.node.name: position for position, pair in enumerate(self.pairs)}
        for pair, value, real, apart in self._laid_out(inputs, tensors):
            position = positions[pair.node.name]
            self._sums[position].add(value, real)
            self._elements[position] += value.numel()
            self._exact[position] += value.numel() - apart.different
            self._most[position] = max(self._most[position], apart.most)

    def reals(
        self, inputs: tuple[torch.Tensor, ...], tensors: Mapping[tuple[int, str], np.ndarray[Any, Any]]
    ) -> Iterator[tuple[Pair, torch.Tensor, torch.Tensor]]:
        """Yield each pair with the quantized model's values and the real values of the integers."""
        for pair, value, real, _ in self._laid_out(inputs, tensors):
            yield pair, value, real

    def _laid_out(
        self, inputs: tuple[torch.Tensor, ...], tensors: Mapping[tuple[int, str], np.ndarray[Any, Any]]
    ) -> Iterator[tuple[Pair, torch.Tensor, torch.Tensor, _Apart]]:
        """Yield each pair with both values in the quantized model's layout, and how far they are apart.

        The layout of the tensor's sample before is taken where the values are as close as integers of
        the right layout mostly are: finding it takes as long as comparing the values twice.
        """
        values = self._values(inputs)
        for pair in self.pairs:
            codes, value = tensors.get((pair.delegate, pair.name)), values.get(pair.seen)
            if codes is not None and value is not None and codes.size == value.numel():
                real = pair.grid.reals(torch.from_numpy(codes))
                known = self._layouts.get(pair.node.name)
                if known is not None and (laid := known.of(real)).shape == value.shape:
                    apart = _apart(value, laid, pair.grid.scale)
                    if apart.most <= 1:
                        yield pair, value, laid, apart
                        continue
                self._layouts[pair.node.name] = layout = layout_of(real, value)
                laid = layout.of(real)
                yield pair, value, laid, _apart(value, laid, pair.grid.scale)

    def _values(self, inputs: tuple[torch.Tensor, ...]) -> dict[str, torch.Tensor]:
        """Return the values of the quantized model's tensors that are compared."""
        if self._tapped is not None:
            return self._tapped(*inputs)[1]
        values: dict[str, torch.Tensor] = {}

        def see(name: str, value: torch.Tensor) -> None:
            if name in self._seen:
                values[name] = value

        Watched(self._converted, see).run(*inputs)
        return values

    def result(self) -> Iterator[IntegerQuality]:
        """Yield the figures of all compared tensors, in program order."""
        for index, pair in enumerate(self.pairs):
            sums, elements = self._sums[index], self._elements[index]
            if elements:
                yield IntegerQuality(
                    tensor=pair.node.name,
                    module=programs.module_of(pair.node),
                    op=programs.op_of(pair.node),
                    sqnr_db=sums.sqnr_db,
                    cosine=sums.cosine,
                    max_abs_error=sums.worst,
                    max_lsb=self._most[index],
                    exact=self._exact[index] / elements,
                )


class Layout(NamedTuple):
    """How a delegate's tensor lies: a shape, and the order of its axes in the quantized model."""

    shape: tuple[int, ...]
    axes: tuple[int, ...]

    def of(self, integers: torch.Tensor) -> torch.Tensor:
        """Return a delegate's tensor in the layout of the quantized model."""
        return integers.reshape(self.shape).permute(self.axes).contiguous()


def layout_of(integers: torch.Tensor, like: torch.Tensor) -> Layout:
    """Return the layout of a delegate's tensor, given the quantized model's.

    TOSA stores pictures channels last, and operators of the program may be moved across changes of
    layout. Of the layouts with the wanted shape, the one with the smallest difference is used: the
    others are far off.
    """
    shape = tuple(like.shape)
    layouts = [Layout(shape, tuple(range(like.dim())))]
    if like.dim() in {3, 4}:
        layouts += [
            Layout(lying, axes)
            for lying in {(shape[0], *shape[2:], shape[1]), tuple(integers.shape)}
            for axes in itertools.permutations(range(len(lying)))
            if tuple(lying[axis] for axis in axes) == shape
        ]
    return min(layouts, key=lambda layout: float((layout.of(integers) - like).abs().sum()))


class _Apart(NamedTuple):
    """How many elements of two tensors of one grid differ, and the largest difference [LSB]."""

    different: int
    most: int


def _apart(value: torch.Tensor, real: torch.Tensor, step: float) -> _Apart:
    """Return how far two tensors of one grid are apart.

    Values of 16 bits and less, in float32, are within 0.01 steps of their place on the grid.
    """
    different, most = 0, 0.0
    for a, b in blocks(value, real):
        low, high = (float(end) for end in torch.aminmax(b - a))
        if low or high:
            apart = torch.round((b - a) / step)
            different += int(torch.count_nonzero(apart))
            most = max(most, -low, high)
    return _Apart(different, round(most / step))

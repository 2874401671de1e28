"""The outputs of the user's model, from those of the program: joined again, and their parts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from workbench.engine.evaluation.dependence import Variation
from workbench.engine.evaluation.measures import Accumulator, OutputAccumulator
from workbench.engine.fx.modules import source_line
from workbench.engine.fx.output_factors import joining_edges
from workbench.engine.fx.output_parts import OutputOrigin, OutputPiece, in_order
from workbench.engine.fx.program_outputs import outputs_left_out
from workbench.engine.fx.programs import module_of
from workbench.results import (
    ExportResult,
    ModelOutput,
    OutputFill,
    OutputPart,
    OutputPort,
    PartQuality,
    Region,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from workbench.engine.runtime.context import StageContext

    Numbers = NDArray[np.int64]

# A longer name of an output is not shown.
_LONGEST_NAME = 80
# A part of more regions is not described.
_MOST_REGIONS = 256


def output_names(program: torch.export.ExportedProgram) -> list[str]:
    """Return the name of each output that is a tensor, in order.

    Those of nested containers are joined by dots, such as ``head.boxes`` or ``boxes.0``. An output
    without a name, or whose name cannot be shown, is ``output`` and its position.
    """
    signature = program.module_call_graph[0].signature
    assert signature is not None
    left_out = set(outputs_left_out(program))
    names = [name for i, name in enumerate(_leaf_names(signature.out_spec)) if i not in left_out]
    return [
        name if name and name.isprintable() and len(name) <= _LONGEST_NAME and names.count(name) == 1
        else f"output {index}"
        for index, name in enumerate(names)
    ]  # fmt: skip


def _leaf_names(spec: Any, path: Sequence[object] = ()) -> Iterator[str]:
    """Yield the name of each value of a tree; "" where it consists of positions only."""
    if spec.is_leaf():
        yield ".".join(map(str, path)) if any(isinstance(key, str) for key in path) else ""
        return
    children = spec.children()
    for key, child in zip(_keys(spec, len(children)), children, strict=True):
        yield from _leaf_names(child, (*path, key))


def _keys(spec: Any, count: int) -> Sequence[object]:
    """Return the keys or fields of a container; positions where it has none."""
    context = getattr(spec.context, "_fields", spec.context)
    # torch keeps the names of a dataclass beside those of its fields that are None, and a default
    # of a dictionary beside its keys.
    for keys in (context, *(context if isinstance(context, list | tuple) else ())):
        if isinstance(keys, list | tuple) and len(keys) == count and all(isinstance(k, str) for k in keys):
            return keys
    return range(count)


def described(
    known: Sequence[OutputOrigin],
    nodes: Sequence[torch.fx.Node],
    ports: Sequence[Sequence[int]],
    factors: Mapping[int, Sequence[float]],
    names: Sequence[str],
) -> tuple[ModelOutput, ...]:
    """Return the outputs of a model.

    Args:
        known: Where their elements come from.
        nodes: The nodes of the outputs.
        ports: The positions of their parts among the outputs of the program; a single position for
            an output that the program returns as it is.
        factors: By which the parts of outputs are divided, by position of the output.
        names: What the outputs are called.
    """
    return tuple(
        _described(*row, factors.get(index, ()))
        for index, row in enumerate(zip(names, known, nodes, ports, strict=True))
    )


def _described(
    name: str, origin: OutputOrigin, node: torch.fx.Node, ports: Sequence[int], factors: Sequence[float]
) -> ModelOutput:
    value = node.meta["val"]
    dtype = str(value.dtype).removeprefix("torch.")
    plain = ModelOutput(
        name=name,
        shape=tuple(value.shape),
        dtype=dtype,
        position=ports[0] if len(ports) == 1 and not factors else None,
    )
    if not origin.is_joined or not can_be_described(origin):
        nodes = [name for piece in origin.pieces for name in _operations(piece)]
        return plain.model_copy(update={"nodes": tuple(dict.fromkeys(nodes))})
    parts = tuple(_parts(origin, tuple(value.shape)))
    update: dict[str, Any] = {
        "parts": parts if len(parts) > 1 else (),
        "divisible": plain.position is not None and bool(joining_edges(node, origin)),
    }
    if plain.position is None:
        update["ports"] = (
            tuple(_divided(ports[0], *row) for row in zip(parts, factors, strict=True))
            if factors
            else tuple(
                OutputPort(position=port, regions=part.regions)
                for port, part in zip(ports, parts, strict=True)
            )
        )
        update["fills"] = tuple(_fills(origin))
    return plain.model_copy(update=update)


def _divided(position: int, part: OutputPart, factor: float) -> OutputPort:
    """Return a part that the program returns where the model does, divided by a factor."""
    regions = tuple(
        region.model_copy(update={"part_offset": region.offset, "part_strides": region.strides})
        for region in part.regions
    )
    return OutputPort(position=position, regions=regions, factor=factor)


def can_be_described(origin: OutputOrigin) -> bool:
    """Return whether the parts of an output can be told as a few nested loops."""
    try:
        for piece in origin.pieces:
            _regions(origin, piece)
    except _TooManyRegionsError:
        return False
    return len(list(_fills(origin))) <= _MOST_REGIONS


def _parts(origin: OutputOrigin, shape: tuple[int, ...]) -> Iterator[OutputPart]:
    """Yield the parts of an output, in the order of their first elements."""
    pieces = in_order(origin)
    modules = [_layer(piece.root) for piece in pieces]
    for module, piece in zip(modules, pieces, strict=True):
        regions = _regions(origin, piece)
        name = module or piece.root.name
        if modules.count(module) > 1:
            name += _slice(regions, shape) or f" ({piece.root.name})"
        yield OutputPart(
            name=name,
            module=module,
            regions=regions,
            source=source_line(piece.node.meta.get("stack_trace")),
            nodes=tuple(_operations(piece)),
        )


def _layer(node: torch.fx.Node) -> str:
    """Return the module of the nearest operation before a node that has weights.

    The module of the node itself where there is none.
    """
    waiting, seen = [node], {node}
    while waiting:
        current = waiting.pop(0)
        before = current.all_input_nodes
        if any(map(_is_weight, before)) and (module := module_of(current)):
            return module
        waiting += [n for n in before if n not in seen and n.op != "placeholder"]
        seen.update(before)
    return module_of(node)


def _operations(piece: OutputPiece) -> list[str]:
    """Return the operations from the nearest layers to a piece, in the order of the program."""
    members = piece.members or (piece,)
    lasts = [member.root if member.source is None else member.node for member in members]
    waiting, seen = list(lasts), set(lasts)
    while waiting:
        current = waiting.pop()
        if not any(map(_is_weight, current.all_input_nodes)):
            before = [n for n in current.all_input_nodes if n.op != "placeholder" and n not in seen]
            waiting += before
            seen.update(before)
    calls = (node for node in lasts[0].graph.nodes if node.op == "call_function")
    return [node.name for node in calls if node in seen]


def _is_weight(node: torch.fx.Node) -> bool:
    return node.op == "placeholder" and node.name.startswith("p_")


def _slice(regions: Sequence[Region], shape: tuple[int, ...]) -> str:
    """Return the elements as an index of Python, such as ``[:, 0:2]``; "" if they are none."""
    indices = np.unravel_index(np.concatenate([_output_places(r) for r in regions]), shape)
    ranges = [(int(i.min()), int(i.max()) + 1) for i in indices]
    if math.prod(stop - start for start, stop in ranges) != len(indices[0]):
        return ""
    texts = [
        ":" if (start, stop) == (0, size) else f"{start}:{stop}" if stop - start > 1 else f"{start}"
        for (start, stop), size in zip(ranges, shape, strict=True)
    ]
    while texts and texts[-1] == ":":
        texts.pop()
    return f"[{', '.join(texts)}]" if texts else ""


class _TooManyRegionsError(Exception):
    """The elements of a part are no few nested loops."""


def _regions(origin: OutputOrigin, piece: OutputPiece) -> tuple[Region, ...]:
    """Return where the elements of a piece are in the output."""
    owned = (origin.owners == origin.pieces.index(piece)).nonzero().reshape(-1)
    pairs = torch.stack([origin.places[owned], owned], 1).numpy()
    return tuple(_loops(pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]))


def _loops(pairs: NDArray[Any]) -> Iterator[Region]:
    """Yield pairs of places in a part and in the output as nested loops."""
    count = 0
    while len(pairs):
        count += 1
        if count > _MOST_REGIONS:
            raise _TooManyRegionsError
        taken, region = _first_loops(pairs)
        yield region
        pairs = pairs[taken:]


def _first_loops(pairs: NDArray[Any]) -> tuple[int, Region]:
    """Return the largest region of loops that the pairs begin with, and its number of pairs."""
    length, loops = 1, []
    while length < len(pairs):
        whole = len(pairs) // length
        blocks = pairs[: whole * length].reshape(whole, length, 2)
        alike = np.all(blocks - blocks[:, :1] == blocks[:1] - blocks[:1, :1], axis=(1, 2))
        starts = blocks[:, 0]
        if whole < 2 or not alike[1]:
            break
        steps = np.diff(starts, axis=0)
        regular = np.all(steps == steps[0], axis=1) & alike[1:]
        count = 1 + (len(regular) if regular.all() else int(np.argmin(regular)))
        loops.append((count, steps[0]))
        length *= count
    shape = tuple(count for count, _ in reversed(loops))
    return length, Region(
        shape=shape,
        offset=int(pairs[0, 1]),
        strides=tuple(int(step[1]) for _, step in reversed(loops)),
        part_offset=int(pairs[0, 0]),
        part_strides=tuple(int(step[0]) for _, step in reversed(loops)),
    )


def _fills(origin: OutputOrigin) -> Iterator[OutputFill]:
    """Yield the constants of an output, by their value."""
    for index, piece in enumerate(origin.pieces):
        if piece.value is None:
            continue
        owned = (origin.owners == index).nonzero().reshape(-1)
        values = piece.value.reshape(-1)[origin.places[owned]].double()
        for value in values.unique().tolist():
            at = owned[values == value]
            pairs = torch.stack([torch.zeros_like(at), at], 1).numpy()
            yield OutputFill(value=value, regions=tuple(_loops(pairs)))


def _output_places(region: Region) -> Numbers:
    return _places(region.shape, region.offset, region.strides)


def _places(shape: Sequence[int], offset: int, strides: Sequence[int]) -> Numbers:
    places = np.array(offset, dtype=np.int64)
    for size, stride in zip(shape, strides, strict=True):
        places = places[..., None] + np.arange(size, dtype=np.int64) * stride
    return places.reshape(-1)


@dataclass
class ModelOutputs:
    """Turns the outputs of the program into those of the model, and into their parts."""

    exported: ExportResult
    _known: dict[int, torch.Tensor] = field(default_factory=dict)

    @property
    def is_split(self) -> bool:
        """Whether the program returns other outputs than the model."""
        return any(output.position is None for output in self.exported.model_outputs)

    def is_shared(self, index: int) -> bool:
        """Return whether the program returns an output of the model as it is."""
        return self.exported.model_outputs[index].position is not None

    def joined(self, outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the outputs of the model; state behind those of the program stays behind them."""
        if not self.is_split:
            return list(outputs)
        taken = {port.position for o in self.exported.model_outputs for port in o.ports}
        taken |= {o.position for o in self.exported.model_outputs if o.position is not None}
        joined = [
            self._joined(output, outputs)
            for output in self.exported.model_outputs
            if _is_there(output, len(outputs))
        ]
        return [*joined, *(o for i, o in enumerate(outputs) if i not in taken)]

    def _joined(self, output: ModelOutput, outputs: Sequence[torch.Tensor]) -> torch.Tensor:
        if output.position is not None:
            return outputs[output.position]
        whole = torch.zeros(output.shape, dtype=getattr(torch, output.dtype))
        flat = whole.view(-1)
        for fill in output.fills:
            for region in fill.regions:
                flat[self._places(region)] = fill.value
        for port in output.ports:
            values = outputs[port.position].detach().reshape(-1).to(whole.dtype)
            if port.factor != 1.0:
                values = values * port.factor
            for region in port.regions:
                own = _places(region.shape, region.part_offset, region.part_strides)
                flat[self._places(region)] = values[torch.from_numpy(own)]
        return whole

    def as_returned(self, joined: Sequence[torch.Tensor]) -> Any:
        """Return the outputs as the model's code does: a tensor, or a tuple, list or dictionary.

        Without values that are no tensors. Outputs in other containers are a tuple.
        """
        leaves = [tensor.clone() for tensor in joined]
        if len(leaves) == 1 and len(self.exported.model_outputs) == 1:
            return leaves[0]
        if self.exported.structure:
            spec = torch.utils._pytree.treespec_loads(self.exported.structure)  # noqa: SLF001
            if spec.num_leaves == len(leaves):
                return torch.utils._pytree.tree_unflatten(leaves, spec)  # noqa: SLF001
        return tuple(leaves)

    def in_memory(self, ports: Sequence[Mapping[str, Any]]) -> tuple[ModelOutput, ...]:
        """Return the outputs of the model with the places of parts in memory.

        Args:
            ports: The outputs of the program, with shape, and ``dim_order`` if not the default.
        """
        return tuple(
            output.model_copy(
                update={
                    "ports": tuple(
                        port.model_copy(update={"regions": _in_memory(port.regions, ports[port.position])})
                        for port in output.ports
                    )
                }
            )
            for output in self.exported.model_outputs
        )

    def parts(self, joined: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the elements of each part of the model's outputs, in the order of ``names``."""
        return [
            torch.cat([joined[index].reshape(-1)[self._places(r)] for r in part.regions])
            for index, output in enumerate(self.exported.model_outputs[: len(joined)])
            for part in output.parts
        ]

    @property
    def names(self) -> list[tuple[int, str]]:
        """The output and the name of each part."""
        return [
            (index, part.name)
            for index, output in enumerate(self.exported.model_outputs)
            for part in output.parts
        ]

    def _places(self, region: Region) -> torch.Tensor:
        if id(region) not in self._known:
            self._known[id(region)] = torch.from_numpy(_output_places(region))
        return self._known[id(region)]


def _in_memory(regions: Sequence[Region], port: Mapping[str, Any]) -> tuple[Region, ...]:
    """Return regions with the places in a tensor whose dimensions have another order in memory."""
    axes = port.get("dim_order")
    if not axes:
        return tuple(regions)
    shape = port["shape"]
    order = np.arange(math.prod(shape)).reshape([shape[axis] for axis in axes])
    memory = order.transpose(np.argsort(axes)).reshape(-1)
    placed: list[Region] = []
    for region in regions:
        own = memory[_places(region.shape, region.part_offset, region.part_strides)]
        pairs = np.stack([own, _output_places(region)], 1)
        placed += _loops(pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))])
    return tuple(placed)


def _is_there(output: ModelOutput, count: int) -> bool:
    positions = [output.position] if output.position is not None else [port.position for port in output.ports]
    return all(position < count for position in positions)


def model_outputs(context: StageContext) -> ModelOutputs:
    """Return how the outputs of the project's program become those of the model."""
    return ModelOutputs(context.result("export", ExportResult))


_WORST_SAMPLES = 3


class PartTally:
    """Compares a program with the float model at the parts of its outputs, over samples."""

    def __init__(self, outputs: ModelOutputs) -> None:
        self._outputs = outputs
        self._sums = [OutputAccumulator() for _ in outputs.names]
        self._variation = Variation()
        # State behind the outputs of the model has no figures.
        self._seen = 0
        self._low = [math.inf for _ in outputs.names]
        self._high = [-math.inf for _ in outputs.names]
        self._samples: list[list[tuple[float, int]]] = [[] for _ in outputs.names]

    def add(self, sample: int, floats: Sequence[torch.Tensor], program: Sequence[torch.Tensor]) -> None:
        """Add the outputs of both for the sample of a number, as the model returns them."""
        if not self._sums:
            return
        wanted, given = self._outputs.parts(floats), self._outputs.parts(program)
        self._variation.add(wanted, given)
        self._seen = len(wanted)
        for index, (a, b) in enumerate(zip(wanted, given, strict=True)):
            self._sums[index].add(a, b)
            own = Accumulator()
            own.add(a, b)
            decibels = own.output("").decibels
            self._samples[index] = sorted([*self._samples[index], (decibels, sample)])[:_WORST_SAMPLES]
            if a.numel():
                self._low[index] = min(self._low[index], float(a.min()))
                self._high[index] = max(self._high[index], float(a.max()))

    def result(self) -> tuple[PartQuality, ...]:
        """Return the figures of each part."""
        constant = self._variation.constant_positions()
        return tuple(
            PartQuality(
                **self._sums[index].output(name).model_dump(),
                output=output,
                minimum=_finite(self._low[index]),
                maximum=_finite(self._high[index]),
                constant=index in constant,
                shared=self._outputs.is_shared(output),
                worst_samples=tuple(s for db, s in self._samples[index] if db < math.inf),
            )
            for index, (output, name) in enumerate(self._outputs.names[: self._seen])
        )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None

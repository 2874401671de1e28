"""A quantized program in which every quantizer is a switch, run tensor by tensor."""

from __future__ import annotations

import copy
import operator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import fx

from workbench.engine.evaluation.measures import tensors_of
from workbench.engine.evaluation.quick_modules import requantized
from workbench.engine.fx import programs
from workbench.errors import Place, failure

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from workbench.engine.data import Sample


Values = dict[fx.Node, Any]
_NOTHING: Mapping[str, torch.Tensor] = MappingProxyType({})

_PER_TENSOR = torch.ops.quantized_decomposed.quantize_per_tensor.default
_PER_CHANNEL = torch.ops.quantized_decomposed.quantize_per_channel.default
_EXACT = 2**20


class QuantizingToolchain(Protocol):
    """What quantizes a program: a part of a target's torch side."""

    def prepare(self, module: fx.GraphModule, quantizer: Any, /) -> fx.GraphModule:
        """Return the module with the quantizer's observers; the argument may be changed."""
        ...

    def convert(self, module: fx.GraphModule, /, *, fold: bool = True) -> fx.GraphModule:
        """Return the quantized module of a module with observers, which is consumed.

        Without ``fold``, weights stay float and are quantized at every run.
        """
        ...


class SwitchedProgram:
    """A converted program whose dequantize nodes return the quantized or the float value.

    ``switches`` are all dequantize nodes. With all switches on, every value equals that of the
    converted program; with all off, that of the prepared one, with batch norms folded. ``writes``
    are the buffers that the program mutates, by name, with the node of the new value: nothing is
    written here, and buffer values are given to each run.

    Raises:
        WorkbenchError: the program has branches or loops.
    """

    def __init__(self, calibrated: fx.GraphModule, toolchain: QuantizingToolchain) -> None:
        if programs.has_control_flow(calibrated):
            raise failure(
                "Sensitivity does not support models with branches or loops.",
                "Compare configurations in Runs instead.",
                Place(kind="stage", id="sensitivity"),
                code="sensitivity-branches-not-supported",
            )
        self.module = toolchain.convert(copy.deepcopy(calibrated), fold=False)
        written = programs.written_buffers(self.module)
        programs.write_nowhere(self.module)
        self.nodes = list(self.module.graph.nodes)
        named = {node.name: node for node in self.nodes}
        self.writes = {buffer: named[name] for buffer, name in written.items()}
        self.switches = frozenset(n for n in self.nodes if is_node_of(n, "dequantize"))
        self._constants: Values = {}
        self._with_one_scale: Values = {}
        self._find_constants()
        self._followers = {node: list(node.users) for node in self.nodes}

    def run(
        self,
        inputs: tuple[torch.Tensor, ...],
        on: frozenset[fx.Node],
        buffers: Mapping[str, torch.Tensor] = _NOTHING,
    ) -> Values:
        """Return the values of all nodes with the switches ``on`` enabled.

        Args:
            inputs: The program's inputs.
            on: The enabled switches.
            buffers: Values of buffers that differ from the initial ones.
        """
        values: Values = self._source_values(inputs, buffers)
        for node in self.nodes:
            if node not in values:
                values[node] = self.value(node, values, on)
        return values

    def rerun(
        self,
        before: Values,
        changed: Iterable[fx.Node],
        on: frozenset[fx.Node],
        inputs: tuple[torch.Tensor, ...],
        buffers: Mapping[str, torch.Tensor] = _NOTHING,
    ) -> Values:
        """Return the values of all nodes with the switches ``on`` enabled, from an earlier run.

        Args:
            before: The values of the earlier run.
            changed: The switches that differ from that run.
            on: The enabled switches.
            inputs: The program's inputs.
            buffers: Values of buffers that differ from the initial ones.
        """
        due = set(changed)
        values: Values = self._source_values(inputs, buffers)
        for node in self.nodes:
            if node not in values:
                fresh = node in due or (node.op == "get_attr" and node.target in self.writes)
                values[node] = self.value(node, values, on) if fresh else before[node]
            if values[node] is not before[node]:
                due.update(self._followers[node])
        return values

    def _source_values(self, inputs: tuple[torch.Tensor, ...], buffers: Mapping[str, torch.Tensor]) -> Values:
        """Return the values that no node computes."""
        values: Values = {}
        given = iter(inputs)
        for node in self.nodes:
            if node.op == "placeholder":
                values[node] = next(given)
            elif node.op == "get_attr" and node.target in buffers:
                values[node] = buffers[str(node.target)]
        return values

    @contextmanager
    def one_scale(self, weights: Collection[fx.Node]) -> Iterator[None]:
        """Quantize some of ``channel_weights`` with one scale for each tensor in the block."""
        former = self._constants
        for node in set(weights) - self._with_one_scale.keys():
            self._with_one_scale[node] = self._coarser(node)
        self._constants = former | {node: self._with_one_scale[node] for node in weights}
        try:
            yield
        finally:
            self._constants = former

    def channel_weights(self) -> frozenset[fx.Node]:
        """Return the switches of weights and biases with a scale for each of several channels."""
        return frozenset(node for node in self._constants if len(self._channel_scales(node)) > 1)

    def _channel_scales(self, switch: fx.Node) -> torch.Tensor:
        quantize = switch.args[0]
        if not isinstance(quantize, fx.Node) or quantize.target is not _PER_CHANNEL:
            return torch.ones(1)
        assert isinstance(quantize.args[1], fx.Node)
        scales: torch.Tensor = operator.attrgetter(str(quantize.args[1].target))(self.module)
        return scales

    def _coarser(self, switch: fx.Node) -> torch.Tensor:
        """Return a weight or bias rounded with the scale of its largest channel."""
        quantize = switch.args[0]
        assert isinstance(quantize, fx.Node)
        assert isinstance(quantize.args[0], fx.Node)
        weight: torch.Tensor = operator.attrgetter(str(quantize.args[0].target))(self.module)
        low, high = (int(str(end)) for end in quantize.args[4:6])
        scale = float(self._channel_scales(switch).max())
        return torch.round(weight.detach() * (1.0 / scale)).clamp(low, high) * scale

    def is_constant(self, node: fx.Node) -> bool:
        """Return whether a node is an attribute that the program does not mutate."""
        return node.op == "get_attr" and str(node.target) not in self.writes

    def output(self, values: Values) -> Any:
        """Return the output among the values of a run."""
        return values[self.nodes[-1]]

    def value(self, node: fx.Node, values: Values, on: frozenset[fx.Node]) -> Any:
        """Return the value of one node, from those of its arguments, with ``on`` enabled."""
        if node.op == "get_attr":
            return operator.attrgetter(str(node.target))(self.module)
        if node.op == "output":
            return fx.map_arg(node.args[0], values.__getitem__)
        if is_node_of(node, "quantize"):
            return values[node.args[0]]
        if node in self.switches:
            return self._switched(node, values) if node in on else values[node.args[0]]
        args = fx.map_arg(node.args, values.__getitem__)
        kwargs = fx.map_arg(node.kwargs, values.__getitem__)
        assert callable(node.target)
        return node.target(*args, **kwargs)

    def _switched(self, node: fx.Node, values: Values) -> Any:
        if node in self._constants:
            return self._constants[node]
        quantize = node.args[0]
        assert isinstance(quantize, fx.Node)
        value = values[quantize]
        if quantize.target is _PER_TENSOR and _is_plain(quantize, value):
            scale, zero_point, low, high = quantize.args[1:5]
            return requantized(value, (scale, zero_point, low, high), 1.0 / scale, True)
        return self._operator_value(node, value)

    def _operator_value(self, node: fx.Node, value: torch.Tensor) -> Any:
        quantize = node.args[0]
        assert isinstance(quantize, fx.Node)
        parts = []
        for part in (quantize, node):
            read = operator.attrgetter
            parts.append(
                fx.map_arg(part.args[1:], lambda n: read(str(n.target))(self.module))  # noqa: B023
            )
        stored = quantize.target(value, *parts[0], **quantize.kwargs)  # type: ignore[operator]
        return node.target(stored, *parts[1], **node.kwargs)  # type: ignore[operator]

    def _find_constants(self) -> None:
        """Compute quantized weights once."""
        for node in self.switches:
            quantize = node.args[0]
            source = quantize.args[0] if isinstance(quantize, fx.Node) else None
            if isinstance(source, fx.Node) and self.is_constant(source):
                value = operator.attrgetter(str(source.target))(self.module)
                with torch.no_grad():
                    self._constants[node] = self._operator_value(node, value)


def is_node_of(node: fx.Node, what: str) -> bool:
    """Return whether a node is a "quantize" or "dequantize" of any kind."""
    name = getattr(node.target, "__name__", "") if node.op == "call_function" else ""
    return name.startswith(f"{what}_per_")


def _is_plain(quantize: fx.Node, value: torch.Tensor) -> bool:
    """Return whether the fast arithmetic is bit-exact; see the toolchain patches for evaluation."""
    scale, zero_point, low, high = quantize.args[1:5]
    if value.dtype is not torch.float32 or any(isinstance(a, fx.Node) for a in quantize.args[1:5]):
        return False
    held = torch.tensor(scale, dtype=torch.float32).item() == scale
    return bool(held and -_EXACT < low <= zero_point <= high < _EXACT)


Setting = tuple[str, int]


@dataclass
class _Memory:
    """Buffer values by name, and the outputs that are inputs of the next step."""

    buffers: dict[str, torch.Tensor] = field(default_factory=dict)
    carried: tuple[torch.Tensor, ...] = ()


class SwitchedSteps:
    """Runs a switched program sample by sample."""

    def __init__(self, program: SwitchedProgram) -> None:
        self._program = program
        self._memories: dict[Setting, _Memory] = {}
        self._sample: Sample | None = None

    def remembers(self, sample: Sample) -> bool:
        """Return whether a step depends on earlier ones."""
        return bool(self._program.writes or sample.carried)

    def take(self, sample: Sample) -> None:
        """Move to the next sample; reset the state at the start of a sequence."""
        if sample.begins:
            self._memories = {}
        self._sample = sample

    def run(self, setting: Setting, on: frozenset[fx.Node]) -> Values:
        """Return the values of all nodes with the switches ``on`` enabled."""
        memory = self._memories.setdefault(setting, _Memory())
        values = self._program.run(self._inputs(memory), on, memory.buffers)
        self._keep(memory, values)
        return values

    def rerun(
        self, setting: Setting, before: Values, changed: Iterable[fx.Node], on: frozenset[fx.Node]
    ) -> list[torch.Tensor]:
        """Return the program's own outputs with ``on`` enabled; see ``SwitchedProgram.rerun``."""
        memory = self._memories.setdefault(setting, _Memory())
        inputs = self._inputs(memory)
        values = self._program.rerun(before, changed, on, inputs, memory.buffers)
        self._keep(memory, values)
        return self.outputs(values)

    def outputs(self, values: Values) -> list[torch.Tensor]:
        """Return the outputs among the values of a run, without state."""
        assert self._sample is not None
        every = tensors_of(self._program.output(values))
        return every[: len(every) - self._sample.carried]

    def _inputs(self, memory: _Memory) -> tuple[torch.Tensor, ...]:
        assert self._sample is not None
        inputs = self._sample.inputs
        if not memory.carried:
            return inputs
        return (*inputs[: -self._sample.carried], *memory.carried)

    def _keep(self, memory: _Memory, values: Values) -> None:
        assert self._sample is not None
        memory.buffers = {name: values[node] for name, node in self._program.writes.items()}
        every = tensors_of(self._program.output(values))
        memory.carried = tuple(every[len(every) - self._sample.carried :])

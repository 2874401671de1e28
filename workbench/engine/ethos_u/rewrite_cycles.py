"""What the operations that rewrites replaced would cost as they were written, by Vela's estimate.

They are compiled beside the program, side by side and with the same quantizer. Of a convolution
that Vela compiles as one operation for each column, a part of the columns is compiled; the estimate
is in proportion.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from workbench.engine.ethos_u.corrections.batch_norm_folding import made_foldable
from workbench.engine.ethos_u.corrections.graph_writer import constant_of
from workbench.engine.ethos_u.quantization import trial_quantizer
from workbench.engine.ethos_u.rewrites.strides import Axis
from workbench.engine.ethos_u.rewrites.tails import axes_of
from workbench.targets.ethos_u.rewrites import LINEARS, NORMS_FORWARD, PADS, PATCHES, POOL_PADS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from workbench.engine.runtime.context import StageContext
    from workbench.results import AppliedRewrite, VelaOperation

# So many results of an axis with a stride above 3 are compiled.
_COLUMNS, _LARGEST_STRIDE = 32, 3
_LAYOUT = "Transpose"
# What these rewrite is a part of other layers afterwards.
_TAKEN = {LINEARS, NORMS_FORWARD, PADS, POOL_PADS}


@dataclass(frozen=True)
class WrittenPlaces:
    """Operations as they were written, as one quantized program.

    Attributes:
        program: It computes each of them from an input of its own.
        scales: By the name of an operation in it: the places that are written so, with other weights
            only, and how often its cycles count at each.
    """

    program: torch.export.ExportedProgram
    scales: Mapping[str, tuple[tuple[str, ...], float]]


def written_places(context: StageContext, rewrites: Iterable[AppliedRewrite]) -> WrittenPlaces | None:
    """Return the operations that were rewritten, as one program; None if there are none."""
    places = {place for rewrite in rewrites for place in rewrite.places}
    if not places:
        return None
    exported: torch.export.ExportedProgram = context.live("export")
    module = cast("torch.fx.GraphModule", exported.module(check_guards=False))
    nodes = [node for node in module.graph.nodes if node.name in places]
    alike = dict[Any, tuple[_Written, list[str]]]()
    for node in nodes:
        one = _Written.of(module, node)
        alike.setdefault(one.key, (one, []))[1].append(node.name)
    written = [one for one, _ in alike.values()]
    side_by_side = _SideBySide(written)
    # Equal programs have equal estimates, and other random numbers stay what they were.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        inputs = tuple(torch.randn(one.shape) for one in written)
    with torch.no_grad():
        program = torch.export.export(side_by_side, inputs)
        names = [node.name for node in program.graph.nodes if node.op == "call_function"]
        graph = cast("torch.fx.GraphModule", program.module(check_guards=False))
        rules = trial_quantizer(context.opened)
        made_foldable(graph, rules.corrections.get("batch_norm_folding", ()))
        prepared = prepare_pt2e(graph, rules)
        prepared(*inputs)
        quantized = torch.export.export(convert_pt2e(prepared), inputs)
    pairs = zip(names, alike.values(), strict=True)
    return WrittenPlaces(quantized, {name: (tuple(listed), one.scale) for name, (one, listed) in pairs})


def with_cycles(
    rewrites: Sequence[AppliedRewrite],
    written: WrittenPlaces,
    before: Sequence[VelaOperation],
    after: Sequence[VelaOperation],
) -> Iterator[AppliedRewrite]:
    """Yield the rewrites with their cycles; without where Vela compiles one to no operation.

    Patches are without too, and what is made of them: changes of layout before a layer are gone. As it
    was written, an operation may run on the CPU; as it is, it may have the name of a function
    after it.

    Args:
        rewrites: What became of each rewrite.
        written: The operations as they were written.
        before: Vela's operations for ``written``.
        after: Vela's operations for the program.
    """
    # Changes of layout at the inputs and outputs of ``written`` are none of the program.
    as_written = dict[str, float]()
    for operation in before:
        if operation.operator != _LAYOUT and operation.root in written.scales:
            listed, scale = written.scales[operation.root]
            for place in listed:
                as_written[place] = as_written.get(place, 0.0) + scale * operation.cycles
    now = Counter[str]()
    for operation in after:
        now[operation.root] += operation.cycles
    gathered = {place for rewrite in rewrites if rewrite.id == PATCHES for place in rewrite.places}
    for rewrite in rewrites:
        places = set(rewrite.places)
        left = rewrite.id not in _TAKEN and not places <= now.keys()
        if not places or left or gathered & places or not places <= as_written.keys():
            yield rewrite
            continue
        cycles = round(sum(map(as_written.__getitem__, places))), sum(map(now.__getitem__, places))
        yield rewrite.model_copy(update=dict(zip(("cycles_before", "cycles_after"), cycles, strict=True)))


@dataclass(frozen=True)
class _Written:
    """One operation: its operator, its arguments but the first, and the shape of that."""

    target: Any
    arguments: tuple[Any, ...]
    shape: tuple[int, ...]
    scale: float

    @property
    def key(self) -> Any:
        """What the cycles follow from, but for how well the weights are compressed."""
        arguments = [tuple(a.shape) if isinstance(a, torch.Tensor) else repr(a) for a in self.arguments]
        return str(self.target), tuple(arguments), self.shape

    @classmethod
    def of(cls, module: torch.fx.GraphModule, node: torch.fx.Node) -> _Written:
        """Return the operation of a node, over few places where Vela takes each by itself."""
        source: Any = node.args[0]
        shape, scale = list(source.meta["val"].shape), 1.0
        for dim, axis in axes_of(node):
            if axis.stride > _LARGEST_STRIDE and axis.outputs > _COLUMNS:
                shape[dim] = _extent(axis)
                scale *= axis.outputs / _COLUMNS
        arguments = [
            constant_of(module, value) if isinstance(value, torch.fx.Node) else value
            for value in node.args[1:]
        ]
        return cls(node.target, tuple(arguments), tuple(shape), scale)


def _extent(axis: Axis) -> int:
    """Return the extent for so many results."""
    reach = axis.dilation * (axis.kernel - 1) + 1
    return max(1, (_COLUMNS - 1) * axis.stride + reach - 2 * axis.padding)


class _SideBySide(torch.nn.Module):
    def __init__(self, written: Sequence[_Written]) -> None:
        super().__init__()
        self._written = written
        for index, one in enumerate(written):
            for place, value in enumerate(one.arguments):
                if isinstance(value, torch.Tensor):
                    held = torch.nn.Parameter(value.clone(), requires_grad=False)
                    self.register_parameter(f"weight_{index}_{place}", held)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = []
        for index, (one, given) in enumerate(zip(self._written, inputs, strict=True)):
            arguments = [
                getattr(self, f"weight_{index}_{place}", value) for place, value in enumerate(one.arguments)
            ]
            results.append(one.target(given, *arguments))
        return tuple(results)

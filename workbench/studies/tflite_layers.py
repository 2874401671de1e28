"""Match the layers of a program with those of the same network in TensorFlow Lite.

A layer is what one node of the float program, or one operator of TensorFlow Lite, became on the
NPU. Layers with weights are matched by their products and output elements in order, the others
between them by their output elements.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from workbench.studies.tflite import CauseShare, ComparedLayer, LayerCause, LayerSide

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from workbench.results import VelaOperation

_MAIN = "main"
_LAYERS = frozenset({"Conv2D", "DepthwiseConv2D", "FullyConnected", "MatMul", "TransposeConv2D"})
_KINDS: dict[str, LayerCause] = {
    "Transpose": "layout",
    "Reverse": "layout",
    "MemoryCopy": "copy",
    "Concat": "copy",
    "Slice": "copy",
    "Tile": "copy",
    "Rescale": "rescale",
    "Requantize": "rescale",
    "Quantize": "rescale",
    "Cast": "rescale",
    "Pad": "padding",
    "PadV2": "padding",
    "MirrorPad": "padding",
    "AvgPool": "pool",
    "MaxPool": "pool",
    "ReduceSum": "pool",
    "Pool": "pool",
    "LUT": "activation",
    "Table": "activation",
    "Sigmoid": "activation",
    "Tanh": "activation",
    "LeakyRelu": "activation",
    "HardSwish": "activation",
    "Clamp": "activation",
    "Relu": "activation",
    "Relu6": "activation",
    "ReluN1To1": "activation",
}
# A function that is made of more operations than this is one with several ways to compute it.
_SIMPLE = 2
# Sizes of encoded weights differ by the weights themselves; so much more is another encoding.
_MORE = 1.02
_EXTERNAL, _SRAM, _DECODING = "external memory", "SRAM", "weight decoding"


@dataclass(eq=False)
class _Layer:
    """The operations of one layer, in order."""

    key: str
    name: str
    operations: list[VelaOperation] = field(default_factory=list)

    @property
    def cycles(self) -> int:
        return sum(one.cycles for one in self.operations)

    @property
    def main(self) -> list[VelaOperation]:
        return [one for one in self.operations if one.operator in _LAYERS]

    @property
    def outputs(self) -> int:
        """The elements of its output; parts write parts of it."""
        main = self.main
        if main:
            return prod(main[0].output_shape)
        return prod(self.operations[-1].output_shape) if self.operations else 0

    @property
    def size(self) -> tuple[int, int]:
        return sum(one.macs for one in self.main), self.outputs

    def side(self) -> LayerSide:
        last = (self.main or self.operations)[-1]
        return LayerSide(
            name=self.name,
            operators=tuple(one.operator for one in self.operations if one.cycles),
            fused=tuple(one.operator for one in self.operations if not one.cycles),
            cycles=self.cycles,
            macs=sum(one.macs for one in self.operations),
            output_shape=last.output_shape,
            kernel=last.kernel,
        )


def compare_layers(
    ours: Sequence[VelaOperation], theirs: Sequence[VelaOperation]
) -> tuple[ComparedLayer, ...]:
    """Return the layers of both programs, matched, in the order of ``ours``.

    Args:
        ours: Operations of the program; ``root`` is the node of the float program.
        theirs: Operations of the other; ``root`` names the operator of TensorFlow Lite.
    """
    sides = _layers(ours), _layers(theirs)
    in_order = _matched_with_weights(*sides)
    elsewhere = _matched_elsewhere(*sides, in_order)
    rows = list[ComparedLayer]()
    start = (0, 0)
    for pair in [*in_order, (len(sides[0]), len(sides[1]))]:
        between = [side[first:last] for side, first, last in zip(sides, start, pair, strict=True)]
        rows += _between(between[0], between[1], elsewhere)
        if pair[0] < len(sides[0]):
            rows.append(_compared(sides[0][pair[0]], sides[1][pair[1]]))
        start = pair[0] + 1, pair[1] + 1
    return tuple(rows)


def matched_macs(layers: Sequence[ComparedLayer]) -> float:
    """Return the part of the products of both programs that is in layers with a partner."""
    total = matched = 0
    for layer in layers:
        macs = sum(side.macs for side in (layer.ours, layer.theirs) if side is not None)
        total += macs
        matched += macs if layer.ours is not None and layer.theirs is not None else 0
    return matched / total if total else 0.0


def _layers(operations: Sequence[VelaOperation]) -> list[_Layer]:
    """Return the layers; what belongs to no node or module is part of the layer before it."""
    layers = list[_Layer]()
    for one in operations:
        is_added = not one.root or not one.module
        if layers and (is_added or layers[-1].key == one.root):
            layers[-1].operations.append(one)
        else:
            layers.append(_Layer(one.root, one.module or one.operator, [one]))
    # Operations that Vela put before the first layer belong to it.
    if len(layers) > 1 and not layers[0].key:
        before = layers.pop(0).operations
        layers[0].operations[:0] = before
    return layers


def _matched_with_weights(ours: list[_Layer], theirs: list[_Layer]) -> list[tuple[int, int]]:
    """Return the places of layers with weights that are the same in both, in order."""
    places = [[n for n, layer in enumerate(side) if layer.main] for side in (ours, theirs)]
    pairs = _longest(places[0], places[1], lambda a, b: (ours[a].size, theirs[b].size))
    matched, start = list[tuple[int, int]](), (-1, -1)
    for pair in [*pairs, (len(ours), len(theirs))]:
        left = [
            [n for n in side if first < n < last]
            for side, first, last in zip(places, start, pair, strict=True)
        ]
        # A layer that was rewritten has other products, but the same output.
        matched += _longest(left[0], left[1], lambda a, b: (ours[a].outputs, theirs[b].outputs))
        matched += [pair] if pair[0] < len(ours) else []
        start = pair
    return matched


def _matched_elsewhere(
    ours: list[_Layer], theirs: list[_Layer], matched: list[tuple[int, int]]
) -> dict[_Layer, _Layer]:
    """Return partners of the same size that are elsewhere in the order, as branches may be."""
    left = [
        [layer for n, layer in enumerate(side) if layer.main and n not in {pair[at] for pair in matched}]
        for at, side in enumerate((ours, theirs))
    ]
    partners: dict[_Layer, _Layer] = {}
    for layer in left[0]:
        partner = next((one for one in left[1] if one.size == layer.size), None)
        if partner is not None:
            left[1].remove(partner)
            partners[layer] = partner
    return partners


def _longest(
    ours: Sequence[int], theirs: Sequence[int], keys: Callable[[int, int], tuple[Hashable, Hashable]]
) -> list[tuple[int, int]]:
    """Return the longest common subsequence: pairs whose keys are equal, in the order of both."""
    rows, columns = len(ours), len(theirs)
    lengths = [[0] * (columns + 1) for _ in range(rows + 1)]
    equal = [[left == right for left, right in (keys(a, b) for b in theirs)] for a in ours]
    for a in reversed(range(rows)):
        for b in reversed(range(columns)):
            longer = max(lengths[a + 1][b], lengths[a][b + 1])
            lengths[a][b] = lengths[a + 1][b + 1] + 1 if equal[a][b] else longer
    pairs, a, b = list[tuple[int, int]](), 0, 0
    while a < rows and b < columns:
        if equal[a][b]:
            pairs.append((ours[a], theirs[b]))
            a, b = a + 1, b + 1
        elif lengths[a + 1][b] >= lengths[a][b + 1]:
            a += 1
        else:
            b += 1
    return pairs


def _between(
    ours: list[_Layer], theirs: list[_Layer], elsewhere: dict[_Layer, _Layer]
) -> Iterator[ComparedLayer]:
    """Yield the layers between two that were matched."""
    taken = set(elsewhere.values())
    theirs = [layer for layer in theirs if layer not in taken]
    theirs = _without_parts(ours, theirs, elsewhere)
    light = [[n for n, layer in enumerate(side) if not layer.main] for side in (ours, theirs)]
    pairs = _longest(light[0], light[1], lambda a, b: (ours[a].outputs, theirs[b].outputs))
    start = (0, 0)
    for pair in [*pairs, (len(ours), len(theirs))]:
        yield from (_compared(layer, elsewhere.get(layer)) for layer in ours[start[0] : pair[0]])
        yield from (_compared(None, layer) for layer in theirs[start[1] : pair[1]])
        if pair[0] < len(ours):
            yield _compared(ours[pair[0]], theirs[pair[1]])
        start = pair[0] + 1, pair[1] + 1


def _without_parts(ours: list[_Layer], theirs: list[_Layer], elsewhere: dict[_Layer, _Layer]) -> list[_Layer]:
    """Return theirs without the parts of one layer of ours, which become its partner.

    Commands of a compiled file have no layer: those with as many products together as one layer of
    ours are its parts.
    """
    alone = [[layer for layer in side if layer.main and layer not in elsewhere] for side in (ours, theirs)]
    products = [sum(layer.size[0] for layer in side) for side in alone]
    if len(alone[0]) != 1 or len(alone[1]) < 2 or products[0] != products[1]:
        return theirs
    whole, parts = alone[0][0], alone[1]
    joined = _Layer(parts[0].key, parts[0].name, [one for part in parts for one in part.operations])
    elsewhere[whole] = joined
    return [layer for layer in theirs if layer not in parts]


def _compared(ours: _Layer | None, theirs: _Layer | None) -> ComparedLayer:
    sides = [layer.side() if layer is not None else None for layer in (ours, theirs)]
    shares = Counter[LayerCause]()
    for cause, cycles in _shares(ours, theirs):
        shares[cause] += cycles
    return ComparedLayer(
        ours=sides[0],
        theirs=sides[1],
        shares=tuple(CauseShare(cause=c, cycles=n) for c, n in shares.items() if n),
    )


def _shares(ours: _Layer | None, theirs: _Layer | None) -> Iterator[tuple[LayerCause, int]]:
    """Yield the causes of a difference with their cycles, which add up to it."""
    sides = [_by_kind(layer) for layer in (ours, theirs)]
    if ours is None or theirs is None:
        if _MAIN in {*sides[0], *sides[1]} or len(sides[0]) + len(sides[1]) > _SIMPLE:
            yield "missing", sum(layer.cycles * sign for layer, sign in ((ours, 1), (theirs, -1)) if layer)
            return
    elif _is_composed(ours, theirs):
        yield "functions", ours.cycles - theirs.cycles
        return
    for kind in dict.fromkeys([*sides[0], *sides[1]]):
        one, other = (side.get(kind, []) for side in sides)
        difference = sum(o.cycles for o in one) - sum(o.cycles for o in other)
        if one and other and (kind == _MAIN or len(one) == len(other)):
            yield _same_work(one, other), difference
        else:
            yield "split" if kind == _MAIN else _KINDS.get(kind, "elementwise"), difference


def _by_kind(layer: _Layer | None) -> dict[str, list[VelaOperation]]:
    """Return the operations of a layer that take cycles, by what they are."""
    kinds: dict[str, list[VelaOperation]] = {}
    for one in layer.operations if layer is not None else ():
        if one.cycles:
            kinds.setdefault(_MAIN if one.operator in _LAYERS else one.operator, []).append(one)
    return kinds


def _is_composed(ours: _Layer, theirs: _Layer) -> bool:
    """Return whether a function is made of other operations in each of the programs."""
    names = [sorted(o.operator for o in layer.operations if o.cycles) for layer in (ours, theirs)]
    is_long = max(map(len, names)) > _SIMPLE and min(map(len, names)) > 0
    return not ours.main and not theirs.main and is_long and names[0] != names[1]


def _same_work(ours: list[VelaOperation], theirs: list[VelaOperation]) -> LayerCause:
    """Return why operations of one kind take other cycles."""
    slow, fast = sorted((ours, theirs), key=lambda side: -sum(one.cycles for one in side))
    macs = [sum(one.macs for one in side) for side in (slow, fast)]
    if macs[0] != macs[1]:
        return "kernel"
    if len(slow) != len(fast):
        return "split"
    bound = max(slow, key=lambda one: one.cycles).bound
    weights = [sum(one.weight_bytes for one in side) for side in (slow, fast)]
    if bound in {_EXTERNAL, _DECODING} and weights[0] > _MORE * weights[1]:
        return "weights"
    return "memory" if bound in {_EXTERNAL, _SRAM} else "schedule"

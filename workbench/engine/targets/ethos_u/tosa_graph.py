"""The TOSA program of each delegate as a torch-free picture.

Source: the flatbuffer schema of TOSA 1.0, read with the classes that tosa-tools generates from it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tosa.Attribute import Attribute
from tosa.DType import DType
from tosa.Op import Op
from tosa.TosaGraph import TosaGraph

from workbench.engine.targets.ethos_u.vela import Origins, origin_named
from workbench.graph.snapshot import Edge, GraphSnapshot, Node, TensorInfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from workbench.engine.fx.modules import Location

LEVEL = "tosa"
VALUES_SHOWN = 8
_CONSTANTS = ("CONST", "CONST_SHAPE")
_DTYPES = {"FP": "float", "INT": "int", "BF": "bfloat", "BOOL": "bool", "SHAPE": "shape"}


def tosa_snapshot(flatbuffers: Sequence[bytes], origins: Sequence[Origins]) -> GraphSnapshot:
    """Return the operators of all delegates, each in the module that it was translated from.

    The line of Python is told by the lineage: those on record here are of the toolchain's passes.
    An operator is called ``delegate_N/TENSOR`` by the first tensor that it makes, which is also
    what Vela's table calls it.

    Args:
        flatbuffers: The TOSA program of each delegate.
        origins: Where the tensors of each came from, by name.
    """
    nodes: list[Node] = []
    edges: list[Edge] = []
    for number, (flatbuffer, known) in enumerate(zip(flatbuffers, origins, strict=True)):
        reader = _Reader(number, known, grouped=len(flatbuffers) > 1)
        reader.read(TosaGraph.GetRootAs(flatbuffer))
        nodes += reader.nodes
        edges += reader.edges
    return GraphSnapshot(LEVEL, tuple(nodes), tuple(edges))


class _Reader:
    """Collects the operators of one delegate."""

    def __init__(self, number: int, origins: Origins, *, grouped: bool) -> None:
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []
        self._name = f"delegate_{number}"
        self._group = (self._name,) if grouped else ()
        self._origins = origins
        self._tensors: dict[str, TensorInfo] = {}
        self._made: dict[str, tuple[str, int]] = {}
        self._places: dict[str, Location] = {}

    def read(self, graph: Any) -> None:
        """Add every block; branches are blocks of their own, after the one that calls them."""
        for region in _items(graph, "Regions"):
            for block in _items(region, "Blocks"):
                self._add_block(block)

    def _add_block(self, block: Any) -> None:
        for tensor in _items(block, "Tensors"):
            shape = tuple(int(tensor.Shape(k)) for k in range(tensor.ShapeLength()))
            self._tensors[_text(tensor.Name())] = TensorInfo(shape, _dtype(tensor.Type()))
        for shape in _items(block, "Shapes"):
            self._tensors[_text(shape.Name())] = TensorInfo((int(shape.Rank()),), "shape")
        for name in map(_text, _items(block, "Inputs")):
            self._add(name, "placeholder", "input", [name], [])
        for operator in _items(block, "Operators"):
            op = _OPS.get(operator.Op(), "UNKNOWN")
            outputs = [_text(name) for name in _items(operator, "Outputs")]
            inputs = [_text(name) for name in _items(operator, "Inputs")]
            kind = "constant" if op in _CONSTANTS else "call"
            self._add(outputs[0], f"tosa.{op}", kind, outputs, inputs, dict(_attributes(operator)))
        results = [_text(name) for name in _items(block, "Outputs")]
        self._add(f"{_text(block.Name())}_output", "output", "output", [], results)

    def _add(
        self,
        name: str,
        op: str,
        kind: Any,
        outputs: list[str],
        inputs: list[str],
        attrs: dict[str, str] | None = None,
    ) -> None:
        node_id, attrs = f"{self._name}/{name}", attrs or {}
        origin = origin_named(name, self._origins)
        if origin.root and kind == "call":
            attrs["origin"] = origin.root
        place = origin.place
        if kind == "call":
            # What the translation added between two modules stands with what it reads.
            before = [self._places[t] for t in inputs if t in self._places]
            place = place if place.group or not before else before[0]
            self._places.update(dict.fromkeys(outputs, place))
        self.nodes.append(
            Node(node_id, op, kind, origin.place.module, place.call, self._group + place.group,
                 tuple(self._tensors[t] for t in outputs if t in self._tensors), "", attrs)
        )  # fmt: skip
        for position, tensor in enumerate(inputs):
            if tensor in self._made:
                source, output = self._made[tensor]
                self.edges.append(Edge(source, node_id, output, position))
        self._made.update({t: (node_id, k) for k, t in enumerate(outputs)})


_OPS = {value: name for name, value in vars(Op).items() if isinstance(value, int)}
_TYPES = {value: name for name, value in vars(DType).items() if isinstance(value, int)}
_ATTRIBUTES = {value: name for name, value in vars(Attribute).items() if isinstance(value, int)}


def _items(table: Any, name: str) -> Iterator[Any]:
    read = getattr(table, name)
    return (read(index) for index in range(getattr(table, f"{name}Length")()))


def _text(name: bytes | None) -> str:
    return (name or b"").decode("utf-8", "replace")


def _dtype(number: int) -> str:
    """Return ``int8`` for INT8 and ``float32`` for FP32."""
    name = _TYPES.get(number, "unknown")
    start = next((start for start in _DTYPES if name.startswith(start)), "")
    return _DTYPES[start] + name[len(start) :].lower() if start else name.lower()


def _attributes(operator: Any) -> Iterator[tuple[str, str]]:
    """Yield the attributes of an operator by their names in the schema, e.g. stride and pad."""
    name = _ATTRIBUTES.get(operator.AttributeType(), "NONE")
    union = operator.Attribute()
    if name == "NONE" or union is None:
        return
    kind = getattr(import_module(f"tosa.{name}"), name)
    table = kind()
    table.Init(union.Bytes, union.Pos)
    for field in (f for f in vars(kind) if f"{f}AsNumpy" not in vars(kind)):
        if not field[0].isupper() or field.startswith("GetRoot") or _is_technical(field):
            continue
        yield field.lower(), str(getattr(table, field)())
    for field in (f for f in vars(kind) if f"{f}AsNumpy" in vars(kind)):
        values = [str(value) for value in _items(table, field)]
        more = ", …" if len(values) > VALUES_SHOWN else ""
        yield field.lower(), ", ".join(values[:VALUES_SHOWN]) + more


def _is_technical(field: str) -> bool:
    return field == "Init" or field.endswith(("AsNumpy", "Length", "IsNone", "BufferHasIdentifier"))

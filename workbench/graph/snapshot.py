"""A torch-free snapshot of a program: nodes, edges, tensors and modules, and its file format.

The file is columnar JSON: repeated values (operators, module paths, tensors) are stored once in a
table and referenced by index, so that 50,000 nodes load in a fraction of a second.
"""

from __future__ import annotations

import base64
import gc
import json
import struct
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from workbench.errors import Place, failure

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence
    from pathlib import Path


_BYTES = 8


def packed(kind: str, values: Sequence[float]) -> str:
    """Return numbers as a string; ``kind`` is "d" for float64 or "q" for int64."""
    return base64.b64encode(struct.pack(f"<{len(values)}{kind}", *values)).decode()


def unpacked(kind: str, text: str) -> tuple[Any, ...]:
    """Return the numbers in a string, bit-exact.

    Raises:
        ValueError: the string was not created by ``packed``.
    """
    data = base64.b64decode(text, validate=True)
    if len(data) % _BYTES:
        raise ValueError("a list of numbers is truncated")
    return struct.unpack(f"<{len(data) // _BYTES}{kind}", data)


# Number of objects after which a full garbage collection takes milliseconds.
MUCH = 20_000


@contextmanager
def collection_paused() -> Iterator[None]:
    """Disable the cyclic garbage collector while hundreds of thousands of objects are created.

    Every full collection stops all threads for tens of milliseconds and finds nothing: the objects
    are in use, contain no cycles, and are freed by reference counting. If the block made a large
    number of objects, all that is there is then excluded from later collections (``gc.freeze``).
    Not in an engine, which has torch: the programs that its jobs drop have cycles, and would never
    be freed.
    """
    was_on = gc.isenabled()
    gc.disable()
    before = gc.get_count()[0]
    try:
        yield
    finally:
        if was_on:
            if gc.get_count()[0] - before > MUCH and "torch" not in sys.modules:
                gc.freeze()
            gc.enable()


VERSION = 2
FORMAT = "quantization-workbench-graph"

NodeKind = Literal[
    "input",
    "output",
    "call",
    "parameter",
    "constant",
    "delegate",
    "observer",
    "quantize",
    "dequantize",
    "control",
]
KINDS: tuple[NodeKind, ...] = get_args(NodeKind)

T = TypeVar("T", bound="Hashable")


@dataclass(frozen=True, slots=True)
class QParams:
    """Quantization parameters: real = scale * (code - zero_point).

    ``scale`` and ``zero_point`` have one entry per tensor, or one per channel along ``axis``.
    ``qmin`` and ``qmax`` are the used codes: a 4-bit weight in an int8 tensor is -7..7.
    """

    dtype: str
    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    qmin: int
    qmax: int
    axis: int | None

    @property
    def bits(self) -> int:
        """Number of bits of the range of codes, e.g. 8 for -127..127."""
        return max(1, (self.qmax - self.qmin).bit_length())


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Shape, e.g. [1, 3, 224, 224], with symbols for dynamic sizes; dtype; qparams."""

    shape: tuple[int | str, ...]
    dtype: str
    qparams: QParams | None = None

    @property
    def shape_text(self) -> str:
        """The formatted shape, e.g. ``1x3x224x224``; ``scalar`` for an empty shape."""
        return "\u00d7".join(str(size) for size in self.shape) or "scalar"


@dataclass(frozen=True, slots=True)
class Node:
    """One operation. ``module`` is the innermost module's dotted name; ``group`` is its group path.

    ``call`` counts the calls of that module and is part of ``group``, so that a module called twice
    is drawn as two groups. ``source`` is a line of Python, without folders.
    """

    id: str
    op: str
    kind: NodeKind
    module: str = ""
    call: int = 0
    group: tuple[str, ...] = ()
    outputs: tuple[TensorInfo, ...] = ()
    source: str = ""
    attrs: dict[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Edge:
    """A tensor between one node's output and another node's input."""

    source: str
    target: str
    output_index: int = 0
    input_index: int = 0


@dataclass(frozen=True, slots=True)
class Module:
    """A module of the model. ``parameters`` counts the scalars it owns, children included."""

    path: str
    type_name: str
    parent: str
    parameters: int


@dataclass(frozen=True)
class GraphSnapshot:
    """A program at one level, e.g. ``float``, ``prepared``, ``converted`` or ``edge``.

    Nodes are in execution order.
    """

    level: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    modules: tuple[Module, ...] = ()
    version: int = VERSION

    @cached_property
    def nodes_by_id(self) -> dict[str, Node]:
        """Every node by its id."""
        return {node.id: node for node in self.nodes}

    @cached_property
    def modules_by_path(self) -> dict[str, Module]:
        """Every module by its dotted name; the model itself is ``""``."""
        return {module.path: module for module in self.modules}

    @cached_property
    def inputs_of(self) -> dict[str, tuple[Edge, ...]]:
        """The edges into a node, in order of its arguments."""
        by_target: dict[str, list[Edge]] = {}
        for edge in self.edges:
            by_target.setdefault(edge.target, []).append(edge)
        return {
            node_id: tuple(sorted(edges, key=lambda edge: edge.input_index))
            for node_id, edges in by_target.items()
        }

    @cached_property
    def outputs_of(self) -> dict[str, tuple[Edge, ...]]:
        """The edges out of a node."""
        by_source: dict[str, list[Edge]] = {}
        for edge in self.edges:
            by_source.setdefault(edge.source, []).append(edge)
        return {node_id: tuple(edges) for node_id, edges in by_source.items()}

    def node(self, node_id: str) -> Node:
        """Return the node with that id.

        Raises:
            WorkbenchError: there is no such node.
        """
        node = self.nodes_by_id.get(node_id)
        if node is None:
            message = f"No operator '{node_id}' at level {self.level}."
            raise failure(
                message,
                "Choose an operator of the graph.",
                Place(kind="node", id=node_id),
                code="node-unknown",
            )
        return node

    def producers(self, node_id: str) -> tuple[Node, ...]:
        """Return the nodes whose tensors this node reads, in order of its arguments."""
        sources = dict.fromkeys(edge.source for edge in self.inputs_of.get(node_id, ()))
        return tuple(self.nodes_by_id[source] for source in sources)

    def consumers(self, node_id: str) -> tuple[Node, ...]:
        """Return the nodes that read this node's tensors."""
        targets = dict.fromkeys(edge.target for edge in self.outputs_of.get(node_id, ()))
        return tuple(self.nodes_by_id[target] for target in targets)

    def save(self, path: Path) -> None:
        """Write the snapshot as one JSON file."""
        text = json.dumps(_encode(self), ensure_ascii=False, separators=(",", ":"))
        path.write_text(text, encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> GraphSnapshot:
        """Read a snapshot.

        Raises:
            WorkbenchError: no such file, broken JSON, missing or dangling columns, or a file
                that a newer version wrote.
        """
        place = Place(kind="file", id=path.name)
        hint = "Run the stage again to recreate it."
        try:
            with collection_paused():
                raw = json.loads(path.read_text(encoding="utf-8"))
            if raw["format"] != FORMAT:
                raise ValueError(raw["format"])
            version = raw["version"]
            if version > VERSION:
                message = f"The graph was written by a newer version (format {version})."
                raise failure(
                    message, "Update the program or run the stage again.", place, code="graph-version-newer"
                )
            if version < VERSION:
                raise failure("Unsupported graph file version.", hint, place, code="graph-version-older")
            with collection_paused():
                return _decode(raw)
        except OSError as error:
            raise failure(
                "The graph file cannot be read.", hint, place, str(error), code="graph-unreadable"
            ) from error
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
            raise failure(
                "The graph file is damaged.", hint, place, repr(error), code="graph-damaged"
            ) from error


class _Table(dict[T, int]):
    """Assigns an index to every distinct value, in order of first use."""

    def __missing__(self, value: T) -> int:
        self[value] = len(self)
        return self[value]


def _encode(snapshot: GraphSnapshot) -> dict[str, Any]:
    words, groups = _Table[str](), _Table[tuple[str, ...]]()
    tensors, attrs = _Table[TensorInfo](), _Table[tuple[tuple[str, str], ...]]()
    nodes = snapshot.nodes
    index = {node.id: position for position, node in enumerate(nodes)}
    columns = {
        "id": [node.id for node in nodes],
        "op": [words[node.op] for node in nodes],
        "kind": [KINDS.index(node.kind) for node in nodes],
        "module": [words[node.module] for node in nodes],
        "call": [node.call for node in nodes],
        "group": [groups[node.group] for node in nodes],
        "outputs": [[tensors[info] for info in node.outputs] for node in nodes],
        "source": [words[node.source] for node in nodes],
        "attrs": [attrs[tuple(node.attrs.items())] for node in nodes],
    }
    edges, modules = snapshot.edges, snapshot.modules
    return {
        "format": FORMAT,
        "version": VERSION,
        "level": snapshot.level,
        "nodes": columns,
        "edges": {
            "source": [index[edge.source] for edge in edges],
            "target": [index[edge.target] for edge in edges],
            "output_index": [edge.output_index for edge in edges],
            "input_index": [edge.input_index for edge in edges],
        },
        "modules": {
            "path": [module.path for module in modules],
            "type_name": [module.type_name for module in modules],
            "parent": [module.parent for module in modules],
            "parameters": [module.parameters for module in modules],
        },
        "groups": list(groups),
        "attrs": [dict(items) for items in attrs],
        "tensors": [[t.shape, t.dtype, _encode_qparams(t.qparams)] for t in tensors],
        "words": list(words),
    }


def _encode_qparams(q: QParams | None) -> list[Any] | None:
    if q is None:
        return None
    return [q.dtype, packed("d", q.scale), packed("q", q.zero_point), q.qmin, q.qmax, q.axis]


def _decode_qparams(raw: list[Any] | None) -> QParams | None:
    if raw is None:
        return None
    dtype, scale, zero_point, qmin, qmax, axis = raw
    return QParams(dtype, unpacked("d", scale), unpacked("q", zero_point), qmin, qmax, axis)


def _pick(table: Sequence[T], indices: list[int]) -> list[T]:
    if indices and min(indices) < 0:
        raise IndexError(min(indices))
    return [table[index] for index in indices]


def _size(value: object) -> int | str:
    return value if isinstance(value, int) else str(value)


def _decode(raw: dict[str, Any]) -> GraphSnapshot:
    words = [str(word) for word in raw["words"]]
    tensors = [
        TensorInfo(tuple(map(_size, shape)), str(dtype), _decode_qparams(qparams))
        for shape, dtype, qparams in raw["tensors"]
    ]
    groups = [tuple(map(str, group)) for group in raw["groups"]]
    attrs = [{str(name): str(value) for name, value in items.items()} for items in raw["attrs"]]
    columns, links, owners = raw["nodes"], raw["edges"], raw["modules"]
    ids = [str(name) for name in columns["id"]]
    nodes = map(
        Node,
        ids,
        _pick(words, columns["op"]),
        _pick(KINDS, columns["kind"]),
        _pick(words, columns["module"]),
        columns["call"],
        _pick(groups, columns["group"]),
        [tuple(_pick(tensors, outputs)) for outputs in columns["outputs"]],
        _pick(words, columns["source"]),
        [attrs[index] for index in columns["attrs"]],
    )
    edges = map(
        Edge,
        _pick(ids, links["source"]),
        _pick(ids, links["target"]),
        links["output_index"],
        links["input_index"],
    )
    paths, types = map(str, owners["path"]), map(str, owners["type_name"])
    modules = map(Module, paths, types, map(str, owners["parent"]), map(int, owners["parameters"]))
    snapshot = GraphSnapshot(raw["level"], tuple(nodes), tuple(edges), tuple(modules))
    if len(snapshot.nodes_by_id) != len(ids):
        raise ValueError("two nodes share an id")
    return snapshot

"""A float network as source text: inputs, statements of ``forward``, and what it returns."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache

KINDS = ("normal", "uniform", "mask", "ids")
IDS = 11
_ATTRIBUTE = re.compile(r"\bself\.(\w+)")
_HEAD = """\
import math

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
"""
_TAIL = '''

def scaled(model):
    """Give each layer weights that keep signals of order one, and each norm its own figures."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, 0, parameter[0].numel() ** -0.5)
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight)
        if getattr(module, "running_mean", None) is not None:
            module.running_mean.uniform_(-0.5, 0.5)
            module.running_var.uniform_(0.3, 2)
            if module.affine:
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.uniform_(module.bias, -0.5, 0.5)
    return model.eval()


def net():
    torch.manual_seed({seed})
    return scaled(Net()), next(samples())


def samples(seed=1, count=16):
    g = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield ({inputs})
'''


@dataclass(frozen=True)
class Input:
    """An input: its name, shape, and what its values are."""

    name: str
    shape: tuple[int, ...]
    kind: str

    def drawn(self) -> str:
        """Return an expression that draws it with the generator ``g``."""
        if self.kind == "uniform":
            return f"torch.rand({self.shape}, generator=g)"
        if self.kind == "ids":
            return f"torch.randint(0, {IDS}, {self.shape}, generator=g)"
        if self.kind == "mask":
            length = self.shape[-1]
            first = f"torch.arange({length}) < torch.randint(1, {length + 1}, (1,), generator=g)"
            return f"({first}).float().expand({self.shape})"
        return f"torch.randn({self.shape}, generator=g)"


@cache
def assigned(text: str) -> tuple[str, ...]:
    """Return the names that a statement binds, in order; ``v1 *= 2`` binds none."""
    return tuple(node.id for node in _names(text, ast.Store) if id(node) not in _augmented(text))


@cache
def read(text: str) -> frozenset[str]:
    """Return the names that a statement reads or writes into."""
    written = [n.id for n in _names(text, ast.Store) if id(n) in _augmented(text)]
    return frozenset([*(node.id for node in _names(text, ast.Load)), *written])


@cache
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


def _names(text: str, context: type[ast.expr_context]) -> list[ast.Name]:
    nodes = (node for node in ast.walk(_tree(text)) if isinstance(node, ast.Name))
    return [node for node in nodes if isinstance(node.ctx, context)]


def _augmented(text: str) -> set[int]:
    return {id(n.target) for n in ast.walk(_tree(text)) if isinstance(n, ast.AugAssign)}


def renamed(text: str, names: dict[str, str]) -> str:
    """Return a text with other names of values."""
    return re.sub(r"\b[a-z]\d+\b(?!\s*\()", lambda found: names.get(found[0], found[0]), text)


@dataclass(frozen=True)
class Network:
    """A network.

    Attributes:
        seed: Of the weights.
        inputs: In order.
        parts: Lines of ``__init__`` by the attribute that they make.
        statements: Lines of ``forward``.
        outputs: Names that it returns.
        shapes: Shape of each value by its name.
    """

    seed: int
    inputs: tuple[Input, ...]
    parts: dict[str, str]
    statements: tuple[str, ...]
    outputs: tuple[str, ...]
    shapes: dict[str, tuple[int, ...]]

    def as_json(self) -> str:
        """Return the network as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Network:
        """Return the network of a text."""
        given = json.loads(text)
        inputs = tuple(Input(i["name"], tuple(i["shape"]), i["kind"]) for i in given["inputs"])
        shapes = {name: tuple(shape) for name, shape in given["shapes"].items()}
        return cls(
            given["seed"], inputs, given["parts"], tuple(given["statements"]), tuple(given["outputs"]), shapes
        )

    def source(self) -> str:
        """Return the network as a module with ``net`` and ``samples``."""
        body = [line for text in self.statements for line in text.splitlines()]
        names = _ATTRIBUTE.findall("\n".join(body))
        parts = [self.parts[name] for name in self.parts if name in names]
        forward = ", ".join(["self", *(given.name for given in self.inputs)])
        lines = [
            *(f"        {line}" for line in parts),
            "",
            f"    def forward({forward}):",
            *(f"        {line}" for line in body),
            f"        return {', '.join(self.outputs)}",
        ]
        drawn = ", ".join(given.drawn() for given in self.inputs) + ","
        tail = _TAIL.replace("{seed}", str(self.seed)).replace("{inputs}", drawn)
        return _HEAD + "\n".join(lines) + "\n" + tail

    def without_unread(self) -> Network:
        """Return the network without inputs that nothing reads; the first one stays."""
        names = set().union(*map(read, self.statements), self.outputs)
        inputs = tuple(given for given in self.inputs if given.name in names)
        return replace(self, inputs=inputs or self.inputs[:1])


def smaller(network: Network) -> Iterator[Network]:
    """Yield networks that are a step smaller; not all of them run, each has a statement."""
    yield from (found for found in _smaller(network) if found.statements)


def _smaller(network: Network) -> Iterator[Network]:
    yield from _with_later_inputs(network)
    for index in range(len(network.statements) - 1, -1, -1):
        yield from _without(network, index)
    if len(network.outputs) > 1:
        for name in network.outputs:
            outputs = tuple(kept for kept in network.outputs if kept != name)
            yield replace(network, outputs=outputs or (name,)).without_unread()
    for index in range(len(network.statements) - 1, 0, -1):
        if bound := assigned(network.statements[index - 1]):
            kept = network.statements[:index]
            yield replace(network, statements=kept, outputs=bound[:1]).without_unread()


def _with_later_inputs(network: Network) -> Iterator[Network]:
    """Yield networks whose first statements are gone: what they make is an input."""
    for index in range(len(network.statements) - 1, 0, -1):
        kept = network.statements[index:]
        made = {name for text in network.statements[:index] for name in assigned(text)}
        wanted = sorted(made & set().union(*map(read, kept), network.outputs))
        if wanted and all(name in network.shapes for name in wanted):
            inputs = [Input(name, network.shapes[name], "normal") for name in wanted]
            yield replace(network, inputs=(*network.inputs, *inputs), statements=kept).without_unread()


def _without(network: Network, index: int) -> Iterator[Network]:
    """Yield networks without a statement: what it makes is what it reads, or an input."""
    text = network.statements[index]
    kept = network.statements[:index] + network.statements[index + 1 :]
    bound = [name for name in assigned(text) if name in network.shapes]
    if not bound:
        yield replace(network, statements=kept).without_unread()
        return
    known = {*network.shapes, *(given.name for given in network.inputs)}
    for source in sorted(read(text) & known - set(bound)):
        yield _renamed(replace(network, statements=kept), dict.fromkeys(bound, source))
    later = set().union(*map(read, kept[index:]), network.outputs)
    inputs = [Input(n, network.shapes[n], "normal") for n in bound if n in later]
    yield replace(network, inputs=(*network.inputs, *inputs), statements=kept).without_unread()


def _renamed(network: Network, names: dict[str, str]) -> Network:
    statements = tuple(renamed(text, names) for text in network.statements)
    outputs = tuple(dict.fromkeys(names.get(name, name) for name in network.outputs))
    return replace(network, statements=statements, outputs=outputs).without_unread()


def operations_of(network: Network) -> tuple[str, ...]:
    """Return the names of the layers, calls and writes of a network: its kind."""
    found = set()
    for text in network.statements:
        found |= set(re.findall(r"(?<!self)\.(\w+)\(", text))
        found |= {f"{sign}=" for sign in re.findall(r"([-+*/])= ", text)}
        found |= {"[]="} & {"[]=" for _ in re.findall(r"\] = ", text)}
        for name in _ATTRIBUTE.findall(text):
            layer = re.search(r" = nn\.(\w+)", network.parts.get(name, ""))
            found |= {layer[1]} if layer else set()
    return tuple(sorted(found))

"""Random chains of operators, changes of layout and functions, several of them in one network.

``python -m tests.layout_search --seed 1 --count 40 --target ethos-u55-128 --config a8w8`` draws
networks of five chains and compares their delivered programs with their TOSA and the quantized
model. The chains of a network that is not right are tried alone, and those that are not right are
printed. The exit code is 1 if there was one. The same seed draws the same chains.

Vela joins a function with what is before it, changes of layout between them left out: which of the
many orders it gets wrong is found by trying them.
"""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn import functional

from tests.float_search.judge import ENOUGH, Process
from workbench.errors import WorkbenchError

CHAINS = 5
TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
_LARGEST, _MOST_DIMENSIONS = 6000, 6
_SHAPES = (
    ((1,), (3, 4, 6, 8), (4, 6, 8), (4, 6, 8)),
    ((2, 3), (3, 4, 8), (4, 6), (4, 6)),
    ((1, 2, 3), (4, 6, 10), (8, 12, 16)),
    ((2, 4), (8, 12, 24)),
)
_FUNCTIONS = (
    "torch.sigmoid(y)", "torch.tanh(y)", "torch.relu(y)", "y.clamp(-0.3, 0.4)", "functional.gelu(y)",
    "functional.silu(y)", "y.abs()", "functional.elu(y)", "functional.hardswish(y)", "y.square()",
    "functional.leaky_relu(y, 0.1)", "torch.exp(-y.abs())", "functional.relu6(y)", "y.softmax({dim})",
)  # fmt: skip
_JOINED_WITH = ("y", "torch.relu(y)", "y * 0.5", "torch.sigmoid(y)")


class _UnfitError(Exception):
    """A step does not fit the shape it is drawn for."""


@dataclass
class Chain:
    """A chain of statements on ``y``: the shape of its input, its layers and its statements."""

    shape: tuple[int, ...]
    layers: list[str] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)


class _Draft:
    """Draws a chain, step by step, on a value."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        torch.manual_seed(0)
        self.chain = Chain(tuple(self._random.choice(sizes) for sizes in self._random.choice(_SHAPES)))
        self._layers: list[nn.Module] = []
        self._value = torch.randn(self.chain.shape)

    def draw(self) -> Chain:
        """Return the chain.

        Raises:
            _UnfitError: a step does not fit, or the result is constant.
        """
        self._operator()
        self._layouts(1, 3)
        self._function()
        if self._random.random() < 0.6:
            self._layouts(0, 2)
            for step in (self._operator, self._function):
                if self._random.random() < 0.6:
                    step()
        if self._value.numel() < 4 or float(self._value.std()) < 1e-3:
            raise _UnfitError
        return self.chain

    def _add(self, expression: str) -> None:
        names = {"torch": torch, "functional": functional, "layers": self._layers, "y": self._value}
        try:
            value = eval(expression, names)
        except (RuntimeError, IndexError, ValueError) as error:
            raise _UnfitError from error
        if not 1 < value.numel() < _LARGEST or value.dim() > _MOST_DIMENSIONS:
            raise _UnfitError
        self._value = value
        self.chain.statements.append(f"y = {expression}")

    def _layer(self, constructor: str) -> None:
        self._layers.append(eval(constructor, {"nn": nn}))
        self.chain.layers.append(constructor)
        self._add(f"layers[{len(self._layers) - 1}](y)")

    def _dim(self, *, least: int = 1) -> int:
        dims = [dim for dim, size in enumerate(self._value.shape) if size >= least]
        if not dims:
            raise _UnfitError
        return self._random.choice(dims)

    def _operator(self) -> None:
        shape, dim = self._value.shape, self._dim()
        steps = {
            "linear": lambda: self._layer(f"nn.Linear({shape[-1]}, {self._random.choice((8, 12, 24, 48))})"),
            "sum": lambda: self._add(f"y.sum({dim}, keepdim={self._random.random() < 0.5})"),
            "mean": lambda: self._add(f"y.mean({dim}, keepdim={self._random.random() < 0.5})"),
            "largest": lambda: self._add(f"y.amax({dim}, keepdim={self._random.random() < 0.5})"),
            "product": lambda: self._add(f"y * y.mean({dim}, keepdim=True)"),
            "broadcast": lambda: self._add(f"y + torch.tanh(y.sum({dim}, keepdim=True))"),
            "matmul": lambda: self._add("y @ y.transpose(-1, -2)"),
        }
        names = [*steps, "linear", "linear"]
        if len(shape) == 4:
            size, kernel = self._random.choice((8, 12, 16, 24)), self._random.choice((1, 3))
            steps["conv"] = lambda: self._layer(f"nn.Conv2d({shape[1]}, {size}, {kernel})")
            steps["pool"] = lambda: self._add("functional.max_pool2d(y, 2)")
            names += ["conv", "conv", "conv", "pool"]
        steps[self._random.choice(names)]()

    def _layouts(self, least: int, most: int) -> None:
        for _ in range(self._random.randint(least, most)):
            step = self._random.choice((self._split, self._permuted, self._part, self._joined, self._other))
            step()

    def _split(self) -> None:
        shape, dim = list(self._value.shape), self._dim(least=4)
        factors = [size for size in range(2, shape[dim]) if shape[dim] % size == 0]
        if not factors:
            raise _UnfitError
        size = self._random.choice(factors)
        sizes = [*shape[:dim], size, shape[dim] // size, *shape[dim + 1 :]]
        self._add(f"y.reshape({', '.join(map(str, sizes))})")

    def _permuted(self) -> None:
        dims = list(range(self._value.dim()))
        self._random.shuffle(dims)
        self._add(f"y.permute({', '.join(map(str, dims))})")

    def _part(self) -> None:
        dim = self._dim(least=2)
        size = self._value.shape[dim]
        start = self._random.randrange(size - 1)
        self._add(
            self._random.choice(
                (
                    f"y.narrow({dim}, {start}, {self._random.randint(1, size - start)})",
                    f"y.select({dim}, {start})",
                    f"y.select({dim}, 0) * y.select({dim}, 1)",
                    f"y[{':, ' * dim}{start % 2}::2]",
                )
            )
        )

    def _joined(self) -> None:
        dim = self._dim()
        other = self._random.choice(_JOINED_WITH)
        self._add(
            self._random.choice(
                (
                    f"torch.cat([y, {other}], {dim})",
                    f"torch.cat([{other}, y], {dim})",
                    "functional.pad(y, (1, 1))",
                )
            )
        )

    def _other(self) -> None:
        dim = self._dim()
        steps = (
            f"y.flip({dim})",
            f"torch.roll(y, 1, {dim})",
            f"y.unsqueeze({dim})",
            f"y.flatten({dim - 1}, {dim})",
        )
        self._add(self._random.choice(steps[: 4 if dim else 3]))

    def _function(self) -> None:
        self._add(self._random.choice(_FUNCTIONS).format(dim=self._dim()))


def drawn(seed: int) -> Chain:
    """Return the chain of a seed."""
    for attempt in range(1000):
        try:
            return _Draft(seed * 1000 + attempt).draw()
        except _UnfitError:
            continue
    raise WorkbenchError(f"No chain fits seed {seed}.")


def source(chains: list[Chain]) -> str:
    """Return the module of a network that computes chains, each of an input of its own."""
    lines = ["import torch", "from torch import nn", "from torch.nn import functional", "", ""]
    for number, chain in enumerate(chains):
        lines += [f"def chain{number}(layers, y):", *(f"    {text}" for text in chain.statements)]
        lines += ["    return y", "", ""]
    layers = ", ".join(f"nn.ModuleList([{', '.join(chain.layers)}])" for chain in chains)
    calls = ", ".join(f"chain{number}(self.parts[{number}], x[{number}])" for number in range(len(chains)))
    return "\n".join(lines) + _NETWORK.format(layers=layers, calls=calls, shapes=[c.shape for c in chains])


_NETWORK = """class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([{layers}])

    def forward(self, *x):
        return {calls},


def net():
    torch.manual_seed(0)
    return Network().eval(), next(samples())


def samples(seed=1, count=16):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield tuple(torch.randn(shape, generator=generator) for shape in {shapes})
"""


def outcome(product: Process, chains: list[Chain], target: str, config: str) -> str:
    """Return "right", or what is wrong with the program of chains."""
    try:
        answer = product("answer", source(chains), target, config, deliver=True)
    except RuntimeError as error:
        return f"crashed: {str(error).strip().splitlines()[-1]}"
    if answer["refused"]:
        code, _, message, _ = answer["refused"][0]
        return f"refused {code}: {message.splitlines()[0]}"
    return str(answer["verdict"])


def main(arguments: list[str] | None = None) -> int:
    """Draw and judge networks; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=40, help="networks of five chains")
    parser.add_argument("--target", choices=TARGETS, default=TARGETS[0])
    parser.add_argument("--config", choices=tuple(ENOUGH), default="a8w8")
    options = parser.parse_args(arguments)
    product, wrong = Process("tests.float_search.product"), 0
    first = options.seed * 1_000_000
    try:
        for seed in range(first, first + CHAINS * options.count, CHAINS):
            chains = [drawn(seed + number) for number in range(CHAINS)]
            if outcome(product, chains, options.target, options.config) == "right":
                continue
            for number, chain in enumerate(chains):
                word = outcome(product, [chain], options.target, options.config)
                if word != "right":
                    wrong += 1
                    text = "; ".join(chain.statements)
                    print(f"{seed + number} {word}\n    {chain.shape} {chain.layers}\n    {text}", flush=True)
    finally:
        product.close()
    print(f"{CHAINS * options.count - wrong} of {CHAINS * options.count} chains are right.")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())

"""Draws a network of a seed: statement by statement, each run by eager PyTorch as it is drawn."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.float_search.networks import Input, Network, assigned, read

MOST_ELEMENTS = 4000
_MOST, _LEAST = 12.0, 0.02
_TRIES = 60
_LAYOUTS = ("image", "image", "image", "image", "signal", "signal", "tokens", "tokens", "vector")
_SIZES = (4, 5, 6, 7, 8, 9, 10, 12)


class Unfit(Exception):
    """A statement does not fit the value that it is drawn for."""


class Draft:
    """A network under construction, with the values of one run."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.inputs: list[Input] = []
        self.parts: dict[str, str] = {}
        self.statements: list[str] = []
        self.holder = nn.Module()
        self.values: dict[str, Any] = {}
        self._generator = torch.Generator().manual_seed(seed)
        self._names = 0

    def one(self, *options: Any) -> Any:
        """Return one of some options."""
        return self.random.choice(options)

    def chance(self, share: float) -> bool:
        """Return True in a share of the cases."""
        return self.random.random() < share

    def fresh(self) -> str:
        """Return a name that no value has."""
        self._names += 1
        return f"v{self._names}"

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a value."""
        return tuple(self.values[name].shape)

    def part(self, prefix: str, constructor: str, *, shared: float = 0.15) -> str:
        """Return the attribute of a layer: a new one, or an equal one that there is."""
        for name, line in self.parts.items():
            if line == f"self.{name} = {constructor}" and self.chance(shared):
                return f"self.{name}"
        name = f"{prefix}{1 + sum(known.startswith(prefix) for known in self.parts)}"
        setattr(self.holder, name, scaled(eval(constructor, _scope())))
        self.parts[name] = f"self.{name} = {constructor}"
        return f"self.{name}"

    def constant(self, expression: str) -> str:
        """Return the attribute of a new buffer."""
        name = f"k{1 + sum(known.startswith('k') for known in self.parts)}"
        self.holder.register_buffer(name, eval(expression, _scope()))
        self.parts[name] = f'self.register_buffer("{name}", {expression})'
        return f"self.{name}"

    def input(self, shape: Sequence[int], kind: str = "normal") -> str:
        """Return the name of a new input."""
        name = f"x{len(self.inputs) + 1}"
        self.inputs.append(Input(name, tuple(shape), kind))
        scope = _scope() | {"g": self._generator}
        self.values[name] = eval(self.inputs[-1].drawn(), scope)
        return name

    def floats(self) -> list[str]:
        """Return the names of the float values."""
        return [name for name, value in self.values.items() if _is_float(value)]

    def other(self, name: str, *, same: bool = False) -> str:
        """Return a value that broadcasts with one, or equals its shape: an old or a new one."""
        shape = self.shape(name)
        fitting = [
            known for known in self.floats() if known != name and _fits(self.shape(known), shape, same=same)
        ]
        if fitting and self.chance(0.7):
            return str(self.one(*fitting[-4:]))
        if same or self.chance(0.5):
            return self.constant(f"torch.randn{shape if len(shape) != 1 else (shape[0],)}")
        thin = tuple(n if self.chance(0.5) else 1 for n in shape)
        return self.constant(f"torch.randn({thin})")

    def add(self, texts: Sequence[str]) -> None:
        """Run statements and keep them.

        Raises:
            Unfit: eager PyTorch refuses them, or a value is not of order one.
        """
        scope = {**_scope(), **self.values, "self": self.holder}
        with torch.no_grad():
            for text in texts:
                exec(text, scope)
        bound = [name for text in texts for name in assigned(text)]
        values = {name: scope[name] for name in (*self.values, *bound)}
        for name, value in values.items():
            if name[0] in "xv" and _is_float(value):
                _check(value)
        self.values = {n: v for n, v in values.items() if isinstance(v, torch.Tensor)}
        self.statements += texts

    def copy(self) -> tuple[Any, ...]:
        """Return what a statement that fails may have changed."""
        values = {}
        memory: dict[int, torch.Tensor] = {}
        for name, value in self.values.items():
            base = value if value._base is None else value._base
            held = memory.setdefault(id(base), base.clone())
            values[name] = (base, held)
        kept = (list(self.inputs), dict(self.parts), list(self.statements), self._names)
        return values, dict(self.values), kept

    def restore(self, copied: tuple[Any, ...]) -> None:
        """Take back what a statement has changed."""
        values, self.values, (self.inputs, self.parts, self.statements, self._names) = copied
        with torch.no_grad():
            for base, held in values.values():
                base.copy_(held)


def _scope() -> dict[str, Any]:
    return {"torch": torch, "nn": nn, "F": F, "math": math}


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32


def _fits(shape: tuple[int, ...], with_: tuple[int, ...], *, same: bool) -> bool:
    if same:
        return shape == with_
    try:
        joined = torch.broadcast_shapes(shape, with_)
    except RuntimeError:
        return False
    return math.prod(joined) <= MOST_ELEMENTS


def _check(value: torch.Tensor) -> None:
    if not 0 < value.numel() <= MOST_ELEMENTS or not bool(torch.isfinite(value).all()):
        raise Unfit
    size = float(value.square().mean().sqrt())
    if not _LEAST < size < _MOST or float(value.abs().max()) > 10 * _MOST:
        raise Unfit


def scaled(module: nn.Module) -> nn.Module:
    """Give a layer the weights of ``scaled`` in a network's source, up to the random numbers."""
    if not isinstance(module, nn.Module):
        return module
    for parameter in module.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, 0, parameter[0].numel() ** -0.5)
    for part in module.modules():
        if isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight)
    return module.eval()


def _first_input(draft: Draft) -> None:
    layout = draft.one(*_LAYOUTS)
    batch = [draft.one(1, 1, 1, 1, 2, 3)] if draft.chance(0.92) else []
    size = [draft.one(*_SIZES) for _ in range(3)]
    channels = draft.one(1, 2, 3, 4, 6, 8)
    shape = {
        "image": [channels, size[0], size[1]],
        "signal": [channels, 2 * size[0]],
        "tokens": [size[0], draft.one(4, 6, 8, 12)],
        "vector": [draft.one(4, 6, 7, 8, 16)],
    }[layout]
    name = draft.input([*batch, *shape], draft.one("normal", "normal", "normal", "uniform"))
    if draft.chance(0.15):
        draft.input(draft.shape(name))


def _outputs(draft: Draft) -> tuple[str, ...]:
    """Return the last value, and sometimes others or an input that was written."""
    bound = [n for text in draft.statements for n in assigned(text) if n in draft.floats()]
    bound = [name for name in dict.fromkeys(bound) if _varies(draft, name)]
    if not bound:
        raise Unfit
    used = set().union(*map(read, draft.statements))
    ends = [name for name in bound[:-1] if name not in used and draft.chance(0.7)]
    names = [*ends[-2:], bound[-1]]
    if len(bound) > 1 and draft.chance(0.15):
        names.append(draft.one(*bound[:-1]))
    draft.random.shuffle(names)
    return tuple(names)


def _varies(draft: Draft, name: str) -> bool:
    value = draft.values[name]
    return value.numel() > 1 and float(value.std()) > _LEAST


def drawn(seed: int, operations: Sequence[tuple[float, Any]]) -> Network:
    """Return the network of a seed.

    Args:
        seed: The same seed gives the same network, with the same torch.
        operations: Weights, and functions of a draft and a value that return statements.
    """
    for attempt in range(1000):
        draft = Draft(seed * 1000 + attempt)
        torch.manual_seed(seed)
        _first_input(draft)
        try:
            _fill(draft, operations)
            outputs = _outputs(draft)
        except Unfit:
            continue
        shapes = {name: draft.shape(name) for name in draft.floats()}
        network = Network(seed, tuple(draft.inputs), draft.parts, tuple(draft.statements), outputs, shapes)
        return network.without_unread()
    raise AssertionError(f"no network for seed {seed}")


def _fill(draft: Draft, operations: Sequence[tuple[float, Any]]) -> None:
    weights, functions = zip(*operations, strict=True)
    wanted = draft.random.randint(1, 6)
    tries = done = 0
    while done < wanted:
        tries += 1
        if tries > _TRIES:
            raise Unfit
        names = draft.floats()
        source = names[-1] if draft.chance(0.8) else draft.one(*names)
        function = draft.random.choices(functions, weights)[0]
        copied = draft.copy()
        try:
            texts = function(draft, source)
            draft.add([texts] if isinstance(texts, str) else texts)
        except (Unfit, RuntimeError, ValueError, TypeError, IndexError, AssertionError):
            draft.restore(copied)
        except (NotImplementedError, ZeroDivisionError, AttributeError):
            draft.restore(copied)
        else:
            done += 1

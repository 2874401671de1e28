"""One node of an ONNX graph as its converter sees it, and the module that it becomes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode


class NotConvertedError(ValueError):
    """A node of an ONNX graph has no equal in torch; ``str()`` says which and why."""


# The most elements of a tensor: larger ones are a mistake, or an attack on the memory.
MAX_ELEMENTS = 1 << 28


def refuse_large(function: Callable[..., Any], arguments: Sequence[torch.Tensor]) -> None:
    """Raise for a result that is too large, before memory or time is taken for it.

    Raises:
        NotConvertedError: An input or a result has more than ``MAX_ELEMENTS`` elements.
    """
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        results = function(*(mode.from_tensor(value.detach()) for value in arguments))
    results = results if isinstance(results, tuple | list) else (results,)
    for value in (*arguments, *results):
        if value.numel() > MAX_ELEMENTS:
            raise NotConvertedError(
                f"a tensor of it has {value.numel():,} elements, more than {MAX_ELEMENTS:,}"
            )


# What a node becomes: a module and the inputs of the node that it takes, or a value.
Converted: TypeAlias = tuple[nn.Module, tuple[int, ...]] | torch.Tensor


class Function(nn.Module):
    """A function of the tensors that a node takes; constants among them are kept here.

    Args:
        function: Takes all operands in order.
        operands: A tensor for each constant, None for each tensor that ``forward`` is given.
    """

    def __init__(self, function: Callable[..., Any], operands: Sequence[torch.Tensor | float | None]) -> None:
        super().__init__()
        self._function, self._slots = function, [self._slot(o) for o in operands]
        for position, value in enumerate(operands):
            if isinstance(value, nn.Parameter):
                self.register_parameter(f"constant_{position}", value)
            elif isinstance(value, torch.Tensor):
                self.register_buffer(f"constant_{position}", value)

    @staticmethod
    def _slot(operand: torch.Tensor | float | None) -> float | bool | None:
        """Return True for a tensor that is kept, None for one that is given, or the number."""
        return True if isinstance(operand, torch.Tensor) else operand

    def forward(self, *tensors: torch.Tensor) -> Any:
        """Return the function of the given tensors and of the constants."""
        rest = iter(tensors)
        operands = [
            getattr(self, f"constant_{position}") if slot is True else next(rest) if slot is None else slot
            for position, slot in enumerate(self._slots)
        ]
        return self._function(*operands)


@cache
def _kind(operator: str) -> type[Function]:
    """Return a class that is named after an operator: rules choose modules by their type."""
    return type(operator, (Function,), {"__module__": "onnx"})


@dataclass
class Call:
    """A node with the values of its inputs for the example inputs of the model.

    ``values[i]`` is None for an input that is left out; ``constants[i]`` is None too for one that
    depends on the model's inputs. ``consumers`` are the operators that take the first output.
    """

    operator: str
    name: str
    version: int
    attributes: dict[str, Any]
    values: list[torch.Tensor | None]
    constants: list[torch.Tensor | None]
    outputs: int = 1

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute."""
        return self.attributes.get(name, default)

    def has(self, position: int) -> bool:
        """Return whether an input is given."""
        return position < len(self.values) and self.values[position] is not None

    def value(self, position: int = 0) -> torch.Tensor:
        """Return an input for the example inputs.

        Raises:
            NotConvertedError: The node does not have the input.
        """
        value = self.values[position] if position < len(self.values) else None
        if value is None:
            raise NotConvertedError(f"input {position} is missing")
        return value

    def constant(self, position: int) -> torch.Tensor | None:
        """Return an input that does not depend on the model's inputs, else None."""
        return self.constants[position] if position < len(self.constants) else None

    def known(self, position: int, what: str) -> torch.Tensor:
        """Return an input that must not depend on the model's inputs.

        Raises:
            NotConvertedError: It does.
        """
        value = self.constant(position)
        if value is None:
            raise NotConvertedError(f"its {what} depends on the data")
        return value

    def integers(self, position: int, name: str, default: Any = None) -> Any:
        """Return integers that are an attribute in early operator sets and an input in later ones.

        Raises:
            NotConvertedError: They depend on the data.
        """
        if name in self.attributes:
            return self.attributes[name]
        if not self.has(position):
            return default
        return [int(v) for v in self.known(position, name).reshape(-1).tolist()]

    def axis(self, default: int, rank: int | None = None) -> int:
        """Return the attribute ``axis`` from 0 on."""
        rank = self.value().dim() if rank is None else rank
        return int(self.get("axis", default)) % max(rank, 1)

    def module(self, module: nn.Module, *positions: int) -> Converted:
        """Return a module that takes these inputs, by default the first one."""
        return module, positions or (0,)

    def function(self, function: Callable[..., Any], *positions: int) -> Converted:
        """Return a module that applies a function to these inputs, by default to the first one."""
        chosen = positions or (0,)
        operands = [self._operand(p, chosen) for p in chosen]
        read = tuple(p for p in chosen if self.constant(p) is None)
        if not read:
            return self.evaluated(function, chosen)
        return _kind(self.operator)(function, operands), read

    def evaluated(self, function: Callable[..., Any], chosen: Sequence[int]) -> Converted:
        """Return the value of a function of constants."""
        refuse_large(function, [self.value(p) for p in chosen])
        with torch.no_grad():
            result = function(*(self.value(p) for p in chosen))
        if not isinstance(result, torch.Tensor):
            raise NotConvertedError("it has several outputs that do not depend on the inputs")
        return result

    def _operand(self, position: int, chosen: Sequence[int]) -> torch.Tensor | float | None:
        """Return a constant: as a number where that has the same result, as models have it."""
        constant = self.constant(position)
        if constant is None or self.operator not in _TAKE_NUMBERS or constant.numel() != 1:
            return constant
        others = [self.value(p) for p in chosen if p != position]
        is_plain = constant.dtype == torch.float32 and all(
            other.dtype == torch.float32 and other.dim() >= constant.dim() for other in others
        )
        return float(constant) if is_plain and position == chosen[-1] else constant


_TAKE_NUMBERS = frozenset({"Add", "Sub", "Mul", "Div", "Pow"})


def identifier(name: str) -> str:
    """Return a name that a module can have."""
    text = re.sub(r"\W+", "_", name).strip("_")[:80] or "node"
    is_taken = hasattr(nn.Module, text) or hasattr(torch.fx.GraphModule, text) or text == "training"
    return f"{text}_" if is_taken else text

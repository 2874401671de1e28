"""Description of the result of every operator that a model executes, to find it in a graph."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_CLOSE = 1e-4


@dataclass(frozen=True)
class Recorded:
    """A tensor that an operator returned, or wrote.

    Attributes:
        shape: Its shape.
        line: File and line of the user's code that called the operator; "" if unknown.
        operator: Name of the operator.
        sums: The sums of its elements, of their magnitudes, and of its elements weighted with
            their positions.
    """

    shape: tuple[int, ...]
    line: str
    operator: str
    sums: tuple[float, float, float]

    def equals(self, other: Recorded) -> bool:
        """Return whether two tensors are equal, as far as the sums tell, but for roundings."""
        room = _CLOSE * self.sums[1] + 1e-9
        return self.shape == other.shape and all(
            a == b or abs(a - b) <= room for a, b in zip(self.sums, other.sums, strict=True)
        )


def described(tensor: torch.Tensor, line: str, operator: str) -> Recorded:
    """Return the description of a tensor."""
    values = tensor.detach().double().reshape(-1).nan_to_num(0.0, 1e30, -1e30)
    ramp = torch.linspace(0.0, 1.0, values.numel(), dtype=torch.float64)
    sums = (float(values.sum()), float(values.abs().sum()), float(values @ ramp))
    return Recorded(tuple(tensor.shape), line, operator, sums)


@contextmanager
def recording(operators: list[Recorded], *, when: bool) -> Iterator[None]:
    """Append the description of what each operator inside the block returns or writes."""
    if not when:
        yield
        return
    with _Recorder(operators):
        yield


class _Recorder(TorchDispatchMode):
    def __init__(self, operators: list[Recorded]) -> None:
        super().__init__()
        self._operators = operators

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        del types
        result = func(*args, **(kwargs or {}))
        line = _user_line(sys._getframe(1))  # noqa: SLF001 - the frames of the caller
        for tensor in result if isinstance(result, tuple | list) else (result,):
            is_plain = isinstance(tensor, torch.Tensor) and not tensor.is_complex()
            if is_plain and not tensor.is_nested:
                self._operators.append(described(tensor, line, str(func)))
                # A write into a view changes the tensor that it is a view of.
                if tensor._base is not None:  # noqa: SLF001 - no public name
                    self._operators.append(described(tensor._base, line, str(func)))  # noqa: SLF001
        return result


def _user_line(frame: FrameType | None) -> str:
    """Return ``file.py, line 12`` of the innermost frame outside of torch and this program."""
    own = str(Path(__file__).parents[1])
    while frame is not None:
        name = frame.f_code.co_filename
        if "/torch/" not in name and not name.startswith(("<", own)) and "contextlib" not in name:
            return f"{Path(name).name}, line {frame.f_lineno}"
        frame = frame.f_back
    return ""

"""Samples, streams of samples, and the conversion of values to a model's input."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from workbench.errors import Place, failure

if TYPE_CHECKING:
    from workbench.results import TensorSpec


@dataclass(frozen=True)
class Sample:
    """One set of inputs in the model's shapes, and its class if known.

    ``truth`` is the label as it was given, which need not be a class; None without one. ``file`` is
    the path of a picture in its folder, "" for other samples.
    ``begins`` marks the first sample of a sequence: the program's state is reset. Except for that
    sample, the last ``carried`` inputs are the last outputs for the previous sample.
    """

    index: int
    inputs: tuple[torch.Tensor, ...]
    label: int | None
    begins: bool = False
    carried: int = 0
    truth: Any = None
    file: str = ""


@dataclass(frozen=True)
class Samples:
    """A finite, repeatable stream; ``count`` is None if only known at its end.

    ``spell`` is set if samples are tokens of a text: it returns the text of a token id.
    ``held_out`` is whether calibration does not see them.
    """

    name: str
    count: int | None
    open: Callable[[], Iterator[Sample]]
    spell: Callable[[int], str] | None = None
    held_out: bool = False

    def __iter__(self) -> Iterator[Sample]:
        return self.open()


def wrong(option: str, message: str, hint: str = "", *, code: str) -> Exception:
    """Return the error for data that does not fit the model, located at the data's option."""
    return failure(message, hint, Place(kind="option", id=f"{option}.spec"), code=code)


def fit(value: Any, spec: TensorSpec, name: str, option: str) -> torch.Tensor:
    """Return one sample's tensor in the model's shape and dtype."""
    tensor = value if isinstance(value, torch.Tensor) else torch.from_numpy(np.asarray(value))
    wanted = getattr(torch, spec.dtype)
    if tensor.dtype.is_floating_point != wanted.is_floating_point or tensor.dtype.is_complex:
        raise wrong(
            option,
            f"{name} has dtype {str(tensor.dtype).removeprefix('torch.')}, "
            f"but the model's input {spec.name} is {spec.dtype}.",
            "Convert the data. Integers are not scaled automatically.",
            code="data-dtype-mismatch",
        )
    shape = tuple(spec.shape)
    if tuple(tensor.shape) != shape:
        if shape[:1] != (1,) or tuple(tensor.shape) != shape[1:]:
            raise wrong(
                option,
                f"A sample of {name} has shape {list(tensor.shape)}, "
                f"but the model's input {spec.name} needs {list(shape)}.",
                code="data-shape-mismatch",
            )
        tensor = tensor.reshape(shape)
    return tensor.to(wanted)

"""Samples from the user's own Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from workbench.engine import user_code
from workbench.engine.data.sample import Sample, Samples, fit, wrong
from workbench.engine.fx.flat_inputs import sample_at
from workbench.errors import Place, WorkbenchError
from workbench.project import sources

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from workbench.project.model import DataSource
    from workbench.project.sources import Reference
    from workbench.results import TensorSpec


def read_callable(
    reference: Reference, source: DataSource, inputs: Sequence[TensorSpec], option: str
) -> Samples:
    """Return the samples that the callable yields: inputs, or (inputs, label).

    A label may be any value; a whole number is a class.
    """
    del source
    function = user_code.load_callable(reference, f"{option}.spec")
    name = reference.attribute

    def read() -> Iterator[Sample]:
        samples = user_code.call(function, reference, f"{option}.spec")
        try:
            for index, item in enumerate(samples):
                values, truth = _at_places(item, inputs) or _item(item, len(inputs))
                if len(values) != len(inputs):
                    raise wrong(
                        option,
                        f"{name} returned {len(values)} inputs for sample {index}, "
                        f"but the model has {len(inputs)}.",
                        code="data-inputs-mismatch",
                    )
                fitted = (fit(v, s, name, option) for v, s in zip(values, inputs, strict=True))
                yield Sample(index, tuple(fitted), _class(truth), truth=truth)
        except (TypeError, ValueError, RuntimeError, KeyError, IndexError) as error:
            where = Place(kind="option", id=f"{option}.spec")
            raise user_code.user_failure(
                error, "returned an invalid sample", where, reference.path
            ) from error

    home = reference.path.name if reference.path is not None else reference.module
    return Samples(f"{home}:{name}", None, read)


def first_sample(source: DataSource, folder: Path) -> list[torch.Tensor]:
    """Return the inputs of the first sample that a callable yields, without a batch axis of 1.

    Empty if the source is no callable, or if its first item is no array with or without a label.
    """
    try:
        reference = sources.data_reference(source.spec, folder, "calibration.spec")
        if not reference.runs_code:
            return []
        function = user_code.load_callable(reference, "calibration.spec")
        item = next(iter(user_code.call(function, reference, "calibration.spec")))
        values = item if isinstance(item, tuple | list) else (item,)
        tensors = [torch.as_tensor(value) for value in values]
    except (WorkbenchError, StopIteration, TypeError, ValueError, RuntimeError):
        return []
    # A label has no axes, or the batch axis alone.
    inputs = [tensor for tensor in tensors if tensor.ndim > 1]
    return [tensor[0] if tensor.shape[0] == 1 else tensor for tensor in inputs]


def _at_places(item: Any, inputs: Sequence[TensorSpec]) -> tuple[tuple[Any, ...], Any] | None:
    """Parse an item that has the form of the model's example inputs; None if it has another."""
    places = [spec.place for spec in inputs]
    return sample_at(item, places) if any(places) else None


def _item(item: Any, inputs: int) -> tuple[tuple[Any, ...], Any]:
    """Parse an item of the user's generator: inputs, or (inputs, label)."""
    if isinstance(item, tuple | list) and len(item) == 2:
        first, second = item
        if inputs == 1 or isinstance(first, tuple | list):
            return tuple(first) if isinstance(first, tuple | list) else (first,), second
    if isinstance(item, tuple | list):
        return tuple(item), None
    return (item,), None


def _class(truth: Any) -> int | None:
    """Return the class that a label is: a whole number, also in an array of one element."""
    if isinstance(truth, bool | str | bytes) or truth is None:
        return int(truth) if isinstance(truth, bool) else None
    size = truth.numel() if isinstance(truth, torch.Tensor) else np.size(truth)
    if size != 1 or isinstance(truth, list | tuple | dict):
        return None
    number = float(truth)
    return int(number) if number.is_integer() else None

"""Samples for calibration and evaluation: streamed, and checked against the model first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from workbench.engine.data.arrays import read_arrays
from workbench.engine.data.callables import read_callable
from workbench.engine.data.labels import Labels, read_labels
from workbench.engine.data.objects import Mask, Objects, View
from workbench.engine.data.pictures import read_pictures
from workbench.engine.data.sample import Sample, Samples, wrong
from workbench.engine.data.text import read_text
from workbench.errors import Place, failure
from workbench.project import sources
from workbench.project.pictures import channels_last
from workbench.results import EXAMPLE_ONLY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.project.model import DataSource
    from workbench.results import TensorSpec

__all__ = ["Sample", "Samples", "example_samples", "open_samples"]


def open_samples(source: DataSource, folder: Path, inputs: Sequence[TensorSpec], option: str) -> Samples:
    """Return the samples of a data source, checked without reading all of them.

    Arrays have samples along their first axis; a sample has the model's input shape, with or
    without a leading batch of 1.

    Raises:
        WorkbenchError: wrong shape, dtype or number; iterating raises it for NaN or Inf, with
            the sample indices.
    """
    reference = sources.data_reference(source.spec, folder, f"{option}.spec")
    if reference.kind == "text":
        raw = read_text(reference, source, inputs, option, folder)
    else:
        raw = _READERS[reference.kind](reference, source, inputs, option)
    labels = read_labels(source, folder, option)
    total = raw.count
    count = labels.count if labels is not None else None
    if total is not None and count is not None and count != total:
        raise failure(
            f"{total} samples but {count} labels.",
            "Give one label for each sample.",
            where=Place(kind="option", id=f"{option}.labels"),
            code="labels-count-mismatch",
        )
    if total == 0:
        raise wrong(
            option, f"{raw.name} contains no samples.", "Calibration needs at least one.", code="data-empty"
        )
    kept = _used_count(total, source)
    return Samples(raw.name, kept, lambda: _stream(raw, source, labels, option, folder), raw.spell)


def example_samples(inputs: tuple[torch.Tensor, ...]) -> Samples:
    """Return the example input as a stream of one sample."""
    return Samples(EXAMPLE_ONLY, 1, lambda: iter([Sample(0, inputs, None)]))


def _used_count(total: int | None, source: DataSource) -> int | None:
    if total is None:
        return None
    kept = total - sum(1 for index in set(source.dropped) if index < total)
    return min(kept, source.limit) if source.limit else kept


def _stream(
    raw: Samples, source: DataSource, labels: Labels | None, option: str, folder: Path
) -> Iterator[Sample]:
    dropped, given = set(source.dropped), 0
    iterator = iter(raw)
    for sample in iterator:
        if sample.index in dropped:
            continue
        if not _finite(sample):
            raise _not_finite(sample, iterator, option)
        if labels is None:
            yield sample
        else:
            label, truth = labels.of(sample, option)
            if isinstance(truth, Objects | Mask):
                truth = truth.truth(_view(sample, source, folder))
            yield replace(sample, label=label, truth=truth)
        given += 1
        if source.limit and given >= source.limit:
            return


def _view(sample: Sample, source: DataSource, folder: Path) -> View:
    """Return how the model sees a sample's picture, by its first input."""
    shape = sample.inputs[0].shape
    is_last = channels_last(source.preprocess, shape)
    height, width = (shape[-3:-1] if is_last else shape[-2:]) if len(shape) > 1 else (1, shape[0])
    if not sample.file:
        return View(width, height)
    file = sources.absolute(folder, source.spec) / sample.file
    return View(width, height, source.preprocess, file)


def _finite(sample: Sample) -> bool:
    return all(not v.is_floating_point() or bool(torch.isfinite(v).all()) for v in sample.inputs)


def _not_finite(first: Sample, rest: Iterator[Sample], option: str) -> Exception:
    samples = [first.index]
    for sample in rest:
        if not _finite(sample):
            samples.append(sample.index)
        if len(samples) == 20:
            break
    listed = ", ".join(map(str, samples))
    return failure(
        f"Samples with NaN or infinity: {listed}.",
        'Correct the data, or exclude the samples in the project ("dropped").',
        Place(kind="sample", id=str(samples[0])),
        details=option,
        code="samples-not-finite",
    )


_READERS: dict[str, Callable[..., Samples]] = {
    "array": read_arrays,
    "pictures": read_pictures,
    "file": read_callable,
    "package": read_callable,
}

"""Evaluation samples: the project's own, else the calibration data, else the example input."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from workbench.engine.data import Sample, Samples, example_samples, open_samples
from workbench.errors import Place, failure
from workbench.results import ExportResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.engine.context import StageContext
    from workbench.project.model import DataSource


def calibration_samples(context: StageContext) -> Samples:
    """Return the project's calibration samples, or the example input."""
    source = context.project.calibration
    if source is None:
        return example_samples(context.hot("import_model").inputs)
    return _opened(context, source, "calibration")


def evaluation_samples(context: StageContext) -> Samples:
    """Return the project's evaluation samples, or the calibration samples."""
    source = context.project.evaluation.data
    if source is None:
        return calibration_samples(context)
    return _opened(context, source, "evaluation.data")


def is_repeatable(samples: Samples) -> bool:
    """Return whether the first sample is the same when it is read twice."""
    first, again = next(iter(samples), None), next(iter(samples), None)
    if first is None or again is None:
        return first is again
    pairs = zip(first.inputs, again.inputs, strict=True)
    return all(
        one.shape == two.shape and bool(((one == two) | (one.isnan() & two.isnan())).all())
        for one, two in pairs
    )


def _opened(context: StageContext, source: DataSource, option: str) -> Samples:
    exported = context.result("export", ExportResult)
    samples = open_samples(source, context.folder, exported.inputs, option)
    if samples.spell is None or not exported.outputs or not exported.outputs[0].shape:
        return samples
    known = exported.outputs[0].shape[-1]
    return replace(samples, open=lambda: _known_tokens(samples, known, option))


def _known_tokens(samples: Samples, known: int, option: str) -> Iterator[Sample]:
    """Yield the steps of a text.

    Raises:
        WorkbenchError: a token is outside the model's vocabulary.
    """
    for sample in samples:
        for token in (int(sample.inputs[0].reshape(-1)[0]), sample.label or 0):
            if token >= known:
                raise failure(
                    f"Token {token} of {samples.name} is outside the model's vocabulary of "
                    f"{known}.",
                    "Use the model's own tokenizer.",
                    Place(kind="option", id=f"{option}.tokens.tokenizer"),
                    code="token-out-of-vocabulary",
                )
        yield sample

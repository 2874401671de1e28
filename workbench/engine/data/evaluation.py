"""Calibration and evaluation samples, which are different ones where that is possible.

The evaluation data is the project's own; else every fourth sample of the calibration data, which
calibration then leaves out; with too few of them the calibration data; else the example input.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from workbench.engine.data import Sample, Samples, example_samples, open_samples
from workbench.errors import Place, failure
from workbench.pipeline.plan import part_inputs
from workbench.results import ExportResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.engine.runtime.context import StageContext
    from workbench.project.model import DataSource


# Of so many samples, or sequences of a text, and more, every fourth one is held out. The order of
# calibration data often is that of its classes, so that the last quarter would be some classes.
# Of fewer, a quarter costs ranges: with 16 samples of a small network several dB on unseen data.
HELD_OUT_EVERY, FEWEST_TO_HOLD_OUT = 4, 32


def calibration_samples(context: StageContext) -> Samples:
    """Return the project's calibration samples without those held out, or the example input."""
    samples = _all_calibration_samples(context)
    return _part(samples, held_out=False) if _holds_out(context, samples) else samples


def evaluation_samples(context: StageContext) -> Samples:
    """Return the project's evaluation samples, or those held out of the calibration samples.

    ``held_out`` of the result is whether calibration does not see them.
    """
    source = context.project.evaluation.data
    if source is None:
        samples = _all_calibration_samples(context)
        return _part(samples, held_out=True) if _holds_out(context, samples) else samples
    samples = _opened(context, source, "evaluation.data")
    return replace(samples, held_out=not _is_calibration_data(context))


def all_samples(context: StageContext) -> Samples:
    """Return the project's evaluation samples, or all its calibration samples, to look at one."""
    source = context.project.evaluation.data
    if source is None:
        return _all_calibration_samples(context)
    return _opened(context, source, "evaluation.data")


def verification_samples(context: StageContext) -> Iterator[tuple[Sample, bool]]:
    """Yield samples to compare programs on: evaluation samples first, then calibration samples.

    The second value is whether it is an evaluation sample. Calibration samples follow those held
    out, so that a comparison does not get by with a quarter of the samples.
    """
    samples = evaluation_samples(context)
    yield from ((sample, True) for sample in samples)
    if samples.held_out and context.project.evaluation.data is None and samples.spell is None:
        yield from ((sample, False) for sample in calibration_samples(context))


def _all_calibration_samples(context: StageContext) -> Samples:
    source = context.project.calibration
    if source is None:
        return example_samples(context.live("import_model").inputs)
    return _opened(context, source, "calibration")


def _holds_out(context: StageContext, samples: Samples) -> bool:
    """Return whether a part of the calibration samples is kept for evaluation.

    Samples of a program with state that are no sequences depend on all samples before them.
    """
    if context.project.calibration is None or not context.project.evaluation.holds_out:
        return False
    if samples.spell is None:
        if context.result("export", ExportResult).state:
            return False
        if samples.count is not None:
            return samples.count >= FEWEST_TO_HOLD_OUT
    return any(number + 1 >= FEWEST_TO_HOLD_OUT for number, _ in _numbered(samples))


def _numbered(samples: Samples) -> Iterator[tuple[int, Sample]]:
    """Yield each sample with its number; the steps of a sequence have one number."""
    number = -1
    for sample in samples:
        number += samples.spell is None or sample.begins
        yield number, sample


def _part(samples: Samples, *, held_out: bool) -> Samples:
    """Return the samples that are held out, or the others."""

    def read() -> Iterator[Sample]:
        for number, sample in _numbered(samples):
            if (number % HELD_OUT_EVERY == HELD_OUT_EVERY - 1) == held_out:
                yield sample

    count = None
    if samples.count is not None and samples.spell is None:
        held = samples.count // HELD_OUT_EVERY
        count = held if held_out else samples.count - held
    return replace(samples, count=count, open=read, held_out=held_out)


def _is_calibration_data(context: StageContext) -> bool:
    """Return whether the project's own evaluation data comes from the files of the calibration."""
    sides = [
        part_inputs(context.opened, context.cache, name) for name in ("calibration.data", "evaluation.data")
    ]
    # The first reference is the data itself, the others are labels and tokenizers.
    files = [side["references"] if isinstance(side, dict) else None for side in sides]
    first, second = (json.dumps(f[0]) if isinstance(f, list) and f else "" for f in files)
    return bool(first) and first == second


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
                    f"Token {token} of {samples.name} is outside the model's vocabulary of {known}.",
                    "Use the model's own tokenizer.",
                    Place(kind="option", id=f"{option}.tokens.tokenizer"),
                    code="token-out-of-vocabulary",
                )
        yield sample

"""Suggestions that lose less quality to quantization, or mend a program that differs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from workbench.analysis.accuracy import accuracy_of
from workbench.analysis.ranges import activations, choice_of, histogram_of, observed_grid, predicted
from workbench.project import edits
from workbench.suggestions.suggestion import Alternative, ExpectedGain, Suggestion, with_option
from workbench.targets.ethos_u.corrections import needed_and_off
from workbench.text import listed, plural, signed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from workbench.project.model import Project, RuleKind
    from workbench.results import CalibrateResult, EvaluateResult, TensorRange
    from workbench.studies.sensitivity import SensitivityResult

_MODULES, _TENSORS = 3, 3
# Less is within the noise of few samples.
_LEAST_DB = 1.0
# A normal distribution reaches 4 to 5 times its RMS in a million values.
_OUTLIER_RATIO = 8.0
_LEAST_TENSOR_DB = 3.0
_WIDE = "a16w8"
# The next config with more bits, or more scales.
_WIDER = {"a8w4": "a8w8", "a8w8-per-tensor": "a8w8", "a8w8": _WIDE}
# The least part of the error that the widened modules add, and how many of them a title names.
_MOST_OF_IT, _NAMED = 0.5, 3


@dataclass(frozen=True)
class Spared:
    """Modules or operators that lose quality, as a sensitivity study measured them.

    ``gain_db`` is the gain of the outputs' SQNR when only they stay in float [dB]; ``kind`` and
    ``matches`` are the rules that match them.
    """

    name: str
    kind: RuleKind
    matches: tuple[str, ...]
    gain_db: float
    samples: int


def spared_by(sensitivity: SensitivityResult) -> tuple[Spared, ...]:
    """Return the modules and operators whose gain a sensitivity study knows."""
    return tuple(
        Spared(unit.unit.name, unit.unit.kind, unit.unit.matches, gain, sensitivity.samples)
        for unit in sensitivity.units
        if (gain := sensitivity.gain_db(unit)) is not None
    )


def wider_modules(spared: Sequence[Spared], labels: Mapping[str, str]) -> Iterator[Suggestion]:
    """Yield suggestions of 16-bit activations for the modules that lose most quality.

    Args:
        spared: What a sensitivity study measured.
        labels: The config of each module and operator, e.g. ``a8w8``.
    """
    worst = sorted(spared, key=lambda unit: -unit.gain_db)[:_MODULES]
    for unit in worst:
        narrow = all(labels.get(match, "a8w8") not in (_WIDE, "float") for match in unit.matches)
        if unit.gain_db >= _LEAST_DB and narrow:
            yield Suggestion(
                id=f"wide:{unit.name}",
                title=f"Assign {_WIDE} to {unit.name}",
                evidence="Quantizing it to 8 bits costs more quality than most of the model.",
                expected=f"Up to {signed(unit.gain_db, 1)} dB SQNR at the outputs: measured over "
                f"{plural(unit.samples, 'sample')} with only it in float. It takes more cycles.",
                gain=ExpectedGain(sqnr_db=unit.gain_db),
                edit=partial(edits.assign_many, kind=unit.kind, matches=list(unit.matches), config=_WIDE),
            )


def wider_sources(
    project: Project, evaluated: EvaluateResult | None, labels: Mapping[str, str]
) -> Iterator[Suggestion]:
    """Yield the suggestion of more bits for the modules that add most error, where too much is lost.

    Args:
        project: The limits of the accuracy.
        evaluated: The quality of the quantized model.
        labels: The config of each module and operator, e.g. ``a8w8``.
    """
    conditions = project.gate.fail_if
    if (
        evaluated is None
        or not accuracy_of(project.accuracy, evaluated=evaluated, conditions=conditions).refused
    ):
        return
    by_label: dict[str, dict[str, float]] = {}
    for tensor in evaluated.tensors:
        label = labels.get(tensor.module, "")
        if tensor.module and tensor.added_share and label in _WIDER:
            shares = by_label.setdefault(label, {})
            shares[tensor.module] = shares.get(tensor.module, 0.0) + tensor.added_share
    if not by_label:
        return
    label, shares = max(by_label.items(), key=lambda pair: sum(pair[1].values()))
    modules = sorted(shares, key=lambda name: -shares[name])
    sums = list(accumulate(shares[name] for name in modules))
    worst = modules[: 1 + next(i for i, part in enumerate(sums) if part >= _MOST_OF_IT * sums[-1])]
    config, more = _WIDER[label], f" and {len(worst) - _NAMED} more"
    names = ", ".join(worst[:_NAMED]) + more if len(worst) > _NAMED else listed(worst)
    all_of = Alternative(f"and to all others at {label}", _with_config(modules, config))
    yield Suggestion(
        id="wider",
        title=f"Assign {config} to {names}",
        evidence=f"The program is not accurate enough, and these of its modules at {label} add "
        f"{100 * sums[len(worst) - 1]:.0f} % of the error that all operations add.",
        expected="More bits take more cycles and memory.",
        edit=_with_config(worst, config),
        alternatives=(all_of,) if len(worst) < len(modules) else (),
        improves="sqnr_db",
    )


def _with_config(modules: Sequence[str], config: str) -> Callable[[Project], Project]:
    return partial(edits.assign_many, kind="module_name", matches=list(modules), config=config)


def switched_off_corrections(project: Project) -> Iterator[Suggestion]:
    """Yield a suggestion to switch on the corrections of a program that differs.

    Args:
        project: The project, whose target has corrections switched off.
    """
    off = needed_and_off(project.target.options)
    if off:
        titles = listed([f"\u201c{row.title}\u201d" for row in off])
        yield Suggestion(
            id="mend",
            title=f"Switch on {plural(len(off), 'correction')}",
            evidence=f"The program differs, and corrections are off: {titles}.",
            expected="Unknown before the program is made again: run Verify.",
            edit=partial(_switched_on, names=[row.id for row in off]),
        )


def _switched_on(project: Project, names: Sequence[str]) -> Project:
    for name in names:
        project = with_option(project, name, value=True)
    return project


def clipped_outliers(
    project: Project, calibrated: CalibrateResult, arrays: Mapping[str, NDArray[Any]]
) -> Iterator[Suggestion]:
    """Yield suggestions to clip tensors whose few large values take most of the grid."""
    chosen = {fixed.tensor for fixed in project.ranges}
    chosen |= {m.match for m in project.range_methods if m.scope == "tensor"}
    rows = activations(calibrated.ranges)
    far = [row for row in rows if row.node not in chosen and _peak(row) >= _OUTLIER_RATIO]
    for row in sorted(far, key=_peak, reverse=True)[:_TENSORS]:
        histogram, grid = histogram_of(row, arrays), observed_grid(row)
        if histogram is None or grid is None:
            continue
        now, then = predicted(histogram, grid).sqnr_db, choice_of(row, histogram, "mse")
        if now is None or then is None or then.sqnr_db is None:
            continue
        gain = then.sqnr_db - now
        if gain >= _LEAST_TENSOR_DB:
            yield Suggestion(
                id=f"clip:{row.node}",
                title=f"Clip the outliers of {row.node}",
                evidence=f"Its largest value is {_peak(row):.0f} times its RMS, so that most "
                "values share few steps.",
                expected=f"{signed(gain, 1)} dB SQNR of this tensor alone, predicted from its "
                f"histogram; {100 * then.clipped:.3f} % of its values are clipped.",
                gain=ExpectedGain(sqnr_db=gain, of_tensors=len(rows)),
                edit=partial(edits.choose_method, scope="tensor", match=row.node, method="mse"),
            )


def _peak(row: TensorRange) -> float:
    """Return the largest magnitude over the RMS; 0 if unknown."""
    if not row.mean_square or not math.isfinite(row.mean_square):
        return 0.0
    return max(abs(row.minimum), abs(row.maximum)) / math.sqrt(row.mean_square)

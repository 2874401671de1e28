"""Ranges that different methods compute from the same histogram.

Sources: the extremes; the central share of values (as ``PercentileObserver``); the least mean
squared error of this tensor, by search; and the least Kullback-Leibler divergence of the clipped
from the quantized distribution (S. Migacz, 8-bit Inference with TensorRT, 2017).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.analysis.histogram import Grid, Histogram, Scheme
from workbench.project.sources import reads_text
from workbench.results import CalibrateResult, load_arrays, load_result
from workbench.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import ArrayLike, NDArray

    from workbench.project.configs import RangeMethod
    from workbench.project.model import Project
    from workbench.results import TensorRange

    Floats = NDArray[np.floating[Any]]


# torchao's histogram observer search, which only the engine can run.
SEARCHED = "histogram"
PERCENTILE = 99.99
_SEARCH_BINS = 512
_TRIALS = 33
# Errors of equal grids differ by rounding.
_EQUAL = 1.0 + 1e-9
_ROUNDS = 3
_KL_LEVELS, _KL_STRIDE, _KL_BINS = 128, 16, 2048
# Measured on a 12-layer transformer at 8 bits with outliers: 16.6 dB without this bound,
# 25.8 dB with it, 26.1 dB with torchao's search.
_KL_CLIPPED = 0.001
_TINY = 1e-12
Range = tuple[float, float]


@dataclass(frozen=True)
class Method:
    """One range method; it returns None if not applicable."""

    id: str
    title: str
    meaning: str
    range: Callable[[Histogram, Scheme], Range | None]


def _minmax(histogram: Histogram, scheme: Scheme) -> Range:
    del scheme
    return _with_zero(histogram.low, histogram.high)


def _percentile(histogram: Histogram, scheme: Scheme) -> Range:
    del scheme
    tail = (100.0 - PERCENTILE) / 200.0
    return _with_zero(histogram.quantile(tail), histogram.quantile(1.0 - tail))


def _mse(histogram: Histogram, scheme: Scheme) -> Range:
    """Shrink both ends in turn, refining around the best range; ties go to the widest.

    A symmetric grid is determined by the end farther from zero.
    """
    few = histogram.coarser(_SEARCH_BINS)
    widest = _with_zero(few.low, few.high)
    best, spread = list(widest), 1.0
    for _ in range(_ROUNDS):
        for end in (1, 0):
            is_outer = abs(widest[end]) == max(map(abs, widest))
            if widest[end] == 0.0 or (scheme.symmetric and not is_outer):
                continue
            middle = best[end] / widest[end]
            ends = max(0.01, middle - spread), min(1.0, middle + spread)
            shares = np.sort(np.append(np.linspace(*ends, _TRIALS), middle))
            trials = np.repeat([best], shares.size, axis=0)
            trials[:, end] = shares * widest[end]
            if scheme.symmetric:
                trials[:, 1 - end] = np.clip(-trials[:, end], *widest)
            noises = _noises(few, scheme, trials)
            least = np.flatnonzero(noises <= noises.min() * _EQUAL)
            best = trials[int(least[-1])].tolist()
        spread /= 6.0
    return best[0], best[1]


def _noises(histogram: Histogram, scheme: Scheme, ranges: NDArray[np.float64]) -> NDArray[np.float64]:
    grids = [scheme.grid(low, high) for low, high in ranges.tolist()]
    scale = np.asarray([grid.scale for grid in grids])
    low = np.asarray([grid.low for grid in grids])
    return histogram.noises(scale, low, scheme.qmax - scheme.qmin)


def _kl(histogram: Histogram, scheme: Scheme) -> Range | None:
    """Return the clipping threshold on absolute values; for 8 bits.

    Two details differ from the publication, which leaves them open. The clipped share of values is
    limited: if all but one bin are clipped, the divergence of the rest is zero although almost
    everything is lost. And values of one sign use all levels of an asymmetric grid, not half of
    them.
    """
    if scheme.qmax - scheme.qmin > 255:
        return None
    low, high = _with_zero(histogram.low, histogram.high)
    top = max(-low, high)
    sizes = _sizes(histogram, top)
    levels = _KL_LEVELS * (2 if low * high == 0.0 and not scheme.symmetric else 1)
    beyond = sizes.sum() - np.cumsum(sizes)
    best, threshold = np.inf, top
    for last in range(levels, _KL_BINS + 1, _KL_STRIDE):
        if beyond[last - 1] > _KL_CLIPPED * sizes.sum():
            continue
        divergence = _divergence(sizes, last, levels)
        if divergence < best:
            best, threshold = divergence, top * last / _KL_BINS
    return max(low, -threshold), min(high, threshold)


def _sizes(histogram: Histogram, top: float) -> NDArray[np.float64]:
    """Return the counts of absolute values in bins from 0 to ``top``, without zeros."""
    edges = histogram.edges
    reached = np.concatenate([[0.0], np.cumsum(histogram.counts)])
    wanted = np.linspace(0.0, top, _KL_BINS + 1)
    above = np.interp(wanted, edges, reached)
    below = np.interp(-wanted, edges, reached)
    counts: NDArray[np.float64] = np.diff(above) - np.diff(below)
    counts[0] = max(0.0, counts[0] - histogram.zeros * histogram.counts.sum())
    return counts


def _divergence(sizes: NDArray[np.float64], last: int, levels: int) -> float:
    clipped = sizes[:last].copy()
    clipped[-1] += sizes[last:].sum()
    owner = np.arange(last) * levels // last
    filled = sizes[:last] > 0
    sums = np.bincount(owner, sizes[:last], levels)
    shares = np.bincount(owner, filled, levels)
    quantized = np.where(filled, sums[owner] / np.maximum(shares[owner], 1), 0.0)
    p, q = clipped / max(clipped.sum(), _TINY), quantized / max(quantized.sum(), _TINY)
    some = p > 0
    return float(np.sum(p[some] * np.log(p[some] / np.maximum(q[some], _TINY))))


def _with_zero(low: float, high: float) -> Range:
    return min(low, 0.0), max(high, 0.0)


# The ids equal ``workbench.project.configs.MethodId``.
METHODS: tuple[Method, ...] = (
    Method("minmax", "Min-max", "All values", _minmax),
    Method("percentile", f"Percentile {PERCENTILE}", "The central share of the values", _percentile),
    Method("mse", "Least error (MSE)", "The least squared error of this tensor, by search", _mse),
    Method(
        "kl",
        "KL divergence",
        "The least Kullback-Leibler divergence. It weighs the number of changed "
        "values, not the size of the change: rare large values may be clipped, at "
        "most 0.1 % of all; 8 bits only",
        _kl,
    ),
)
METHODS_BY_ID = {method.id: method for method in METHODS}
METHOD_TITLES = {SEARCHED: "Histogram search", **{m.id: m.title for m in METHODS}}


# Explains why weights have no range method.
WEIGHT_REFUSAL = (
    "The range of a weight cannot be set: its grid spans all its values, so "
    "nothing is clipped. Its rule sets bits and channels; weight transforms narrow it."
)


@dataclass(frozen=True)
class Choice:
    """The result of one method for a tensor; ``sqnr_db`` is predicted, None if unknown."""

    method: str
    title: str
    grid: Grid
    minimum: float
    maximum: float
    clipped: float
    sqnr_db: float | None


def scheme_of(tensor: TensorRange) -> Scheme:
    """Return how the tensor's observer computes a grid from a range."""
    unsigned = tensor.dtype.startswith("uint")
    return Scheme(tensor.qmin, tensor.qmax, tensor.symmetric, tensor.eps, unsigned)


def histogram_of(tensor: TensorRange, arrays: Mapping[str, NDArray[Any]]) -> Histogram | None:
    """Return the stored histogram of an activation; None if calibration stored none."""
    counts, edges = arrays.get("histogram"), arrays.get("edges")
    if counts is None or edges is None or tensor.index >= len(counts):
        return None
    low, high = (float(edge) for edge in edges[tensor.index])
    histogram = Histogram(
        np.asarray(counts[tensor.index], np.float64), low, high, tensor.zeros or 0.0, tensor.mean_square
    )
    return histogram if histogram.is_known else None


def observed_grid(tensor: TensorRange) -> Grid | None:
    """Return the calibrated grid; None for a tensor that no sample reached."""
    if not 0 < tensor.scale < math.inf:
        return None
    return Grid(tensor.scale, tensor.zero_point, tensor.qmin, tensor.qmax)


def predicted(
    histogram: Histogram,
    grid: Grid,
    method: str = "",
    title: str = "",
    ends: tuple[float, float] | None = None,
) -> Choice:
    """Return the prediction for a grid, computed from the range ``ends`` if given."""
    low, high = ends or (grid.low, grid.high)
    return Choice(method, title, grid, low, high, histogram.clipped(grid), histogram.sqnr_db(grid))


def choices(tensor: TensorRange, histogram: Histogram) -> list[Choice]:
    """Return the results of all methods, the histogram observer's search first."""
    options = [choice_of(tensor, histogram, m) for m in (SEARCHED, *METHODS_BY_ID)]
    return [choice for choice in options if choice is not None]


def choice_of(tensor: TensorRange, histogram: Histogram, method: str) -> Choice | None:
    """Return the result of one method; None if not applicable."""
    title = METHOD_TITLES[method]
    if method == SEARCHED:
        scale, zero_point = tensor.searched or (tensor.scale, tensor.zero_point)
        grid = Grid(scale, zero_point, tensor.qmin, tensor.qmax)
        return predicted(histogram, grid, SEARCHED, title) if scale > 0 else None
    scheme = scheme_of(tensor)
    ends = METHODS_BY_ID[method].range(histogram, scheme)
    if ends is None or not ends[0] < ends[1]:
        return None
    return predicted(histogram, scheme.grid(*ends), method, title, ends)


def activations(ranges: Sequence[TensorRange]) -> list[TensorRange]:
    """Return the activations whose range can be pinned.

    A tensor with a second grid after its first has one row.
    """
    observers = {row.id for row in ranges}
    return [
        row
        for row in ranges
        if row.kind == "activation" and row.node not in observers and row.op != "call_module"
    ]


def title_of(row: TensorRange, by_id: Mapping[str, TensorRange]) -> str:
    """Return the display name: weight and bias after their module, a second grid after its tensor.

    Args:
        row: One of the ranges.
        by_id: All ranges by id; a second grid follows the observer of the first.
    """
    before = by_id.get(row.node)
    if before is not None or row.op == "call_module":
        source = before.node if before is not None else row.origin or row.node
        return f"{source} \u2192 {row.dtype}"
    if row.kind != "weight":
        return row.node
    is_bias = bool(row.format) and json.loads(row.format).get("operand") == "b"
    return f"{row.module or row.op} {'bias' if is_bias else 'weight'}"


MethodRange = tuple[float, float]
HISTOGRAMS = ("histogram", "edges")
_MOST = 20_000


class MethodRanges:
    """The ranges by method; one search per histogram and scheme."""

    def __init__(self) -> None:
        self._ranges: dict[bytes, MethodRange | None] = {}

    def knows(self, row: TensorRange, arrays: Mapping[str, NDArray[Any]], method: str) -> bool:
        """Return whether ``range_of`` returns without a search."""
        histogram = histogram_of(row, arrays)
        if histogram is None or is_own(row, method):
            return True
        return _key(row, histogram, method) in self._ranges

    def range_of(
        self, row: TensorRange, arrays: Mapping[str, NDArray[Any]], method: str
    ) -> MethodRange | None:
        """Return the range of a method; None if the calibrated range is used.

        That is the case for tensors that no sample reached or that are constant, if the method is
        not applicable, and if the observer already searches the histogram.
        """
        histogram = histogram_of(row, arrays)
        if histogram is None or is_own(row, method):
            return None
        key = _key(row, histogram, method)
        if key not in self._ranges:
            if len(self._ranges) >= _MOST:
                self._ranges.clear()
            choice = choice_of(row, histogram, method)
            self._ranges[key] = (choice.minimum, choice.maximum) if choice is not None else None
        return self._ranges[key]


def is_own(row: TensorRange, method: str) -> bool:
    """Return whether calibration itself used this method."""
    return method == SEARCHED and row.searched is None


def methods_of(rows: Sequence[TensorRange], project: Project) -> Iterator[tuple[TensorRange, RangeMethod]]:
    """Yield the activations whose range is computed by a method, each with the effective choice.

    Pinned ranges take precedence over methods, narrow methods over wide ones.
    """
    fixed = project.fixed_ranges()
    strongest = sorted(project.range_methods, key=lambda choice: choice.strength, reverse=True)
    for row in activations(rows) if strongest else ():
        won = next((m for m in strongest if m.speaks_of(row.node, row.module)), None)
        if won is not None and row.node not in fixed:
            yield row, won


def chosen_ranges(
    rows: Sequence[TensorRange],
    arrays: Mapping[str, NDArray[Any]],
    project: Project,
    method_ranges: MethodRanges,
) -> tuple[dict[str, MethodRange], list[tuple[TensorRange, RangeMethod]]]:
    """Return the range of every tensor that the project sets, by node.

    Args:
        rows: The calibrated ranges.
        arrays: The arrays of the calibration result.
        project: Its pinned ranges and methods.
        method_ranges: Caches searches.

    Returns:
        Minimum and maximum by node, and the tensors without an applicable method.
    """
    ends = project.fixed_ranges()
    declined = []
    for row, chosen in methods_of(rows, project):
        taken = method_ranges.range_of(row, arrays, chosen.method)
        if taken is not None:
            ends[row.node] = taken
        elif not is_own(row, chosen.method) and histogram_of(row, arrays) is not None:
            declined.append((row, chosen))
    return ends, declined


def read_chosen(
    project: Project, calibrated: Path, method_ranges: MethodRanges
) -> tuple[dict[str, MethodRange], list[tuple[TensorRange, RangeMethod]]]:
    """Return the result of ``chosen_ranges`` for a calibration result folder.

    Raises:
        WorkbenchError: the result is missing or damaged.
    """
    if not needs_calibration(project):
        return project.fixed_ranges(), []
    result = load_result(CalibrateResult, calibrated)
    rows = result.ranges
    ends, declined = chosen_ranges(rows, load_arrays(calibrated, HISTOGRAMS), project, method_ranges)
    preprocess = project.calibration.preprocess if project.calibration else None
    if preprocess is not None and preprocess.fold:
        # Inputs come first; the range of a pinned one is the user's.
        inputs = [row.node for row in rows if row.op == "placeholder"]
        ends |= dict.fromkeys(inputs[:1], preprocess.pixel_range) | project.fixed_ranges()
    return {**result.improved, **ends}, declined


def needs_calibration(project: Project) -> bool:
    """Return whether ranges that are set depend on the calibration.

    Of a model that reads a text, outputs may become inputs of the next step, with one range.
    """
    preprocess = project.calibration.preprocess if project.calibration else None
    folds = preprocess is not None and preprocess.fold
    return (
        bool(project.range_methods)
        or folds
        or reads_text(project)
        or ("clips" in project.improvers and project.improves())
    )


def _key(row: TensorRange, histogram: Histogram, method: str) -> bytes:
    content = (
        method,
        histogram.low,
        histogram.high,
        histogram.zeros,
        histogram.mean_square,
        scheme_of(row),
        row.searched,
        row.scale,
        row.zero_point,
    )
    digest = hashlib.sha256(repr(content).encode())
    digest.update(histogram.counts.tobytes())
    return digest.digest()


_STEPS, _CODES = np.float32(255), np.float32(127)
# Valid reciprocals of scales on the accelerator.
_ABOVE, _DYNAMIC_MOST = 2.0**-31, 8573157376.0


@dataclass(frozen=True)
class CallRanges:
    """Dynamic ranges of one tensor, one per sample that reached it.

    Attributes:
        low: Smallest value [S].
        high: Largest value [S].
        scale: Step of a code [S]; NaN if undefined.
        zero_point: Code of zero [S]; NaN if undefined.
        zeros: Number of samples that are all zeros.
        tiny: Number of samples with a range that the accelerator does not support.
    """

    low: Floats
    high: Floats
    scale: Floats
    zero_point: Floats
    zeros: int
    tiny: int

    @property
    def warning(self) -> str:
        """A warning sentence; "" if there is none."""
        of = f"of {plural(self.low.size, 'sample')}"
        parts = [f"all zeros in {self.zeros} {of}"] if self.zeros else []
        parts += [f"a range NNPA does not take in {self.tiny} {of}"] if self.tiny else []
        if not parts:
            return ""
        return f"{' and '.join(parts)}: its products are undefined there, emulated as zeros"


def call_ranges(mode: str, low: ArrayLike, high: ArrayLike) -> CallRanges:
    """Return the dynamic ranges of the samples.

    Args:
        mode: "asym" or "sym".
        low: Smallest value of each sample [S]; NaN if not reached.
        high: Largest value of each sample [S].
    """
    least, most = np.asarray(low, np.float32), np.asarray(high, np.float32)
    there = np.isfinite(least) & np.isfinite(most)
    least, most = least[there], most[there]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if mode == "asym":
            bottom, top = np.minimum(least, 0), np.maximum(most, 0)
            scale = (top - bottom) / _STEPS
            # The quotient lies between -255 and 0: the code needs no limits.
            zero = np.rint(np.float32(-128) - bottom / scale)
            reciprocal = np.float32(1) / scale
        else:
            scale = np.maximum(np.abs(least), np.abs(most)) / _CODES
            zero = np.zeros_like(scale)
            reciprocal = np.float32(1) / scale
    taken = (reciprocal > _ABOVE) & (reciprocal <= _DYNAMIC_MOST)
    all_zero = (least == 0) & (most == 0)
    return CallRanges(
        least,
        most,
        np.where(taken, scale, np.nan),
        np.where(taken, zero, np.nan),
        int(all_zero.sum()),
        int((~taken & ~all_zero).sum()),
    )

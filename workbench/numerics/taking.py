"""Ranges as the project's chosen methods take them from what calibration saw."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from workbench.numerics.methods import SEARCHED
from workbench.numerics.tensors import activations, choice_of, histogram_of, scheme_of
from workbench.results import CalibrateResult, load_arrays, load_result

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from workbench.numerics.histogram import Histogram
    from workbench.project.model import Project
    from workbench.project.range_method import RangeMethod
    from workbench.results import TensorRange

Range = tuple[float, float]
HISTOGRAMS = ("histogram", "edges")
_MOST = 20_000


class RangeTaker:
    """Takes ranges by methods; each search is done once for the same histogram and scheme."""

    def __init__(self) -> None:
        self._found: dict[bytes, Range | None] = {}

    def knows(self, row: TensorRange, arrays: Mapping[str, NDArray[Any]], method: str) -> bool:
        """Return whether ``take`` answers without a search."""
        histogram = histogram_of(row, arrays)
        if histogram is None or is_own(row, method):
            return True
        return _key(row, histogram, method) in self._found

    def take(
        self, row: TensorRange, arrays: Mapping[str, NDArray[Any]], method: str
    ) -> Range | None:
        """Return the range a method takes; None where calibration's own stands.

        That is so for tensors that no sample reached or that are constant, where the method
        declines, and where the observer searches the histogram already.
        """
        histogram = histogram_of(row, arrays)
        if histogram is None or is_own(row, method):
            return None
        key = _key(row, histogram, method)
        if key not in self._found:
            if len(self._found) >= _MOST:
                self._found.clear()
            found = choice_of(row, histogram, method)
            self._found[key] = (found.minimum, found.maximum) if found is not None else None
        return self._found[key]


def is_own(row: TensorRange, method: str) -> bool:
    """Return whether calibration itself took the range by this method."""
    return method == SEARCHED and row.searched is None


def methods_of(
    rows: Sequence[TensorRange], project: Project
) -> Iterator[tuple[TensorRange, RangeMethod]]:
    """Yield the activations whose range a method takes, each with the choice that wins.

    Ranges given in numbers beat every method; the narrowest method beats the others.
    """
    fixed = project.fixed_ranges()
    strongest = sorted(project.range_methods, key=lambda each: each.strength, reverse=True)
    for row in activations(rows) if strongest else ():
        won = next((m for m in strongest if m.speaks_of(row.node, row.module)), None)
        if won is not None and row.node not in fixed:
            yield row, won


def chosen_ranges(
    rows: Sequence[TensorRange], arrays: Mapping[str, NDArray[Any]], project: Project,
    taker: RangeTaker,
) -> tuple[dict[str, Range], list[tuple[TensorRange, RangeMethod]]]:  # fmt: skip
    """Return the range of every tensor that the project decides, by its node.

    Args:
        rows: What calibration found.
        arrays: The arrays beside it.
        project: Its numbers and methods.
        taker: Remembers searches.

    Returns:
        Minimum and maximum by node, and the tensors whose method declined.
    """
    found = project.fixed_ranges()
    declined = []
    for row, chosen in methods_of(rows, project):
        taken = taker.take(row, arrays, chosen.method)
        if taken is not None:
            found[row.node] = taken
        elif not is_own(row, chosen.method) and histogram_of(row, arrays) is not None:
            declined.append((row, chosen))
    return found, declined


def read_chosen(
    project: Project, calibrated: Path, taker: RangeTaker
) -> tuple[dict[str, Range], list[tuple[TensorRange, RangeMethod]]]:
    """Return what ``chosen_ranges`` does, from the folder of a calibration's result.

    Raises:
        WorkbenchError: the result is missing or damaged.
    """
    if not project.range_methods:
        return project.fixed_ranges(), []
    rows = load_result(CalibrateResult, calibrated).ranges
    return chosen_ranges(rows, load_arrays(calibrated, HISTOGRAMS), project, taker)


def _key(row: TensorRange, histogram: Histogram, method: str) -> bytes:
    said = (method, histogram.low, histogram.high, histogram.zeros, histogram.mean_square,
            scheme_of(row), row.searched, row.scale, row.zero_point)  # fmt: skip
    digest = hashlib.sha256(repr(said).encode())
    digest.update(histogram.counts.tobytes())
    return digest.digest()

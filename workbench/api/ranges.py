"""Calibrated ranges of a project: read them, compare methods, pin and choose."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.analysis.ranges import (
    WEIGHT_REFUSAL,
    Choice,
    MethodRanges,
    activations,
    choices,
    histogram_of,
    methods_of,
    read_chosen,
    title_of,
)
from workbench.api.projects import plan
from workbench.errors import Place, failure
from workbench.escaping import html_table
from workbench.pipeline.cache import Cache, default_root
from workbench.project import edits
from workbench.project.opened import OpenProject
from workbench.project.rules import is_within
from workbench.results import CalibrateResult, TensorRange, load_arrays, load_result

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from workbench.project.configs import MethodId, MethodScope


@dataclass(frozen=True)
class Ranges:
    """The ranges of a project.

    Attributes:
        tensors: What calibration found for every quantized tensor; None without a calibration.
        chosen: The ends (minimum, maximum) that pins and methods set, by node.
        methods: The id of the method of every tensor that one is set for, by node.
        folder: Where the histograms lie; None without a calibration.
    """

    tensors: tuple[TensorRange, ...] | None
    chosen: Mapping[str, tuple[float, float]]
    methods: Mapping[str, str]
    folder: Path | None

    def _repr_html_(self) -> str:
        by_id = {row.id: row for row in self.tensors or ()}
        rows = [
            (title_of(row, by_id), row.dtype, f"{row.minimum:.6g}", f"{row.maximum:.6g}")
            for row in by_id.values()
        ]
        return html_table("Calibrated ranges", ("tensor", "type", "min", "max"), rows)


def ranges(opened: OpenProject, cache: Cache | None = None) -> Ranges:
    """Return the calibrated ranges, and those that pins and methods set. Computes nothing."""
    results = cache or Cache(default_root())
    stage = plan(opened, results).of("calibrate")
    if stage.state != "cached":
        return Ranges(None, opened.project.fixed_ranges(), {}, None)
    folder = results.folder(stage.key)
    rows = tuple(load_result(CalibrateResult, folder).ranges)
    chosen = read_chosen(opened.project, folder, MethodRanges())[0]
    methods = {row.node: method.method for row, method in methods_of(rows, opened.project)}
    return Ranges(rows, chosen, methods, folder)


def compare_methods(opened: OpenProject, tensor: str, cache: Cache | None = None) -> Sequence[Choice]:
    """Return what each method would give for one activation: ends, step, clipped share, SQNR [dB].

    Raises:
        WorkbenchError: There is no calibration, or the tensor is a weight or unknown.
    """
    calibrated, folder = _calibrated(opened, cache)
    row = next((row for row in activations(calibrated) if row.node == tensor), None)
    if row is None:
        _refuse_weight(tensor, calibrated)
        raise _unknown(tensor, calibrated)
    histogram = histogram_of(row, load_arrays(folder))
    return choices(row, histogram) if histogram is not None else ()


def choose_method(
    opened: OpenProject, scope: MethodScope, match: str, method: MethodId, cache: Cache | None = None
) -> OpenProject:
    """Set the method that computes ranges.

    Args:
        opened: The project; it needs a calibration.
        scope: ``tensor``, ``module`` (with its children) or ``all``.
        match: The node or the module's path; "" for all activations.
        method: An id of ``workbench.analysis.ranges.METHODS``.
        cache: Where results are kept; by default the user's cache.

    Raises:
        WorkbenchError: There is no calibration, or nothing quantized matches.
    """
    calibrated, _ = _calibrated(opened, cache)
    if scope == "tensor":
        _refuse_weight(match, calibrated)
    if not any(_matches(row, scope, match) for row in activations(calibrated)):
        raise _unknown(match or "anything", calibrated)
    return opened.edited(lambda project: edits.choose_method(project, scope, match, method))


def reset_method(opened: OpenProject, scope: MethodScope, match: str = "") -> OpenProject:
    """Remove the method of a module or of all activations.

    Raises:
        WorkbenchError: None is set there.
    """
    methods = opened.project.range_methods
    removed = [method for method in methods if (method.scope, method.match) == (scope, match)]
    if not removed:
        known = ", ".join(method.scope_text for method in methods) or "none"
        raise failure(
            f"No method is set for {match}.",
            f"Set for: {known}.",
            Place(kind="module", id=match),
            code="range-method-not-set",
        )
    return opened.edited(lambda project: edits.drop_methods(project, removed))


def pin_range(
    opened: OpenProject, tensor: str, minimum: float, maximum: float, cache: Cache | None = None
) -> OpenProject:
    """Pin the range of an activation, without a new calibration.

    Raises:
        WorkbenchError: The tensor is a weight, or the range is empty or not finite.
    """
    _refuse_weight(tensor, ranges(opened, cache).tensors or ())
    return opened.edited(lambda project: edits.fix_range(project, tensor, minimum, maximum))


def unpin_ranges(opened: OpenProject, tensors: Sequence[str] | None = None) -> OpenProject:
    """Use the calibrated ranges of these tensors again; None removes every pin and method."""
    if tensors is None:
        return opened.edited(lambda project: edits.revise(project, ranges=(), range_methods=()))
    return opened.edited(lambda project: edits.free_ranges(project, tensors))


def exclude_samples(opened: OpenProject, samples: Sequence[int]) -> OpenProject:
    """Leave samples, by their index, out of calibration."""
    return opened.edited(lambda project: edits.drop_samples(project, samples))


def include_samples(opened: OpenProject, samples: Sequence[int]) -> OpenProject:
    """Use excluded samples for calibration again."""
    return opened.edited(lambda project: edits.restore_samples(project, samples))


def _calibrated(opened: OpenProject, cache: Cache | None) -> tuple[tuple[TensorRange, ...], Path]:
    current = ranges(opened, cache)
    if current.tensors is None or current.folder is None:
        raise failure(
            "No calibration for the current project.",
            f"Run: workbench run {opened.path or 'PROJECT'} --until calibrate",
            Place(kind="stage", id="calibrate"),
            code="calibration-outdated",
        )
    return current.tensors, current.folder


def _matches(row: TensorRange, scope: MethodScope, match: str) -> bool:
    if scope == "tensor":
        return row.node == match
    return scope == "all" or is_within(row.module, match)


def _refuse_weight(name: str, rows: Sequence[TensorRange]) -> None:
    """Raise if the tensor is a weight, whose range cannot be set."""
    if any(row.node == name and row.kind == "weight" for row in rows):
        what, _, instead = WEIGHT_REFUSAL.partition(". ")
        raise failure(f"{what}.", instead, Place(kind="tensor", id=name), code="range-of-weight")


def _unknown(name: str, rows: Sequence[TensorRange]) -> Exception:
    names = [row.node for row in activations(rows)]
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    listing = "Run workbench ranges PROJECT for a list."
    return failure(
        f"No quantized activation {name}.",
        f"Did you mean {', '.join(close)}?" if close else listing,
        Place(kind="tensor", id=name),
        code="activation-unknown",
    )

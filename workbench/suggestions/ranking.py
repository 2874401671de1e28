"""All suggestions for a compiled program, ranked by gain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workbench.pipeline.resolution import resolve_graph
from workbench.suggestions.accuracy import (
    Spared,
    clipped_outliers,
    switched_off_corrections,
    wider_modules,
)
from workbench.suggestions.cpu_operators import by_config, left_on_cpu, module_for_function
from workbench.suggestions.device_cost import channels_last, compile_for_size, wasted_channels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from workbench.deploy.fitting import Fit
    from workbench.graph.snapshot import GraphSnapshot
    from workbench.project.model import Project
    from workbench.results import CalibrateResult, LowerResult, PrepareResult
    from workbench.suggestions.suggestion import Suggestion


@dataclass(frozen=True)
class Measurements:
    """What other stages and studies know about a compiled program; all of it may be unknown.

    Attributes:
        prepared: The quantizer's report; with it, operators that the quantizer created are known.
        calibrated: The calibrated ranges.
        arrays: The arrays of the calibrated ranges.
        spared: What a sensitivity study measured.
        fit: How the program fits the board.
        departs: Whether the program was compared with the quantized model, and is not the same.
    """

    prepared: PrepareResult | None = None
    calibrated: CalibrateResult | None = None
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    spared: tuple[Spared, ...] = ()
    fit: Fit | None = None
    departs: bool = False


NOTHING = Measurements()


def suggest(
    project: Project, lowered: LowerResult, program: GraphSnapshot, edge: GraphSnapshot,
    known: Measurements = NOTHING,
) -> tuple[Suggestion, ...]:  # fmt: skip
    """Return suggestions, the one with the largest gain first.

    What mends a program that differs, and what makes it fit the board, comes before.

    Args:
        project: The compiled project.
        lowered: The compiled program.
        program: The exported float program, whose operations rules name.
        edge: The program at the level of partitioning.
        known: What other stages and studies know.
    """
    suggestions = _suggestions(project, lowered, program, edge, known)
    ranked = sorted(suggestions, key=lambda suggestion: -suggestion.gain.share(lowered))
    mending = switched_off_corrections(project, program, known.prepared) if known.departs else ()
    return (*mending, *compile_for_size(project, lowered, known.fit), *ranked)


def _suggestions(
    project: Project, lowered: LowerResult, program: GraphSnapshot, edge: GraphSnapshot,
    known: Measurements,
) -> Iterator[Suggestion]:  # fmt: skip
    left = left_on_cpu(project, lowered, program, edge, known.prepared)
    yield from by_config(project, left)
    yield from module_for_function(left)
    yield from channels_last(project, lowered, program)
    yield from wasted_channels(lowered, program)
    resolution = resolve_graph(project, program)
    labels = {name: effective.label for name, effective in resolution.modules.items()}
    labels |= {name: effective.label for name, effective in resolution.nodes.items()}
    yield from wider_modules(known.spared, labels)
    if known.calibrated is not None:
        yield from clipped_outliers(project, known.calibrated, known.arrays)

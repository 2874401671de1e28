"""What would bring work from the CPU to the NPU, why, and what each change has gained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.suggestions.card import Suggestion, Written
from workbench.suggestions.configs import by_config
from workbench.suggestions.gain import Gain
from workbench.suggestions.layout import channels_last
from workbench.suggestions.left import Left, left_on_cpu
from workbench.suggestions.source import module_for_function

if TYPE_CHECKING:
    from workbench.graph.snapshot import GraphSnapshot
    from workbench.project.model import Project
    from workbench.results import LowerResult, PrepareResult

__all__ = ["Gain", "Left", "Suggestion", "Written", "suggest"]


def suggest(
    project: Project, lowered: LowerResult, program: GraphSnapshot, edge: GraphSnapshot,
    prepared: PrepareResult | None = None,
) -> tuple[Suggestion, ...]:  # fmt: skip
    """Return what can be done about operators on the CPU and transposes at the inputs.

    Args:
        project: What was compiled.
        lowered: The compiled program.
        program: The exported float program, whose operations rules speak of.
        edge: The program at the level at which it was divided between CPU and NPU.
        prepared: The quantizer's report; with it operators that it made of others are known too.
    """
    left = left_on_cpu(project, lowered, program, edge, prepared)
    return (
        *by_config(project, left),
        *module_for_function(left),
        *channels_last(project, lowered, program),
    )

"""Channels last: transposes at the inputs that the compiler needs only for the layout."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from workbench.suggestions.card import Suggestion, Written
from workbench.words import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from workbench.graph.snapshot import GraphSnapshot
    from workbench.project.model import ModelSource, Project
    from workbench.results import LowerResult, VelaOperation

_PICTURE_RANK = 4
_TRANSPOSE = "Transpose"


def channels_last(
    project: Project, lowered: LowerResult, program: GraphSnapshot
) -> Iterator[Suggestion]:
    """Yield an example input in channels-last order, where a delegate begins with transposes.

    Without a callable that makes the example input there is no line to change.
    """
    rows = [
        row
        for report in lowered.vela
        for row in _leading(report.operations, _readers(program), alone=len(lowered.vela) == 1)
    ]
    place = _place(project.model)
    if not rows or not place:
        return
    cycles = sum(row.cycles for row in rows)
    total = sum(report.cycles_total for report in lowered.vela)
    yield Suggestion(
        id="channels_last",
        title="Give the example input in channels-last order",
        evidence=f"{plural(len(rows), 'transpose')} at the input only turn the layout. The "
        "program is exported for the layout of the example input; the application must then "
        "give the channels of a pixel beside each other.",
        expected=f"These transposes take {cycles:,} of {total:,} cycles, estimated (Vela "
        f"{lowered.vela_version}); the layout of what follows can change too.",
        written=(Written(place, "", "x = x.to(memory_format=torch.channels_last)"),),
    )


def _readers(program: GraphSnapshot) -> frozenset[str]:
    """Return the modules that read a picture which is an input of the program."""
    return frozenset(
        user.module
        for node in program.nodes
        if node.kind == "input" and node.outputs and len(node.outputs[0].shape) == _PICTURE_RANK
        for user in program.consumers(node.id)
    )


def _leading(
    rows: Sequence[VelaOperation], readers: frozenset[str], *, alone: bool
) -> list[VelaOperation]:
    """Return the transposes a delegate begins with, if it is one that reads an input."""
    found = list(takewhile(lambda row: row.operator == _TRANSPOSE, rows))
    reads = any(row.module and row.module in readers for row in found)
    return found if reads or (alone and "" in readers) else []


def _place(model: ModelSource) -> str:
    """Return where the example input is made; "" where no code makes it."""
    if model.inputs or model.input_shapes or ".py:" not in model.spec:
        return ""
    return model.spec.replace(":", ", ", 1) + "()"

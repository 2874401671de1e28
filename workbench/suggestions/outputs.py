"""Suggestions for outputs that join tensors of different size."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from workbench.project import edits
from workbench.results import PartQuality
from workbench.suggestions.suggestion import Alternative, ExpectedGain, Suggestion
from workbench.text import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from workbench.graph.snapshot import GraphSnapshot
    from workbench.project.model import Project
    from workbench.results import EvaluateResult, ExportResult, OutputPart, OutputQuality

# A part below this SQNR is worth an output of its own [dB].
_LOW_DB = 20.0
_NAMED = 6
_WIDE = "a16w8"


def lossy_joins(evaluated: EvaluateResult | None) -> dict[int, list[PartQuality]]:
    """Return the parts of each output that the program returns joined, and that loses a part."""
    parts: dict[int, list[PartQuality]] = defaultdict(list)
    for part in evaluated.parts if evaluated is not None else ():
        if part.shared:
            parts[part.output].append(part)
    return {output: rows for output, rows in parts.items() if any(map(_is_low, rows))}


def _name_of(output: int, evaluated: EvaluateResult | None) -> str:
    names = [quality.name for quality in evaluated.outputs] if evaluated is not None else []
    return names[output] if output < len(names) else f"output {output}"


def split_output(evaluated: EvaluateResult | None, exported: ExportResult | None) -> Iterator[Suggestion]:
    """Yield the suggestions to return what an output joins one by one.

    Args:
        evaluated: The quality of the quantized model.
        exported: The outputs of the model, with the operations that make their parts.
    """
    joins = lossy_joins(evaluated)
    for output, parts in joins.items():
        whole = _name_of(output, evaluated)
        lost = [part for part in parts if _is_low(part)]
        names = listed([part.name for part in parts[:_NAMED]])
        more = f" and {len(parts) - _NAMED} more" if len(parts) > _NAMED else ""
        yield Suggestion(
            id="split_output" if len(joins) == 1 else f"split_output:{output}",
            title=f"Return the {len(parts)} parts of {whole} one by one",
            evidence=f"{names}{more} share the range of {whole}, "
            f"{_range(parts)}. {listed([_loss(part) for part in lost[:_NAMED]])}.",
            expected="Each part gets a range of its own; the firmware joins them as the note and "
            "the header say.",
            gain=ExpectedGain(),
            edit=partial(edits.split_outputs, positions=(output,)),
            alternatives=tuple(_in_16_bits(output, lost, exported)),
            improves="sqnr_db",
            output=output,
        )


def normalise_output(evaluated: EvaluateResult | None, exported: ExportResult | None) -> Iterator[Suggestion]:
    """Yield the suggestions to divide the parts of an output, where they can be divided.

    Args:
        evaluated: The quality of the quantized model.
        exported: The outputs of the model, with the operations that make their parts.
    """
    joins = lossy_joins(evaluated)
    for output, parts in joins.items():
        lost = [part for part in parts if _is_low(part)]
        yield from _divided(output, parts, lost, exported, alone=len(joins) == 1)


def _divided(
    output: int,
    parts: Sequence[PartQuality],
    lossy: Sequence[PartQuality],
    exported: ExportResult | None,
    *,
    alone: bool,
) -> Iterator[Suggestion]:
    sizes = [_largest(part) for part in parts]
    known = exported.model_outputs[output : output + 1] if exported is not None else ()
    if not all(model_output.divisible for model_output in known) or not known or None in sizes:
        return
    factors = [2.0 ** math.ceil(math.log2(size)) if size else 1.0 for size in sizes]
    whole = known[0].name
    named = listed([f"{p.name} / {f:g}" for p, f in zip(parts, factors, strict=True)][:_NAMED])
    yield Suggestion(
        id="normalise_output" if alone else f"normalise_output:{output}",
        title=f"Divide the {len(parts)} parts of {whole} to one size",
        evidence=f"{listed([_loss(part) for part in lossy[:_NAMED]])}.",
        expected=f"{named}. The shape of {whole} stays, and one range holds all parts; the "
        "firmware multiplies them again, as the note and the header say.",
        gain=ExpectedGain(),
        edit=partial(edits.divide_output, position=output, factors=factors),
        improves="sqnr_db",
        output=output,
    )


def _largest(part: PartQuality) -> float | None:
    """Return the largest absolute value of a part; None if it is unknown."""
    if part.minimum is None or part.maximum is None:
        return None
    return max(abs(part.minimum), abs(part.maximum))


def wide_output(evaluated: EvaluateResult | None, exported: ExportResult | None) -> Iterator[Suggestion]:
    """Yield the suggestions of 16 bits for the operations that make an output, or a part of one.

    Parts that are returned joined are left to ``split_output``.

    Args:
        evaluated: The quality of the quantized model.
        exported: The outputs of the model, with the operations that make them and their parts.
    """
    if evaluated is None or exported is None:
        return
    for index, output in enumerate(exported.model_outputs[: len(evaluated.outputs)]):
        rows = {p.name: p for p in evaluated.parts if p.output == index and not p.shared}
        low = [part for part in output.parts if part.name in rows and _is_low(rows[part.name])]
        nodes = [node for part in low for node in part.nodes]
        if not output.parts and _is_low(evaluated.outputs[index]):
            nodes = list(output.nodes)
        if nodes:
            named = listed([part.name for part in low]) or output.name
            yield Suggestion(
                id=f"wide_output:{index}",
                title=f"Assign {_WIDE} to what makes {named}",
                evidence=f"{_figures(low, rows, evaluated.outputs[index])}. 8 bits of its last "
                "operations do not hold its values.",
                expected="The network before them stays in 8 bits.",
                edit=partial(
                    edits.assign_many, kind="node_name", matches=list(dict.fromkeys(nodes)), config=_WIDE
                ),
                improves="sqnr_db",
                output=index,
            )


def wide_ends(
    project: Project, program: GraphSnapshot, exported: ExportResult | None, labels: Mapping[str, str]
) -> Iterator[Suggestion]:
    """Yield the suggestion of 16 bits for inputs and outputs, where 8 bits there undo 16 beside them.

    Args:
        project: The rules.
        program: The exported float program.
        exported: The outputs of the model, with the operations that make them.
        labels: The config of each operation, e.g. ``a8w8``.
    """
    ends = [rule for rule in project.rules if rule.enabled and rule.kind == "io"]
    ends = ends or [rule for rule in project.rules if rule.enabled and rule.kind == "global"]
    is_narrow = bool(ends) and isinstance(ends[-1].config, str) and ends[-1].config.startswith("a8")
    if not is_narrow:
        return
    returned = [
        output.name
        for output in (exported.model_outputs if exported is not None else ())
        if output.nodes and all(labels.get(node) == _WIDE for node in output.nodes)
    ]
    read = [
        node.id
        for node in program.nodes
        if node.kind == "input" and (readers := program.consumers(node.id))
        if all(labels.get(reader.id) == _WIDE for reader in readers)
    ]
    narrowed = [f"What makes {listed(returned)} has 16 bits, and is returned in 8"] if returned else []
    narrowed += [f"What reads {listed(read)} has 16 bits, and is given 8"] if read else []
    if narrowed:
        yield Suggestion(
            id="wide_ends",
            title=f"Assign {_WIDE} to inputs and outputs",
            evidence=f"{'. '.join(narrowed)}: rules for modules and operators do not reach "
            "inputs and outputs.",
            expected="A rule for inputs and outputs gives them 16 bits.",
            edit=partial(edits.assign, kind="io", match="", config=_WIDE),
            improves="sqnr_db",
        )


def _is_low(row: OutputQuality) -> bool:
    is_constant = isinstance(row, PartQuality) and row.constant
    return not row.whole and (is_constant or row.decibels < _LOW_DB)


def _figures(parts: Sequence[OutputPart], rows: Mapping[str, PartQuality], output: OutputQuality) -> str:
    if parts:
        return listed([_loss(rows[part.name]) for part in parts[:_NAMED]])
    figure = "no SQNR" if output.sqnr_db is None else f"{output.sqnr_db:.1f} dB"
    return f"{output.name} has {figure}"


def _in_16_bits(
    output: int, lossy: Sequence[PartQuality], exported: ExportResult | None
) -> Iterator[Alternative]:
    """Yield the split with 16 bits for what makes the lost parts, then for the whole model."""
    known = exported.model_outputs[output : output + 1] if exported is not None else ()
    parts = [part for model_output in known for part in model_output.parts]
    names = {part.name for part in lossy}
    nodes = list(dict.fromkeys(n for part in parts if part.name in names for n in part.nodes))
    if nodes:
        yield Alternative(
            title=f"with {_WIDE} for {listed(sorted(names))}",
            edit=partial(_split_wide, output=output, nodes=nodes),
        )
    yield Alternative(
        title=f"with {_WIDE} for the whole model", edit=partial(_split_wide, output=output, nodes=())
    )


def _split_wide(project: Project, output: int, nodes: Sequence[str]) -> Project:
    project = edits.split_outputs(project, (output,))
    if not nodes:
        return edits.assign(project, "global", "", _WIDE)
    return edits.assign_many(project, "node_name", list(nodes), _WIDE)


def _loss(part: PartQuality) -> str:
    figure = "no SQNR" if part.sqnr_db is None else f"{part.sqnr_db:.1f} dB"
    state = f"is constant ({figure})" if part.constant else f"has {figure}"
    return f"{part.name} ({_range([part])}) {state}"


def _range(parts: Sequence[PartQuality]) -> str:
    known = [p for p in parts if p.minimum is not None and p.maximum is not None]
    if not known:
        return "of unknown range"
    low, high = min(p.minimum or 0.0 for p in known), max(p.maximum or 0.0 for p in known)
    return f"{low:.4g} to {high:.4g}"

"""Columns of the observed tensors, of the ranges that methods give, and of those that were chosen."""

from __future__ import annotations

from ui.shared.number_format import DASH, decibel, figure, percent
from ui.shared.range_rows import ChoiceOfRange, RangeRow, method_title
from ui.shared.sortable_table import Column
from workbench.analysis.ranges import METHODS_BY_ID, Choice
from workbench.graph.labels import operator_name
from workbench.project.configs import FixedRange, RangeMethod
from workbench.text import listed

# So many of the tensors with one range are named.
_SHARED_NAMED = 3

METHOD_COLUMNS: tuple[Column[Choice], ...] = (
    Column("Method", lambda c: c.title),
    Column(
        "SQNR",
        lambda c: decibel(c.sqnr_db),
        lambda c: c.sqnr_db,
        "Predicted from the histogram: rounding and clipping of this tensor only",
    ),
    Column(
        "Clipped",
        lambda c: percent(c.clipped),
        lambda c: c.clipped,
        "Fraction of values more than half a step outside the quantized range",
    ),
    Column("Step", lambda c: figure(c.grid.scale), lambda c: c.grid.scale),
    Column("Min", lambda c: figure(c.minimum), lambda c: c.minimum),
    Column("Max", lambda c: figure(c.maximum), lambda c: c.maximum),
)


def _end(chosen: ChoiceOfRange, name: str) -> float | None:
    return float(getattr(chosen, name)) if isinstance(chosen, FixedRange) else None


def _scope(chosen: ChoiceOfRange) -> str:
    return chosen.scope_text if isinstance(chosen, RangeMethod) else chosen.tensor


def _by(chosen: ChoiceOfRange) -> str:
    return method_title(chosen.method if isinstance(chosen, RangeMethod) else "")


CHOSEN_COLUMNS: tuple[Column[ChoiceOfRange], ...] = (
    Column(
        "Scope",
        _scope,
        meaning="Pinned ranges override methods; a tensor overrides its module, a module overrides all",
    ),
    Column("Source", _by),
    Column("Min", lambda c: figure(_end(c, "minimum")), lambda c: _end(c, "minimum")),
    Column("Max", lambda c: figure(_end(c, "maximum")), lambda c: _end(c, "maximum")),
)


def describe_choice(choice: Choice) -> str:
    """Return what a method does."""
    known = METHODS_BY_ID.get(choice.method)
    return known.meaning if known is not None else "Range of torchao's histogram observer"


def describe_chosen(chosen: ChoiceOfRange) -> str:
    """Return what an override of a range is."""
    if isinstance(chosen, RangeMethod):
        return f"{_scope(chosen)}: by {_by(chosen)}; updated when data, weights or precision change"
    return f"{chosen.tensor}: pinned by hand"


def overridden_tensor(chosen: ChoiceOfRange) -> str:
    """Return the tensor of an override; "" if it covers more than one."""
    if isinstance(chosen, FixedRange):
        return chosen.tensor
    return chosen.match if chosen.scope == "tensor" else ""


def facts_of(row: RangeRow) -> list[tuple[str, str]]:
    """Return the figures of a tensor by their names."""
    tensor = row.tensor
    facts = []
    if row.is_known and (tensor.format or row.grid is not None):
        facts.append(("Observed", f"{figure(tensor.minimum)} to {figure(tensor.maximum)}"))
    if row.is_known and row.grid is not None:
        channels = f", largest of {tensor.channels} channels" if tensor.channels > 1 else ""
        facts += [
            ("99.8 %", f"{figure(tensor.p_low)} to {figure(tensor.p_high)}"),
            ("Quantized", f"{figure(row.grid[0])} to {figure(row.grid[1])}"),
            ("Step", f"{figure(row.step)}{channels}"),
        ]
    if row.clipped is not None:
        facts.append(("Clipped", percent(row.clipped)))
    if row.sqnr_db is not None:
        facts.append(("SQNR", f"{decibel(row.sqnr_db)}, measured"))
    return facts


def describe_origin(row: RangeRow) -> str:
    """Return what a tensor is, and the operation and module that it belongs to."""
    tensor = row.tensor
    parts = [f"{tensor.kind}, {row.type_text}", tensor.op, tensor.module]
    if tensor.origin and tensor.origin != tensor.node and tensor.kind != "weight":
        parts.append(f"node {tensor.origin}")
    return " \u00b7 ".join(filter(None, parts))


def remarks_on(row: RangeRow) -> list[str]:
    """Return what else is to be known of the range of a tensor, in sentences."""
    tensor, lines = row.tensor, []
    if tensor.dynamic:
        lines.append("one range per call; shown over all samples")
    if tensor.shared:
        named = listed(list(tensor.shared[:_SHARED_NAMED]))
        more = f" and {len(tensor.shared) - _SHARED_NAMED} more" if len(tensor.shared) > _SHARED_NAMED else ""
        lines.append(f"one range with {named}{more}: the figures are of all of them")
    if tensor.problem:
        lines.append(tensor.problem)
    return lines


def describe(row: RangeRow) -> str:
    """Return the figures of a tensor, one per line."""
    figures = [f"{name}: {value}" for name, value in facts_of(row)]
    return "\n".join([row.name, describe_origin(row), *figures, *remarks_on(row)])


def _dead(row: RangeRow) -> str:
    tensor = row.tensor
    return f"{tensor.dead} of {tensor.channels}" if tensor.channels > 1 else DASH


def _if_known(row: RangeRow, value: float) -> float | None:
    return value if row.is_known else None


COLUMNS: tuple[Column[RangeRow], ...] = (
    Column("#", lambda r: str(r.tensor.index), lambda r: r.tensor.index, "Program order"),
    Column("Tensor", lambda r: r.name),
    Column("Kind", lambda r: r.tensor.kind),
    Column("Type", lambda r: r.type_text, meaning="Integer type or number format"),
    Column(
        "Min",
        lambda r: figure(_if_known(r, r.tensor.minimum)),
        lambda r: _if_known(r, r.tensor.minimum),
        "Minimum observed value",
    ),
    Column(
        "Max",
        lambda r: figure(_if_known(r, r.tensor.maximum)),
        lambda r: _if_known(r, r.tensor.maximum),
        "Maximum observed value",
    ),
    Column("Width", lambda r: figure(r.width), lambda r: r.width, "Max - min"),
    Column(
        "Step",
        lambda r: figure(r.step),
        lambda r: r.step,
        "Quantization step; the largest one of per-channel weights",
    ),
    Column(
        "Outlier ratio",
        lambda r: figure(r.outliers, 3),
        lambda r: r.outliers,
        "Width divided by the width of the middle 99.8 % of values",
    ),
    Column(
        "Clipped",
        lambda r: percent(r.clipped),
        lambda r: r.clipped,
        "Fraction of values more than half a step outside the quantized range, from the "
        "histogram; unknown for per-channel grids",
    ),
    Column(
        "SQNR",
        lambda r: decibel(r.sqnr_db),
        lambda r: r.sqnr_db,
        "Float against quantized, measured in PyTorch",
    ),
    Column(
        "Zeros",
        lambda r: percent(r.tensor.zeros),
        lambda r: r.tensor.zeros,
        "Fraction of values that are exactly zero",
    ),
    Column(
        "Dead",
        _dead,
        lambda r: r.tensor.dead if r.tensor.channels > 1 else None,
        "Channels with only zero values",
    ),
    Column(
        "Override",
        lambda r: r.decided.who if r.decided is not None else "",
        meaning="Source of the range that replaces calibration's range",
    ),
    Column(
        "Zero point",
        lambda r: str(r.effective.zero_point) if r.effective else DASH,
        lambda r: r.effective.zero_point if r.effective else None,
        "Integer that represents 0",
    ),
    Column("Operator", lambda r: operator_name(r.tensor.op)),
    Column("Module", lambda r: r.tensor.module or DASH),
    Column("Observer", lambda r: r.tensor.observer),
    Column("Problem", lambda r: r.tensor.problem),
)

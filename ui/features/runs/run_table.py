"""Table of runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ui.shared.number_format import DASH, accuracy_text, count, cpu_line, decibel, kib, percent, size
from ui.shared.sortable_table import Column
from workbench.graph.labels import elide
from workbench.history.comparison import ACCURATE, CORRECT, KINDS, ComparedRow, leading_number, rules_line
from workbench.history.runs import Cost, Run


@dataclass(frozen=True)
class RunRow:
    """A run, whether it is on the Pareto front, and whether its model is not the last run's.

    ``settings`` are those that differ from the first run with the same rules.
    """

    run: Run
    is_best: bool = False
    is_other: bool = False
    settings: str = ""

    @property
    def rules(self) -> str:
        """What decides its precision, and the settings."""
        return ", ".join(filter(None, (rules_line(self.run), self.settings)))


def _cost(read: Callable[[Cost], float], text: Callable[[float], str]) -> Callable[[RunRow], str]:
    return lambda row: text(read(row.run.cost)) if row.run.cost is not None else DASH


def _value(read: Callable[[Cost], float]) -> Callable[[RunRow], float | None]:
    return lambda row: read(row.run.cost) if row.run.cost is not None else None


def describe_run(run: Run) -> str:
    """Return the figures of a run, one per line."""
    lines = [f"Run {run.number}, {when(run)}", rules_line(run)]
    if run.quality.samples:
        text = f"{run.accuracy_name}  {accuracy_text(run)}"
        lines.append(f"{text}, measured in PyTorch")
    if run.cost is not None:
        lines.append(
            f"{count(run.cost.cycles)} cycles, SRAM {size(run.cost.sram_bytes)}, "
            f"estimated (Vela {run.cost.vela_version})"
        )
        lines.append(cpu_line(run.cost.cpu_nodes, run.cost.cpu_cycles))
    if run.gate is not None:
        lines.append(f"Compiled program {run.gate.sentence}")
        if run.gate.execution is not None:
            lines.append(run.gate.execution.sentence)
    if run.accuracy_result is not None:
        lines.append(f"Accuracy: {run.accuracy_result.sentence}")
    measurement = run.simulated
    if measurement is not None:
        cycles = f"{count(measurement.cycles)} cycles" if measurement.cycles is not None else "no cycles"
        lines.append(
            f"{cycles}, {percent(measurement.exact)} of outputs equal to TOSA, measured "
            f"({measurement.simulator} {measurement.version})".replace(" )", ")")
        )
    return "\n".join(lines)


def _measured(run: Run) -> float | None:
    return run.simulated.cycles if run.simulated is not None else None


def _time(run: Run) -> float | None:
    return run.cost.inference_ms if run.cost is not None else None


def _exact(run: Run) -> float | None:
    return run.simulated.exact if run.simulated is not None else None


def _accurate(row: RunRow) -> str:
    result = row.run.accuracy_result
    return DASH if result is None else ACCURATE.get(result.verdict, DASH)


def when(run: Run) -> str:
    """Return the time of a run as text."""
    return run.made[:16].replace("T", " ")


RUN_COLUMNS: tuple[Column[RunRow], ...] = (
    Column("Run", lambda r: str(r.run.number), lambda r: r.run.number),
    Column(
        "Best",
        lambda r: "\u25cf" if r.is_best else "",
        None,
        "Pareto-optimal in accuracy, cycles and SRAM, among the runs with the newest one's clock and the "
        "fewest CPU operators",
    ),
    Column("Rules", lambda r: r.rules, gives_way=True),
    Column("Model", lambda r: "other" if r.is_other else "", None, "Of another model than the newest run"),
    Column(
        "Accuracy",
        lambda r: accuracy_text(r.run),
        lambda r: r.run.accuracy,
        "Custom metric, else top-1, else SQNR; measured in PyTorch",
    ),
    Column("SQNR", lambda r: decibel(r.run.quality.sqnr_db), lambda r: r.run.quality.sqnr_db),
    Column(
        "Correct",
        lambda r: CORRECT.get(r.run.gate.verdict, DASH) if r.run.gate else DASH,
        None,
        "Whether the compiled program is the quantized model, within the limits; computed",
    ),
    Column(
        "Accurate",
        _accurate,
        None,
        "Whether the program is close enough to the float model, within the limits",
    ),
    Column(
        "Cycles",
        _cost(lambda c: c.cycles, count),
        _value(lambda c: c.cycles),
        "Estimated by Vela; a dash before compilation",
    ),
    Column(
        "Time [ms]",
        lambda r: DASH if (time := _time(r.run)) is None else f"{time:.4g}",
        lambda r: _time(r.run),
        "Of one inference on the NPU, estimated; a dash before compilation",
    ),
    Column(
        "Measured",
        lambda r: DASH if _measured(r.run) is None else count(_measured(r.run)),
        lambda r: _measured(r.run),
        "NPU cycles measured on an FVP or a board",
    ),
    Column(
        "SRAM [KiB]",
        _cost(lambda c: c.sram_bytes, lambda v: kib(int(v))),
        _value(lambda c: c.sram_bytes),
        "Peak, estimated by Vela",
    ),
    Column(
        "CPU ops",
        _cost(lambda c: c.cpu_nodes, count),
        _value(lambda c: c.cpu_nodes),
        "Operators on the CPU; the row's tooltip has their roughly estimated cycles",
    ),
    Column(
        "Constants [KiB]",
        _cost(lambda c: c.flash_bytes, lambda v: kib(int(v))),
        _value(lambda c: c.flash_bytes),
        "Weights and commands, estimated by Vela",
    ),
    Column(
        "Equal to TOSA",
        lambda r: percent(_exact(r.run)),
        lambda r: _exact(r.run),
        "Fraction of simulator output elements equal to the TOSA reference model",
    ),
    Column("Target", lambda r: r.run.target.id),
    Column("Date", lambda r: when(r.run)[5:], None, "Month, day and time at which the run ended (UTC)"),
)

SQNR_COLUMN, TARGET_COLUMN = (
    [column.title for column in RUN_COLUMNS].index(title) for title in ("SQNR", "Target")
)


def describe_run_row(row: RunRow) -> str:
    """Return the tooltip of a run."""
    return describe_run(row.run)


CHANGE_COLUMN = 2
_LONGEST_TITLE = 36


def _what(row: ComparedRow) -> str:
    """Return what a row compares, as a title where it is a figure."""
    is_title = row.kind == KINDS["figures"] and row.what.partition(" ")[0].islower()
    return f"{row.what[:1].upper()}{row.what[1:]}" if is_title else row.what


def comparison_columns(titles: Sequence[str]) -> tuple[Column[ComparedRow], ...]:
    """Return the columns of the differences of runs: the change first, then the value in each run."""

    def value(index: int) -> Callable[[ComparedRow], str]:
        return lambda row: row.values[index] or DASH

    def number(index: int) -> Callable[[ComparedRow], float | None]:
        return lambda row: leading_number(row.values[index])

    return (
        Column("Kind", lambda row: row.kind, gives_way=True),
        Column("What", _what),
        Column(
            _change_title(titles),
            lambda row: row.change,
            lambda row: leading_number(row.change),
            "Of the last run from the first",
        ),
        *(
            Column(elide(title, _LONGEST_TITLE), value(index), number(index), title)
            for index, title in enumerate(titles)
        ),
    )


def _change_title(titles: Sequence[str]) -> str:
    """Return the title of the change: of more than two runs it says between which."""
    first, last = (title.partition(" (")[0] for title in (titles[0], titles[-1])) if titles else ("", "")
    return f"{first} to {last}" if len(titles) > 2 else "Change"


def describe_compared(row: ComparedRow) -> str:
    """Return what differs, its values and the change."""
    return "\n".join((row.what, " \u2192 ".join(value or DASH for value in row.values), row.change))

"""Compare a run with a baseline: what changed, and whether limits are broken."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from workbench.analysis.gate import Limit, checked, limit_text
from workbench.api.projects import open as open_project
from workbench.api.runs import RunResult
from workbench.errors import Place, failure
from workbench.escaping import html_table
from workbench.history.comparison import Change, difference
from workbench.history.outcomes import Outcome, outcome_changes, outcome_of, read_outcome
from workbench.history.runs import Run, run_of
from workbench.history.store import History, history_path
from workbench.pipeline.cache import Cache, default_root
from workbench.pipeline.plan import plan
from workbench.project.gate import FIGURES, condition_against
from workbench.project.model import PROJECT_SUFFIX
from workbench.project.opened import OpenProject
from workbench.text import whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence

Operand = RunResult | OpenProject | Run | str | Path
# Figures that the compiler estimates. Those of two releases are not ranked: their models differ.
ESTIMATES = frozenset({"cycles", "ms"})


@dataclass(frozen=True)
class FigureChange:
    """A figure of ``workbench.project.gate.FIGURES`` in both runs.

    Attributes:
        name: The figure.
        baseline: Its value in the baseline; None if it has none.
        value: Its value in the run; None if it has none. Equal sides have an infinite SQNR.
        comparable: False for estimates of two releases of Vela, which have no change.
    """

    name: str
    baseline: float | None
    value: float | None
    comparable: bool = True

    @property
    def change(self) -> float | None:
        """Value minus baseline; None if one is missing or the difference is not finite."""
        if self.baseline is None or self.value is None or not self.comparable:
            return None
        if self.baseline == self.value:
            return 0.0
        difference = self.value - self.baseline
        return difference if math.isfinite(difference) else None

    @property
    def percent(self) -> float | None:
        """The change in percent of the baseline; None if there is no change or no baseline."""
        return 100 * self.change / abs(self.baseline) if self.change and self.baseline else None


@dataclass(frozen=True)
class Comparison:
    """How a run differs from a baseline.

    Attributes:
        before: The baseline.
        after: The run that is compared with it.
        parts: Changes by what they concern: target, rules, settings, figures, layers, versions.
        limits: The conditions that were given, with the run's figures. ``limit.held`` is False if
            one is broken, or its figure is missing.
    """

    before: Outcome
    after: Outcome
    parts: Mapping[str, tuple[Change, ...]]
    limits: tuple[Limit, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not any(self.parts.values())

    @property
    def figures(self) -> tuple[FigureChange, ...]:
        """Every figure that one of both has."""
        before, after = self.before.numbers, self.after.numbers
        other = _has_other_estimator(self.before, self.after)
        return tuple(
            FigureChange(name, before.get(name), after.get(name), not (other and name in ESTIMATES))
            for name in FIGURES
            if name in before or name in after
        )

    @property
    def broken(self) -> tuple[str, ...]:
        """What is not accepted: broken limits, and a program that differs or is not accurate."""
        broken = [limit_text(limit) for limit in self.limits if not limit.held]
        if self.after.verdict == "differs":
            broken.append(self.after.sentence)
        if self.after.accuracy == "not accurate enough":
            broken.append(self.after.accuracy_sentence)
        return tuple(broken)

    @property
    def passed(self) -> bool:
        """Whether no limit is broken, and the program is compiled correctly and accurate enough."""
        return not self.broken

    def document(self) -> dict[str, Any]:
        """Return the comparison as ``compare --json`` prints it."""
        return {
            "passed": self.passed,
            "broken": list(self.broken),
            "baseline": self.before.document(),
            "run": self.after.document(),
            "figures": [_figure(figure) for figure in self.figures],
            "limits": [limit.model_dump(mode="json") for limit in self.limits],
            "changes": {name: [_values(c) for c in part] for name, part in self.parts.items()},
        }

    def markdown(self) -> str:
        """Return the comparison as Markdown: the verdict, a table of figures, and all changes."""
        head = "passed" if self.passed else f"failed: {'; '.join(self.broken)}"
        lines = [f"## {self.after.project}: {head}", ""]
        lines += _rows(("figure", "baseline", "now", "change"), map(_figure_row, self.figures))
        if self.limits:
            rows = [
                (limit.name, limit.limit, _number(limit.value, limit), _held(limit)) for limit in self.limits
            ]
            lines += _rows(("limit", "must be", "is", ""), rows)
        for name, part in self.parts.items():
            if part and name != "figures":
                rows_of_part = [(c.what, c.before or "-", c.after or "-") for c in part]
                lines += _rows((name, "baseline", "now"), rows_of_part)
        return "\n".join(lines).rstrip() + "\n"

    def junit(self) -> str:
        """Return the comparison as JUnit XML: one test for each answer, one for each limit."""
        suite = ElementTree.Element("testsuite", name=f"workbench compare {self.after.project}")
        properties = ElementTree.SubElement(suite, "properties")
        for figure in self.figures:
            for side, value in (("baseline", figure.baseline), ("now", figure.value)):
                text = "" if value is None else repr(value)
                ElementTree.SubElement(properties, "property", name=f"{figure.name}.{side}", value=text)
        verdict, accuracy = self.after.verdict, self.after.accuracy
        cases = [
            ("verdict", self.after.sentence, verdict != "differs", verdict == "not verified"),
            (
                "accuracy",
                self.after.accuracy_sentence,
                accuracy != "not accurate enough",
                accuracy == "not measured",
            ),
        ]
        for limit in self.limits:
            name = f"{limit.name} {limit.limit}"
            cases.append((name, limit_text(limit), bool(limit.held), False))
        for name, text, held, skipped in cases:
            case = ElementTree.SubElement(suite, "testcase", classname="compare", name=name)
            if not held:
                ElementTree.SubElement(case, "failure", message=text).text = text
            elif skipped:
                ElementTree.SubElement(case, "skipped", message=text)
        suite.set("tests", str(len(cases)))
        suite.set("failures", str(sum(not held for _, _, held, _ in cases)))
        suite.set("skipped", str(sum(held and skipped for _, _, held, skipped in cases)))
        suite.set("errors", "0")
        ElementTree.indent(suite)
        text = ElementTree.tostring(suite, encoding="unicode")
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'

    def _repr_html_(self) -> str:
        rows = [
            (name, change.what, change.before or "-", change.after or "-")
            for name, changes in self.parts.items()
            for change in changes
        ]
        return html_table("Comparison", ("", "what", "before", "after"), rows)


def compare(before: Operand, after: Operand, *, fail_if: Sequence[str] = ()) -> Comparison:
    """Return what differs between two runs: rules, figures, layers and versions.

    A run is given as the result of ``run``; a project or its file, for the results of its present
    settings; ``FILE.qwb@N`` for a run of its history; a ``manifest.json``, the folder of
    deliverables that holds it, or a file with the output of ``workbench run --json``.

    Args:
        before: The baseline.
        after: The run that is compared with it.
        fail_if: Conditions under which the run is not accepted, such as ``"lsb>2"``,
            ``"cycles>+5%"`` or ``"top1<baseline-0.01"``.

    Raises:
        WorkbenchError: A run has no figures or cannot be read, or a condition is invalid.
    """
    first, second = _read(before), _read(after)
    limits = tuple(_limited(text, first.outcome, second.outcome) for text in fail_if)
    parts: dict[str, tuple[Change, ...]] = dict(outcome_changes(first.outcome, second.outcome))
    if first.run is not None and second.run is not None:
        parts |= difference(first.run, second.run).parts
    else:
        parts["figures"] = tuple(_figure_changes(first.outcome, second.outcome))
    return Comparison(first.outcome, second.outcome, parts, limits)


@dataclass(frozen=True)
class _Read:
    """An outcome, and the run it is of if that is known."""

    outcome: Outcome
    run: Run | None = None


def _read(operand: Operand) -> _Read:
    match operand:
        case RunResult():
            if operand.record is None:
                raise failure(
                    "A run without measured quality cannot be compared.",
                    "Run at least to the stage evaluate.",
                    code="run-without-quality",
                )
            return _Read(outcome_of(operand.record, operand.folders), operand.record)
        case Run():
            return _Read(outcome_of(operand), operand)
        case OpenProject():
            return _present(operand)
        case _:
            return _read_file(str(operand))


def _read_file(name: str) -> _Read:
    file, at, number = name.rpartition("@")
    if at and file.endswith(PROJECT_SUFFIX):
        return _of_history(Path(file), number)
    if name.endswith(PROJECT_SUFFIX):
        return _present(open_project(name))
    return _Read(read_outcome(Path(name)))


def _of_history(file: Path, number: str) -> _Read:
    open_project(file)
    if (run_number := whole_number(number)) is None:
        raise failure(
            f"{number!r} is not the number of a run.",
            f"Example: {file.name}@1. 'workbench runs {file.name}' lists them.",
            Place(kind="option", id="run"),
            code="run-unknown",
        )
    with closing(History(history_path(file))) as history:
        run = history.run(run_number)
    return _Read(outcome_of(run), run)


def _present(opened: OpenProject) -> _Read:
    """Return the run of a project's present settings: from the cache, else from its history."""
    cache = Cache(default_root())
    planned = plan(opened, cache)
    run = run_of(opened.project, planned, cache)
    kept = _cached_run(opened, {stage.id: stage.key for stage in planned.stages})
    if run is not None:
        done = [s for s in planned.stages if s.key and cache.has(s.key)]
        if kept is not None and kept.gate is not None:
            # With the conditions of its last run, which the results do not have.
            answers = {"gate": kept.gate, "accuracy_result": kept.accuracy_result}
            run = run.model_copy(update=answers)
        return _Read(outcome_of(run, {s.id: cache.folder(s.key) for s in done}), run)
    if kept is None:
        raise failure(
            f"{opened.project.name} has no results for its present settings.",
            "Run: workbench run PROJECT",
            Place(kind="project", id=opened.project.name),
            code="run-missing",
        )
    return _Read(outcome_of(kept), kept)


def _cached_run(opened: OpenProject, keys: Mapping[str, str]) -> Run | None:
    if opened.path is None:
        return None
    wanted = [keys.get(stage, "") for stage in ("evaluate", "lower")]
    with closing(History(history_path(opened.path))) as history:
        for run in reversed(history.runs()):
            if [run.digests.get(stage, "") for stage in ("evaluate", "lower")] == wanted:
                return run
    return None


def _has_other_estimator(before: Outcome, after: Outcome) -> bool:
    """Return whether two releases of Vela made the estimates; unknown ones count as the same."""
    releases = {outcome.versions.get("ethos-u-vela", "") for outcome in (before, after)} - {""}
    return len(releases) > 1


def _limited(text: str, before: Outcome, after: Outcome) -> Limit:
    known, baseline = after.numbers, before.numbers
    reason = "which the baseline does not have"
    if _has_other_estimator(before, after):
        baseline = {name: value for name, value in baseline.items() if name not in ESTIMATES}
    condition = condition_against(text, baseline)
    if not math.isnan(condition.value):
        return checked(condition, known, required=True)
    if condition.name in before.numbers:
        reason = f"which Vela {before.versions['ethos-u-vela']} estimated in the baseline"
    sentence = f"{text.strip()}, {reason}"
    return Limit(name=condition.name, limit=sentence, value=known.get(condition.name), held=False)


def _figure_changes(before: Outcome, after: Outcome) -> Iterator[Change]:
    old, new = before.numbers, after.numbers
    for name in FIGURES:
        if old.get(name) != new.get(name):
            texts = [f"{known[name]:.9g}" if name in known else "" for known in (old, new)]
            yield Change(name, *texts)


def _figure(figure: FigureChange) -> dict[str, Any]:
    def plain(value: float | None) -> float | None:
        return value if value is not None and math.isfinite(value) else None

    return {
        "name": figure.name,
        "baseline": plain(figure.baseline),
        "value": plain(figure.value),
        "change": figure.change,
        "percent": figure.percent,
        "comparable": figure.comparable,
    }


def _values(change: Change) -> dict[str, str]:
    return {"what": change.what, "before": change.before, "after": change.after}


def _figure_row(figure: FigureChange) -> tuple[str, str, str, str]:
    texts = ["-" if v is None else f"{v:,.6g}" for v in (figure.baseline, figure.value)]
    change = "-" if figure.comparable else "other estimator: not comparable"
    if figure.change is not None:
        change = "=" if figure.change == 0 else f"{figure.change:+,.6g}"
    if figure.percent is not None:
        change += f" ({figure.percent:+.2f} %)"
    return figure.name, texts[0], texts[1], change


def _number(value: float | None, limit: Limit) -> str:
    if value is None:
        return "equal" if limit.held else "unknown"
    return f"{value:,.6g}"


def _held(limit: Limit) -> str:
    return "held" if limit.held else "**broken**"


def _rows(header: Sequence[str], rows: Any) -> Iterator[str]:
    """Yield the lines of a Markdown table, and an empty one."""
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for row in rows:
        yield f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in row)} |"
    yield ""

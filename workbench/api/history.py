"""The runs that the history beside a project file keeps: list, compare, restore."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.api.projects import saved_path, update
from workbench.errors import ErrorInfo
from workbench.escaping import html_table
from workbench.history.comparison import (
    Change,
    difference,
    estimate_warning,
    front_of,
    lowered_of,
    module_changes,
    rules_line,
)
from workbench.history.runs import Run
from workbench.history.store import History, history_path
from workbench.pipeline.cache import Cache, default_root
from workbench.project.edits import restore_rules
from workbench.project.opened import OpenProject

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True)
class RunHistory:
    """The runs of a project, oldest first.

    Attributes:
        runs: Every run that was kept.
        best: The numbers of the runs on the Pareto front.
        problem: Why the history could not be read whole; None if it could.
    """

    runs: tuple[Run, ...]
    best: frozenset[int]
    problem: ErrorInfo | None = None

    def _repr_html_(self) -> str:
        rows = [
            (run.number, rules_line(run), run.quality.sqnr_db, run.cost and run.cost.cycles)
            for run in self.runs
        ]
        return html_table("Runs", ("run", "rules", "SQNR [dB]", "cycles (estimated)"), rows)


@dataclass(frozen=True)
class RunDifference:
    """How two runs differ.

    Attributes:
        before: The first run.
        after: The second run.
        parts: The differences by part (rules, target, quality, cost, modules ...).
        warning: Why the costs of both cannot be compared; "" if they can.
        problem: Why the history could not be read whole; None if it could.
    """

    before: Run
    after: Run
    parts: Mapping[str, tuple[Change, ...]]
    warning: str
    problem: ErrorInfo | None = None

    def _repr_html_(self) -> str:
        rows = [
            (part, change.what, change.before, change.after)
            for part, changes in self.parts.items()
            for change in changes
        ]
        head = ("part", "what", f"run {self.before.number}", f"run {self.after.number}")
        return html_table("Differences", head, rows)


def history(opened: OpenProject) -> RunHistory:
    """Return the runs in the history beside the project file."""
    with closing(History(history_path(saved_path(opened)))) as store:
        kept = tuple(store.runs())
        return RunHistory(kept, frozenset(front_of(list(kept))), store.problem)


def compare_runs(opened: OpenProject, before: int, after: int, cache: Cache | None = None) -> RunDifference:
    """Return how two runs differ; raises WorkbenchError if the history lacks one of them.

    Cycles per module are compared where the cache still has both compiled programs.
    """
    with closing(History(history_path(saved_path(opened)))) as store:
        a, b = store.run(before), store.run(after)
        problem = store.problem
    parts = {name: tuple(changes) for name, changes in difference(a, b).parts.items()}
    results = cache or Cache(default_root())
    lowered = lowered_of(a, results), lowered_of(b, results)
    if lowered[0] is not None and lowered[1] is not None:
        parts["modules"] = tuple(module_changes(lowered[0], lowered[1]))
    return RunDifference(a, b, parts, estimate_warning(a, b), problem)


def restore_run(opened: OpenProject, number: int) -> tuple[OpenProject, Run]:
    """Write the rules of a run into the project file, and return the project and the run.

    Raises:
        WorkbenchError: The history has no such run, or the file cannot be written.
    """
    with closing(History(history_path(saved_path(opened)))) as store:
        run = store.run(number)
    restored = update(opened, lambda fresh: fresh.edited(lambda project: restore_rules(project, run)))
    return restored, run


def record_run(path: Path, record: Run | None) -> ErrorInfo | None:
    """Keep a run in the history beside a project file; return why it could not be kept."""
    if record is None:
        return None
    with closing(History(history_path(path))) as store:
        store.record(record)
        return store.problem

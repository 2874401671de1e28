"""Keeping what a verb has evaluated in the project's history."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from workbench.cli.output import print_infos
from workbench.history.runs import run_of
from workbench.history.store import History, history_path

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.pipeline.cache import Cache
    from workbench.pipeline.plan import Plan
    from workbench.project.model import Project


def keep_run(path: Path, project: Project, planned: Plan, cache: Cache, origin: str = "") -> None:
    """Keep the run in the history beside ``path``; a history that cannot be kept is said once."""
    run = run_of(project, planned, cache, origin)
    if run is None:
        return
    with closing(History(history_path(path))) as history:
        history.record(run)
        if history.problem is not None:
            print_infos([history.problem], "warning")

"""One study on an engine of its own, followed to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.cli.job import Job
from workbench.cli.output import print_infos
from workbench.protocol import RunStudy, StageFailed

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from pydantic import JsonValue

    from workbench.pipeline.cache import Cache
    from workbench.project.model import Project


def run_study(
    study: str, project: Project, folder: Path, cache: Cache, options: argparse.Namespace,
    asked: dict[str, JsonValue],
) -> bool:  # fmt: skip
    """Run a study and return whether it came to its end; problems are printed.

    Raises:
        Cancelled: somebody pressed Ctrl-C; what was found is kept.
    """
    job = Job()
    outcome = job.run(
        RunStudy(
            job=study,
            study=study,
            project=project,
            folder=str(folder),
            options=asked,
            cache_root=str(cache.root),
            accelerate=not options.no_acceleration,
        )
    )
    for event in job.events:
        if isinstance(event, StageFailed):
            print_infos(event.infos, f"{event.stage} failed")
    return outcome == "done"

"""One study on an engine of its own, followed to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.cli.arguments import check_trust
from workbench.cli.job import Job
from workbench.cli.output import print_infos
from workbench.protocol import RunStudy, StageFailed
from workbench.studies.documents import Document, load_study, study_folder, study_key

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from pydantic import JsonValue

    from workbench.pipeline.cache import Cache
    from workbench.project.model import Project


def run_study(
    study: str, kind: type[Document], opened: tuple[Project, Path], cache: Cache,
    options: argparse.Namespace, asked: dict[str, JsonValue],
) -> Document | None:  # fmt: skip
    """Run a study to its end and return what it found; problems are printed, and None returned.

    ``opened`` is a project with the folder its paths start from, ``asked`` the study's options.

    Raises:
        Cancelled: somebody pressed Ctrl-C; what was found is kept.
        TrustRequiredError: the project's code may not run.
    """
    project, folder = opened
    check_trust(options, project, folder)
    key = study_key(study, project, folder, cache, asked)
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
    return load_study(kind, study_folder(cache, key)) if outcome == "done" else None

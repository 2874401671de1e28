"""Running a study: its folder, its events, and the function its row in the table names."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.engine.studies.context import StudyContext
from workbench.protocol import RunStudy, StudyProgress
from workbench.studies import STUDIES_BY_ID
from workbench.studies.documents import study_folder, study_key
from workbench.targets import need_estimates

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.engine.context import StageContext
    from workbench.protocol import Event


def run_study(command: RunStudy, stage: StageContext, send: Callable[[Event], None]) -> None:
    """Run a study to its end.

    Raises:
        Cancelled: somebody asked to stop; what was found stays.
        WorkbenchError: it cannot be done for this project.
    """
    study = STUDIES_BY_ID[command.study]
    if study.costs:
        need_estimates(command.project.target.id)
    key = study_key(study.id, command.project, Path(command.folder), stage.cache, command.options)

    def report(done: int, total: int, message: str) -> None:
        send(
            StudyProgress(
                job=command.job, study=study.id, key=key, done=done, total=total, message=message
            )
        )

    module, function = study.entry.split(":")
    folder = study_folder(stage.cache, key)
    if folder.exists():
        os.utime(folder)
    context = StudyContext(stage, folder, command.options, report)
    getattr(importlib.import_module(module), function)(context)

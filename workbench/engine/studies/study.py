"""The context of a study: a stage's context, a persistent folder, and progress reports."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.project.opened import OpenProject
from workbench.protocol import RunStudy, StudyProgress
from workbench.studies import STUDIES_BY_ID
from workbench.studies.documents import save_study, study_folder, study_key
from workbench.targets import need_estimates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import JsonValue

    from workbench.engine.runtime.context import StageContext
    from workbench.project.frozen import Frozen
    from workbench.protocol import Event


@dataclass
class StudyContext:
    """The context of one run of a study; ``report`` takes done, total and a message."""

    stage: StageContext
    folder: Path
    options: Mapping[str, JsonValue]
    report: Callable[[int, int, str], None]

    def tell(self, document: Frozen, done: int, total: int, message: str) -> None:
        """Store and report the results so far.

        Raises:
            Cancelled: cancelled by the user.
        """
        save_study(document, self.folder)
        self.report(done, total, message)
        self.stage.check_cancelled()


def run_study(command: RunStudy, stage: StageContext, send: Callable[[Event], None]) -> None:
    """Run a study until it is complete.

    Raises:
        Cancelled: cancelled by the user; results are kept.
        WorkbenchError: the study does not support this project, or other users can change the cache.
    """
    stage.cache.refuse_foreign()
    study = STUDIES_BY_ID[command.study]
    if study.costs:
        need_estimates(command.project.target.id)
    key = study_key(
        study.id, OpenProject(command.project, stage.folder), stage.cache, command.options, stage.plan
    )

    def report(done: int, total: int, message: str) -> None:
        send(StudyProgress(job=command.job, study=study.id, key=key, done=done, total=total, message=message))

    module, function = study.entry.split(":")
    folder = study_folder(stage.cache, key)
    if folder.exists():
        os.utime(folder)
    context = StudyContext(stage, folder, command.options, report)
    getattr(importlib.import_module(module), function)(context)

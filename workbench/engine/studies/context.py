"""What a study is given: a stage's means, a folder that lasts, a way to show what it has found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.studies.documents import save_study

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pydantic import JsonValue

    from workbench.engine.context import StageContext
    from workbench.project.frozen import Frozen


@dataclass
class StudyContext:
    """Everything one run of a study may touch; ``report`` takes done, total and a message."""

    stage: StageContext
    folder: Path
    options: Mapping[str, JsonValue]
    report: Callable[[int, int, str], None]

    def tell(self, document: Frozen, done: int, total: int, message: str) -> None:
        """Keep what was found so far and say so; raises Cancelled when asked."""
        save_study(document, self.folder)
        self.report(done, total, message)
        self.stage.check_cancelled()

"""The context of a stage: inputs, result folder, progress and cancellation."""

from __future__ import annotations

import importlib
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from workbench.errors import Cancelled, failure
from workbench.ids import StageId, WorkId, is_stage
from workbench.pipeline.plan import Plan
from workbench.pipeline.stages import STAGES_BY_ID
from workbench.project.frozen import Frozen
from workbench.project.opened import OpenProject
from workbench.results import load_result
from workbench.toolchain_versions import status

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.pipeline.cache import Cache
    from workbench.project.model import Project
    from workbench.protocol import Level

Value = TypeVar("Value", bound=Frozen)
PROGRESS_PERIOD_S = 0.1


class LiveObjectCache:
    """Live objects of finished stages, by stage and key; least recently used are evicted."""

    def __init__(self, capacity: int = 24) -> None:
        self._capacity = capacity
        self._objects: OrderedDict[tuple[str, str], Any] = OrderedDict()

    def get(self, name: str, key: str) -> Any:
        """Return the stored object, or None."""
        if (name, key) in self._objects:
            self._objects.move_to_end((name, key))
        return self._objects.get((name, key))

    def keep(self, name: str, key: str, value: Any) -> None:
        """Store an object; another one may be evicted."""
        self._objects[name, key] = value
        self._objects.move_to_end((name, key))
        self.shrink(self._capacity)

    def shrink(self, count: int) -> None:
        """Keep only the ``count`` most recently used objects."""
        while len(self._objects) > count:
            self._objects.popitem(last=False)


@dataclass
class StageContext:
    """The context of one run of one stage."""

    stage: WorkId
    project: Project
    folder: Path
    plan: Plan
    cache: Cache
    store: LiveObjectCache
    out: Path
    accelerate: bool
    report: Callable[[WorkId, float | None, str], None]
    write_log: Callable[[Level, str, WorkId], None]
    cancelled: threading.Event = field(default_factory=threading.Event)
    _last: float = 0.0

    @property
    def opened(self) -> OpenProject:
        """The project with its folder."""
        return OpenProject(self.project, self.folder)

    @property
    def is_accelerated(self) -> bool:
        """Whether the job may be accelerated, and is with the installed versions."""
        return self.accelerate and status().active

    def progress(self, done: int, total: int | None, message: str = "") -> None:
        """Report progress, at most ten times a second.

        Raises:
            Cancelled: cancelled by the user.
        """
        self.check_cancelled()
        now = time.monotonic()
        if now - self._last >= PROGRESS_PERIOD_S or done == total:
            self._last = now
            self.report(self.stage, done / total if total else None, message)

    def log(self, text: str, level: Level = "info") -> None:
        """Write a line to the engine's log."""
        self.write_log(level, text, self.stage)

    def check_cancelled(self) -> None:
        """Raise Cancelled if the user has cancelled the job."""
        if self.cancelled.is_set():
            raise Cancelled

    def path(self, stage_id: StageId) -> Path:
        """Return the folder with the result of an earlier stage."""
        return self.cache.folder(self.plan.key(stage_id))

    def result(self, stage_id: StageId, kind: type[Value]) -> Value:
        """Return the result of an earlier stage."""
        return load_result(kind, self.path(stage_id))

    def keep(self, value: Any) -> None:
        """Keep this stage's live object for the stages that follow."""
        assert is_stage(self.stage), "only stages keep objects"
        self.store.keep(self.stage, self.plan.key(self.stage), value)

    def live(self, stage_id: StageId) -> Any:
        """Return the live object of an earlier stage: kept, or made again from its result."""
        key = self.plan.key(stage_id)
        live = self.store.get(stage_id, key)
        if live is None:
            module = importlib.import_module(STAGES_BY_ID[stage_id].entry.split(":")[0])
            live = module.load(self)
            if live is None:
                raise failure(
                    f"The result of {stage_id} is no longer usable.", "Run it again.", code="result-unusable"
                )
            self.store.keep(stage_id, key, live)
        return live

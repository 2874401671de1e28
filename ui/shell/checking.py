"""Updates the list of problems from the project, the disk, the stages and the results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer

from ui.shared.explanations import differences
from ui.shared.panel import PanelContext
from ui.shared.problem_list import Problem, of_info, on_the_cpu, project_problems, stage_problems, warnings_of
from ui.state.session import Planned
from workbench.deploy import fitting
from workbench.errors import ErrorInfo, Place, WorkbenchError
from workbench.ids import StageId
from workbench.pipeline.resolution import stale_ranges
from workbench.pipeline.stages import STAGES_BY_ID
from workbench.toolchains.registry import tools_of

if TYPE_CHECKING:
    from workbench.results import PrepareResult

_SETTLE_MS = 120


class Checker(QObject):
    """Collects problems shortly after a change."""

    def __init__(self, context: PanelContext, parent: QObject) -> None:
        super().__init__(parent)
        self._context = context
        self._missing: tuple[ErrorInfo, ...] = ()
        self._soon = QTimer(self, interval=_SETTLE_MS, singleShot=True)
        self._soon.timeout.connect(self.check)
        context.model_index.resolved.connect(self._soon.start)
        context.model_index.model_changed.connect(self._soon.start)
        context.session.results_changed.connect(self._soon.start)
        context.session.planned_anew.connect(self._soon.start)
        context.session.stage_changed.connect(self._on_stage_changed)

    def take_planned(self, planned: Planned) -> None:
        """Set the missing files that planning found."""
        if planned.missing != self._missing:
            self._missing = planned.missing
            self._soon.start()

    def check(self) -> None:
        """Collect all problems now."""
        # A problem that several checks find is listed once.
        problems = {(p.message, p.where): p for p in reversed(list(self._all()))}
        self._context.problems.set_problems(list(reversed(problems.values())))

    def _all(self) -> Iterator[Problem]:
        opened = self._context.document.opened_project
        if opened is None:
            return
        yield from (of_info(info, "Files", "error") for info in self._missing)
        if opened.project.toolchain:
            try:
                tools_of(opened.project.toolchain)
            except WorkbenchError as error:
                yield from (of_info(info, "Toolchain", "error") for info in error.infos)
        index = self._context.model_index
        yield from project_problems(opened, index.snapshot, index.resolution, self._prepared())
        yield from stage_problems(self._context.session.stages())
        yield from self._results()

    def _results(self) -> Iterator[Problem]:
        if not any(self._context.result(stage) for stage in STAGES_BY_ID):
            return
        from workbench.results import RESULTS, LowerResult

        for stage_id, kind in RESULTS.items():
            result = self._context.load(kind, stage_id)
            title = STAGES_BY_ID[stage_id].title
            yield from warnings_of(getattr(result, "warnings", ()), title)
        prepared = self._prepared()
        snapshot, project = self._context.model_index.snapshot, self._context.document.project
        if prepared is not None and snapshot is not None and project is not None:
            stale = stale_ranges(project, snapshot.nodes_by_id, prepared)
            yield from (of_info(info, "Ranges", "warning") for info in stale)
        if prepared is not None:
            predicted = self._context.model_index.resolution.nodes
            for module, reason in differences(prepared.annotations, predicted).items():
                where = Place(kind="module", id=module)
                text = f"Not quantized as the rules specify: {reason}"
                yield Problem("warning", text, "", where, "Prepare", code="rule-not-applied")
        yield from self._board()
        lowered = self._context.load(LowerResult, "lower")
        if lowered is not None:
            yield from on_the_cpu(lowered.cpu_nodes)

    def _prepared(self) -> PrepareResult | None:
        """Return the quantizer's report, if there is one."""
        if self._context.result("prepare") is None:
            return None
        from workbench.results import PrepareResult

        return self._context.load(PrepareResult, "prepare")

    def _board(self) -> Iterator[Problem]:
        """Yield a problem if the compiled program does not fit the project's board."""
        opened, results = self._context.document.opened_project, self._context.result("lower")
        if opened is None or results is None:
            return
        try:
            placement = fitting.of_results(opened, results)
        except (OSError, WorkbenchError):
            return
        if placement is not None and not placement.fits:
            where = Place(kind="option", id="board")
            hint = "See Memory for the allocation and for the cost of less SRAM."
            text = fitting.sentence(placement)
            yield Problem("error", text, hint, where, "Board", code="board-too-small")

    def _on_stage_changed(self, stage_id: StageId) -> None:
        if self._context.session.stage(stage_id).state in {"failed", "stale", "cached", "blocked"}:
            self._soon.start()

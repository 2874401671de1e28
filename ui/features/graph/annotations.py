"""What is told on the drawing: configs, reasons, numbers as colour, what kept searches find."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from ui.features.graph.graph_results import (
    FLOAT,
    Inquiry,
    Survey,
    Surveyor,
    float_configs,
    measure_id,
)
from ui.features.graph.marks import Overlay
from ui.shared.explanations import why
from workbench.ids import StageId

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ui.features.graph.bookmarks import Keeping
    from ui.features.graph.graph_bar import GraphBar
    from ui.features.graph.graph_comparison import Other
    from ui.features.graph.graph_view import GraphView
    from ui.shared.panel import PanelContext
    from ui.state.background import Background
    from workbench.graph.numbers_file import NumbersFile

TOPIC = "survey"
STAGES: tuple[StageId, ...] = ("prepare", "evaluate", "lower", "run")


class Telling(QObject):
    """Asks what results tell, and puts the answer on the view.

    Signals:
        told: the answer is on the view.
    """

    told = Signal()

    def __init__(
        self,
        context: PanelContext,
        view: GraphView,
        bar: GraphBar,
        keeping: Keeping,
        background: Background,
        surveyor: Surveyor,
    ) -> None:
        super().__init__(bar)
        self._context, self._view, self._keeping = context, view, keeping
        self._search, self._overlay = bar.search, bar.overlay
        self._background, self._surveyor = background, surveyor
        self._dropped: tuple[NumbersFile, ...] = ()
        self._unsaid: list[NumbersFile] = []
        self._asked = 0
        self.survey = Survey()
        background.done.connect(self._on_done)
        bar.overlay.changed.connect(self.show_overlay)
        context.document.opened.connect(self._forget)

    def ask(self, level: str, files: Mapping[str, Path], beside: Other | None) -> None:
        """Ask about a level; the answer comes from another thread.

        With a run ``beside`` there are also the differences to its numbers.
        """
        context = self._context
        results = {stage: context.session.result(stage) for stage in STAGES}
        project = context.document.project
        inquiry = Inquiry(
            level, dict(files), {s: f for s, f in results.items() if f},
            context.outline.snapshot, context.outline.resolution.nodes,
            project.rules if project else (), self._dropped,
            beside.results if beside else {},
        )  # fmt: skip
        self._asked += 1
        self._background.submit(TOPIC, partial(self._answer, self._asked, inquiry))

    def take(self, numbers: NumbersFile) -> None:
        """Show the numbers of a file as soon as the next answer is there."""
        self._dropped = (*(d for d in self._dropped if d.name != numbers.name), numbers)
        self._unsaid.append(numbers)
        self._overlay.prefer(measure_id(next(iter(numbers.columns))))

    def show_configs(self) -> None:
        """Show at once what the rules give to the float program."""
        project, outline = self._context.document.project, self._context.outline
        if project is None or outline.snapshot is None:
            return
        mine, known = float_configs(outline.snapshot, outline.resolution.nodes), outline.snapshot
        nodes = known.nodes_by_id
        self._view.set_chips({i: e.chip for i, e in mine.items()})
        self._view.set_tooltips(
            {i: why(e, project.rules, nodes[i].module) for i, e in mine.items()}
        )

    def show_overlay(self) -> None:
        """Colour the view by the chosen number; what is brushed stays so for the same number."""
        survey, snapshot = self.survey, self._view.snapshot
        self._search.set_ground(snapshot, survey.numbers)
        self._keeping.render(snapshot, survey.numbers)
        measure = survey.measures.get(self._overlay.chosen)
        if measure is None:
            self._view.set_overlay(None)
            return
        values = dict(survey.numbers[measure.id])
        old, is_log = self._view.marks.overlay, self._overlay.is_log
        new = Overlay(values, measure.legend, is_log, measure.merge, measure.middle)
        is_same = old is not None and (old.title, old.is_log) == (new.title, new.is_log)
        self._view.set_overlay(new.brushed(old.brush) if old and is_same else new)

    def _answer(
        self, number: int, inquiry: Inquiry, give_up: Callable[[], bool]
    ) -> tuple[int, Survey]:
        return number, self._surveyor.answer(inquiry, give_up)

    def _on_done(self, topic: str, answered: object) -> None:
        """Take the answer to the newest question; a former one may still have been on its way."""
        if topic != TOPIC or not isinstance(answered, tuple) or answered[0] != self._asked:
            return
        answer: Survey = answered[1]
        self.survey = answer
        self._view.set_reasons(answer.reasons)
        if answer.level != FLOAT:
            self._view.set_chips(answer.chips)
            self._view.set_tooltips(answer.tips)
        measures = answer.measures.values()
        self._overlay.offer([(m.id, m.title, m.how, m.log) for m in measures])
        self.show_overlay()
        self._tell_unknown()
        self.told.emit()

    def _tell_unknown(self) -> None:
        """Say once how much of a dropped file names nothing here."""
        said, self._unsaid = self._unsaid, []
        known = {n for s in self.survey.lineage.levels.values() for n in s.nodes_by_id if said}
        for numbers in said:
            if lost := sorted(numbers.operations - known):
                self._context.notices.warning(
                    f"{len(lost):,} of {len(numbers.operations):,} names in '{numbers.name}' "
                    "are no operations of this program.",
                    f"For example '{lost[0][:80]}'.",
                )

    def _forget(self) -> None:
        self._dropped, self._unsaid = (), []
        self._asked += 1
        self.survey = Survey()

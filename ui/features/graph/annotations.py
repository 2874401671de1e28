"""Annotations of the graph: configs, reasons, overlay colours and hits of saved searches."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from ui.features.graph.graph_results import (
    FLOAT,
    OverlayData,
    OverlayLoader,
    OverlayRequest,
    float_configs,
    measure_id,
    wishes_of,
)
from ui.features.graph.marks import Overlay
from ui.shared.explanations import QuantizerReport, applied, why
from workbench.ids import StageId

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from ui.features.graph.bookmarks import Bookmarks
    from ui.features.graph.graph_bar import GraphBar
    from ui.features.graph.graph_comparison import ComparedGraph
    from ui.features.graph.graph_view import GraphView
    from ui.shared.panel import PanelContext
    from ui.state.background import Background
    from workbench.graph.numbers_file import NumbersFile
    from workbench.project.rules import Effective

TOPIC = "survey"
STAGES: tuple[StageId, ...] = ("prepare", "evaluate", "lower", "run")


class Annotations(QObject):
    """Requests the annotations of a level and shows them on the view.

    Signals:
        shown: the requested annotations are shown.
    """

    shown = Signal()

    def __init__(
        self,
        context: PanelContext,
        view: GraphView,
        bar: GraphBar,
        bookmarks: Bookmarks,
        background: Background,
        loader: OverlayLoader,
    ) -> None:
        super().__init__(bar)
        self._context, self._view, self._bookmarks = context, view, bookmarks
        self._search, self._overlay = bar.search, bar.overlay
        self._background, self._loader = background, loader
        self._dropped: tuple[NumbersFile, ...] = ()
        self._unreported: list[NumbersFile] = []
        self._asked = 0
        self.data = OverlayData()
        self._report = QuantizerReport()
        background.done.connect(self._on_done)
        bar.overlay.changed.connect(self.show_overlay)
        context.document.opened.connect(self._forget)

    def ask(self, level: str, files: Mapping[str, Path], beside: ComparedGraph | None) -> None:
        """Request the annotations of a level; a worker thread computes them.

        With a compared run, differences from its numbers are offered as overlays.
        """
        context = self._context
        results = {stage: context.session.result(stage) for stage in STAGES}
        project = context.document.project
        request = OverlayRequest(
            level,
            dict(files),
            {s: f for s, f in results.items() if f},
            context.model_index.snapshot,
            context.model_index.resolution.nodes,
            project.rules if project else (),
            self._dropped,
            beside.results if beside else {},
            self._configs(),
        )
        self._asked += 1
        self._background.submit(TOPIC, partial(self._answer, self._asked, request))

    def take(self, numbers: NumbersFile) -> None:
        """Add the numbers of a dropped file to the next request."""
        self._dropped = (*(d for d in self._dropped if d.name != numbers.name), numbers)
        self._unreported.append(numbers)
        self._overlay.prefer(measure_id(next(iter(numbers.columns))))

    def show_configs(self) -> None:
        """Show the effective configs of the float graph at once."""
        project, model_index = self._context.document.project, self._context.model_index
        if project is None or model_index.snapshot is None:
            return
        mine = float_configs(model_index.snapshot, self._configs())
        nodes = model_index.snapshot.nodes_by_id
        self._view.surface.set_chips({i: e.chip for i, e in mine.items()}, wishes_of(mine))
        self._view.surface.set_tooltips({i: why(e, project.rules, nodes[i].module) for i, e in mine.items()})

    def _configs(self) -> Mapping[str, Effective]:
        """Return the configs as applied if they are known, else as the rules ask for."""
        from workbench.results import PrepareResult

        prepared = self._context.load(PrepareResult, "prepare")
        predicted = self._context.model_index.resolution.nodes
        self._report.update(prepared, predicted)
        fused = self._context.model_index.fused_nodes()
        return applied(self._report.notes(predicted), predicted, fused)

    def show_overlay(self) -> None:
        """Colour the view by the selected number. The brush is kept for the same number."""
        data, snapshot = self.data, self._view.groups.snapshot
        self._search.set_ground(snapshot, data.numbers)
        self._bookmarks.render(snapshot, data.numbers)
        measure = data.measures.get(self._overlay.chosen)
        if measure is None:
            self._view.surface.set_overlay(None)
            return
        values = dict(data.numbers[measure.id])
        old, is_log = self._view.surface.marks.overlay, self._overlay.is_log
        weights = data.numbers.get(measure.weigher, {})
        new = Overlay(values, measure.legend, is_log, measure.merge, measure.middle, weights=weights)
        is_same = old is not None and (old.title, old.is_log) == (new.title, new.is_log)
        self._view.surface.set_overlay(new.brushed(old.brush) if old and is_same else new)

    def _answer(
        self, number: int, request: OverlayRequest, give_up: Callable[[], bool]
    ) -> tuple[int, OverlayData]:
        return number, self._loader.answer(request, give_up)

    def _on_done(self, topic: str, answered: object) -> None:
        """Show the answer to the newest request; answers to earlier ones are dropped."""
        if topic != TOPIC or not isinstance(answered, tuple) or answered[0] != self._asked:
            return
        answer: OverlayData = answered[1]
        self.data = answer
        self._view.surface.set_reasons(answer.reasons)
        if answer.level == FLOAT:
            self.show_configs()
        else:
            self._view.surface.set_chips(answer.chips, answer.wishes)
            self._view.surface.set_tooltips(answer.tips)
        measures = answer.measures.values()
        self._overlay.offer([(m.id, m.title, m.how, m.log) for m in measures])
        self.show_overlay()
        self._tell_unknown()
        self.shown.emit()

    def _tell_unknown(self) -> None:
        """Report once how many names of a dropped file are unknown."""
        files, self._unreported = self._unreported, []
        known = {n for s in self.data.lineage.levels.values() for n in s.nodes_by_id if files}
        for numbers in files:
            if lost := sorted(numbers.operations - known):
                self._context.notices.warning(
                    f"{len(lost):,} of {len(numbers.operations):,} names in '{numbers.name}' "
                    "are not operations of this program.",
                    f"For example '{lost[0][:80]}'.",
                )

    def _forget(self) -> None:
        self._dropped, self._unreported = (), []
        self._asked += 1
        self.data = OverlayData()

"""The Memory panel: tensor allocation, peak usage and memory that the runtime needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QSplitter, QVBoxLayout, QWidget

from ui.features.memory.sram_budget import SramBudget
from ui.shared.board_fit import BoardFit, BoardFitReader
from ui.shared.figure_cards import Card, FigureCards
from ui.shared.forms import WrappedLabel
from ui.shared.memory_plot import MemoryPlot
from ui.shared.number_format import DASH, count, size
from ui.shared.result_panel import ResultPanel, Shown, StageFrame
from ui.shared.sortable_table import BarDelegate, Column, FigureTableModel, FigureView, Role
from ui.shared.study_controller import StudyController
from ui.shared.theme import Theme
from ui.state.model_index import inside
from ui.state.selection import Selected
from workbench.analysis.memory import fullest_step
from workbench.project import edits
from workbench.project.model import TargetChoice
from workbench.results import OUTSIDE_MODULES, LiveRange, LowerResult, PackageResult, VelaReport
from workbench.studies.sweep import SweepResult, asked, positions
from workbench.targets import target_of

# Titles of Vela's memories.
MEMORIES = {"Sram": "SRAM", "Dram": "DRAM", "OnChipFlash": "On-chip flash", "OffChipFlash": "Off-chip flash"}
_FETCHED = "OpBuffering"
_USAGES = {
    "OpLocal": "activation",
    _FETCHED: "prefetched weights",
    "GraphInput": "input",
    "GraphOutput": "output",
    "Constant": "constant",
}


@dataclass(frozen=True)
class LiveRow:
    """A tensor, its size relative to the largest one, and whether it is live at the peak."""

    tensor: LiveRange
    share: float
    at_peak: bool


def usage(tensor: LiveRange) -> str:
    """Return the purpose of a tensor as text."""
    return _USAGES.get(tensor.usage, tensor.usage)


def describe_tensor(tensor: LiveRange) -> str:
    """Return the figures of a tensor, one per line."""
    where = f"in {tensor.module}" if tensor.module else OUTSIDE_MODULES
    return "\n".join(
        (
            tensor.name,
            f"{usage(tensor)}, {where}",
            f"{size(tensor.bytes)} at {tensor.address:#x}",
            f"steps {tensor.start} to {tensor.end}",
        )
    )


LIVE_COLUMNS: tuple[Column[LiveRow], ...] = (
    Column("At peak", lambda r: "\u25cf" if r.at_peak else "", None, "Live at peak usage"),
    Column(
        "Size [B]",
        lambda r: count(r.tensor.bytes),
        lambda r: r.tensor.bytes,
        "Estimated by Vela",
        lambda r: r.share,
    ),
    Column("Tensor", lambda r: r.tensor.name),
    Column("Module", lambda r: r.tensor.module),
    Column("Purpose", lambda r: usage(r.tensor)),
    Column("From step", lambda r: str(r.tensor.start), lambda r: r.tensor.start),
    Column("To step", lambda r: str(r.tensor.end), lambda r: r.tensor.end),
    Column("Address", lambda r: f"{r.tensor.address:#x}", lambda r: r.tensor.address),
)


def _describe_live(row: LiveRow) -> str:
    return describe_tensor(row.tensor)


NO_MEMORY = "Compile to see the memory allocation on the device."
_SHARE = 1


class MemoryPanel(ResultPanel):
    """Shows figures, an allocation plot and a tensor table of one memory of one delegate."""

    panel_id = "memory"

    def build_frames(self) -> None:
        self._shown: tuple[LiveRange, ...] = ()
        self._places: dict[str, tuple[LiveRange, ...]] = {}
        self._key: tuple[Path, bool] | None = None
        self._fits = BoardFitReader(self.context)
        context = self.context
        self.study = StudyController(
            "budget", SweepResult, context.document, context.runner, context.session.cache, self
        )
        self.study.changed.connect(lambda: self._mark("state"))
        self.frames["lower"] = StageFrame("Estimates", NO_MEMORY, self._make, self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(1, 1, 1, 1)
        layout.addWidget(self.frames["lower"])

    def set_theme(self, theme: Theme) -> None:
        if self.has("lower"):
            self.plot.set_theme(theme)
            self._key = None
            self.show_results()

    def show_results(self) -> None:
        lowered = self.read_program()
        self.show_frame("lower", lowered)
        if lowered is None:
            return
        self._show_cards(lowered)
        self.fit.render_fit(self._fits.read())
        self._show_budget()
        key = (lowered.folder, lowered.current)
        if key != self._key:
            self._key = key
            self._show_memories(lowered)

    def render_selection(self, selected: Selected) -> None:
        if not self.has("lower"):
            return
        modules = selected.modules or self.context.model_index.modules_of(selected.nodes)
        indices = [n for n, t in enumerate(self._shown) if inside(t.module, modules)]
        self.plot.choose(indices)
        shown = [self.model.shown_at(index) for index in indices]
        if selected.origin != self.panel_id or set(shown) != set(self.table.chosen_rows()):
            self.table.choose_rows(shown, reveal=selected.origin != self.panel_id)

    def _make(self, content: QWidget) -> None:
        self.cards = FigureCards(content)
        self.fit = BoardFit(lambda: self.context.theme, content)
        self.budget = SramBudget(content)
        self.budget.estimate_asked.connect(self._on_estimate_asked)
        self.budget.chosen.connect(self._on_budget_chosen)
        self.memory = QComboBox(content)
        self.memory.setAccessibleName("Memory")
        self.memory.activated.connect(lambda _index: self._show_memory())
        self.note = WrappedLabel(parent=content)
        self.note.setObjectName("Hint")
        self.plot = MemoryPlot(lambda n: describe_tensor(self._shown[n]), content)
        self.plot.tensor_chosen.connect(lambda index, _adds: self._choose([index]))
        self.model = FigureTableModel(LIVE_COLUMNS, _describe_live, content)
        self.table = FigureView("Tensors in memory", self.model, content)
        self.table.setItemDelegateForColumn(
            _SHARE, BarDelegate(lambda: self.context.theme, Role.SHARE, self.table)
        )
        self.table.rows_chosen.connect(
            lambda rows: self._choose([self.model.source_row(row) for row in rows])
        )
        row = QHBoxLayout()
        row.addWidget(self.memory)
        row.addWidget(self.budget, 1)
        split = QSplitter(Qt.Orientation.Vertical, content)
        split.addWidget(self.plot)
        split.addWidget(self.table)
        split.setSizes([420, 220])
        layout = QVBoxLayout(content)
        layout.setContentsMargins(8, 6, 8, 4)
        layout.setSpacing(6)
        layout.addWidget(self.cards)
        layout.addWidget(self.fit)
        layout.addLayout(row)
        layout.addWidget(self.note)
        layout.addWidget(split, 1)

    def _show_cards(self, lowered: Shown[LowerResult]) -> None:
        origin = f"estimated (Vela {lowered.value.vela_version})"
        package = self.read(PackageResult, "package")
        needs = package.value if package is not None and package.current else None
        most = max((r.scratch_bytes for r in lowered.value.vela), default=None)
        self.cards.render_cards(
            [
                Card(
                    "Peak SRAM", size(_most(lowered.value)), origin, "Of the delegate with the highest peak"
                ),
                Card("Scratch", size(most), origin, "Requested by the program at run time"),
                Card(
                    "Constants",
                    size(sum(r.flash_bytes for r in lowered.value.vela)),
                    origin,
                    "Weights, biases and commands",
                ),
                Card(
                    "Method pool",
                    size(needs.method_pool_bytes) if needs else DASH,
                    "from the program",
                    "Planned buffers and runtime structures",
                ),
                Card(
                    "Scratch pool",
                    size(needs.scratch_pool_bytes) if needs else DASH,
                    "from the program",
                    "Scratch memory that the runtime must provide",
                ),
            ],
            self.context.theme,
            stale=not lowered.current,
        )

    def _show_budget(self) -> None:
        """Show the estimates with less SRAM on the project's device."""
        project, folder = self.context.document.project, self.context.document.folder
        if project is None:
            return
        present = target_of(project.target.id).complete(project.target, folder)
        self.study.options = asked(present)
        self.study.look()
        result = self.study.result if self.study.is_current else None
        job = self.study.job
        working = f"{job.stage_title or 'Preparing'}\u2026 {job.message}".strip() if job else ""
        points = positions(result.points, present) if result and not job else []
        tool = result.tool if result else ""
        problem = next((p.problem for p in result.points if p.problem), "") if result else ""
        self.budget.render_points(points, present, tool, working=working, problem=problem)

    def _on_estimate_asked(self) -> None:
        if self.study.job is not None:
            self.study.pause()
        else:
            self.study.start()

    def _on_budget_chosen(self, choice: TargetChoice) -> None:
        limit = choice.options.get("arena_cache_bytes")
        what = "Remove SRAM limit"
        if choice.options["optimise"] == "Size":
            what = "Optimise for size"
        elif isinstance(limit, int):
            what = f"Limit SRAM to {size(limit)}"
        self.context.document.apply(what, lambda project: edits.set_target(project, choice))

    def _show_memories(self, lowered: Shown[LowerResult]) -> None:
        several = len(lowered.value.vela) > 1
        self._places = {}
        for report in lowered.value.vela:
            for memory in dict.fromkeys(t.memory for t in report.tensors):
                title = MEMORIES.get(memory, memory)
                name = f"Delegate {report.delegate}, {title}" if several else title
                self._places[name] = tuple(t for t in _named(report) if t.memory == memory)
        chosen = self.memory.currentText()
        self.memory.clear()
        self.memory.addItems(list(self._places))
        fastest = next((name for name in self._places if name.endswith(MEMORIES["Sram"])), "")
        if wanted := chosen if chosen in self._places else fastest:
            self.memory.setCurrentText(wanted)
        self.plot.set_stale(not lowered.current)
        self.table.set_look(self.context.theme, stale=not lowered.current)
        self._show_memory()

    def _show_memory(self) -> None:
        self._shown = self._places.get(self.memory.currentText(), ())
        fullest = fullest_step(self._shown)
        self.plot.render_tensors(self._shown, fullest)
        self.model.set_rows(_rows(self._shown, fullest))
        self.note.setText(_sentence(self._shown, fullest))
        self.render_selection(self.context.selection.value)

    def _choose(self, indices: Sequence[int]) -> None:
        modules = {self._shown[index].module for index in indices} - {""}
        self.context.selection.choose_modules(sorted(modules), self.panel_id)
        self.plot.choose(indices)
        self.table.choose_rows([self.model.shown_at(p) for p in indices], reveal=True)


def _named(report: VelaReport) -> Iterator[LiveRange]:
    """Yield the tensors, those that operations of the model compute under its names.

    Vela fetches weights in the step before the operation that reads them, whose output begins with it.
    """
    names = {operation.name: operation.root for operation in report.operations if operation.root}
    makers = {t.start: t.module for t in report.tensors if t.usage != _FETCHED and t.module}
    for tensor in report.tensors:
        update = {"name": names.get(tensor.name, tensor.name)}
        if tensor.usage == _FETCHED and (module := makers.get(tensor.start + 1)):
            update = {"name": f"weights of {module}", "module": module}
        yield tensor.model_copy(update=update)


def _most(lowered: LowerResult) -> int | None:
    return max((report.sram_bytes for report in lowered.vela), default=None)


def _rows(tensors: Sequence[LiveRange], fullest: int) -> list[LiveRow]:
    largest = max((t.bytes for t in tensors), default=1)
    return [LiveRow(t, t.bytes / largest, t.start <= fullest <= t.end) for t in tensors]


def _sentence(tensors: Sequence[LiveRange], fullest: int) -> str:
    if not tensors:
        return "Vela allocated no tensors."
    top = max(t.address + t.bytes for t in tensors)
    there = sorted((t for t in tensors if t.start <= fullest <= t.end), key=lambda t: -t.bytes)
    names = [t.name if t.usage == _FETCHED else t.module or t.name for t in there[:3]]
    named = ", ".join(f"{name} ({size(t.bytes)})" for name, t in zip(names, there, strict=False))
    return f"Peak {size(top)} at step {fullest}; largest: {named}. Orange: prefetched weights."

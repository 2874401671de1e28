"""The tables of workspaces and panels: one row each.

A string names the class of a panel, because it is imported when it is first shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from ui.shared.panel import Panel, PanelId
    from workbench.ids import StageId
    from workbench.project.model import Project

WorkspaceId = Literal["outcome", "model", "accuracy", "performance", "explore", "deliver"]
WORKSPACE_IDS: tuple[WorkspaceId, ...] = get_args(WorkspaceId)
Area = Literal["left", "right", "bottom"] | WorkspaceId


@dataclass(frozen=True)
class WorkspaceRow:
    """A workspace: its id, title, icon and purpose."""

    id: WorkspaceId
    title: str
    icon: str
    purpose: str


WORKSPACES: tuple[WorkspaceRow, ...] = (
    WorkspaceRow("outcome", "Outcome", "outcome", "Accurate, correct, fits, fast: four answers"),
    WorkspaceRow("model", "Model", "model", "The graph, and the precision of every part"),
    WorkspaceRow("accuracy", "Accuracy", "accuracy", "Errors, ranges and single samples"),
    WorkspaceRow("performance", "Performance", "performance", "Cycles, time and memory"),
    WorkspaceRow("explore", "Explore", "explore", "Studies, other devices, training and runs"),
    WorkspaceRow("deliver", "Deliver", "deliver", "Files, firmware note and report"),
)


@dataclass(frozen=True)
class PanelRow:
    """A panel: its id, title, workspace or side, and class (``module:Class``).

    ``stage`` is what a target must have for the panel to have a use; ``estimated`` is whether the
    target must also have an estimator of the cost. With ``on_request`` it is shown at first only
    for number formats, and the menu shows it for every target.
    """

    id: PanelId
    title: str
    area: Area
    entry: str
    stage: StageId | None = None
    estimated: bool = False
    on_request: bool = False

    def load(self) -> type[Panel]:
        """Import and return the panel's class."""
        module, _, name = self.entry.partition(":")
        value: type[Panel] = getattr(import_module(module), name)
        return value

    def is_offered(self, project: Project) -> bool:
        """Return whether the panel is shown at first for the project's target."""
        from workbench.errors import WorkbenchError
        from workbench.project.configs import FormatConfig
        from workbench.targets import target_of

        try:
            target = target_of(project.target.id)
        except WorkbenchError:
            return True
        if self.on_request:
            return target.config_type is FormatConfig
        has_stage = self.stage is None or self.stage in target.stages
        return has_stage and bool(target.estimator or not self.estimated)


PANELS: tuple[PanelRow, ...] = (
    PanelRow("modules", "Modules", "left", "ui.features.modules_panel:ModulesPanel"),
    PanelRow("rules", "Rules", "left", "ui.features.rules.rules_panel:RulesPanel"),
    PanelRow("graph", "Graph", "model", "ui.features.graph.graph_panel:GraphPanel"),
    PanelRow("ranges", "Ranges", "accuracy", "ui.features.ranges.ranges_panel:RangesPanel", "calibrate"),
    PanelRow("formats", "Formats", "accuracy", "ui.features.formats_panel:FormatsPanel", on_request=True),
    PanelRow("accuracy", "Accuracy", "accuracy", "ui.features.accuracy.accuracy_panel:AccuracyPanel"),
    PanelRow("sample", "Sample", "accuracy", "ui.features.sample_panel:SamplePanel"),
    PanelRow("cost", "Cost", "performance", "ui.features.cost.cost_panel:CostPanel", "lower"),
    PanelRow(
        "timeline",
        "Timeline",
        "performance",
        "ui.features.timeline.timeline_panel:TimelinePanel",
        "lower",
        estimated=True,
    ),
    PanelRow(
        "memory",
        "Memory",
        "performance",
        "ui.features.memory.memory_panel:MemoryPanel",
        "lower",
        estimated=True,
    ),
    PanelRow(
        "tflite",
        "TFLite",
        "performance",
        "ui.features.tflite.tflite_panel:TflitePanel",
        "lower",
        estimated=True,
    ),
    PanelRow(
        "devices",
        "Devices",
        "explore",
        "ui.features.devices.devices_panel:DevicesPanel",
        "lower",
        estimated=True,
    ),
    PanelRow(
        "simulator", "Simulator", "performance", "ui.features.simulator.simulator_panel:SimulatorPanel", "run"
    ),
    PanelRow("sensitivity", "Sensitivity", "explore", "ui.features.sensitivity_panel:SensitivityPanel"),
    PanelRow("search", "Search", "explore", "ui.features.search_panel:SearchPanel"),
    PanelRow(
        "weight_transforms",
        "Weight transforms",
        "explore",
        "ui.features.weight_transforms_panel:WeightTransformsPanel",
    ),
    PanelRow("training", "Training", "explore", "ui.features.training_panel:TrainingPanel"),
    PanelRow("runs", "Runs", "explore", "ui.features.runs.runs_panel:RunsPanel"),
    PanelRow(
        "deliverables", "Deliverables", "deliver", "ui.features.deliver.deliver_panel:DeliverPanel", "package"
    ),
    PanelRow("inspector", "Inspector", "right", "ui.features.inspector_panel:InspectorPanel"),
    PanelRow(
        "suggestions",
        "Suggestions",
        "right",
        "ui.features.suggestions.suggestions_panel:SuggestionsPanel",
        "lower",
    ),
    PanelRow("jobs", "Jobs", "bottom", "ui.features.jobs.jobs_panel:JobsPanel"),
    PanelRow("log", "Log", "bottom", "ui.features.jobs.log_panel:LogPanel"),
    PanelRow("problems", "Problems", "bottom", "ui.features.problems_panel:ProblemsPanel"),
    PanelRow("outcome", "Outcome", "outcome", "ui.features.outcome.outcome_panel:OutcomePanel"),
    PanelRow("pictures", "Pictures", "accuracy", "ui.features.pictures.pictures_panel:PicturesPanel"),
)
# Heights of the bars above the workspaces [px].
RUN_BAR_PX, SCOREBOARD_PX = 34, 44
# The panel that a workspace shows at first.
FIRST: dict[Area, PanelId] = {"accuracy": "accuracy"}

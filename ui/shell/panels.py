"""The panel table: one row per panel.

A string names the class, because a panel is imported when it is first shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Literal

from ui.shared.panel import Panel, PanelId

Area = Literal["left", "center", "right", "bottom"]


@dataclass(frozen=True)
class PanelRow:
    """A panel: its id, title, initial area and class (``module:Class``)."""

    id: PanelId
    title: str
    area: Area
    entry: str

    def load(self) -> type[Panel]:
        """Import and return the panel's class."""
        module, _, name = self.entry.partition(":")
        found: type[Panel] = getattr(import_module(module), name)
        return found


PANELS: tuple[PanelRow, ...] = (
    PanelRow("modules", "Modules", "left", "ui.features.modules.modules_panel:ModulesPanel"),
    PanelRow("rules", "Rules", "left", "ui.features.rules.rules_panel:RulesPanel"),
    PanelRow("graph", "Graph", "center", "ui.features.graph.graph_panel:GraphPanel"),
    PanelRow("ranges", "Ranges", "center", "ui.features.ranges.ranges_panel:RangesPanel"),
    PanelRow("formats", "Formats", "center", "ui.features.formats.formats_panel:FormatsPanel"),
    PanelRow("accuracy", "Accuracy", "center", "ui.features.accuracy.accuracy_panel:AccuracyPanel"),
    PanelRow("sample", "Sample", "center", "ui.features.sample.sample_panel:SamplePanel"),
    PanelRow("cost", "Cost", "center", "ui.features.cost.cost_panel:CostPanel"),
    PanelRow("timeline", "Timeline", "center", "ui.features.timeline.timeline_panel:TimelinePanel"),
    PanelRow("memory", "Memory", "center", "ui.features.memory.memory_panel:MemoryPanel"),
    PanelRow("devices", "Devices", "center", "ui.features.devices.devices_panel:DevicesPanel"),
    PanelRow("simulator", "Simulator", "center",
             "ui.features.simulator.simulator_panel:SimulatorPanel"),
    PanelRow("sensitivity", "Sensitivity", "center",
             "ui.features.sensitivity.sensitivity_panel:SensitivityPanel"),
    PanelRow("search", "Search", "center", "ui.features.search.search_panel:SearchPanel"),
    PanelRow("weight_transforms", "Weight transforms", "center",
             "ui.features.weight_transforms.weight_transforms_panel:WeightTransformsPanel"),
    PanelRow("training", "Training", "center", "ui.features.training.training_panel:TrainingPanel"),
    PanelRow("runs", "Runs", "center", "ui.features.runs.runs_panel:RunsPanel"),
    PanelRow("inspector", "Inspector", "right",
             "ui.features.inspector.inspector_panel:InspectorPanel"),
    PanelRow("jobs", "Jobs", "bottom", "ui.features.jobs.jobs_panel:JobsPanel"),
    PanelRow("log", "Log", "bottom", "ui.features.jobs.log_panel:LogPanel"),
    PanelRow("problems", "Problems", "bottom", "ui.features.problems.problems_panel:ProblemsPanel"),
)  # fmt: skip

"""The panel table: one row per panel; adding one is a row and a file.

The class is named by a string, because a panel is imported when it is first shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Literal

from ui.panel import Panel

Area = Literal["left", "center", "right", "bottom"]


@dataclass(frozen=True)
class PanelRow:
    """A panel: where it stands at first, and the class that makes it."""

    id: str
    title: str
    area: Area
    entry: str

    def load(self) -> type[Panel]:
        """Import the panel's class."""
        module, _, name = self.entry.partition(":")
        found: type[Panel] = getattr(import_module(module), name)
        return found


PANELS: tuple[PanelRow, ...] = (
    PanelRow("modules", "Modules", "left", "ui.panels.modules_panel:ModulesPanel"),
    PanelRow("rules", "Rules", "left", "ui.panels.rules_panel:RulesPanel"),
    PanelRow("graph", "Graph", "center", "ui.panels.graph_panel:GraphPanel"),
    PanelRow("ranges", "Ranges", "center", "ui.panels.ranges_panel:RangesPanel"),
    PanelRow("explorer", "Formats", "center", "ui.panels.formats_panel:FormatsPanel"),
    PanelRow("numerics", "Numerics", "center", "ui.panels.numerics_panel:NumericsPanel"),
    PanelRow("sample", "Sample", "center", "ui.panels.sample_panel:SamplePanel"),
    PanelRow("cost", "Cost", "center", "ui.panels.cost_panel:CostPanel"),
    PanelRow("timeline", "Timeline", "center", "ui.panels.timeline_panel:TimelinePanel"),
    PanelRow("memory", "Memory", "center", "ui.panels.memory_panel:MemoryPanel"),
    PanelRow("sweep", "Devices", "center", "ui.panels.devices_panel:DevicesPanel"),
    PanelRow("simulator", "Simulator", "center", "ui.panels.simulator_panel:SimulatorPanel"),
    PanelRow("sensitivity", "Sensitivity", "center",
             "ui.panels.sensitivity_panel:SensitivityPanel"),
    PanelRow("search", "Search", "center", "ui.panels.search_panel:SearchPanel"),
    PanelRow("improvers", "Improvers", "center", "ui.panels.improvers_panel:ImproversPanel"),
    PanelRow("training", "Training", "center", "ui.panels.training_panel:TrainingPanel"),
    PanelRow("runs", "Runs", "center", "ui.panels.runs_panel:RunsPanel"),
    PanelRow("inspector", "Inspector", "right", "ui.panels.inspector_panel:InspectorPanel"),
    PanelRow("jobs", "Jobs", "bottom", "ui.panels.jobs_panel:JobsPanel"),
    PanelRow("log", "Log", "bottom", "ui.panels.log_panel:LogPanel"),
    PanelRow("problems", "Problems", "bottom", "ui.panels.problems_panel:ProblemsPanel"),
)  # fmt: skip

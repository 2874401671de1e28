"""Training through emulated formats: gradients go straight through their rounding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.engine.graph_rules import rules_of
from workbench.engine.toolchains.formats.emulation import quantize_per_format
from workbench.engine.toolchains.formats.quantizing import convert, prepare
from workbench.engine.training.emulated import EmulatedStudent

if TYPE_CHECKING:
    from pathlib import Path

    from torch import fx

    from workbench.project.model import Project


def student(floating: fx.GraphModule, project: Project, folder: Path) -> EmulatedStudent:
    """Return the float program with its formats, to be trained."""
    return EmulatedStudent(
        floating,
        lambda module: convert(prepare(module, rules_of(project, folder)), fold=False),
        lambda node: node.target is quantize_per_format,
    )

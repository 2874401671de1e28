"""Compile: compile the quantized program for the device."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from workbench.engine.fx.snapshot import snapshot
from workbench.engine.targets import compiler_of
from workbench.graph.snapshot import GraphSnapshot
from workbench.results import (
    DEVICE_GRAPH_FILE,
    GRAPH_FILE,
    PROGRAM_FILE,
    RECORD_FILE,
    WEIGHTS_FILE,
    save_result,
)

if TYPE_CHECKING:
    from workbench.engine.runtime.context import StageContext
    from workbench.engine.targets import Lowered

LEVEL = "edge"


def run(context: StageContext) -> None:
    """Write the program, one TOSA file per delegate, the reports and both graphs."""
    lowered, result = compiler_of(context).lower(context)
    if lowered.pte:
        (context.out / PROGRAM_FILE).write_bytes(lowered.pte)
    for name, data in lowered.files.items():
        (context.out / name).write_bytes(data)
    if lowered.weights is not None:
        (context.out / WEIGHTS_FILE).write_bytes(lowered.weights)
    if lowered.record is not None:
        (context.out / RECORD_FILE).write_bytes(lowered.record)
    for index, flatbuffer in enumerate(lowered.tosa):
        (context.out / f"delegate_{index}.tosa").write_bytes(flatbuffer)
    floating = GraphSnapshot.load(context.path("export") / GRAPH_FILE)
    if lowered.edge is not None:
        snapshot(lowered.edge, LEVEL, floating.modules).save(context.out / GRAPH_FILE)
    if lowered.device_graph is not None:
        device = replace(lowered.device_graph, modules=floating.modules)
        device.save(context.out / DEVICE_GRAPH_FILE)
    save_result(result, context.out)
    context.keep(lowered)


def load(context: StageContext) -> Lowered:
    """Compile again: an edge program with delegates cannot be stored."""
    context.log("Compiling again, because the engine that compiled it has ended.")
    lowered: Lowered = compiler_of(context).lower(context)[0]
    return lowered

"""The levels that a program exists at, and which stage leaves the graph of each."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.results import DEVICE_GRAPH_FILE, GRAPH_FILE


@dataclass(frozen=True)
class Level:
    """One level: the stage and the file that has it, and how it is called."""

    id: str
    stage: str
    file: str
    title: str
    words: str


LEVELS = (
    Level("export", "export", GRAPH_FILE, "Float", "as exported"),
    Level("prepare", "prepare", GRAPH_FILE, "Prepared", "with observers"),
    Level("convert", "convert", GRAPH_FILE, "Quantized", "with quantize and dequantize"),
    Level("lower", "lower", GRAPH_FILE, "Edge", "as it goes to the device, delegates as groups"),
    Level("device", "lower", DEVICE_GRAPH_FILE, "TOSA", "of the delegates, as Vela reads it"),
)
LEVELS_BY_ID = {level.id: level for level in LEVELS}
FLOAT, PREPARED, QUANTIZED, EDGE, DEVICE = (level.id for level in LEVELS)

"""Float against quantized, one row per output or per tensor."""

from __future__ import annotations

from PySide6.QtCore import QObject

from ui.figures import DASH, decibel, figure
from ui.models.figure_table import Column, FigureTableModel
from workbench.graph.wording import operator_name
from workbench.results import OutputQuality, TensorQuality

SQNR = "Signal to quantization noise; a dash where both are equal or nothing could be compared"
COSINE = "Cosine between the float and the quantized values"
ERROR = "Greatest absolute difference, in units of the tensor"


def cosine_text(value: float | None) -> str:
    """Return a cosine with the digits in which good ones differ."""
    return DASH if value is None else f"{value:.6f}"


def _output_tip(row: OutputQuality) -> str:
    return "\n".join((row.name, f"SQNR  {decibel(row.sqnr_db)}",
                      f"cosine  {cosine_text(row.cosine)}",
                      f"max error  {figure(row.max_abs_error)}"))  # fmt: skip


def describe_quality(row: TensorQuality) -> str:
    """Return the figures of a tensor in lines."""
    lines = (row.tensor, f"{row.op}  {row.module}".strip(), f"SQNR  {decibel(row.sqnr_db)}",
             f"cosine  {cosine_text(row.cosine)}",
             f"max error  {figure(row.max_abs_error)}", "measured on host (PyTorch)")  # fmt: skip
    return "\n".join(lines)


OUTPUT_COLUMNS: tuple[Column[OutputQuality], ...] = (
    Column("Output", lambda r: r.name),
    Column("SQNR", lambda r: decibel(r.sqnr_db), lambda r: r.sqnr_db, SQNR),
    Column("Cosine", lambda r: cosine_text(r.cosine), lambda r: r.cosine, COSINE),
    Column("Max error", lambda r: figure(r.max_abs_error), lambda r: r.max_abs_error, ERROR),
)
TENSOR_COLUMNS: tuple[Column[TensorQuality], ...] = (
    Column("Tensor", lambda r: r.tensor),
    Column("SQNR", lambda r: decibel(r.sqnr_db), lambda r: r.sqnr_db, SQNR),
    Column("Cosine", lambda r: cosine_text(r.cosine), lambda r: r.cosine, COSINE),
    Column("Max error", lambda r: figure(r.max_abs_error), lambda r: r.max_abs_error, ERROR),
    Column("Operator", lambda r: operator_name(r.op)),
    Column("Module", lambda r: r.module or DASH),
)


class OutputTableModel(FigureTableModel[OutputQuality]):
    """All outputs of the model."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(OUTPUT_COLUMNS, _output_tip, parent)


class QualityTableModel(FigureTableModel[TensorQuality]):
    """All tensors that exist on both sides."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(TENSOR_COLUMNS, describe_quality, parent)

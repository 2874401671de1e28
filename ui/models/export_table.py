"""The matrix products of an exported model as rows."""

from __future__ import annotations

from PySide6.QtCore import QObject

from ui.figures import DASH
from ui.models.figure_table import Column, FigureTableModel
from workbench.results import ExportedProduct

PRODUCT_COLUMNS: tuple[Column[ExportedProduct], ...] = (
    Column("Product", lambda r: r.origin or r.node),
    Column("Operation", lambda r: r.op),
    Column("int8", lambda r: "yes" if r.quantized else "no", lambda r: int(r.quantized),
           "Predicted from the compiler's sources"),
    Column("Why it is not", lambda r: r.reason or DASH),
    Column("Module", lambda r: r.module or DASH),
    Column("Name in the file", lambda r: r.node),
)  # fmt: skip


class ProductTableModel(FigureTableModel[ExportedProduct]):
    """All matrix products of an exported model."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(PRODUCT_COLUMNS, lambda r: f"{r.node}\n{r.reason}".strip(), parent)

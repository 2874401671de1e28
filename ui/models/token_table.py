"""A text token by token: what each program expected to follow."""

from __future__ import annotations

from PySide6.QtCore import QObject

from ui.figures import DASH, figure, percent
from ui.models.figure_table import Column, FigureTableModel
from workbench.results.quality import TokenStep

CHANCE = "Probability that it gives to the token that follows"
DIVERGENCE = "KL divergence of its probabilities from the float model's, in nats"

_TOKENS: tuple[Column[TokenStep], ...] = (
    Column("Step", lambda r: str(r.sample), lambda r: r.sample, "Its number in the text"),
    Column("Token", lambda r: r.token),
    Column("Follows", lambda r: r.follows, None, "The token that follows in the text"),
)
_CHANCES: tuple[Column[TokenStep], ...] = (
    Column("Float", lambda r: percent(r.chance_float), lambda r: r.chance_float, CHANCE),
    Column("Quantized", lambda r: percent(r.chance_quantized), lambda r: r.chance_quantized,
           CHANCE),
)  # fmt: skip
READ_COLUMNS: tuple[Column[TokenStep], ...] = (
    *_TOKENS,
    Column("KL", lambda r: figure(r.kl_quantized), lambda r: r.kl_quantized, DIVERGENCE),
    *_CHANCES,
)
VERIFIED_COLUMNS: tuple[Column[TokenStep], ...] = (
    *_TOKENS,
    Column("KL", lambda r: figure(r.kl_integer), lambda r: r.kl_integer,
           "KL divergence of the integer program's probabilities from the float model's, in nats"),
    Column("Max LSB", lambda r: DASH if r.max_lsb is None else str(r.max_lsb),
           lambda r: r.max_lsb, "Greatest difference from the quantized model"),
    *_CHANCES,
    Column("Integer", lambda r: percent(r.chance_integer), lambda r: r.chance_integer, CHANCE),
)  # fmt: skip


def _tip(row: TokenStep) -> str:
    return f"Step {row.sample}: {row.follows} after {row.token}"


class TokenTableModel(FigureTableModel[TokenStep]):
    """The steps of a text, with the integer program or without."""

    def __init__(self, parent: QObject | None = None, *, verified: bool = False) -> None:
        super().__init__(VERIFIED_COLUMNS if verified else READ_COLUMNS, _tip, parent)

"""Comparison of a program with a reference model."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCheckBox, QVBoxLayout, QWidget

from ui.features.accuracy.quality_cards import (
    INTEGER_COLUMNS,
    OUTPUT_COLUMNS,
    READING_COLUMNS,
    describe_integer,
    describe_output,
    describe_reading,
    divergence_text,
    verify_cards,
)
from ui.shared.figure_cards import FigureCards
from ui.shared.forms import WrappedLabel
from ui.shared.labels import Label
from ui.shared.number_format import DASH, figure, percent
from ui.shared.setting_names import in_window
from ui.shared.sortable_table import Column, FigureTableModel, FigureView
from ui.shared.tabs import Tabs
from ui.shared.theme import Theme
from workbench.analysis.gate import GateResult, Limit, limit_parts, limit_words
from workbench.results import VerifyResult
from workbench.results.quality import TokenStep

CHANCE = "Probability of the next token"
DIVERGENCE = "KL divergence from the float model [nats]"

_TOKENS: tuple[Column[TokenStep], ...] = (
    Column("Step", lambda r: str(r.sample), lambda r: r.sample, "Position in the text"),
    Column("Token", lambda r: r.token),
    Column("Next token", lambda r: r.follows, None, "The next token of the text"),
)
_CHANCES: tuple[Column[TokenStep], ...] = (
    Column("Float", lambda r: percent(r.chance_float), lambda r: r.chance_float, CHANCE),
    Column("Quantized", lambda r: percent(r.chance_quantized), lambda r: r.chance_quantized, CHANCE),
)
READ_COLUMNS: tuple[Column[TokenStep], ...] = (
    *_TOKENS,
    Column("KL", lambda r: figure(r.kl_quantized), lambda r: r.kl_quantized, DIVERGENCE),
    *_CHANCES,
)
VERIFIED_COLUMNS: tuple[Column[TokenStep], ...] = (
    *_TOKENS,
    Column(
        "KL",
        lambda r: figure(r.kl_integer),
        lambda r: r.kl_integer,
        "KL divergence of the NPU output from the float model [nats]",
    ),
    Column(
        "Max LSB",
        lambda r: DASH if r.max_lsb is None else str(r.max_lsb),
        lambda r: r.max_lsb,
        "Maximum difference from the quantized model",
    ),
    *_CHANCES,
    Column("Integer", lambda r: percent(r.chance_integer), lambda r: r.chance_integer, CHANCE),
)


def describe_token(row: TokenStep) -> str:
    """Return the tooltip of a step of a text."""
    return f"Step {row.sample}: {row.follows} after {row.token}"


# Marks of a limit that is held, broken, or not checked.
SIGNS = {True: "\u2713", False: "\u2717", None: "?"}
CHECK_COLUMNS: tuple[Column[Limit], ...] = (
    Column("", lambda r: SIGNS[r.held], lambda r: {False: 0.0, None: 1.0, True: 2.0}[r.held], "Met"),
    Column("Check", lambda r: limit_parts(r)[0]),
    Column("Value", lambda r: limit_parts(r)[1], lambda r: r.value),
    Column("Limit", lambda r: limit_parts(r)[2] or NO_BOUND),
)
# The bound of a count that must be zero.
NO_BOUND = "none"
AGAINST_QUANTIZED = "NPU output against the quantized model"
NO_TENSORS = "No tensor of the compiled program exists in the quantized model."
# Plots may become this low: the panel fits a screen of 1600 x 1000 with a scale of 1.5.
LOWEST_BARS_PX = 92
# Page of the checks.
_CHECKS = 3
EXPORTED_FILE = "Exported file vs. float model"


class ComparisonView(QWidget):
    """Cards and tables of a comparison. Exported files also have a table of arithmetic models.

    Signals:
        nodes_chosen: operations of the exported graph.
    """

    nodes_chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.heading = Label(AGAINST_QUANTIZED, self)
        self.heading.setObjectName("Subheading")
        self.heading.setWordWrap(True)
        self.note = WrappedLabel(parent=self)
        self.note.setObjectName("Hint")
        self.cards = FigureCards(self)
        self.variants = FigureTableModel(READING_COLUMNS, describe_reading, self)
        self.variant_table = FigureView("Arithmetic models over the same samples", self.variants, self)
        self.outputs = FigureTableModel(OUTPUT_COLUMNS, describe_output, self)
        self.output_table = FigureView("Program outputs", self.outputs, self)
        self.integers = FigureTableModel(INTEGER_COLUMNS, describe_integer, self)
        self.integer_table = FigureView("Program tensors", self.integers, self, empty=NO_TENSORS)
        self.integer_table.rows_chosen.connect(self._on_integers_chosen)
        self.tokens = FigureTableModel(VERIFIED_COLUMNS, describe_token, self)
        self.token_table = FigureView("Program tokens", self.tokens, self)
        self.divergence = WrappedLabel(parent=self)
        self.verdict = WrappedLabel(parent=self)
        self.checks = FigureTableModel(CHECK_COLUMNS, limit_words, self)
        self.check_table = FigureView("Checks of the compiled program", self.checks, self)
        self._arrange()

    def render_verdict(self, gate: GateResult | None) -> None:
        """Show whether the program is compiled correctly, with all limits; nothing without it."""
        self.verdict.setVisible(gate is not None)
        self.pages.setTabVisible(_CHECKS, gate is not None)
        self.checks.set_rows(gate.limits if gate is not None else ())
        if gate is not None:
            broken = [f"{SIGNS[False]}\u00a0{limit_words(one)}" for one in gate.limits if one.held is False]
            self.verdict.setText("\n".join([f"Compiled program {gate.sentence}", *broken]))

    def render_comparison(self, value: VerifyResult, theme: Theme, *, stale: bool) -> None:
        """Show a comparison."""
        is_file = bool(value.runtime)
        self.heading.setText(EXPORTED_FILE if is_file else AGAINST_QUANTIZED)
        self.cards.render_cards(verify_cards(value), theme, stale=stale)
        self.note.setText(in_window(" ".join(value.warnings)))
        self.note.setVisible(bool(value.warnings))
        self.differences.render_counts(value.histogram)
        self.differences.set_stale(stale)
        for of_integers in (self.log, self.differences):
            of_integers.setVisible(not is_file)
        self.pages.setTabVisible(0, not is_file)
        self.variants.set_rows(value.readings)
        self.variant_table.setVisible(is_file)
        self.outputs.set_rows(value.outputs)
        self.integers.set_rows(value.tensors)
        self.tokens.set_rows(value.text.steps if value.text else ())
        self.pages.setTabVisible(2, value.text is not None)
        self.divergence.setText(divergence_text(value))
        self.divergence.setVisible(bool(value.tensors))
        tables = (
            self.variant_table,
            self.output_table,
            self.integer_table,
            self.token_table,
            self.check_table,
        )
        for table in tables:
            table.set_look(theme, stale=stale)

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of a theme."""
        self.differences.set_theme(theme)

    def _arrange(self) -> None:
        from ui.shared.bar_plot import DifferencePlot

        self.differences = DifferencePlot("quantized model", self)
        self.differences.setMinimumHeight(LOWEST_BARS_PX)
        self.log = QCheckBox("Logarithmic counts", self)
        self.log.clicked.connect(self.differences.set_log)
        self.pages = Tabs(self)
        self.pages.add_pages(
            ("Tensors", self.integer_table),
            ("Outputs", self.output_table),
            ("Tokens", self.token_table),
            ("Checks", self.check_table),
        )
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 6, 8, 0)
        layout.setSpacing(6)
        for part in (self.heading, self.verdict, self.note, self.cards):
            layout.addWidget(part)
        layout.addWidget(self.log, 0, Qt.AlignmentFlag.AlignLeft)
        layout.addWidget(self.differences, 2)
        layout.addWidget(self.variant_table, 2)
        layout.addWidget(self.divergence)
        layout.addWidget(self.pages, 3)

    def _on_integers_chosen(self, rows: Sequence[int]) -> None:
        rows_chosen = [self.integers.row_at(row) for row in rows]
        self.nodes_chosen.emit([t.origin for t in rows_chosen if t and t.origin])

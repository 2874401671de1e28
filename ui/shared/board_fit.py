"""How the compiled program fits the project's board."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtWidgets import QVBoxLayout, QWidget

from ui.shared.bar_picture import BarPicture
from ui.shared.forms import WrappedLabel
from ui.shared.labels import literal
from ui.shared.number_format import size
from ui.shared.panel import PanelContext
from ui.shared.theme import Theme
from workbench.deploy.fitting import Fit, of_results, sentence
from workbench.errors import WorkbenchError
from workbench.outcome_page import memory_bars
from workbench.project.model import TargetChoice


class BoardFitReader:
    """Reads how the present program fits the board, once for each program and board."""

    def __init__(self, context: PanelContext) -> None:
        self._context = context
        self._read: tuple[tuple[Path, str, TargetChoice] | None, Fit | None] = (None, None)

    def read(self) -> Fit | None:
        """Return the fit; None without a board or without a current program."""
        opened, results = self._context.document.opened_project, self._context.result("lower")
        if opened is None or results is None or not opened.project.board:
            return None
        key = (results, opened.project.board, opened.project.target)
        if self._read[0] != key:
            try:
                self._read = (key, of_results(opened, results))
            except (OSError, WorkbenchError):
                return None
        return self._read[1]


class BoardFit(QWidget):
    """Shows whether the program fits the board, and its memories as bars; else it is hidden."""

    def __init__(self, theme: Callable[[], Theme], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.verdict = WrappedLabel(parent=self)
        self.verdict.setAccessibleName("Board fit")
        self.memories = BarPicture(theme, self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addWidget(self.verdict)
        layout.addWidget(self.memories)
        self.hide()

    def render_fit(self, fit: Fit | None) -> None:
        """Show a result; None is no board."""
        self.setVisible(fit is not None)
        if fit is None:
            return
        theme = self._theme()
        colour = theme.bad if not fit.fits else theme.warning if fit.doubts else theme.good
        self.verdict.setText(sentence(fit))
        self.verdict.setStyleSheet(f"color: {colour};")
        self.memories.render_bars("Memories of the board", memory_bars(fit))
        self.memories.setToolTip(
            literal(
                "\n".join(
                    f"{d.what}: {size(d.bytes)} in {f.name}, {d.origin}"
                    for f in fit.fillings
                    for d in f.demands
                )
            )
        )

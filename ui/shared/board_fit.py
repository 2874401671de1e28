"""How the compiled program fits the project's board."""

from __future__ import annotations

from html import escape
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from ui.shared.figures import size
from ui.shared.labels import Label, literal
from ui.shared.panel import PanelContext
from ui.shared.theme import Theme
from workbench.deploy.fitting import Filling, Fit, of_results, sentence
from workbench.errors import WorkbenchError
from workbench.project.model import TargetChoice


class BoardFitReader:
    """Reads how the present program fits the board, once for each program and board."""

    def __init__(self, context: PanelContext) -> None:
        self._context = context
        self._read: tuple[tuple[Path, str, TargetChoice] | None, Fit | None] = (None, None)

    def read(self) -> Fit | None:
        """Return the fit; None without a board or without a current program."""
        document = self._context.document
        project, results = document.project, self._context.result("lower")
        if project is None or results is None or not project.board:
            return None
        key = (results, project.board, project.target)
        if self._read[0] != key:
            try:
                self._read = (key, of_results(project, document.folder, results))
            except (OSError, WorkbenchError):
                return None
        return self._read[1]


class BoardFit(Label):
    """Shows whether the program fits the board; hidden without a board."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWordWrap(True)
        self.setTextFormat(Qt.TextFormat.RichText)
        self.setAccessibleName("Board fit")
        self.hide()

    def render_fit(self, fit: Fit | None, theme: Theme) -> None:
        """Show a result; None is no board."""
        self.setVisible(fit is not None)
        if fit is None:
            return
        colour = theme.bad if not fit.fits else theme.warning if fit.doubts else theme.good
        verdict = f'<span style="color:{colour}">{escape(sentence(fit))}</span>'
        shown = [f for f in fit.fillings if f.demands or not fit.fits]
        regions = " \u00b7 ".join(escape(_line(f)) for f in shown)
        self.setText(f"{verdict}<br>{regions}" if regions else verdict)
        self.setToolTip(literal("\n".join(
            f"{d.what}: {size(d.bytes)} in {f.name}, {d.origin}"
            for f in fit.fillings for d in f.demands
        )))  # fmt: skip


def _line(filling: Filling) -> str:
    room = "size unknown" if filling.bytes is None else size(filling.bytes)
    doubt = " (not confirmed)" if filling.bytes is not None and not filling.confirmed else ""
    what = ", ".join(f"{d.what} {size(d.bytes)}" for d in filling.demands)
    return f"{filling.name}: {size(filling.used)} of {room}{doubt}{f' ({what})' if what else ''}"

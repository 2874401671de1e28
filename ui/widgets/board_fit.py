"""Whether the program fits the board: the verdict, and each memory with its numbers."""

from __future__ import annotations

from html import escape

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QWidget

from ui.figures import size
from ui.theme import Theme
from workbench.deploy.boards import Filling, Fit, sentence


class BoardFit(QLabel):
    """A few lines; hidden where there is no board."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWordWrap(True)
        self.setTextFormat(Qt.TextFormat.RichText)
        self.setAccessibleName("Fits the board")
        self.hide()

    def render_fit(self, fit: Fit | None, theme: Theme) -> None:
        """Show another verdict; None is no board."""
        self.setVisible(fit is not None)
        if fit is None:
            return
        colour = theme.bad if not fit.fits else theme.warning if fit.doubts else theme.good
        verdict = f'<span style="color:{colour}">{escape(sentence(fit))}</span>'
        shown = [f for f in fit.fillings if f.demands or not fit.fits]
        places = " \u00b7 ".join(escape(_line(f)) for f in shown)
        self.setText(f"{verdict}<br>{places}" if places else verdict)
        self.setToolTip("\n".join(
            f"{d.what}: {size(d.bytes)} in {f.name}, {d.origin}"
            for f in fit.fillings for d in f.demands
        ))  # fmt: skip


def _line(filling: Filling) -> str:
    room = "size not known" if filling.bytes is None else size(filling.bytes)
    doubt = " (not confirmed)" if filling.bytes is not None and not filling.confirmed else ""
    what = ", ".join(f"{d.what} {size(d.bytes)}" for d in filling.demands)
    return f"{filling.name}: {size(filling.used)} of {room}{doubt}{f' ({what})' if what else ''}"

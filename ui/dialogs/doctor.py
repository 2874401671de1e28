"""The doctor: what this machine has, what it lacks, and how to get it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from PySide6.QtCore import QObject, QRunnable, Qt, QThreadPool, Signal
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QTextBrowser, QVBoxLayout, QWidget

from ui.theme import Theme
from workbench.doctor import Finding, findings

_WORDS = {"ok": "there", "different": "look at this", "missing": "missing", "optional": "optional"}
_LOOKING = "Looking\u2026"


class _Told(QObject):
    """Tells what was found."""

    done = Signal(object)


class _Look(QRunnable):
    """Looks, away from the window: tools are asked for their versions."""

    def __init__(self, told: _Told) -> None:
        super().__init__()
        self._told = told

    def run(self) -> None:
        self._told.done.emit(findings())


class DoctorDialog(QDialog):
    """A page of findings; nothing is downloaded, and no licence accepted."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("What this machine has")
        self._theme = theme
        self._told = _Told()
        self._told.done.connect(self._on_told)
        self.page = QTextBrowser(self)
        self.page.setAccessibleName("What this machine has")
        kinds = QDialogButtonBox.StandardButton
        buttons = QDialogButtonBox(kinds.Close, self)
        self.again = buttons.addButton("Look again", QDialogButtonBox.ButtonRole.ActionRole)
        self.again.clicked.connect(self._look)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 14, 16, 14)
        layout.setSpacing(10)
        layout.addWidget(self.page, 1)
        layout.addWidget(buttons)
        self.resize(760, 620)
        self._look()

    def _look(self) -> None:
        self.again.setEnabled(False)
        self.page.setText(_LOOKING)
        QThreadPool.globalInstance().start(_Look(self._told))

    def _on_told(self, found: Sequence[Finding]) -> None:
        self.again.setEnabled(True)
        self.page.setHtml("".join(self._row(finding) for finding in found))

    def _row(self, finding: Finding) -> str:
        theme = self._theme
        colours = {"ok": theme.good, "different": theme.warning, "missing": theme.bad}
        colour = colours.get(finding.state, theme.muted)
        lines = [
            f"<b>{escape(finding.name)}</b> &nbsp;{escape(finding.version)} &nbsp;"
            f"<span style='color:{colour}'>{_WORDS[finding.state]}</span>"
        ]
        if finding.state != "ok":
            why = f"<span style='color:{theme.muted}'>{escape(finding.why)}</span>"
            lines += [part for part in (why, escape(finding.remedy)) if part]
        return f"<p style='margin:0 0 9px 0'>{'<br>'.join(lines)}</p>"

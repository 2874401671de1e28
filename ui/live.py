"""Live mode: every edit refreshes its own figures, the newest edit wins."""

from __future__ import annotations

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QCheckBox

from ui.main_window import MainWindow
from ui.panel import PanelContext

GOAL = "evaluate"
_TIP = "Refresh the figures after every edit, without being asked"


class LiveMode(QObject):
    """Measures the open project whenever its configuration has no figures yet.

    A configuration is tried once: one that failed or was cancelled waits for the user.
    """

    def __init__(self, context: PanelContext, window: MainWindow) -> None:
        super().__init__(window)
        self._context = context
        self._job = ""
        self._tried = ""
        self.action: QAction = window.actions_by_id["live"]
        self.action.setCheckable(True)
        self.action.setToolTip(_TIP)
        self.action.setChecked(context.settings.live)
        self.action.toggled.connect(self._on_toggled)
        self.switch = QCheckBox("Live figures", window)
        self.switch.setToolTip(_TIP)
        self.switch.setChecked(self.action.isChecked())
        self.switch.clicked.connect(self._on_clicked)
        window.statusBar().addPermanentWidget(self.switch)
        context.session.planned_anew.connect(self._follow)

    def _on_clicked(self, on: bool) -> None:
        self.action.setChecked(on)

    def _on_toggled(self, on: bool) -> None:
        self.switch.setChecked(on)
        self._context.settings.live = on
        self._tried = ""
        if on:
            self._follow()
        else:
            self._stop()

    def _follow(self) -> None:
        """Measure the present configuration unless that is done, under way, or of no use."""
        context = self._context
        project, view = context.document.project, context.session.stage(GOAL)
        if not self.action.isChecked() or project is None or not view.key:
            return
        job = context.runner.job(self._job)
        if job is not None and not job.over and job.project != project:
            self._stop()
        if view.key == self._tried or view.state not in {"stale", "running"}:
            return
        self._tried = view.key
        done = {each.id for each in context.session.stages() if each.state == "cached"}
        made = context.runner.run_until(project, context.document.folder, [GOAL], done)
        self._job = made[0] if made else ""

    def _stop(self) -> None:
        job = self._context.runner.job(self._job)
        if job is not None and not job.over:
            self._context.runner.cancel(self._job)

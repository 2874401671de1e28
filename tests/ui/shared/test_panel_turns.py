"""Panels show results one after another, and the window answers in between."""

from __future__ import annotations

import time

from PySide6.QtCore import QTimer

from ui.shared.panel import Panel


class _Slow(Panel):
    """A panel that needs longer than a frame to show results."""

    def watch(self, turns):
        self.turns = turns

    def refresh(self):
        if hasattr(self, "turns"):
            time.sleep(0.06)
            self.turns.append(self)


def test_that_the_window_answers_between_two_panels_that_show_results(opened, qtbot):
    turns = []
    panels = [_Slow(opened.context) for _ in range(3)]
    for panel in panels:
        qtbot.addWidget(panel)
        panel.show()
        panel.watch(turns)
    answers = QTimer(panels[0], interval=0)
    answers.timeout.connect(lambda: turns.append("answer"))
    answers.start()
    opened.session.results_changed.emit()
    qtbot.waitUntil(lambda: set(panels) <= set(turns))
    answers.stop()
    first, *others = [place for place, what in enumerate(turns) if what in panels]
    for place in others:
        assert "answer" in turns[first:place]
        first = place

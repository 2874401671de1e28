"""The layout of every panel at four sizes in both themes: nothing cut, empty or overlapping."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget

from tests.layout import findings, is_on_screen, pages
from tests.ui.shell.test_window import run_to
from ui.features.runs.run_table import RUN_COLUMNS, describe_run_row
from ui.shared.sortable_table import FigureTableModel, FigureView
from ui.shell.panels import PANELS

# 1600 x 1000 with a scale of 1.5 has as many pixels of the layout as the first.
SIZES = [(1066, 666), (1280, 720), (1600, 1000), (2560, 1440)]


def walked(opened, qtbot, size):
    """Show every panel at a size; return what is wrong, by panel."""
    window = opened.window
    window.resize(*size)
    window.reset_layout()
    wrong = []
    for row in PANELS:
        panel = window.reveal(row.id)
        for page in pages(panel):
            panel.flush()
            qtbot.wait(1)
            panel.annotate()
            qtbot.wait(1)
            wrong += [f"{row.id} {page} {size}: {line}" for line in findings(panel)]
    for part in (window.pipeline, window.scoreboard, window.rail, window.statusBar()):
        wrong += [f"{size}: {line}" for line in findings(part)]
        assert is_on_screen(part, window)
    assert (window.width(), window.height()) == size
    return wrong


@pytest.mark.parametrize(
    ("size", "theme"),
    [
        (SIZES[0], "dark"),
        *(
            pytest.param(size, theme, marks=pytest.mark.slow)
            for size in SIZES
            for theme in ("dark", "light")
            if (size, theme) != (SIZES[0], "dark")
        ),
    ],
)
def test_that_nothing_is_cut_empty_or_covered(opened, qtbot, size, theme):
    opened.context.appearance.switch(theme)
    before = walked(opened, qtbot, size)
    run_to(opened, qtbot, "")
    qtbot.waitUntil(lambda: not opened.runner.running)
    after = walked(opened, qtbot, size)
    wrong = [*before, *after]
    assert not wrong, "\n".join(wrong)


def test_that_texts_that_are_cut_empty_tables_and_parts_that_overlap_are_found(qtbot):
    """The test above would notice what it looks for."""
    page = QWidget()
    qtbot.addWidget(page)
    layout = QVBoxLayout(page)
    label, button, table = (
        QLabel("A label of some length", page),
        QPushButton("Button", page),
        (FigureView("Table", FigureTableModel(RUN_COLUMNS, describe_run_row), page)),
    )
    table.setMinimumHeight(200)
    for part in (label, button, table):
        layout.addWidget(part)
    page.resize(400, 400)
    page.show()
    (empty,) = findings(page)
    assert "without a row" in empty
    table.empty = "Nothing yet."
    assert findings(page) == []
    label.setFixedWidth(20)
    (cut,) = findings(page)
    assert "20 px wide, needs" in cut
    label.setMinimumWidth(0)
    label.setMaximumWidth(1000)
    page.layout().activate()
    assert findings(page) == []
    button.setGeometry(label.geometry())
    assert any("covers" in line for line in findings(page))
    button.move(390, button.y())
    assert any("sticks out" in line for line in findings(page))

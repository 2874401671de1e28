"""Parts that stand side by side where there is room, and otherwise in tabs."""

from PySide6.QtWidgets import QLabel, QWidget

from ui.shared.tabs import SplitOrTabs


def test_that_a_part_that_comes_back_in_a_narrow_window_is_in_a_tab(qtbot, qapp):
    around = QWidget()
    qtbot.addWidget(around)
    parts = SplitOrTabs([("A", QLabel("a")), ("B", QLabel("b"))], (1, 1), 700, around)
    parts.set_part_visible(1, False)
    parts.resize(500, 300)
    around.show()
    qtbot.waitExposed(around)
    qapp.processEvents()
    assert parts.is_split
    parts.set_part_visible(1, True)
    qtbot.waitUntil(lambda: not parts.is_split)


def test_that_parts_made_in_a_narrow_panel_are_in_tabs_at_once(qtbot):
    panel = QWidget()
    qtbot.addWidget(panel)
    panel.resize(300, 300)
    panel.show()
    frame = QWidget(panel)
    for wide_px, is_split in ((500, False), (200, True)):
        titled = [(title, QWidget(frame)) for title in ("Result", "Setup")]
        parts = SplitOrTabs(titled, (1, 1), wide_px, frame)
        assert parts.is_split is is_split

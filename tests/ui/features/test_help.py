"""The guide in the window: pages for panels and problems, links, and the search."""

from itertools import pairwise

import pytest
from PySide6.QtCore import QUrl
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QLineEdit, QWidget

from ui.features.help_window import HelpWindow, slug
from ui.shared.theme import DARK, LIGHT
from ui.shell.panels import PANELS
from workbench import guide
from workbench.errors import Place, failure


def test_that_help_opens_pages_of_panels_and_problems_follows_links_and_searches(opened, qtbot, notices):
    # Help opens the page of the panel with the focus.
    opened.window.show()
    qtbot.waitActive(opened.window)
    panel = opened.window.reveal("rules")
    panel.findChild(QLineEdit).setFocus()
    opened.window.actions_by_id["help"].trigger()
    assert opened.help.window.isVisible()
    assert opened.help.window.page == guide.page_for_panel("rules")
    # A problem leads to its page.
    opened.notices.error(failure("No such rule.", where=Place(kind="rule", id="r9")))
    notices.take("No such rule.")
    opened.notices.help_asked.emit(Place(kind="rule", id="r9"))
    assert opened.help.window.page == guide.GUIDE / "user" / "rules.md"
    # Links lead from page to page and back.
    opened.help.show_contents()
    window = opened.help.window
    window.browser.anchorClicked.emit(QUrl("tutorial.md"))
    assert window.page == guide.GUIDE / "tutorial.md"
    assert [item.text(0) for item in window.pages.selectedItems()] == [guide.title(window.page)]
    window.browser.backward()
    assert [item.text(0) for item in window.pages.selectedItems()] == [guide.title(guide.INDEX)]
    assert window.page == guide.INDEX
    # The search leaves the pages with all words.
    everything = window.titles()
    window.search.setText("pass_args mase")
    assert 0 < len(window.titles()) < len(everything)
    groups = [window.pages.topLevelItem(row) for row in range(window.pages.topLevelItemCount())]
    assert any(group.isHidden() for group in groups)
    assert window.pages.isHeaderHidden()
    # A search that leaves none says so.
    window.search.setText("no_page_has_this_word")
    assert all(group.isHidden() for group in groups)
    assert not window.pages.isHeaderHidden()
    window.search.clear()
    assert window.titles() == everything


def test_that_the_guide_closes_by_the_keys_of_other_windows(qtbot):
    parent = QWidget()
    qtbot.addWidget(parent)
    window = HelpWindow(DARK, parent)
    with qtbot.waitActive(window):
        window.show()
    qtbot.keySequence(window, QKeySequence(QKeySequence.StandardKey.Close))
    assert not window.isVisible()


def test_that_help_without_a_focused_panel_opens_the_page_of_the_one_in_front(opened):
    opened.window.reveal("runs")
    opened.window.pipeline.run.setFocus()
    opened.window.actions_by_id["help"].trigger()
    assert opened.help.window.page == guide.page_for_panel("runs")


def test_that_every_panel_has_a_page_of_its_own():
    assert [row.id for row in PANELS if guide.page_for_panel(row.id) == guide.INDEX] == []


@pytest.mark.parametrize(("heading", "anchor"), [("What is kept", "what-is-kept"), ("A, b!", "a-b")])
def test_that_anchors_are_those_of_markdown_viewers(heading, anchor):
    assert slug(heading) == anchor


def test_that_headings_and_paragraphs_of_the_guide_stand_apart(qtbot, tmp_path):
    parent = QWidget()
    qtbot.addWidget(parent)
    window = HelpWindow(DARK, parent)
    page = tmp_path / "page.md"
    page.write_text("# Page\n\nOne.\n\n## Part\n\n- a\n- b\n\nTwo.\n")
    window.resize(700, 500)
    window.show_page(page)
    document = window.browser.document()
    document.setTextWidth(600)
    layout, boxes, block = document.documentLayout(), [], document.begin()
    while block.isValid():
        boxes.append((block.text(), layout.blockBoundingRect(block)))
        block = block.next()
    gaps = {text: box.top() - above.bottom() for (_, above), (text, box) in pairwise(boxes)}
    assert gaps["Part"] >= 16
    assert gaps["b"] < 4
    assert gaps["Two."] >= 8
    # The same after a change of the theme, which loads the page again.
    window.set_theme(LIGHT)
    block = window.browser.document().begin()
    assert block.blockFormat().bottomMargin() == 4

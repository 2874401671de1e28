"""Samples as pictures: boxes, masks and classes."""

import numpy as np
import pytest
from PySide6.QtGui import QColor

from tests.fakes.engine import leave_results
from tests.fakes.results import result_of
from tests.ui.shell.test_window import run_to
from ui.features.pictures.pictures_panel import NO_PICTURES, ClassView
from ui.features.pictures.task_view import TaskView
from ui.shared.theme import THEMES
from workbench.results import SampleQuality
from workbench.results.task_quality import ShownObject, ShownSample, TaskFigure, TaskQuality

THEME = THEMES[0]
FIGURE = TaskFigure(name="mAP50-95", count=3, floating=0.75, quantized=0.5)


def task(**changes):
    common = {"metric": "detection", "figures": (FIGURE,), "width": 40, "height": 20}
    return TaskQuality(**{**common, **changes})


def drawn(widget, qtbot):
    """Show a widget and return its picture, and where a point of the input is in it."""
    widget.resize(400, 400)
    image = widget.grab().toImage()
    scale = image.width() / 40
    top = (image.height() - 20 * scale) / 2
    return lambda x, y: QColor(image.pixel(round(x * scale), round(top + y * scale))).name()


def test_that_boxes_are_drawn_at_their_place_and_what_changed_in_red(qtbot):
    view = TaskView(None)
    qtbot.addWidget(view)
    kept = ShownObject(box=(4, 8, 12, 16), category=1, score=0.5)
    lost = ShownObject(box=(24, 8, 32, 16), category=1, score=0.5, changed=True)
    sample = ShownSample(sample=7, lost=1, float_objects=(kept, lost), quantized_objects=(kept,))
    arrays = {"picture_7": np.zeros((10, 20, 3), np.uint8)}
    view.render_task(task(samples=(sample,)), arrays, THEME, stale=False)
    at = drawn(view.pictures["Float"], qtbot)
    assert at(8, 16) != "#000000"
    assert at(28, 16) == THEME.bad
    assert at(8, 12) == at(36, 12) == "#000000"
    assert drawn(view.pictures["Quantized"], qtbot)(28, 16) == "#000000"


def test_that_oriented_boxes_are_drawn_by_their_corners(qtbot):
    view = TaskView(None)
    qtbot.addWidget(view)
    turned = ShownObject(
        box=(10, 2, 26, 18), category=1, score=0.5, changed=True, corners=(10, 10, 18, 2, 26, 10, 18, 18)
    )
    sample = ShownSample(sample=7, lost=1, float_objects=(turned,))
    arrays = {"picture_7": np.zeros((10, 20, 3), np.uint8)}
    view.render_task(task(samples=(sample,)), arrays, THEME, stale=False)
    at = drawn(view.pictures["Float"], qtbot)
    assert at(22, 14) == THEME.bad
    assert at(26, 17) == at(18, 10) == "#000000"


def test_that_masks_cover_what_is_a_class(qtbot):
    view = TaskView(None)
    qtbot.addWidget(view)
    mask = np.zeros((20, 40), np.uint8)
    mask[:, 20:] = 2
    sample = ShownSample(sample=0)
    arrays = {"picture_0": np.zeros((20, 40, 3), np.uint8), "float_0": mask}
    view.render_task(task(metric="segmentation", samples=(sample,)), arrays, THEME, stale=False)
    at = drawn(view.pictures["Float"], qtbot)
    assert at(10, 10) == "#000000"
    assert at(30, 10) != "#000000"


def test_that_figures_and_samples_are_listed_and_a_chosen_sample_is_shown(qtbot):
    view = TaskView(None)
    qtbot.addWidget(view)
    samples = tuple(ShownSample(sample=i, added=i) for i in range(2))
    arrays = {f"picture_{i}": np.full((20, 40, 3), 200 * i, np.uint8) for i in range(2)}
    view.render_task(task(samples=samples), arrays, THEME, stale=False)
    assert view.figures.rowCount() == 1
    view.sample_table.rows_chosen.emit([1])
    assert drawn(view.pictures["Label"], qtbot)(20, 10) == "#c8c8c8"


def test_that_pictures_say_label_and_both_classes(qtbot):
    view = ClassView(None)
    qtbot.addWidget(view)
    samples = [
        SampleQuality(sample=3, sqnr_db=12.0, max_abs_error=1, label=5, float_class=5, quantized_class=8),
        SampleQuality(sample=4, sqnr_db=30.0, max_abs_error=1, label=5, float_class=5, quantized_class=5),
        SampleQuality(sample=9, sqnr_db=30.0, max_abs_error=1),
    ]
    arrays = {f"picture_{i}": np.zeros((8, 8, 3), np.uint8) for i in (3, 4)}
    view.render_samples(samples, arrays, THEME)
    texts = [view.list.item(row).text() for row in range(view.list.count())]
    assert len(texts) == 2
    assert "label 5, float 5\nquantized 8" in texts[0]
    assert view.list.item(0).foreground().color().name() == THEME.bad
    assert view.list.item(1).foreground().color().name() != THEME.bad
    assert "class" in view.note.text()
    # Without classes nothing is said of them.
    view.render_samples(samples[2:], arrays, THEME)
    assert "class" not in view.note.text()


@pytest.mark.usefixtures("opened")
def test_that_a_model_without_pictures_says_so(opened, qtbot, monkeypatch):
    leave_results(monkeypatch, evaluate=result_of("evaluate"))
    run_to(opened, qtbot, "evaluate")
    panel = opened.window.reveal("pictures")
    qtbot.waitUntil(panel.frames["evaluate"].note.isVisible)
    qtbot.waitUntil(lambda: panel.frames["evaluate"].note.label.text() == NO_PICTURES)


def test_that_the_shown_sample_is_named_and_marked_and_masks_have_no_counts_of_objects(qtbot):
    view = TaskView(None)
    qtbot.addWidget(view)
    samples = (ShownSample(sample=4, loss=0.25), ShownSample(sample=7))
    view.render_task(task(metric="segmentation", samples=samples), {}, THEME, stale=False)
    assert "Sample 4 is shown" in view.note.text()
    assert view.sample_table.chosen_rows() == [0]
    assert [view.sample_table.isColumnHidden(c) for c in range(4)] == [False, True, True, False]
    view.show_sample(1)
    assert "Sample 7 is shown" in view.note.text()
    assert view.sample_table.chosen_rows() == [1]
    view.render_task(task(samples=samples[1:]), {}, THEME, stale=False)
    assert not view.sample_table.isColumnHidden(1)

"""One sample's tensors as a person looks at them, over fake engines."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import Qt

from tests.fakes.results import result_of, write_result
from tests.for_each import for_each
from tests.ui.shell.test_window import run_to
from ui.features.sample_panel import picture_of
from workbench.results import save_result


@pytest.fixture
def panel(opened, qtbot):
    run_to(opened, qtbot, "")
    return opened.window.reveal("sample")


def show(panel, opened, qtbot, tensor="relu", sample=3):
    """Choose a tensor and a sample, and wait for its values."""
    opened.context.selection.choose_nodes([tensor])
    qtbot.waitUntil(lambda: panel.tensors.currentData() == tensor)
    qtbot.waitUntil(panel.show_button.isEnabled)
    panel.sample.setValue(sample)
    qtbot.mouseClick(panel.show_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: panel.note.text().startswith(f"{tensor} of sample {sample}"))


def test_that_float_quantized_integer_and_compiled_stand_side_by_side(panel, opened, qtbot):
    # The last compared tensor is chosen at first; the list has all.
    qtbot.waitUntil(panel.show_button.isEnabled)
    names = [panel.tensors.itemData(i) for i in range(panel.tensors.count())]
    assert panel.tensors.currentData() == names[-1]
    assert names[-1] in panel.chosen.text()
    panel.tensors.setCurrentIndex(0)
    panel.tensors.activated.emit(0)
    assert names[0] in panel.chosen.text()
    # An operation that was not compared is added, and stays chosen.
    opened.context.selection.choose_nodes(["bn"])
    qtbot.waitUntil(lambda: panel.tensors.currentData() == "bn")
    panel.refresh()
    assert panel.tensors.currentData() == "bn"
    # A module of the tree shows the tensor it ends with.
    opened.context.selection.choose_modules(["stem"])
    qtbot.waitUntil(lambda: panel.tensors.currentData() == "relu")
    # Float, quantized and integer stand side by side.
    show(panel, opened, qtbot)
    assert "1\u00d72\u00d74\u00d74" in panel.note.text()
    assert all(panel.maps[side].isVisible() for side in ("float", "quantized", "integer"))
    assert "max error 0.5" in panel.titles["quantized"].text()
    assert "max error 0.25" in panel.titles["integer"].text()
    assert panel.maps["float"].values.shape == (4, 8)
    # The compiled program stands beside its TOSA.
    assert panel.maps["compiled"].isVisible()
    assert "executed on the simulator" in panel.titles["compiled"].text()
    assert "differ in 2 of 32 elements" in panel.note.text()
    # Beside are the input, the label and what each program predicts.
    assert panel.input.isVisible()
    assert panel.answers.text().splitlines() == [
        "Label: 3",
        "Float: class 3",
        "Quantized: class 5",
        "Integer: class 5",
        "Compiled: class 5",
        "The programs give different classes.",
    ]
    apart = panel.maps["compiled"].values != panel.maps["integer"].values
    assert np.count_nonzero(apart) == 2


@pytest.mark.slow
def test_that_a_channel_and_the_difference_can_be_looked_at_alone(panel, opened, qtbot):
    show(panel, opened, qtbot)
    panel.channel.setValue(1)
    assert panel.maps["float"].values.tolist() == np.arange(16, 32).reshape(4, 4).tolist()
    qtbot.mouseClick(panel.difference, Qt.MouseButton.LeftButton)
    assert not panel.maps["float"].isVisible()
    assert np.all(panel.maps["quantized"].values == 0.5)


@pytest.mark.slow
def test_that_values_of_a_former_configuration_say_so(panel, opened, qtbot):
    show(panel, opened, qtbot)
    opened.context.assigner.modules(["stem"], "a16w8")
    qtbot.waitUntil(lambda: "Outdated" in panel.note.text())


def test_that_pictures_have_the_same_size_and_one_colour_scale(panel, opened, qtbot):
    opened.window.resize(1200, 800)
    show(panel, opened, qtbot)
    qtbot.waitUntil(lambda: any(chart.isVisible() for chart in panel.maps.values()))
    maps = [chart for chart in panel.maps.values() if chart.isVisible()]
    assert len(maps) > 1
    qtbot.waitUntil(lambda: max(m.width() for m in maps) - min(m.width() for m in maps) <= 2)
    assert len({m.height() for m in maps}) == 1
    assert all(m.mapTo(panel, m.rect().topRight()).x() <= panel.width() for m in maps)
    assert panel.scale.isVisible()
    # Their titles begin at one height, too.
    assert {bool(title.alignment() & Qt.AlignmentFlag.AlignTop) for title in panel.titles.values()} == {True}


@for_each(
    ("shape", "curves"),
    [
        ((1, 3, 8, 8), 0),
        ((1, 2, 16, 16), 0),
        ((1, 4, 2, 30), 2),
        ((1, 1, 40), 1),
        ((1, 40, 3), 3),
        ((1, 64), 1),
        ((1, 20, 30), 6),
        ((1,), 1),
    ],
)
def test_that_an_input_is_a_picture_or_curves(panel, shape, curves):
    values = np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    panel.input.render_input(values)
    assert panel.input.curves == curves
    panel.input.grab()
    panel.input.render_input(np.full(shape, np.nan, np.float32))
    assert panel.input.curves == curves


def test_that_the_button_below_the_text_says_what_it_shows(panel, qtbot):
    qtbot.waitUntil(panel.begin.isVisible)
    assert panel.begin.text() == "Show sample 0"
    panel.sample.setValue(4)
    assert panel.begin.text() == "Show sample 4"
    qtbot.mouseClick(panel.begin, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: "of sample 4" in panel.note.text())
    assert not panel.begin.isVisible()


def test_that_channels_of_any_shape_make_a_picture_that_is_nearly_a_square():
    for height, width, count in [(25, 5, 32), (5, 25, 32), (8, 8, 16), (1, 40, 12), (3, 1, 2)]:
        values = np.arange(count * height * width, dtype=np.float32).reshape(1, count, height, width)
        picture = picture_of(values, None)
        assert sorted(picture[~np.isnan(picture)]) == sorted(values.reshape(-1))
        if count * min(height, width) > max(height, width):
            assert 0.5 <= picture.shape[0] / picture.shape[1] <= 2


def test_that_an_operation_without_a_tensor_of_its_own_offers_that_of_the_next_one(
    opened, qtbot, monkeypatch
):
    """A batch norm is fused into its convolution and ReLU: its values cannot be computed."""

    def write(stage, folder):
        write_result(stage, folder)
        if stage == "evaluate":
            result = result_of(stage)
            relu = result.tensors[0].model_copy(update={"tensor": "relu", "origin": "relu"})
            save_result(result.model_copy(update={"tensors": (relu, *result.tensors)}), folder)

    monkeypatch.setattr("tests.fakes.engine.write_result", write)
    run_to(opened, qtbot, "")
    panel = opened.window.reveal("sample")
    qtbot.waitUntil(lambda: panel.tensors.count() == 2)
    opened.context.selection.choose_nodes(["batch_norm"])
    qtbot.waitUntil(lambda: panel.tensors.currentData() != "conv2d")
    assert panel.tensors.currentData() == "relu"

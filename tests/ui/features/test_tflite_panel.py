"""The TFLite panel over fake engines: a file is chosen, both programs are shown beside each other."""

import pytest

from workbench.protocol import RunStudy


@pytest.fixture
def panel(opened, qtbot, tmp_path):
    shown = opened.window.reveal("tflite")
    qtbot.waitUntil(shown.choose.isEnabled)
    return shown


def compared(panel, opened, qtbot, tmp_path):
    file = tmp_path / "deployed.tflite"
    file.write_bytes(b"\0\0\0\0TFL3, not read by engines that are played")
    panel.open_file(str(file))
    qtbot.waitUntil(lambda: not opened.runner.running and panel.layers.rowCount() == 2)
    return file


def rows(model):
    return [
        [model.index(row, column).data() for column in range(model.columnCount())]
        for row in range(model.rowCount())
    ]


def test_that_layers_causes_sums_cpu_operators_and_outputs_are_shown(panel, opened, engines, qtbot, tmp_path):
    assert not panel.start.isVisible()
    file = compared(panel, opened, qtbot, tmp_path)
    (command,) = [c for c in engines.commands if isinstance(c, RunStudy)]
    assert (command.study, command.options["file"]) == ("tflite", str(file))
    layers = rows(panel.layers)
    assert layers[0][:5] == ["stem.conv", "Conv2D stem", "150", "100", "+50"]
    assert layers[1][1:5] == ["Add sum", "\u2013", "20", "-20"]
    assert [row[1] for row in rows(panel.causes)] == ["+50", "-20"]
    assert ["NPU cycles", "150", "120"] in rows(panel.totals)
    assert [row[:2] for row in rows(panel.on_cpu)] == [["aten.mul.Tensor", "head"]]
    assert [row[0] for row in rows(panel.outputs)] == ["out"]
    # The answer, and that the output is far from the model's.
    text = panel.note.text()
    assert "+50" in text
    assert "3.0 dB" in text


def test_that_a_layer_selects_its_module_and_the_other_way_round(panel, opened, qtbot, tmp_path):
    compared(panel, opened, qtbot, tmp_path)
    panel.layer_view.selectRow(0)
    qtbot.waitUntil(lambda: "stem.conv" in opened.context.selection.value.modules)
    panel.layer_view.clearSelection()
    opened.context.selection.choose_modules(("stem.conv",), "modules")
    qtbot.waitUntil(lambda: panel.layer_view.chosen_rows() == [0])


def test_that_a_file_that_is_gone_is_named_and_nothing_is_lost(panel, opened, notices, qtbot, tmp_path):
    file = compared(panel, opened, qtbot, tmp_path)
    file.unlink()
    panel.start.click()
    notices.take("deployed.tflite cannot be read")
    assert panel.layers.rowCount() == 2


def test_that_a_file_is_chosen_by_one_button(panel, opened, qtbot, tmp_path):
    qtbot.waitUntil(panel.note.button.isVisible)
    assert not panel.choose.isVisible()
    compared(panel, opened, qtbot, tmp_path)
    qtbot.waitUntil(panel.choose.isVisible)
    assert not panel.note.button.isVisible()

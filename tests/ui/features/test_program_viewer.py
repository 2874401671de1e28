"""Any program opens in a window of its own, and a damaged one in a sentence."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests import tflite_models as ops
from tests.litert_search import compiled, keywords
from tests.ui.shell.test_window import drop
from workbench.npu.program import load

PROGRAMS = Path(__file__).parents[2] / "data" / "programs"


@pytest.fixture
def shown(workbench, qtbot):
    """Opens a program through the File menu's way and returns its window."""

    def show(name):
        path = name if isinstance(name, Path) else PROGRAMS / name
        workbench.files.open_path(path)
        qtbot.waitUntil(lambda: path in workbench.programs.windows)
        window = workbench.programs.windows[path]
        qtbot.waitExposed(window)
        return window

    return show


def texts(model):
    columns = range(model.columnCount())
    return [[model.index(r, c).data() for c in columns] for r in range(model.rowCount())]


def parts(tree):
    found = []

    def walk(item):
        found.append(tuple(item.text(c) for c in range(3)))
        for n in range(item.childCount()):
            walk(item.child(n))

    walk(tree.invisibleRootItem())
    return found


def test_that_programs_of_every_kind_are_shown_without_a_project(shown, workbench, qtbot):
    # A program is shown without a project.
    window = shown("u55.pte")
    assert workbench.window.welcome.isVisible()
    assert any("Scratch pool" in text for text in window.cards.texts())
    rows = parts(window.parts)
    assert any(r[0] == "0: EthosUBackend" and r[2] == "ethos-u55-128" for r in rows)
    assert any(r[0] == "input 0" and "in scratch at" in r[2] for r in rows)
    window.close()
    qtbot.waitUntil(lambda: not workbench.programs.windows)
    # Plan, constants and kernels of a program without NPU are shown.
    window = shown("no_delegate.pte")
    assert not window.tabs.isTabEnabled(window.tabs.indexOf(window.commands))
    assert ("Delegates", "", "none (CPU only)") in parts(window.parts)
    assert [row[1] for row in texts(window.constants)] == ["288", "16", "48", "12"]
    assert ["aten::relu.out", "1"] in texts(window.kernels)
    assert texts(window.plan.model)[0][1] == "input"
    assert len(texts(window.instructions)) == 5
    # The program of another backend says that it is not decoded.
    window = shown("xnnpack.pte")
    assert any("other backend" in what for _, _, what in parts(window.parts))
    assert any("Xnnpack" in text for text in window.cards.texts())
    # A TensorFlow Lite file of Vela is shown beside a .pte file.
    compiled = shown("resize_u85_vela.tflite")
    assert "TensorFlow Lite" in compiled.about.text()
    assert any(r[2] == "ethos-u85-256" for r in parts(compiled.parts))
    other = shown("u85.pte")
    assert compiled.isVisible()
    compiled.close()
    other.close()


def test_that_a_long_path_does_not_widen_the_window(shown, tmp_path):
    folder = tmp_path.joinpath(*("results" * 8 for _ in range(4)))
    folder.mkdir(parents=True)
    path = Path(shutil.copy(PROGRAMS / "u55.pte", folder))
    window = shown(path)
    assert window.minimumSizeHint().width() < 1200
    assert str(path) in window.path.toolTip()
    # Constants are those of the NPU, without its commands.
    weights = next(r for r in parts(window.parts) if r[0] == "weight_data")
    (card,) = (text for text in window.cards.texts() if "Constants" in text)
    assert f"{weights[1]} B" in card


def test_that_commands_are_searched_and_damage_in_them_leaves_the_rest(shown, qtbot, tmp_path):
    # Commands are searched and tensors lead to them.
    window = shown("u55.pte")
    view = window.commands
    window.tabs.setCurrentWidget(view)
    qtbot.waitUntil(lambda: view.commands.rowCount() > 50)
    everything = view.commands.rowCount()
    view.search.setText("convolution")
    qtbot.waitUntil(lambda: view.commands.rowCount() == 2)
    assert "3x3 convolution, (8, 8, 2) to (8, 8, 4)" in texts(view.commands)[0][3]
    # What a register setting stands for is told.
    view.search.setText("npu_set_ifm")
    qtbot.waitUntil(lambda: view.commands.rowCount() > 2)
    told = {row[1].removeprefix("NPU_SET_"): row[3] for row in reversed(texts(view.commands))}
    assert told["IFM_REGION"] == "scratch"
    heights = [(row[2], row[3]) for row in texts(view.commands) if row[1] == "NPU_SET_IFM_HEIGHT0_M1"]
    assert heights
    assert all(int(value) + 1 == int(height) for value, height in heights)
    assert told["IFM_PRECISION"].startswith("int8, N")
    assert told["IFM_STRIDE_X"].endswith(" bytes")
    assert told["IFM_ZERO_POINT"] == ""
    names = [row[0] for row in texts(view.tensors)]
    assert names[:2] == ["input 0", "output 0"]
    assert "weights" in names
    view.tensor_table.selectRow(1)
    (row,) = view.table.chosen_rows()
    assert view.commands.rowCount() == everything
    assert view.commands.row_at(row).command.name.startswith("NPU_OP_")
    view.only.setChecked(True)
    assert all(row[1].startswith("NPU_OP_") for row in texts(view.commands))
    # Damage in the commands alone leaves the rest to see.
    data = bytearray((PROGRAMS / "u55.pte").read_bytes())
    data[data.index(b"COP1") : data.index(b"COP1") + 4] = b"COPX"
    path = tmp_path / "odd.pte"
    path.write_bytes(data)
    window = shown(path)
    window.tabs.setCurrentWidget(window.commands)
    qtbot.waitUntil(lambda: "does not begin" in window.commands.note.text())
    assert window.kernels.rowCount() == 2


def test_that_a_program_cut_short_or_missing_is_one_sentence(workbench, qtbot, notices, tmp_path):
    # A program cut short is one sentence.
    for kept in [0, 7, 40, 1500, 4000]:
        path = tmp_path / "cut.pte"
        path.write_bytes((PROGRAMS / "u55.pte").read_bytes()[:kept])
        workbench.files.open_path(path)
        qtbot.waitUntil(lambda: notices.says("cut.pte"))
        notices.take("cut.pte")
        assert not workbench.programs.windows
    # A file that is not there is one sentence.
    workbench.files.open_path(tmp_path / "none.pte")
    qtbot.waitUntil(lambda: notices.says("cannot be read"))
    notices.take("none.pte cannot be read")


def test_that_a_program_opened_again_is_read_again_and_dropped_ones_open(shown, workbench, qtbot, tmp_path):
    # A program opened again is read again.
    path = tmp_path / "net.pte"
    shutil.copy(PROGRAMS / "u55.pte", path)
    window = shown(path)
    before = window.contents.sha256
    shutil.copy(PROGRAMS / "u85.pte", path)
    workbench.files.open_path(path)
    qtbot.waitUntil(lambda: window.contents.sha256 != before)
    assert len(workbench.programs.windows) == 1
    window.close()
    qtbot.waitUntil(lambda: not workbench.programs.windows)
    # A dropped program opens and its window takes the next.
    drop(workbench.window, PROGRAMS / "u85.pte")
    qtbot.waitUntil(lambda: len(workbench.programs.windows) == 1)
    (window,) = workbench.programs.windows.values()
    drop(window, PROGRAMS / "u65.pte")
    qtbot.waitUntil(lambda: len(workbench.programs.windows) == 2)


def test_that_a_program_is_executed_by_operations_on_inputs_of_a_file(shown, qtbot, tmp_path):
    # A program is executed operation by operation.
    window = shown("u55.pte")
    view = window.execution
    window.tabs.setCurrentWidget(view)
    view.run.click()
    qtbot.waitUntil(lambda: view.outputs.rowCount() == 1)
    assert "no timing" in view.note.text()
    offsets = [row[2] for row in texts(view.operations)]
    assert len(offsets) == len(set(offsets)) > 1
    view.operation_table.selectRow(view.operations.rowCount() - 1)
    qtbot.waitUntil(lambda: view.tensors.rowCount() > 0)
    tensors = [row[0] for row in texts(view.tensors)]
    assert any(name.startswith("reads IFM") for name in tensors)
    assert tensors[-1].startswith("writes OFM")
    view.tensor_table.selectRow(len(tensors) - 1)
    low, high = (float(row) for row in texts(view.tensors)[-1][3:5])
    values = [int(word) for word in view.values.toPlainText().split()]
    assert (min(values), max(values)) == (low, high)
    # A program takes inputs from a file and says what is wrong with them.
    np.savez(tmp_path / "other.npz", x=np.zeros(3))
    view.take_inputs(str(tmp_path / "other.npz"))
    view.execute()
    qtbot.waitUntil(lambda: "in0" in view.note.text())
    assert view.outputs.rowCount() == 0
    shape = load(PROGRAMS / "u55.pte").inputs[0].shape
    np.savez(tmp_path / "right.npz", in0=np.zeros(shape, np.float32))
    view.take_inputs(str(tmp_path / "right.npz"))
    view.execute()
    qtbot.waitUntil(lambda: view.outputs.rowCount() == 1)


def test_that_the_values_of_an_output_are_shown_at_once_and_when_it_is_chosen(shown, qtbot):
    window = shown("u55.pte")
    view = window.execution
    window.tabs.setCurrentWidget(view)
    view.run.click()
    qtbot.waitUntil(lambda: view.outputs.rowCount() == 1)

    def extremes():
        values = [float(word) for word in view.values.toPlainText().split()]
        return min(values), max(values)

    def has_output():
        row = texts(view.outputs)[0]
        return extremes() == pytest.approx([float(word) for word in row[5:7]], rel=1e-5)

    assert has_output()
    view.operation_table.selectRow(1)
    qtbot.waitUntil(lambda: view.tensors.rowCount() > 0)
    view.tensor_table.selectRow(0)
    shown_values = view.values.toPlainText()
    view.output_table.selectRow(0)
    assert view.values.toPlainText() != shown_values
    assert has_output()


class _InThisProcess:
    """Computes what LiteRT computes, without the seconds of a process of its own."""

    def __enter__(self):
        from workbench.engine.ethos_u.litert import compute_tflite

        return lambda name, arguments, _outputs: compute_tflite(name, arguments)

    def __exit__(self, *raised):
        return None


def test_that_a_tflite_is_compared_with_the_network_from_before_vela(shown, monkeypatch, qtbot, tmp_path):
    monkeypatch.setattr("workbench.npu.operator_process.CpuOperatorProcess", _InThisProcess)
    original, compiled_file = compiled(keywords(), "ethos-u55-128", tmp_path, "net")
    window = shown(compiled_file)
    view = window.execution
    window.tabs.setCurrentWidget(view)
    assert view.refer.isVisible()
    view.execute()
    qtbot.waitUntil(lambda: view.outputs.rowCount() == 1)
    assert [row[1:3] for row in texts(view.outputs)] == [["\u2013", "\u2013"]]
    view.take_reference(str(original))
    assert "net.tflite" in view.referred.text()
    view.execute()
    qtbot.waitUntil(lambda: texts(view.outputs)[0][1] != "\u2013")
    # One layer rounds otherwise by one step at most, as the tests of the simulator say.
    assert int(texts(view.outputs)[0][2]) <= 1
    assert f"{12 - int(texts(view.outputs)[0][1])} of 12" in view.note.text()
    # Another network is one sentence, and figures of the other inputs go.
    other = ops.Writer(0)
    (tmp_path / "other.tflite").write_bytes(other.done(ops.requantized(other, other.input(1, 49, 10, 1))))
    view.take_reference(str(tmp_path / "other.tflite"))
    view.execute()
    qtbot.waitUntil(lambda: "that Vela compiled this program from" in view.note.text())
    assert view.outputs.rowCount() == 0
    # Programs of ExecuTorch have no such file.
    assert not shown("u55.pte").execution.refer.isVisible()

"""A text file of any length is a list of lines; what cannot be read is an empty one."""

import pytest

from ui.features.simulator.run_log import TextFileModel
from ui.shared.log_lines import Role
from workbench.deploy.simulators.log_parser import level_of


@pytest.fixture
def model(qtbot):
    return TextFileModel(level_of)


def lines(model):
    return [model.index(row, 0).data() for row in range(model.rowCount())]


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"", []),
        (b"one", ["one"]),
        (b"one\r\ntwo\n", ["one", "two"]),
        (b"\n\n", ["", ""]),
        (b"caf\xc3\xa9\n\xff\x00end", ["caf\u00e9", "\ufffd end"]),
        (b"x" * 5000, ["x" * 2000]),
    ],
)
def test_that_every_line_is_a_row(model, tmp_path, data, shown):
    path = tmp_path / "uart.log"
    path.write_bytes(data)
    model.open(path)
    assert lines(model) == shown


def test_that_lines_are_found_across_what_is_read_at_once(model, tmp_path):
    path = tmp_path / "uart.log"
    text = "".join(f"line {number} {'=' * 90}\n" for number in range(100_000))
    path.write_text(text)
    model.open(path)
    assert model.rowCount() == 100_000
    for row in (0, 83_885, 83_886, 83_887, 99_999):
        assert model.index(row, 0).data().startswith(f"line {row} ")


def test_that_a_file_that_cannot_be_read_has_no_lines(model, tmp_path):
    path = tmp_path / "uart.log"
    path.write_text("E [executorch:x.cpp:1 f()] bad")
    model.open(path)
    assert model.index(0, 0).data(Role.LEVEL) == "error"
    model.open(tmp_path / "nowhere")
    assert lines(model) == []
    model.open(tmp_path)
    assert lines(model) == []

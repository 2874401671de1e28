"""The entry point of the window."""

import ast
import sys
from pathlib import Path
from types import SimpleNamespace

from workbench import installation, open_window


def test_that_the_window_is_started_from_the_folder_of_the_program(monkeypatch):
    monkeypatch.setitem(sys.modules, "ui.__main__", SimpleNamespace(main=lambda: 7))
    folder = str(installation.root())
    monkeypatch.setattr(sys, "path", ["/first"])
    for _ in range(2):
        assert open_window.main() == 7
        assert sys.path == ["/first", folder]


def test_that_no_other_module_of_the_core_names_the_window():
    core = Path(open_window.__file__).parent
    named = {
        path.relative_to(core).as_posix()
        for path in core.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and str(node.value).startswith("ui.")
    }
    assert named == {"open_window.py"}

"""Names that look like HTML are shown as they stand, everywhere in the window."""

from __future__ import annotations

import ast
from html import escape
from pathlib import Path

import pytest
from PySide6.QtCore import QAbstractListModel, QModelIndex
from PySide6.QtGui import QAction, Qt
from PySide6.QtWidgets import QAbstractItemView, QLabel, QTextBrowser, QWidget

from tests.fakes.projects import make_project, write_project
from ui.shared.labels import Label, literal
from ui.shared.problem_list import of_info
from ui.shell.panels import PANELS
from workbench.errors import ErrorInfo, Place, WorkbenchError
from workbench.project import edits
from workbench.project.model import DataSource, TargetChoice

UI = Path(__file__).parents[3] / "ui"
HOSTILE = '<img src="file:///etc/passwd"><b>x</b>'


def is_markup(text: str) -> bool:
    """Return whether Qt would load the picture or set the letters bold."""
    return Qt.mightBeRichText(text) and ("<img" in text or "<b>x" in text)


def texts(window):
    """Yield where a text is shown, and the text as Qt interprets it."""
    for widget in window.findChildren(QWidget):
        name = f"{type(widget).__name__} {widget.objectName()} {widget.accessibleName()}"
        yield f"tooltip of {name}", widget.toolTip()
        if isinstance(widget, QLabel) and widget.textFormat() != Qt.TextFormat.PlainText:
            yield f"text of {name}", widget.text()
        if isinstance(widget, QTextBrowser):
            html = widget.toHtml()
            yield f"page of {name}", html if "<img" in html else ""
        if isinstance(widget, QAbstractItemView) and widget.model() is not None:
            yield from tooltips(widget.model(), QModelIndex(), name)
    for action in window.findChildren(QAction):
        yield f"tooltip of the action {action.text()}", action.toolTip()


def tooltips(model, parent, name, depth=0):
    for row in range(min(model.rowCount(parent), 60)):
        is_list = isinstance(model, QAbstractListModel)
        for column in range(1 if is_list else min(model.columnCount(parent), 12)):
            index = model.index(row, column, parent)
            found = index.data(Qt.ItemDataRole.ToolTipRole)
            yield f"tooltip in {name}", found if isinstance(found, str) else ""
        if depth < 4:
            yield from tooltips(model, model.index(row, 0, parent), name, depth + 1)


@pytest.fixture
def hostile(workbench, tmp_path, qtbot):
    made = make_project().model_copy(
        update={
            "name": HOSTILE,
            "notes": HOSTILE,
            "board": HOSTILE,
            "target": TargetChoice(id="ethos-u55-128", options={"config_ini": HOSTILE}),
            "calibration": DataSource(spec=f"{HOSTILE}.npz", labels=HOSTILE),
        }
    )
    for kind in ("module_name", "module_type", "node_target", "node_name"):
        made = edits.assign(made, kind, HOSTILE, "a8w8")
    path = write_project(tmp_path / "odd", made)
    named = path.with_name("<b>x<i>.qwb")
    path.rename(named)
    workbench.files.open_path(named)
    qtbot.waitUntil(lambda: workbench.document.project is not None)
    return workbench


def test_that_names_in_a_project_are_literal_in_every_panel(hostile, notices):
    for row in PANELS:
        hostile.window.reveal(row.id).flush()
    place = Place(kind="file", id=HOSTILE)
    info = ErrorInfo(message=HOSTILE, hint=HOSTILE, where=place, details=HOSTILE, code="test")
    hostile.context.problems.set_problems([of_info(info, HOSTILE, "error")])
    hostile.notices.error(WorkbenchError([info]))
    hostile.context.log.add("error", HOSTILE)
    notices.take(HOSTILE)
    shown = dict(texts(hostile.window))
    assert len(shown) > 200
    assert any("x</b>" in text or escape("<b>x") in text for text in shown.values())
    assert not {where: text for where, text in shown.items() if is_markup(text)}


def test_that_a_label_and_a_tooltip_show_markup_as_it_stands(qtbot):
    label = Label(HOSTILE)
    qtbot.addWidget(label)
    assert label.textFormat() == Qt.TextFormat.PlainText
    assert not is_markup(literal(HOSTILE))
    assert literal("plain & simple") == "plain & simple"
    assert literal("a < b") == "a < b"


def _is_safe(node: ast.expr) -> bool:
    """Return whether the text of a tooltip is the program's own, or made literal."""
    match node:
        case ast.Constant():
            return True
        case ast.Name(id=name):
            return name.isupper()
        case ast.IfExp(body=body, orelse=orelse):
            return _is_safe(body) and _is_safe(orelse)
        case ast.Call(func=ast.Name(id="literal")):
            return True
        case ast.BinOp(left=ast.Name(id=name)):
            return name.isupper()
    return False


def test_that_every_label_and_tooltip_of_the_window_is_made_literal():
    # Texts that are the program's own, or lines that are escaped one by one.
    own = {"sample.purpose", "tooltip(hit", "_TIP"}
    found = []
    for path in UI.rglob("*.py"):
        text = path.read_text()
        if path.name == "labels.py" or not ("QLabel" in text or "setToolTip" in text):
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call):
                continue
            called = getattr(node.func, "id", "") or getattr(node.func, "attr", "")
            if called == "QLabel":
                found.append(f"{path.name}:{node.lineno} QLabel")
            if called == "setToolTip" and not _is_safe(node.args[-1]):
                text = ast.unparse(node.args[-1])
                if not any(word in text for word in own):
                    found.append(f"{path.name}:{node.lineno} {text}")
    assert found == []

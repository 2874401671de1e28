"""Every option that a message can name leads to where it is set."""

from __future__ import annotations

import re
from pathlib import Path

import workbench
from ui.features.project.project_settings import ProjectSettingsDialog
from ui.features.trust_dialog import CodeDialog
from ui.shell.target_controller import PluginsDialog
from ui.shell.window_controller import OPTION_PANELS, SETTINGS
from workbench.errors import Place
from workbench.project import edits
from workbench.project.model import Project

# Code whose messages the window can show; the others are the command line's.
SHOWN = ("engine", "project", "pipeline", "targets", "studies", "deploy", "history")
OPTION = re.compile(r'Place\(\s*kind="option",\s*id=f?"([a-z_]+)')
# Arguments of commands and functions, which the window gives itself.
ARGUMENTS = {"inputs", "scheduler", "preprocess", "fail", "file", "prompt"}


def named_options():
    folder = Path(workbench.__file__).parent
    for part in SHOWN:
        for path in (folder / part).rglob("*.py"):
            yield from OPTION.findall(path.read_text("utf-8"))


def test_that_every_option_of_a_message_has_a_place():
    names = set(named_options()) | (Project.model_fields.keys() - {"version", "graph"})
    assert len(names) > 30
    assert sorted(names - SETTINGS - OPTION_PANELS.keys() - ARGUMENTS - {"plugins"}) == []


def test_that_an_error_in_the_code_leads_to_its_line(opened, qtbot):
    file = opened.document.folder / "model.py"
    file.write_text("import torch\n\ndef net(:\n    return None\n")
    model = opened.document.project.model.model_copy(update={"spec": "model.py:net"})
    opened.document.apply("Model", lambda p: edits.set_model(p, model))
    opened.navigation.go(Place(kind="line", id=f"{file}:3"))
    dialog = opened.window.findChild(CodeDialog)
    assert dialog.isVisible()
    assert dialog.files.currentItem().text() == "model.py"
    (marked,) = dialog.text.extraSelections()
    assert marked.cursor.block().text() == "def net(:"
    # It shows code and cannot allow it.
    assert [button.text().replace("&", "") for button in dialog.buttons.buttons()] == ["Close"]
    dialog.reject()
    # A file that is no part of the project is a problem in the list.
    opened.navigation.go(Place(kind="line", id="/nowhere/net.py:3"))
    assert opened.window.docks["problems"].isVisible()


def test_that_places_settings_and_plug_ins_lead_to_where_they_are_set(opened, qtbot):
    # A place is shown in its panel.
    cases = [
        ("option", "rules[0].config", "rules"),
        ("option", "improvers", "weight_transforms"),
        ("option", "learning_rate", "training"),
        ("option", "targets", "devices"),
        ("tool", "FVP", "simulator"),
        ("tool", "vela", "log"),
        ("stage", "lower", "log"),
    ]
    for kind, name, panel in cases:
        opened.navigation.go(Place(kind=kind, id=name))
        assert opened.window.docks[panel].isVisible()
    # A setting gets the focus in its form.
    for key in ["notes", "trained_weights", "calibration.tokens.length"]:
        opened.window.activateWindow()
        opened.navigation.go(Place(kind="option", id=key))
        dialog = opened.window.findChild(ProjectSettingsDialog)
        field = dialog.fields[key]
        qtbot.waitUntil(lambda: dialog.focusWidget() in {field, field.focusProxy()})
        qtbot.waitUntil(field.isVisible)
        dialog.check()
        assert field.isVisible()
        dialog.reject()
        qtbot.waitUntil(lambda: opened.window.findChild(ProjectSettingsDialog) is None)
    # Plug-ins lead to their list.
    opened.navigation.go(Place(kind="option", id="plugins"))
    dialog = opened.window.findChild(PluginsDialog)
    assert dialog.isVisible()
    dialog.reject()

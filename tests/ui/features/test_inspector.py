"""The inspector: values that can be changed are links to where they are changed."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QUrl
from PySide6.QtWidgets import QInputDialog, QMenu

from tests.fakes.results import result_of, write_result
from tests.for_each import for_each
from tests.ui.shell.test_window import run_to
from ui.features.project.project_settings import ProjectSettingsDialog
from ui.shared.config_form import ConfigDialog
from workbench.project.model import DataSource
from workbench.results import save_result


@pytest.fixture
def inspector(opened, qtbot):
    run_to(opened, qtbot, "evaluate")
    qtbot.waitUntil(lambda: bool(opened.context.model_index.modules))
    panel = opened.window.reveal("inspector")
    panel.flush()
    return panel


def links(panel):
    """Return the links of the page."""
    found, block = [], panel.page.document().begin()
    while block.isValid():
        for fragment in block.begin():
            if (link := fragment.fragment().charFormat().anchorHref()) not in {"", *found}:
                found.append(link)
        block = block.next()
    return found


def values_open_their_settings_and_long_paths_break(inspector, opened, qtbot):
    # A value of the project opens its setting.
    cases = [
        "name",
        "model.spec",
        "model.weights",
        "model.input_shapes",
        "calibration.spec",
        "calibration.labels",
        "evaluation.data.spec",
        "evaluation.metric",
        "gate.lsb",
        "gate.sqnr",
        "board",
        "target.id",
        "target.options.memory_mode",
        "target.options.system_config",
        "notes",
    ]
    assert {f"setting:{key}" for key in cases} <= {*links(inspector)}
    for key in ("name", "calibration.spec", "gate.lsb", "target.options.memory_mode"):
        inspector.page.anchorClicked.emit(QUrl(f"setting:{key}"))
        dialog = opened.window.findChild(ProjectSettingsDialog)
        assert dialog.isVisible()
        assert [name for name in cases if dialog.field_of(name) is None] == []
        field = dialog.field_of(key)
        qtbot.waitUntil(lambda: dialog.focusWidget() in {field, field.focusProxy()})
        dialog.reject()
        qtbot.waitUntil(lambda: opened.window.findChild(ProjectSettingsDialog) is None)
    # A long path breaks between its words.
    name = "my-long-folder/data-of-training.npz"
    source = DataSource(spec=name)
    opened.document.apply("Data", lambda p: p.model_copy(update={"calibration": source}))
    qtbot.waitUntil(lambda: "training" in inspector.page.toPlainText())
    words = inspector.page.toPlainText().replace("\u200b", "|")
    assert "my-|long-|folder/|data-|of-|training.|npz" in words


def precision_channels_and_ranges_are_reached_in_the_inspector(inspector, opened, qtbot):
    # A rule is switched in the inspector.
    opened.context.selection.choose_rule("r1")
    inspector.flush()
    assert "switch:r1" in links(inspector)
    inspector.page.anchorClicked.emit(QUrl("switch:r1"))
    assert not opened.document.project.rules[0].enabled
    assert opened.document.undo_stack.undoText() == "Disable rule whole model"
    # The precision of a module is set in the inspector.
    opened.context.selection.choose_modules(["head"])
    inspector.flush()
    assert "precision:" in links(inspector)
    inspector.page.anchorClicked.emit(QUrl("precision:"))
    menu = inspector.findChild(QMenu)
    next(action for action in menu.actions() if "a16w8" in action.text()).trigger()
    assert opened.document.project.rules[-1].match == "head"
    menu.close()
    # The precision of several modules is set in the inspector.
    opened.context.selection.choose_modules(["head", "stem.conv"])
    inspector.flush()
    assert "precision:" in links(inspector)
    # The range of an operation leads to the ranges.
    opened.context.selection.choose_nodes(["conv2d"])
    inspector.flush()
    assert "-1 to 1, calibrated" in inspector.page.toPlainText()
    inspector.page.anchorClicked.emit(QUrl("ranges:"))
    assert opened.window.docks["ranges"].isVisible()


def test_that_the_ranges_of_a_tensor_in_two_widths_are_told_apart(opened, qtbot, monkeypatch):
    """A float input that goes into 8-bit and 16-bit operations is quantized twice."""

    def write(stage, folder):
        write_result(stage, folder)
        if stage == "calibrate":
            result = result_of(stage)
            wide = result.ranges[0].model_copy(update={"id": "obs_9", "dtype": "int16", "maximum": 2.0})
            save_result(result.model_copy(update={"ranges": (*result.ranges, wide)}), folder)

    monkeypatch.setattr("tests.fakes.engine.write_result", write)
    run_to(opened, qtbot, "evaluate")
    qtbot.waitUntil(lambda: bool(opened.context.model_index.modules))
    inspector = opened.window.reveal("inspector")
    inspector.flush()
    opened.context.selection.choose_nodes(["conv2d"])
    inspector.flush()
    qtbot.waitUntil(lambda: "calibrated" in inspector.page.toPlainText())
    text = inspector.page.toPlainText()
    assert "int8: -1 to 1, calibrated" in text
    assert "int16: -1 to 2, calibrated" in text
    assert text.count("Range") == 1


# What the dialogs of a layer of 16 channels show, and what is entered.
SIZES = (("channels", 16, 8), ("channels", 8, 16), ("channels", 16, 8), ("clusters", 0, 15))


def channels_and_rules_are_changed_in_the_inspector(inspector, opened, _):
    # The channels of a layer are set in the inspector: all of them are none to remove.
    opened.context.selection.choose_modules(["stem.conv"])
    inspector.flush()
    for kind, before, number in SIZES:
        inspector.page.anchorClicked.emit(QUrl(f"{kind}:stem.conv"))
        dialog = inspector.findChild(QInputDialog)
        assert dialog.intValue() == before
        dialog.setIntValue(number)
        dialog.accept()
        dialog.deleteLater()
        QCoreApplication.sendPostedEvents(dialog, QEvent.Type.DeferredDelete)
    project = opened.document.project
    assert (project.channels(), project.clusters()) == ({"stem.conv": 8}, {"stem.conv": 15})
    inspector.flush()
    assert "16 \u2192 8" in inspector.page.toPlainText()
    assert "module:body.conv" in links(inspector)
    opened.document.undo_stack.undo()
    assert opened.document.project.clusters() == {}
    opened.context.selection.choose_modules(["head"])
    inspector.flush()
    assert "channels:head" not in links(inspector)
    # A rule is changed in the inspector.
    opened.context.assigner.modules(["head"], "a16w8")
    rule = opened.document.project.rules[-1]
    opened.context.selection.choose_rule(rule.id)
    inspector.flush()
    offered = links(inspector)
    assert {f"{what}:{rule.id}" for what in ("match", "config", "weaker")} <= {*offered}
    inspector.page.anchorClicked.emit(QUrl(f"match:{rule.id}"))
    dialog = inspector.findChild(QInputDialog)
    assert "stem.conv" in dialog.comboBoxItems()
    dialog.setTextValue("stem.conv")
    dialog.accept()
    assert opened.document.project.rules[-1].match == "stem.conv"
    assert opened.document.undo_stack.undoText() == "Change rule head to stem.conv"
    inspector.page.anchorClicked.emit(QUrl(f"config:{rule.id}"))
    form = inspector.findChild(ConfigDialog)
    form.form.combos[3].setCurrentIndex(1)
    form.form.combos[3].activated.emit(1)
    assert form.form.config.weight.bits == 4
    form.reject()
    inspector.page.anchorClicked.emit(QUrl(f"weaker:{rule.id}"))
    assert opened.document.project.rules[0].id == rule.id


@for_each(
    "promise",
    [
        values_open_their_settings_and_long_paths_break,
        precision_channels_and_ranges_are_reached_in_the_inspector,
        channels_and_rules_are_changed_in_the_inspector,
    ],
)
def test_that_the_inspector_leads_to_what_it_tells_and_changes_it(promise, inspector, opened, qtbot):
    opened.document.undo_stack.setIndex(0)
    opened.context.selection.clear()
    qtbot.waitUntil(lambda: opened.session.stage("evaluate").state == "cached")
    inspector.flush()
    promise(inspector, opened, qtbot)

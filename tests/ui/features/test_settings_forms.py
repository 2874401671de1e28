"""Target, precision and preferences: only what is valid can be chosen, and a click takes effect."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialogButtonBox, QLabel, QLineEdit

from tests.fakes.projects import make_project
from ui.shared.appearance import Appearance
from ui.shared.config_form import FIELDS, ConfigForm
from ui.shared.forms import TallForm
from ui.shared.target_form import TargetForm
from ui.shell.preferences import PreferencesDialog
from ui.shell.target_controller import TargetDialog
from ui.state.assigner import refusal
from ui.state.settings import Settings
from workbench.deploy.simulators.discovery import MachineSettings, load_settings, save_settings
from workbench.errors import SYSTEM_REMEDIES
from workbench.pipeline.cache import Cache
from workbench.project.configs import A16W8, QuantConfig
from workbench.project.model import TargetChoice
from workbench.project.project_code import Code
from workbench.project.trust import TrustStore

OK = QDialogButtonBox.StandardButton.Ok


def values(combo):
    return [combo.itemData(row) for row in range(combo.count())]


def pick(combo, value):
    combo.setCurrentIndex(combo.findData(value))
    combo.activated.emit(combo.currentIndex())


def test_that_only_memory_modes_that_fit_are_offered(parent, qtbot):
    form = TargetForm(parent)
    form.render_choice(TargetChoice(id="ethos-u85-256"))
    assert "Dedicated_Sram" in values(form.fields["memory_mode"])
    pick(form.fields["system_config"], "Ethos_U85_SYS_Flash_Low")
    assert values(form.fields["memory_mode"]) == ["Sram_Only", "Shared_Sram"]
    assert form.choice.options["memory_mode"] in {"Sram_Only", "Shared_Sram"}
    pick(form.device, "ethos-u55-32")
    assert form.choice.options["system_config"] == "Ethos_U55_High_End_Embedded"


def test_that_an_own_ini_gives_its_names_and_says_what_it_lacks(parent, folder, qtbot):
    (folder / "bad.ini").write_text("[System_Config.Mine]\ncore_clock=1e6\n")
    (folder / "good.ini").write_text(
        "[System_Config.Mine]\ncore_clock=4e8\naxi0_port=Sram\naxi1_port=OffChipFlash\n"
        "Sram_clock_scale=1\nOffChipFlash_clock_scale=0.1\n[Memory_Mode.Only]\n"
        "const_mem_area=Axi1\narena_mem_area=Axi0\ncache_mem_area=Axi0\n"
    )
    dialog = TargetDialog(TargetChoice(id="ethos-u55-128"), folder, parent)
    dialog.target.fields["config_ini"].set_text(str(folder / "bad.ini"))
    assert "bad.ini: [System_Config.Mine] lacks axi0_port" in dialog.problems.text()
    assert not dialog.buttons.button(OK).isEnabled()
    dialog.target.fields["config_ini"].set_text(str(folder / "good.ini"))
    assert dialog.problems.text() == ""
    assert values(dialog.target.fields["system_config"]) == ["Mine"]
    with qtbot.waitSignal(dialog.chosen) as chosen:
        qtbot.mouseClick(dialog.buttons.button(OK), Qt.MouseButton.LeftButton)
    assert chosen.args[0].options["config_ini"] == "good.ini"
    assert chosen.args[0].options["memory_mode"] == "Only"


def test_that_a_limit_that_is_no_number_is_marked_and_not_taken(parent, qtbot):
    form = TargetForm(parent)
    form.render_choice(TargetChoice(id="ethos-u55-128"))
    line = form.fields["arena_cache_bytes"]
    assert isinstance(line, QLineEdit)
    line.setText("lots")
    line.editingFinished.emit()
    assert line.property("invalid")
    assert form.choice.options["arena_cache_bytes"] is None
    line.setText("65536")
    line.editingFinished.emit()
    assert form.choice.options["arena_cache_bytes"] == 65536


def test_that_options_of_the_tools_stand_in_groups_and_take_real_numbers(parent, qtbot):
    form = TargetForm(parent)
    form.render_choice(TargetChoice(id="ethos-u85-256"))
    assert [g.text() for g in form.findChildren(QLabel) if g.objectName() == "Subheading"] == [
        "Vela",
        "Before compiling",
        "On the CPU",
        "Corrections",
        "Faster programs",
    ]
    line = form.fields["negative_infinity"]
    assert line.text() == "-256"
    with qtbot.waitSignal(form.chosen) as told:
        line.setText("-60.5")
        line.editingFinished.emit()
    assert told.args[0].options["negative_infinity"] == -60.5
    line.setText("nan")
    line.editingFinished.emit()
    assert line.property("invalid")
    assert form.choice.options["negative_infinity"] == -60.5
    line.setText("")
    line.editingFinished.emit()
    assert "negative_infinity" not in form.choice.options


def test_that_a_click_on_a_switch_of_the_target_takes_effect(parent, qtbot):
    form = TargetForm(parent)
    form.render_choice(TargetChoice(id="ethos-u85-256"))
    box = form.fields["fine_tables"]
    before = box.isChecked()
    with qtbot.waitSignal(form.chosen) as told:
        box.click()
    assert told.args[0].options["fine_tables"] is not before
    box.click()
    assert box.isChecked() is before


def test_that_what_the_target_refuses_is_disabled_with_the_reason(parent, qtbot):
    project = make_project()
    form = ConfigForm(parent)
    form.render_config(QuantConfig(), lambda c: refusal(project, "module_name", c))
    dtype = form.combos[0]
    row = [o.value for o in FIELDS[0].options].index("uint8")
    assert not dtype.model().item(row).isEnabled()
    assert "signed integers" in dtype.model().item(row).toolTip()
    assert "uint8: Ethos-U computes in signed integers" in form.reason.text()


def test_that_sixteen_bits_bring_symmetry_along(parent, qtbot):
    form = ConfigForm(parent)
    form.render_config(QuantConfig(), lambda _: "")
    with qtbot.waitSignal(form.changed) as changed:
        form.combos[0].activated.emit(1)
    assert changed.args == [A16W8]


def test_that_a_fixed_range_without_zero_cannot_be_made(parent, qtbot):
    form = ConfigForm(parent)
    form.render_config(QuantConfig(), lambda _: "")
    form.combos[2].activated.emit(4)
    assert form.config.activation.observer.kind == "fixed"
    form.minimum.setValue(5.0)
    assert form.minimum.value() <= 0.0


def test_that_trust_can_be_revoked(parent, qapp, tmp_path, qtbot):
    trust = TrustStore(tmp_path / "trust.json")
    trust.grant(Code(places={str(tmp_path): "ab"}), "digits.qwb")
    settings = Settings(tmp_path / "config")
    dialog = PreferencesDialog(settings, Appearance(qapp, "dark"), Cache(tmp_path / "cache"), trust, parent)
    qtbot.waitUntil(lambda: dialog.used.text().startswith("Cache size"))
    assert str(tmp_path) in dialog.trusted.item(0).text()
    dialog.trusted.setCurrentRow(0)
    qtbot.mouseClick(dialog.revoke, Qt.MouseButton.LeftButton)
    assert trust.granted() == {}
    assert dialog.trusted.count() == 0
    dialog.reject()


def test_that_a_click_on_a_switch_of_the_preferences_takes_effect(parent, qapp, tmp_path):
    settings, trust = Settings(tmp_path / "config"), TrustStore(tmp_path / "trust.json")
    dialog = PreferencesDialog(settings, Appearance(qapp, "dark"), Cache(tmp_path / "cache"), trust, parent)
    before = (settings.warm_engines, settings.lower_ahead)
    dialog.warm.click()
    dialog.ahead.click()
    again = Settings(tmp_path / "config")
    assert (again.warm_engines, again.lower_ahead) == (not before[0], not before[1])
    dialog.reject()


def test_that_preferences_tell_what_a_full_disk_does_not_take(opened, qtbot, monkeypatch, notices, tmp_path):
    trust = opened.trust
    trust.grant(Code(places={str(tmp_path): "ab"}), "digits.qwb")
    save_settings(MachineSettings(timeout_s=120.0))
    opened.frame.show_preferences()
    dialog = opened.window.findChild(PreferencesDialog)
    qtbot.waitUntil(lambda: dialog.used.text().startswith("Cache size"))

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("workbench.files.os.fsync", full)
        dialog.trusted.setCurrentRow(0)
        qtbot.mouseClick(dialog.revoke, Qt.MouseButton.LeftButton)
        dialog.time_limit.setValue(45)
        dialog.time_limit.editingFinished.emit()
    remedies = {notices.take(name).hint for name in ("trusted code", "machine.json")}
    assert remedies == {SYSTEM_REMEDIES[errno.ENOSPC]}
    assert list(trust.granted()) == [str(tmp_path)]
    assert load_settings().timeout_s == 120.0
    dialog.reject()


def test_that_results_can_be_cleared(parent, qapp, tmp_path, qtbot):
    cache = Cache(tmp_path / "cache")
    with cache.writing("ab" * 32) as out:
        (out / "result.json").write_text("{}")
    dialog = PreferencesDialog(
        Settings(tmp_path / "config"),
        Appearance(qapp, "dark"),
        cache,
        TrustStore(tmp_path / "trust.json"),
        parent,
    )
    with qtbot.waitSignal(dialog.cache_cleared):
        dialog._on_clear_clicked()
    assert not cache.has("ab" * 32)
    dialog.reject()


def test_that_a_checkout_and_a_time_limit_hold_for_simulations(parent, qapp, tmp_path, qtbot):
    dialog = PreferencesDialog(
        Settings(tmp_path / "config"),
        Appearance(qapp, "dark"),
        Cache(tmp_path / "cache"),
        TrustStore(tmp_path / "trust.json"),
        parent,
    )
    assert dialog.time_limit.text() == "10 min"
    dialog.checkout.set_text(str(tmp_path))
    dialog.time_limit.setValue(45)
    dialog.time_limit.editingFinished.emit()
    settings = load_settings()
    assert (settings.executorch, settings.timeout_s) == (str(tmp_path), 2700.0)
    qtbot.waitUntil(lambda: dialog.used.text().startswith("Cache size"))
    dialog.reject()


def test_that_the_options_of_a_target_are_not_cut_at_the_side(parent, qtbot):
    dialog = TargetDialog(TargetChoice(id="ethos-u55-128"), None, parent)
    dialog.show()
    qtbot.waitExposed(dialog)
    area = dialog.findChild(TallForm)
    assert area.viewport().width() >= area.widget().minimumSizeHint().width()


def test_that_options_of_a_target_are_found_and_those_that_are_hidden_keep_their_values(parent, qtbot):
    choice = TargetChoice(id="ethos-u85-256", options={"fine_tables": False})
    dialog = TargetDialog(choice, Path(), parent)
    dialog.show()
    fields = dialog.target.fields
    qtbot.keyClicks(dialog.search, "pixel shuffle")
    assert fields["fine_tables"].isHidden()
    assert any(not field.isHidden() for field in fields.values())
    assert dialog.target.choice.options["fine_tables"] is False
    dialog.search.clear()
    assert not fields["fine_tables"].isHidden()
    dialog.reject()

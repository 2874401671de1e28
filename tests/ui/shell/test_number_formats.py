"""Number formats as a person gives them, and MASE's pass_args taken and written."""

import json

import pytest
from PySide6.QtWidgets import QCheckBox

from ui.features.accuracy.quality_cards import quality_cards
from ui.shared.config_form import ConfigDialog
from ui.shared.format_form import FIRST, FormatForm
from ui.state.assigner import preset_ids
from workbench.project import edits
from workbench.project.configs import FormatConfig
from workbench.project.model import TargetChoice
from workbench.results import EvaluateResult, FormatMemory
from workbench.targets import target_of

CHOICE = TargetChoice(id="formats")
ARGS = {
    "by": "type",
    "report": True,
    "linear": {
        "config": {
            "name": "minifloat_ieee",
            "data_in_width": 8,
            "data_in_exponent_width": 4,
            "data_in_exponent_bias": 7,
            "weight_width": 8,
            "weight_exponent_width": 4,
            "weight_exponent_bias": 7,
            "bias_width": 8,
            "bias_exponent_width": 4,
            "bias_exponent_bias": 7,
        }
    },
}


@pytest.fixture
def form(qtbot):
    made = FormatForm()
    qtbot.addWidget(made)
    made.render_config(FIRST, lambda c: target_of("formats").refusal(CHOICE, c, "global"))
    return made


def type_into(form, name, role, text):
    field = form.fields[name, role]
    field.setText(text)
    field.textEdited.emit(text)


def choose(form, scheme):
    row = form.scheme.findData(scheme)
    form.scheme.setCurrentIndex(row)
    form.scheme.activated.emit(row)


def test_that_each_operand_gets_its_own_parameters(form):
    type_into(form, "width", "weight", "4")
    assert form.config.parameters["weight_width"] == 4
    assert form.config.parameters["data_in_width"] == 8
    assert form.config.parameters["bias_frac_width"] == 4


def test_that_another_format_keeps_what_it_shares_and_says_what_is_missing(form):
    choose(form, "block_fp")
    assert form.config.scheme == "block_fp"
    assert not form.reason.isHidden()
    assert "needs 'exponent_width'" in form.reason.text()
    for name, text in (("exponent_width", "8"), ("block_size", "[1, 16]")):
        for role in ("data", "weight", "bias"):
            type_into(form, name, role, text)
    assert form.reason.isHidden()
    assert form.config.parameters["bias_block_size"] == [1, 16]


@pytest.mark.parametrize("text", ["99", "x", "-1", "[8]", "1e400", "{"])
def test_that_impossible_parameters_are_told_and_never_taken(form, text):
    type_into(form, "width", "data", text)
    assert "width" in form.reason.text()


def test_that_mases_form_is_offered_only_where_mase_has_the_format(form):
    form.mase.setChecked(True)
    assert form.config.mase_compatible
    choose(form, "nvfp4")
    assert not form.config.mase_compatible
    assert not form.mase.isEnabled()


def test_that_the_dialog_has_the_form_of_its_config_and_presets_are_those_of_the_target(qtbot, opened):
    # The dialog has the form of its config.
    dialog = ConfigDialog("conv", FIRST, lambda _: "", opened.window)
    qtbot.addWidget(dialog)
    chosen = []
    dialog.chosen.connect(chosen.append)
    type_into(dialog.form, "width", "data", "6")
    dialog._on_accepted()
    assert chosen[0].parameters["data_in_width"] == 6
    # Presets are those of the target.
    assert "integer-8" not in preset_ids(opened.document.project)
    opened.document.apply("t", lambda p: edits.set_target(p, CHOICE))
    offered = preset_ids(opened.document.project)
    assert offered[0] == "integer-8"
    assert not {"a8w8", "cpu"} & set(offered)
    assert opened.context.assigner.rule("pattern", "conv.*", "mxint-8")
    assert opened.document.project.rules[-1].kind == "pattern"


def test_that_pass_args_are_taken_as_one_step_or_refused_and_tell_what_they_leave_out(
    opened, notices, tmp_path
):
    # A file without pass args changes nothing.
    before = opened.document.project
    (tmp_path / "x.toml").write_text("a = 1")
    opened.mase.take(tmp_path / "x.toml")
    notices.take('no "by"')
    opened.mase.take(tmp_path / "missing.toml")
    notices.take("cannot be read")
    assert opened.document.project == before
    # Pass args are taken as one step and tell what they leave out.
    file = tmp_path / "args.json"
    file.write_text(json.dumps(ARGS))
    before = opened.document.project
    opened.mase.take(file)
    question = notices.take("Replace the present rules")
    opened.notices.choose(question.id, "MASE implementation")
    rule = opened.document.project.rules[0]
    assert isinstance(rule.config, FormatConfig)
    assert rule.config.mase_compatible
    assert "pass_args.report" in notices.take("not imported").hint
    opened.mase.write(tmp_path / "out.json")
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["linear"] == ARGS["linear"]
    opened.document.undo_stack.undo()
    assert opened.document.project == before


def test_that_figures_of_formats_say_that_they_are_emulated():
    value = EvaluateResult(
        samples=1, data="d", calibrated_on="d", sqnr_db=20.0, cosine=1.0, max_abs_error=0.1
    )
    memory = FormatMemory(weight_bits=8.0, data_bits=4.0, weight_elements=1, data_elements=1)
    cards = {card.title: card for card in quality_cards(value, memory, "emulated")}
    assert cards["SQNR"].origin == "emulated"
    assert cards["Activations"].value == "4.00 bits, 8.00\u00d7"


def test_that_switches_are_check_boxes_and_choices_lists_of_their_values(form):
    choose(form, "integer")
    field = form.fields["floor", "data"]
    assert isinstance(field, QCheckBox)
    assert not field.isChecked()
    field.click()
    assert form.config.parameters["data_in_floor"] is True
    assert field.isChecked()
    # The default takes the value back.
    field.click()
    assert "data_in_floor" not in form.config.parameters
    form.render_config(FormatConfig(scheme="minifloat_mx"), lambda _: "")
    rounding = form.fields["round_mode", "weight"]
    assert [rounding.itemText(row) for row in range(rounding.count())] == ["rn", "rz", "ru", "rd"]
    rounding.activated.emit(1)
    assert form.config.parameters["weight_round_mode"] == "rz"


def test_that_a_value_that_a_switch_cannot_have_is_shown_and_told(form):
    config = FIRST.model_copy(update={"parameters": {**FIRST.parameters, "floor": "perhaps"}})
    form.render_config(config, lambda c: target_of("formats").refusal(CHOICE, c, "global"))
    assert "perhaps" in form.fields["floor", "data"].text()
    assert "true or false" in form.reason.text()

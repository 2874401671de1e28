"""A project for IBM NNPA in the window: precision, numbers in two readings, the exported model."""

import numpy as np
import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel

from tests.fakes.ranges import let_calibrate
from tests.fakes.results import result_of, write_result
from tests.for_each import for_each
from tests.ui.shell.test_window import run_to
from ui.shared.config_form import ConfigDialog
from ui.shared.explanations import applied, applied_to_modules, differences, why, without_effect
from ui.shared.target_form import TargetForm
from ui.shell.main_window import DRAWER
from ui.state.assigner import preset_ids
from workbench.history.runs import cost_of
from workbench.project import edits
from workbench.project.configs import DynamicConfig, QuantConfig
from workbench.project.model import Rule, TargetChoice
from workbench.project.rules import Effective
from workbench.results import (
    ARRAYS_FILE,
    CalibrateResult,
    CompilerCheck,
    ExportedModel,
    ExportedProduct,
    NodeAnnotation,
    Reading,
    TensorRange,
    save_result,
)
from workbench.targets import target_of
from workbench.targets.nnpa import EMULATED

NNPA = TargetChoice(id="nnpa")
CHECK = CompilerCheck(sentence="Neither onnx-mlir nor docker is on this machine.")
PRODUCTS = (
    ExportedProduct(node="/head/linear/", op="Gemm", origin="linear", module="head", quantized=True),
    ExportedProduct(
        node="/mix/matmul/",
        op="MatMul",
        origin="matmul",
        module="mix",
        quantized=False,
        reason="Its second operand is computed.",
    ),
)
MODEL = ExportedModel(
    opset=20,
    ir_version=10,
    nodes=9,
    bytes=4096,
    rewritten=1,
    products=PRODUCTS,
    commands=(("onnx-mlir", "onnx-mlir -O3 model.onnx"), ("container", "docker run x")),
    notes=("zDLC has no switch.",),
    check=CHECK,
)
READINGS = tuple(
    Reading(
        id=name, title=name, marks="emulated", sqnr_db=db, cosine=0.9, max_abs_error=0.1, main=name == "nnpa"
    )
    for name, db in (("nnpa", 44.0), ("document", 46.5))
)


def nnpa_result(stage):
    """Return a stage's result as the target's engine leaves it."""
    changes = {
        "evaluate": {"readings": READINGS},
        "lower": {"exported": MODEL, "vela": (), "cpu_nodes": (), "delegates": 0},
        "verify": {"runtime": "ONNX Runtime 1.31", "max_abs_error": 3e-7, "readings": READINGS},
        "package": {"note": "Nothing ran on NNPA."},
    }
    return result_of(stage).model_copy(update=changes.get(stage, {}))


@pytest.fixture
def nnpa(opened, qtbot, monkeypatch):
    """The window on a project for NNPA that was run."""

    def leave(stage, folder):
        write_result(stage, folder)
        save_result(nnpa_result(stage), folder)
        if stage == "lower":
            (folder / "graph.json").unlink()

    monkeypatch.setattr("tests.fakes.engine.write_result", leave)
    opened.document.apply("t", lambda p: edits.set_target(p, target_of("nnpa").complete(NNPA)))
    project = opened.document.project
    for rule in project.rules:
        opened.document.apply("t", lambda p, r=rule.id: edits.remove_rule(p, r))
    opened.context.assigner.rule("global", "", "int8-dyn")
    run_to(opened, qtbot, "")
    return opened


def test_that_presets_and_options_of_the_target_are_said_in_words(opened, qtbot):
    # Presets are those of the target and parts may stay off it.
    opened.document.apply("t", lambda p: edits.set_target(p, NNPA))
    assert preset_ids(opened.document.project) == ["int8-dyn", "float", "cpu"]
    assert "cpu" not in preset_ids(None, device="formats")
    # The inspector says the target's options in words.
    page = opened.window.reveal("inspector").page
    qtbot.waitUntil(lambda: "IBM Telum II NNPA" in page.toPlainText())
    assert "Asymmetric, with a zero point" in page.toPlainText()
    assert "asym\n" not in page.toPlainText()
    # The dialog says where the rest is set.
    dialog = ConfigDialog("head", DynamicConfig(), lambda _: "", opened.window)
    qtbot.addWidget(dialog)
    chosen = []
    dialog.chosen.connect(chosen.append)
    dialog._on_accepted()
    assert chosen == [DynamicConfig()]
    refused = ConfigDialog("head", DynamicConfig(), lambda _: "Not here.", opened.window)
    qtbot.addWidget(refused)
    assert not refused.form.reason.isHidden()


def readings_products_commands_and_files_are_shown(nnpa, qtbot):
    # Both readings stand side by side and are marked.
    nnpa.window.resize(1900, 1000)
    panel = nnpa.window.reveal("accuracy")
    qtbot.waitUntil(lambda: panel.has("verify"))
    assert f"SQNR: 34.50 dB, {EMULATED}" in panel.cards.texts()
    assert [panel.variants.row_at(row).sqnr_db for row in range(2)] == [44.0, 46.5]
    assert panel.variant_table.isVisible()
    comparison = panel.comparison
    assert comparison.heading.text() == "Exported file vs. float model"
    assert comparison.variant_table.isVisible()
    assert not comparison.differences.isVisible()
    assert any("ONNX Runtime 1.31" in text for text in comparison.cards.texts())
    # Products, commands and files are shown in the place of estimates.
    panel = nnpa.window.reveal("cost")
    qtbot.waitUntil(lambda: panel.has("lower"))
    assert "int8 products: 1 of 2, predicted" in panel.cards.texts()
    assert CHECK.sentence in panel.origin.text()
    shown = [panel.tabs.tabText(i) for i in range(panel.tabs.count()) if panel.tabs.isTabVisible(i)]
    assert shown == ["Export"]
    panel.show_level("lower")
    panel.export.table.selectRow(1)
    assert nnpa.context.selection.value.nodes == {"matmul"}
    panel.export.copy.click()
    assert QGuiApplication.clipboard().text() == "onnx-mlir -O3 model.onnx"
    assert "docker run x" in panel.export.commands.toPlainText()
    files = nnpa.window.reveal("deliverables")
    qtbot.waitUntil(lambda: files.has("package"))
    assert files.deliverables.heading.text() == "Nothing ran on NNPA."
    assert not files.pages.isTabVisible(1)


def panels_without_a_use_are_hidden_and_those_without_figures_say_so(nnpa, qtbot):
    # Panels without a use for the target are not shown.
    nnpa.window.show_workspace("model")
    docks = nnpa.window.docks
    gone = {"memory", "timeline", "simulator", "tflite", "devices", "formats"}
    assert {name for name, dock in docks.items() if dock.isHidden()} == gone | set(DRAWER)
    choice = TargetChoice(id="ethos-u55-128")
    nnpa.document.apply("Set target", lambda p: edits.set_target(p, choice))
    hidden = {name for name, dock in docks.items() if dock.isHidden()}
    assert hidden == {"formats", *DRAWER}
    nnpa.document.undo_stack.undo()
    # Panels without figures or use say so or are not shown.
    # Panels without figures say so in a sentence.
    for panel_id in ["memory", "timeline"]:
        panel = nnpa.window.reveal(panel_id)
        note = panel.frames["lower"].note
        qtbot.waitUntil(lambda: "No estimates" in note.label.text())
        assert not note.button.isVisible()
        assert not panel.has("lower")
    # Nothing is estimated or searched, with the reason.
    for panel_id in ["devices", "search"]:
        panel = nnpa.window.reveal(panel_id)
        qtbot.waitUntil(lambda: "No cost estimates" in panel.note.text())
        assert not panel.start.isEnabled()


@for_each(
    "promise",
    [
        panels_without_a_use_are_hidden_and_those_without_figures_say_so,
        readings_products_commands_and_files_are_shown,
    ],
)
def test_that_a_target_without_estimates_shows_what_it_has(promise, nnpa, qtbot):
    qtbot.waitUntil(lambda: nnpa.session.stage("package").state == "cached")
    promise(nnpa, qtbot)


def test_that_runs_have_no_cost():
    assert cost_of(nnpa_result("lower")) is None
    assert cost_of(result_of("lower")) is not None


def test_that_a_range_of_every_call_is_shown_as_a_distribution(opened, qtbot, monkeypatch):
    opened.window.resize(1900, 1000)
    rows = tuple(
        TensorRange(
            id=f"o{i}", node=name, origin=name, op=name, module="", kind="activation", index=i,
            minimum=-2.0, maximum=4.0, p_low=-1.0, p_high=3.0, dtype="int8", qmin=-128, qmax=127,
            scale=6 / 255, zero_point=-43, observer="MinMax", dynamic=dynamic,
        )
        for i, (name, dynamic) in enumerate((("conv2d", "asym"), ("relu", "")))
    )  # fmt: skip

    def write(folder):
        low = np.array([[0.0, -1.0, -2.0], [0.0, 0.0, 0.0]])
        arrays = {
            "histogram": np.ones((2, 2048), np.float32), "edges": np.array([[-2.0, 4.0]] * 2),
            "samples": np.arange(3), "sample_min": low, "sample_max": -2 * low,
        }  # fmt: skip
        np.savez(folder / ARRAYS_FILE, **arrays)
        save_result(CalibrateResult(samples=3, calibrated_on="data.npz", ranges=rows), folder)

    let_calibrate(monkeypatch, write)
    run_to(opened, qtbot, "")
    panel = opened.window.reveal("ranges")
    qtbot.waitUntil(lambda: panel.has("calibrate"))
    opened.context.selection.choose_tensors(["o0"], {"conv2d"}, "test")
    calls = panel.side.calls
    qtbot.waitUntil(calls.isVisible)
    assert "ratio 2." in calls.summary.text()
    assert "all zeros in 1 of 3 samples" in calls.summary.text()
    assert calls.calls.order.tolist() == [0, 1, 2]
    assert calls.scales.counts.sum() == 2
    assert "cannot be overridden" in panel.rows[0].refusal
    opened.context.selection.choose_tensors(["o1"], {"relu"}, "test")
    qtbot.waitUntil(lambda: not panel.side.pages.isTabVisible(3))


def test_that_another_target_takes_its_rows_with_it(qtbot):
    form = TargetForm()
    qtbot.addWidget(form)
    form.show()
    form.render_choice(TargetChoice(id="ethos-u55-128"))
    form.render_choice(NNPA)

    def shown():
        return [label.text() for label in form.findChildren(QLabel) if label.isVisible()]

    own = ["Device", "Activations", "Weights", "Operation types", "Numbers by"]
    qtbot.waitUntil(lambda: shown() == own)
    assert "for comparison only" in form.fields["weights"].itemText(1)
    form.render_choice(TargetChoice(id="ethos-u55-128"))
    assert "Memory mode" in [label.text() for label in form.findChildren(QLabel) if label.isVisible()]


def test_that_what_is_never_quantized_is_no_problem_and_the_rest_is():
    notes = [
        NodeAnnotation(node=n, op=n, module=n, config="", quantized=False, reason="y", never=never)
        for n, never in (("gelu", True), ("conv2d", False))
    ]
    wanted = {n.node: Effective("int8-dyn", "r1") for n in notes}
    assert list(differences(notes, wanted)) == ["conv2d"]


def test_that_what_is_applied_is_shown_with_the_wish_struck_out():
    notes = [
        NodeAnnotation(node=n, op=n, module=m, config="", quantized=quantized, reason=reason)
        for n, m, quantized, reason in (
            ("conv", "stem", False, "Convolutions are never quantized."),
            ("linear", "head", True, ""),
            ("add", "head", False, "y"),
        )
    ]
    wanted = {n.node: Effective("int8-dyn", "r1") for n in notes}
    nodes = applied(notes, wanted)
    assert {n: (e.label, e.wish) for n, e in nodes.items()} == {
        "conv": ("float", "int8-dyn"),
        "linear": ("int8-dyn", ""),
        "add": ("float", "int8-dyn"),
    }
    modules = dict.fromkeys(("stem", "head"), Effective("int8-dyn", "r1"))
    shown = applied_to_modules(notes, wanted, modules)
    assert {m: (e.label, e.wish) for m, e in shown.items()} == {
        "stem": ("float", "int8-dyn"),
        "head": ("int8-dyn", ""),
    }
    rules = [Rule(id="r1", kind="global", config="int8-dyn")]
    assert why(shown["stem"], rules) == ("float; not applied: int8-dyn from rule 1 whole model")


def test_that_what_is_fused_shows_the_precision_of_its_layer():
    notes = [
        NodeAnnotation(node=n, op=n, module=m, config="a8w8", quantized=True)
        for n, m in (("conv", "stem.conv"), ("relu", "stem.relu"), ("linear", "head"))
    ]
    narrow, wide = Effective("a8w8", "r1"), Effective("a16w8", "r2")
    wanted = {"conv": narrow, "relu": wide, "linear": narrow}
    nodes = applied(notes, wanted)
    assert {n: (e.label, e.wish) for n, e in nodes.items()} == {
        "conv": ("a8w8", ""), "relu": ("a8w8", "a16w8"), "linear": ("a8w8", ""),
    }  # fmt: skip
    modules = {"stem.conv": narrow, "stem.bn": Effective("float", "r3"), "stem.relu": wide, "head": narrow}
    fused = [("stem.conv", "stem.bn", "stem.relu")]
    shown = applied_to_modules(notes, wanted, modules, fused)
    assert {m: (e.label, e.wish) for m, e in shown.items()} == {
        "stem.conv": ("a8w8", ""), "stem.bn": ("a8w8", "float"), "stem.relu": ("a8w8", "a16w8"),
        "head": ("a8w8", ""),
    }  # fmt: skip
    # An own config has the name of a built-in one in the report.
    assert applied(notes, {**wanted, "relu": Effective("a8w8 (minmax)", "r2")})["relu"].wish == ""
    wanted["bn"] = modules["stem.bn"]
    chain = [("conv", "bn", "relu")]
    assert applied(notes, wanted, chain)["bn"].wish == "float"
    assert without_effect(notes, wanted, chain) == {"r2", "r3"}
    assert without_effect([], wanted, chain) == set()


def test_that_rules_are_converted_in_one_undo_step_if_the_user_wants_it(opened, notices, qtbot):
    before = opened.document.project
    opened.targets.choose(NNPA)
    question = notices.take("cannot be used for")
    assert "a8w8 \u2192 int8-dyn" in question.hint
    # Nothing happens before the answer, and the form shows what is.
    assert opened.document.project == before
    assert opened.window.pipeline.target.choice.id == before.target.id
    opened.notices.choose(question.id, "Convert the rules")
    project = opened.document.project
    assert project.target.id == "nnpa"
    target = target_of("nnpa")
    used = [rule for rule in project.rules if rule.enabled]
    assert used
    assert not any(target.refusal(NNPA, project.config_of(r), r.kind) for r in used)
    opened.document.undo_stack.undo()
    assert opened.document.project == before
    opened.targets.choose(NNPA)
    opened.notices.choose(notices.take("cannot be used for").id, "Keep the rules")
    assert opened.document.project.rules == before.rules


def test_that_one_reason_is_said_once_for_all_options(opened, qtbot):
    said = "NNPA supports int8 with dynamic ranges."
    dialog = ConfigDialog("head", QuantConfig(), lambda _: said, opened.window)
    qtbot.addWidget(dialog)
    assert dialog.form.reason.text().count(said) == 1

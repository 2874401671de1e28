"""Rules, ranges, history, studies and deliverables as functions on values."""

import json
import sys

import pytest

import workbench.api as wb
from tests.fakes.results import result_of
from tests.for_each import for_each
from workbench.project import store


@pytest.fixture
def net(project_file):
    return wb.open(project_file)


def code_of(caught):
    return caught.value.infos[0].code


def test_that_rules_are_added_ordered_switched_and_removed(net):
    changed = wb.add_rule(net, "module_name", "head", "a16w8")
    assert changed.project.rules[-1].match == "head"
    first = wb.add_rule(net, "module_name", "stem", "float", 0)
    rule = first.project.rules[0]
    assert (rule.match, rule.config) == ("stem", "float")
    assert wb.move_rule(first, rule.id, 1).project.rules[1].id == rule.id
    off = wb.enable_rule(first, rule.id, enabled=False)
    assert not off.project.rules[0].enabled
    assert wb.enable_rule(off, rule.id).project.rules[0].enabled
    assert wb.remove_rule(first, rule.id).project.rules == net.project.rules
    assert store.load(net.path) == net.project


@for_each(("config", "code"), [("a7w7", "config-unknown"), ('{"bits": []}', "config-invalid")])
def test_that_a_config_that_is_none_is_refused_with_its_code(net, config, code):
    with pytest.raises(wb.WorkbenchError) as caught:
        wb.add_rule(net, "global", "", config)
    assert code_of(caught) == code


def test_that_rules_are_resolved_by_an_export_if_there_is_none(net, played):
    resolved = wb.resolve_rules(net)
    assert [command.until for command in played.commands] == ["export"]
    assert resolved.resolution.modules.keys() == resolved.types.keys()
    assert wb.resolve_rules(net).resolution == resolved.resolution
    assert "<td>a8w8</td><td>r1</td>" in resolved._repr_html_()
    bare = wb.resolve_rules(wb.remove_rule(net, "r1"))
    assert "<td>none</td>" in bare._repr_html_()
    assert len(played.commands) == 1
    assert played.commands[0].accelerate


def test_that_code_of_the_project_is_exported_for_its_rules_only_with_trust(tmp_path, played):
    (tmp_path / "model.py").write_text("def net(): ...\n")
    net = wb.new("model.py:net", "ethos-u55-128", folder=tmp_path)
    with pytest.raises(wb.TrustRequiredError):
        wb.resolve_rules(net)
    assert not played.made
    assert wb.resolve_rules(net, trust=True, accelerate=False).types
    assert not played.commands[0].accelerate


OWN = "def narrow(*, is_qat): ...\nclass First: ...\nCONFIGS = [narrow]\nFINDERS = [First]\n"


def test_that_code_is_allowed_once_only_where_that_is_said(tmp_path):
    (tmp_path / "model.py").write_text("def net(): ...\n")
    net = wb.new("model.py:net", "ethos-u55-128", folder=tmp_path)
    with pytest.raises(wb.TrustRequiredError):
        wb.allowed_code(net)
    assert wb.allowed_code(net, trust=True).places


def test_that_an_item_of_a_plug_in_is_named_alone_or_with_its_file(net):
    for name in ("own.py", "other.py"):
        (net.folder / name).write_text(OWN)
    one = wb.add_plugin(net, "own.py")
    for name in ("narrow", "own.py:narrow"):
        assert wb.add_rule(one, "global", "", name).project.rules[0].config == "own.py:narrow"
    with pytest.raises(wb.WorkbenchError) as caught:
        wb.add_rule(one, "global", "", "wide")
    assert code_of(caught) == "config-unknown"
    assert "narrow" in caught.value.infos[0].hint
    assert "add a plug-in" not in caught.value.infos[0].hint
    with pytest.raises(wb.WorkbenchError) as caught:
        wb.add_rule(net, "finder", "First", "a8w8")
    assert code_of(caught) == "finder-unknown"
    assert "add a plug-in" in caught.value.infos[0].hint
    two = wb.add_plugin(one, "other.py")
    with pytest.raises(wb.WorkbenchError) as caught:
        wb.add_rule(two, "global", "", "narrow")
    assert code_of(caught) == "plugin-item-ambiguous"
    both = wb.add_rule(two, "global", "", "other.py:narrow")
    assert both.project.rules[0].config == "other.py:narrow"


def test_that_rules_of_plug_ins_are_pending_until_the_quantizer_has_run(net, played):
    (net.folder / "own.py").write_text(OWN)
    found = wb.add_rule(wb.add_plugin(net, "own.py"), "finder", "First", "a8w8")
    assert wb.resolve_rules(found, trust=True).plugins_pending
    assert not wb.resolve_rules(net).plugins_pending
    wb.run(found, "prepare", trust=True)
    assert not wb.resolve_rules(found, trust=True).plugins_pending


def test_that_ranges_are_pinned_chosen_and_reset(net, played):
    assert "<td>" not in wb.ranges(net)._repr_html_()
    with pytest.raises(wb.WorkbenchError) as caught:
        wb.choose_method(net, "all", "", "mse")
    assert code_of(caught) == "calibration-outdated"
    wb.run(net, "calibrate")
    calibrated = wb.ranges(net)
    tensor = next(row.node for row in calibrated.tensors if row.kind == "activation")
    pinned = wb.pin_range(net, tensor, -1.5, 2.0)
    assert wb.ranges(pinned).chosen[tensor] == (-1.5, 2.0)
    assert wb.ranges(wb.unpin_ranges(pinned, [tensor])).chosen == {}
    for row in calibrated.tensors:
        assert f"<td>{row.minimum:.6g}</td><td>{row.maximum:.6g}</td>" in calibrated._repr_html_()
    chosen = wb.choose_method(net, "tensor", tensor, "mse")
    assert wb.ranges(chosen).methods == {tensor: "mse"}
    with pytest.raises(wb.WorkbenchError) as caught:
        wb.reset_method(chosen, "module", "nowhere")
    assert code_of(caught) == "range-method-not-set"
    with pytest.raises(wb.WorkbenchError) as caught:
        wb.exclude_samples(net, [1])
    assert code_of(caught) == "calibration-absent"


def test_that_runs_are_listed_compared_and_restored(net, played, monkeypatch):
    wb.run(net)
    changed = wb.save(wb.set_module_name(net, "head", "a16w8"))
    wb.run(changed)
    history = wb.history(changed)
    assert [run.number for run in history.runs] == [1, 2]
    difference = wb.compare_runs(changed, 1, 2)
    assert difference.parts["rules"]
    # Both compiled programs are in the cache, and equal.
    assert difference.parts["modules"] == ()
    report = result_of("lower").vela[0]
    rows = tuple(row.model_copy(update={"cycles": row.cycles + 7}) for row in report.operations)
    slow = report.model_copy(update={"operations": rows})
    programs = {1: result_of("lower"), 2: result_of("lower").model_copy(update={"vela": (slow,)})}
    module = sys.modules["workbench.api.history"]
    monkeypatch.setattr(module, "lowered_of", lambda run, _: programs.get(run.number))
    assert len(wb.compare_runs(changed, 1, 2).parts["modules"]) == len(
        {row.module for row in report.operations}
    )
    for gone in (2, 1):
        kept = programs.pop(gone)
        assert "modules" not in wb.compare_runs(changed, 1, 2).parts
        programs[gone] = kept
    cost = f"<td>{history.runs[0].cost.cycles}</td>"
    assert cost in wb.history(changed)._repr_html_().replace(",", "")
    restored, run = wb.restore_run(changed, 1)
    assert run.number == 1
    assert [r.match for r in restored.project.rules] == [r.match for r in net.project.rules]
    assert store.load(net.path) == restored.project


def test_that_the_history_of_a_project_without_a_file_is_refused(net):
    unsaved = wb.OpenProject(net.project, net.folder)
    for verb in (wb.history, wb.report, lambda opened: wb.update(opened, lambda fresh: fresh)):
        with pytest.raises(wb.WorkbenchError) as caught:
            verb(unsaved)
        assert code_of(caught) == "project-without-path"


def test_that_a_long_job_keeps_edits_that_were_saved_in_the_meantime(net):
    wb.save(wb.set_module_name(net, "stem", "float"))
    updated = wb.update(net, lambda fresh: wb.set_module_name(fresh, "head", "a16w8"))
    assert {"stem", "head"} <= {rule.match for rule in updated.project.rules}


def test_that_candidates_of_a_search_are_kept_and_applied(net, played):
    result = wb.search(net, trials=3)
    best = result.best() or result.candidates[0]
    assert wb.history(net).runs
    applied = wb.apply_candidate(net, result, best.number)
    assert applied.project.rules
    assert store.load(net.path) == net.project


def test_that_a_sweep_without_a_valid_point_is_refused_before_an_engine_starts(net, played):
    with pytest.raises(wb.WorkbenchError) as caught:
        wb.sweep(net, axes={"memory_mode": ["None_Such"]})
    assert code_of(caught) == "sweep-nothing-compilable"
    assert not played.commands
    assert len(wb.sweep(net, ["ethos-u55"]).points) > 1


def test_that_the_report_the_script_and_every_value_are_shown(net, played, tmp_path):
    wb.run(net)
    assert "<html" in wb.report(net)
    script = wb.script(net, tmp_path / "net_script.py")
    compile(script.text, "net_script.py", "exec")
    shown = (wb.history(net), wb.ranges(net), wb.compare_runs(net, 1, 1), wb.resolve_rules(net))
    assert all("<table" in value._repr_html_() for value in shown)


def test_that_a_program_that_is_none_is_refused_with_its_code(tmp_path):
    (tmp_path / "net.pte").write_text(json.dumps({}))
    for name, code in (("gone.pte", "file-missing"), ("net.pte", "program-not-executorch")):
        with pytest.raises(wb.WorkbenchError) as caught:
            wb.inspect(tmp_path / name)
        assert code_of(caught) == code

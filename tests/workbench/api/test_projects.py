"""Projects as values."""

import numpy as np
import pytest

import workbench.api as wb
from tests.fakes.results import write_result
from tests.for_each import for_each
from workbench.pipeline.cache import Cache, default_root
from workbench.pipeline.plan import plan as plan_of
from workbench.project.configs import QuantConfig
from workbench.project.model import TargetChoice
from workbench.project.opened import OpenProject


@pytest.fixture
def folder(tmp_path):
    """A folder with a model and samples."""
    (tmp_path / "model.py").write_text("def net(): ...\n")
    np.savez(tmp_path / "samples.npz", x=np.zeros((4, 1, 8, 8), np.float32))
    return tmp_path


def codes(caught):
    return [info.code for info in caught.value.infos]


def test_that_a_new_project_takes_its_name_and_first_config_from_model_and_target(folder):
    net = wb.new("model.py:net", "ethos-u55-128", folder=folder)
    assert net.project.name == "model"
    assert net.path is None
    assert net.folder == folder
    assert net.project.calibration is None
    assert net.project.evaluation.data is None
    assert [(r.kind, r.match, r.config) for r in wb.rules(net)] == [("global", "", "a8w8")]
    dotted = wb.new("xml.etree.ElementTree:parse", "ethos-u55-128", folder=folder)
    assert dotted.project.name == "ElementTree"


def test_that_a_new_project_has_what_it_is_given(folder):
    own = QuantConfig()
    net = wb.new(
        "model.py:net",
        TargetChoice(id="ethos-u85-256"),
        folder=folder,
        name="mine",
        calibration="samples.npz",
        evaluation="samples.npz",
        metric="model.py:net",
        config=own,
    )
    project = net.project
    assert (project.name, project.target.id) == ("mine", "ethos-u85-256")
    assert (project.calibration.spec, project.evaluation.data.spec) == ("samples.npz",) * 2
    assert project.evaluation.metric == "model.py:net"
    assert project.rules[0].config == own


@for_each(
    ("model", "target", "more", "code"),
    [
        ("gone.py:net", "ethos-u55-128", {}, "source-file-missing"),
        ("model.py:net", "ethos-u1-1", {}, "target-unknown"),
        ("model.py:net", "ethos-u55-128", {"calibration": "gone.npz"}, "source-file-missing"),
        ("model.py:net", "ethos-u55-128", {"config": "a9w9"}, "config-unknown"),
    ],
)
def test_that_a_project_that_cannot_run_is_not_made(folder, model, target, more, code):
    with pytest.raises(wb.WorkbenchError) as caught:
        wb.new(model, target, folder=folder, **more)
    assert codes(caught) == [code]


def test_that_rules_are_set_by_kind_and_the_first_value_stays_as_it_was(folder):
    net = wb.new("model.py:net", "ethos-u55-128", folder=folder)
    changed = wb.set_global(net, "a16w8")
    changed = wb.set_io(changed, "uint8")
    changed = wb.set_module_type(changed, "torch.nn.modules.linear.Linear", "float")
    changed = wb.set_module_name(changed, "head", "a8w4")
    assert {(r.kind, r.match, r.config) for r in wb.rules(changed)} == {
        ("global", "", "a16w8"),
        ("io", "", "uint8"),
        ("module_type", "torch.nn.modules.linear.Linear", "float"),
        ("module_name", "head", "a8w4"),
    }
    assert len(wb.rules(net)) == 1
    html = changed._repr_html_()
    assert "model for ethos-u55-128" in html
    assert "<td>module_name</td><td>head</td><td>a8w4</td>" in html
    assert "<td>QuantConfig</td>" in wb.set_global(net, QuantConfig())._repr_html_()


def test_that_the_target_is_changed_with_its_options(folder):
    net = wb.new("model.py:net", "ethos-u55-128", folder=folder)
    changed = wb.set_target(net, "ethos-u65-512", {"memory_mode": "Dedicated_Sram"})
    assert changed.project.target.id == "ethos-u65-512"
    assert changed.project.target.options["memory_mode"] == "Dedicated_Sram"
    assert wb.set_target(net, "ethos-u65-512").project.target.id == "ethos-u65-512"
    with pytest.raises(wb.WorkbenchError) as caught:
        wb.set_target(net, "ethos-u1-1")
    assert codes(caught) == ["target-unknown"]


def test_that_a_saved_project_opens_equal(folder):
    net = wb.new("model.py:net", "ethos-u55-128", folder=folder)
    with pytest.raises(wb.WorkbenchError) as caught:
        wb.save(net)
    assert codes(caught) == ["project-without-path"]
    saved = wb.save(net, folder / "net.qwb")
    assert saved.path == folder / "net.qwb"
    assert wb.open(saved.path) == saved
    changed = wb.save(wb.set_global(saved, "a16w8"))
    assert wb.open(folder / "net.qwb").project.rules[0].config == "a16w8"
    assert changed.path == saved.path


def test_that_a_check_tells_errors_from_warnings(folder):
    net = wb.new("model.py:net", "ethos-u55-128", folder=folder)
    good = wb.check(net)
    assert good.valid
    assert good.errors == ()
    assert [info.code for info in good.warnings] == ["calibration-missing"]
    assert not good.matches_checked
    assert "<caption>Valid</caption>" in good._repr_html_()
    wrong = wb.check(wb.set_global(net, "uint8"))
    assert not wrong.valid
    assert [info.code for info in wrong.errors] == ["rule-not-supported"]
    assert [info.code for info in wrong.warnings] == ["calibration-missing"]
    html = wrong._repr_html_()
    assert "<caption>Invalid</caption>" in html
    assert "<td>error</td><td>rule r1</td>" in html
    with pytest.raises(wb.WorkbenchError) as caught:
        wb.require_valid(wb.set_global(net, "uint8"))
    assert codes(caught) == ["rule-not-supported"]


def test_that_a_missing_model_is_an_error_of_the_check(folder):
    net = wb.new("model.py:net", "ethos-u55-128", folder=folder)
    (folder / "model.py").unlink()
    checked = wb.check(net)
    assert [info.code for info in checked.errors] == ["source-file-missing"]
    assert not checked.matches_checked
    blocked = wb.plan(net)
    assert {s.state for s in blocked.stages if s.id != "run"} == {"blocked"}


def test_that_rules_are_matched_once_the_model_was_exported(folder):
    net = wb.new("model.py:net", "ethos-u55-128", folder=folder)
    net = wb.set_module_name(net, "nowhere", "a16w8")
    assert [i.code for i in wb.check(net).warnings] == ["calibration-missing"]
    cache = Cache(default_root())
    with cache.writing(plan_of(OpenProject(net.project, folder), cache).key("export")) as made:
        write_result("export", made)
    checked = wb.check(net)
    assert checked.matches_checked
    assert "rule-unmatched" in [info.code for info in checked.warnings]
    assert wb.plan(net).of("export").state == "cached"
    assert wb.plan(net, Cache(folder / "other")).of("export").state == "stale"
    assert not wb.check(net, Cache(folder / "other")).matches_checked

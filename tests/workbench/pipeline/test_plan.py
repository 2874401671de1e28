import json
from pathlib import Path

import pytest

from tests.workbench.project.builders import make_project, rule
from workbench.errors import Place, WorkbenchError
from workbench.pipeline.cache import Cache
from workbench.pipeline.plan import plan
from workbench.pipeline.stages import STAGES, optional_stages
from workbench.project import edits
from workbench.project.model import DataSource, ModelSource, TargetChoice


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.py").write_text("import layers\ndef net(): ...\n")
    (tmp_path / "layers.py").write_text("X = 1\n")
    (tmp_path / "data.npy").write_bytes(b"123")
    return tmp_path


def keys(project, folder):
    return {s.id: s.key for s in plan(project, folder, Cache(folder / "cache")).stages}


def changed(before, after):
    return {stage for stage in before if before[stage] != after[stage]}


AFTER_PREPARE = {"prepare", "calibrate", "convert", "evaluate", "lower", "verify", "run", "package"}


def test_that_the_same_project_has_the_same_keys(folder):
    assert keys(make_project(), folder) == keys(make_project(), folder)


@pytest.mark.parametrize(
    ("edit", "stale"),
    [
        (lambda p: edits.set_notes(p, "hello"), set()),
        (lambda p: edits.rename(p, "other"), {"package"}),
        (lambda p: edits.assign(p, "module_name", "a", "a16w8"), AFTER_PREPARE),
        (lambda p: edits.enable_rule(p, "r1", enabled=False), AFTER_PREPARE),
        (lambda p: edits.set_target(p, TargetChoice(id="ethos-u55-256")),
         {"lower", "verify", "run", "package"}),
        (lambda p: edits.set_target(p, TargetChoice(id="ethos-u85-256")), AFTER_PREPARE),
        (lambda p: edits.set_calibration(p, DataSource(spec="data.npy")),
         AFTER_PREPARE - {"prepare"}),
        (lambda p: edits.choose_method(p, "all", "", "mse"),
         AFTER_PREPARE - {"prepare", "calibrate"}),
        (lambda p: edits.set_model(p, ModelSource(spec="model.py:net", strict_export=True)),
         {s.id for s in STAGES} - {"import_model"}),
    ],
)  # fmt: skip
def test_that_an_edit_changes_the_keys_of_exactly_what_depends_on_it(folder, edit, stale):
    project = make_project(rule("r1", "global"))
    assert changed(keys(project, folder), keys(edit(project), folder)) == stale


def test_that_undoing_an_edit_gives_the_old_keys_back(folder):
    project = make_project(rule("r1", "global"))
    edited = edits.assign(project, "module_name", "a", "a16w8")
    undone = edits.remove_rule(edited, edited.rules[-1].id)
    assert keys(undone, folder) == keys(project, folder)


def test_that_a_rule_with_another_id_or_a_preset_spelt_out_has_the_same_keys(folder):
    from workbench.project.configs import A8W8

    named = keys(make_project(rule("r1", "global", config="a8w8")), folder)
    spelt = keys(make_project(rule("r7", "global", config=A8W8)), folder)
    assert changed(named, spelt) == {"package"} or changed(named, spelt) == set()


def test_that_a_changed_module_beside_the_model_changes_the_keys(folder):
    before = keys(make_project(), folder)
    (folder / "layers.py").write_text("X = 2\n")
    assert changed(before, keys(make_project(), folder)) == {s.id for s in STAGES}


def test_that_a_missing_model_blocks_everything_and_says_so(folder):
    planned = plan(make_project(model=ModelSource(spec="gone.pt2")), folder, Cache(folder / "c"))
    assert {s.state for s in planned.stages} == {"blocked"}
    assert "gone.pt2" in planned.stages[0].reason


def test_that_only_stages_nobody_needs_may_be_skipped():
    assert optional_stages() == ("evaluate", "verify", "run")


def test_that_a_finished_stage_is_cached_and_a_damaged_one_is_not(folder):
    cache = Cache(folder / "cache")
    key = keys(make_project(), folder)["import_model"]
    with cache.writing(key) as out:
        (out / "result.json").write_text(json.dumps({"a": 1}))
    assert plan(make_project(), folder, cache).of("import_model").state == "cached"
    (cache.folder(key) / "result.json").write_text("{")
    assert plan(make_project(), folder, cache).of("import_model").state == "stale"


def touch(path):
    path.write_bytes(path.read_bytes() + b"\n")


def test_that_a_plan_names_the_files_that_its_keys_describe(folder):
    made = make_project(model=ModelSource(spec="model.py:net"),
                        calibration=DataSource(spec="data.npy"))  # fmt: skip
    planned = plan(made, folder, Cache(folder / "cache"))
    files = {Path(file.path).name: file for file in planned.files}
    assert {"model.py", "layers.py", "data.npy"} <= set(files)
    assert files["layers.py"].stages == ("import_model",)
    assert "calibrate" in files["data.npy"].stages
    assert planned.is_valid


def test_that_a_changed_file_fails_the_stages_that_depend_on_it_and_no_other(folder):
    made = make_project(model=ModelSource(spec="model.py:net"),
                        calibration=DataSource(spec="data.npy"))  # fmt: skip
    planned = plan(made, folder, Cache(folder / "cache"))
    touch(folder / "data.npy")
    assert not planned.is_valid
    planned.check_files("prepare")
    for stage in ("calibrate", "lower"):
        with pytest.raises(WorkbenchError) as caught:
            planned.check_files(stage)
        assert caught.value.codes == ("input-changed",)
        assert caught.value.infos[0].where == Place(kind="file", id="data.npy")


def test_that_a_picture_that_comes_or_goes_makes_a_plan_invalid(folder):
    (folder / "pictures" / "cats").mkdir(parents=True)
    (folder / "pictures" / "cats" / "one.png").write_bytes(b"1")
    made = make_project(model=ModelSource(spec="model.py:net"),
                        calibration=DataSource(spec="pictures"))  # fmt: skip
    planned = plan(made, folder, Cache(folder / "cache"))
    assert planned.is_valid
    (folder / "pictures" / "cats" / "two.png").write_bytes(b"2")
    assert not planned.is_valid

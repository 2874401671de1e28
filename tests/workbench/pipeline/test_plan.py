import importlib.metadata
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.for_each import for_each
from tests.workbench.project.builders import make_project, rule
from workbench.deploy import boards
from workbench.errors import Place, WorkbenchError
from workbench.pipeline.cache import Cache
from workbench.pipeline.keys import Digests
from workbench.pipeline.plan import part_inputs, plan, stage_key
from workbench.pipeline.stages import STAGES, optional_stages, stages_until
from workbench.project import edits
from workbench.project.board_files import board_file
from workbench.project.model import DataSource, Evaluation, ModelSource, TargetChoice
from workbench.project.opened import OpenProject
from workbench.toolchains.versions import tool_version, tool_versions


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.py").write_text("import layers\ndef net(): ...\n")
    (tmp_path / "layers.py").write_text("X = 1\n")
    (tmp_path / "data.npy").write_bytes(b"123")
    return tmp_path


def keys(project, folder):
    return {s.id: s.key for s in plan(OpenProject(project, folder), Cache(folder / "cache")).stages}


def changed(before, after):
    return {stage for stage in before if before[stage] != after[stage]}


AFTER_PREPARE = {"prepare", "calibrate", "convert", "evaluate", "lower", "verify", "run", "package"}


def test_that_the_same_project_has_the_same_keys(folder):
    assert keys(make_project(), folder) == keys(make_project(), folder)


@for_each(
    ("edit", "stale"),
    [
        (lambda p: edits.set_notes(p, "hello"), set()),
        (lambda p: edits.rename(p, "other"), {"package"}),
        (lambda p: edits.assign(p, "module_name", "a", "a16w8"), AFTER_PREPARE),
        (lambda p: edits.enable_rule(p, "r1", enabled=False), AFTER_PREPARE),
        (
            lambda p: edits.set_target(p, TargetChoice(id="ethos-u55-256")),
            {"lower", "verify", "run", "package"},
        ),
        (lambda p: edits.set_target(p, TargetChoice(id="ethos-u85-256")), AFTER_PREPARE),
        (lambda p: edits.set_calibration(p, DataSource(spec="data.npy")), AFTER_PREPARE - {"prepare"}),
        (lambda p: edits.choose_method(p, "all", "", "mse"), AFTER_PREPARE - {"prepare", "calibrate"}),
        (
            lambda p: edits.set_model(p, ModelSource(spec="model.py:net", strict_export=True)),
            {s.id for s in STAGES} - {"import_model"},
        ),
    ],
)
def test_that_an_edit_changes_the_keys_of_exactly_what_depends_on_it(folder, edit, stale):
    project = make_project(rule("r1", "global"))
    assert changed(keys(project, folder), keys(edit(project), folder)) == stale


@for_each("kind", ["module_name", "node_name"])
def test_that_a_rule_that_keeps_off_is_for_the_quantizer_where_it_leaves_that_in_float(folder, kind):
    ethos_u = make_project(rule("r1", "global"))
    nnpa = edits.set_target(ethos_u, TargetChoice(id="nnpa"))
    for project, stale in ((ethos_u, {"lower", "verify", "run", "package"}), (nnpa, AFTER_PREPARE - {"run"})):
        off = edits.assign(project, kind, "a", "cpu")
        assert changed(keys(project, folder), keys(off, folder)) == stale


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
    planned = plan(OpenProject(make_project(model=ModelSource(spec="gone.pt2")), folder), Cache(folder / "c"))
    assert {s.state for s in planned.stages} == {"blocked"}
    assert "gone.pt2" in planned.stages[0].reason


def test_that_only_stages_nobody_needs_may_be_skipped():
    assert optional_stages() == ("evaluate", "verify", "run")


def test_that_a_finished_stage_is_cached_and_a_damaged_one_is_not(folder):
    cache = Cache(folder / "cache")
    key = keys(make_project(), folder)["import_model"]
    with cache.writing(key) as out:
        (out / "result.json").write_text(json.dumps({"a": 1}))
    assert plan(OpenProject(make_project(), folder), cache).of("import_model").state == "cached"
    (cache.folder(key) / "result.json").write_text("{")
    assert plan(OpenProject(make_project(), folder), cache).of("import_model").state == "stale"


def touch(path):
    path.write_bytes(path.read_bytes() + b"\n")


def test_that_a_plan_names_the_files_that_its_keys_describe(folder):
    made = make_project(model=ModelSource(spec="model.py:net"), calibration=DataSource(spec="data.npy"))
    planned = plan(OpenProject(made, folder), Cache(folder / "cache"))
    files = {Path(file.path).name: file for file in planned.files}
    assert {"model.py", "layers.py", "data.npy"} <= set(files)
    assert files["layers.py"].stages == ("import_model",)
    assert "calibrate" in files["data.npy"].stages
    assert planned.is_valid


def test_that_a_changed_file_fails_the_stages_that_depend_on_it_and_no_other(folder):
    made = make_project(model=ModelSource(spec="model.py:net"), calibration=DataSource(spec="data.npy"))
    planned = plan(OpenProject(made, folder), Cache(folder / "cache"))
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
    made = make_project(model=ModelSource(spec="model.py:net"), calibration=DataSource(spec="pictures"))
    planned = plan(OpenProject(made, folder), Cache(folder / "cache"))
    assert planned.is_valid
    (folder / "pictures" / "cats" / "two.png").write_bytes(b"2")
    assert not planned.is_valid


def test_that_results_that_come_are_seen_when_a_plan_is_looked_up_again(folder):
    cache = Cache(folder / "cache")
    project = make_project(target=TargetChoice(id="formats"))
    planned = plan(OpenProject(project, folder), cache)
    with cache.writing(planned.key("export")) as out:
        (out / "result.json").write_text("{}")
    again = planned.looked_up(cache)
    assert {s.id for s in again.stages if s.state == "cached"} == {"export"}
    assert [(s.id, s.key) for s in again.stages] == [(s.id, s.key) for s in planned.stages]
    assert {s.id for s in again.stages if s.state == "unavailable"} == {"lower", "verify", "run", "package"}
    assert all(s.reason and not s.key for s in again.stages if s.state == "unavailable")


@pytest.fixture
def rich(folder):
    """A folder with everything that a project can name."""
    (folder / "metric.py").write_text("def score(outputs, labels): ...\n")
    (folder / "own.py").write_text("def tight(): ...\nCONFIGS = [tight]\n")
    (folder / "teach.py").write_text("def train(): ...\n")
    (folder / "trained.safetensors").write_bytes(b"weights")
    (folder / "eval.npy").write_bytes(b"456")
    return folder


def evaluated(project, **fields):
    return project.model_copy(update={"evaluation": Evaluation(**fields)})


AFTER_COMPILING = {"lower", "verify", "run", "package"}
FROM_EVALUATION = {"evaluate", "verify", "run"}


@for_each(
    ("edit", "stale"),
    [
        (lambda p: evaluated(p, data=DataSource(spec="eval.npy")), AFTER_PREPARE - {"prepare"}),
        (lambda p: evaluated(p, hold_out=False), AFTER_PREPARE - {"prepare"}),
        (lambda p: evaluated(p, metric="metric.py:score"), {"evaluate"}),
        (lambda p: evaluated(p, limit=3), {"evaluate"}),
        (lambda p: edits.set_improver(p, "bias", on=True), AFTER_PREPARE),
        (lambda p: edits.use_trained(p, "trained.safetensors"), AFTER_PREPARE),
        (lambda p: edits.assign(p, "module_name", "a", "own.py:tight"), AFTER_PREPARE),
        (lambda p: edits.fix_range(p, "x", -1.0, 1.0), AFTER_PREPARE - {"prepare", "calibrate"}),
        (lambda p: edits.assign(p, "module_name", "a", "cpu"), AFTER_COMPILING),
        (lambda p: edits.train_by(p, "teach.py:train"), set()),
        # Rewrites are tried with the memory of the board.
        (lambda p: boards.put(OpenProject(p, Path()), "himax-we2"), AFTER_PREPARE),
    ],
)
def test_that_each_part_of_a_project_decides_the_stages_that_read_it(rich, edit, stale):
    project = make_project(rule("r1", "global"), calibration=DataSource(spec="data.npy"))
    assert changed(keys(project, rich), keys(edit(project), rich)) == stale


def test_that_the_content_of_the_files_it_names_decides(rich):
    project = make_project(rule("r1", "global"), calibration=DataSource(spec="data.npy"))
    project = edits.assign(project, "module_name", "a", "own.py:tight")
    project = project.model_copy(update={"evaluation": Evaluation(metric="metric.py:score")})
    before = keys(project, rich)
    touch(rich / "own.py")
    middle = keys(project, rich)
    assert changed(before, middle) == AFTER_PREPARE
    touch(rich / "metric.py")
    assert changed(middle, keys(project, rich)) == {"evaluate"}
    trained = edits.use_trained(project, "trained.safetensors")
    known = keys(trained, rich)
    touch(rich / "trained.safetensors")
    assert changed(known, keys(trained, rich)) == AFTER_PREPARE


def test_that_an_improver_that_looks_at_data_depends_on_it(rich):
    project = make_project(rule("r1", "global"), calibration=DataSource(spec="data.npy"))
    other = edits.set_calibration(project, DataSource(spec="eval.npy"))
    for improver, looks in (("smooth", True), ("equalize", False)):
        first, second = (edits.set_improver(p, improver, on=True) for p in (project, other))
        assert ("prepare" in changed(keys(first, rich), keys(second, rich))) == looks


def test_that_training_starts_from_the_project_without_its_trained_weights(rich):
    project = make_project(rule("r1", "global"), calibration=DataSource(spec="data.npy"))
    cache = Cache(rich / "cache")

    def start(made):
        return part_inputs(OpenProject(made, rich), cache, "training")

    assert start(edits.use_trained(project, "trained.safetensors")) == start(project)
    taught = edits.train_by(project, "teach.py:train")
    assert start(taught) != start(project)
    assert start(edits.set_improver(project, "bias", on=True)) != start(project)
    touch(rich / "teach.py")
    assert start(taught)["function"]["files"][0][1] == Digests().of(rich / "teach.py")


def run_key(project, folder):
    return keys(project, folder)["run"]


def test_that_the_board_and_its_firmware_decide_what_is_simulated(folder, tmp_path):
    from workbench.deploy.simulators.discovery import BoardLink, MachineSettings, save_settings

    project = make_project()
    functional = keys(project, folder)
    elf = tmp_path / "net.elf"
    link = BoardLink(port="/dev/ttyACM0", elf=str(tmp_path / "{name}.elf"), simulate=True)
    save_settings(MachineSettings(board=link.model_copy(update={"simulate": False})))
    assert run_key(project, folder) == functional["run"]
    save_settings(MachineSettings(board=link))
    without = keys(edits.rename(project, "net"), folder)
    assert changed(functional, without) >= {"run"}
    elf.write_bytes(b"first")
    first = run_key(edits.rename(project, "net"), folder)
    elf.write_bytes(b"second, longer")
    assert len({without["run"], first, run_key(edits.rename(project, "net"), folder)}) == 3
    save_settings(MachineSettings(board=link.model_copy(update={"elf": ""})))
    assert run_key(project, folder) != functional["run"]


def test_that_a_file_that_went_has_changed(folder):
    planned = plan(OpenProject(make_project(), folder), Cache(folder / "cache"))
    (fact,) = [f for f in planned.files if f.path.endswith("layers.py")]
    assert fact.is_unchanged
    (folder / "layers.py").unlink()
    assert not fact.is_unchanged


def test_that_a_project_for_an_unknown_device_has_every_stage(folder):
    project = edits.set_target(make_project(), TargetChoice(id="ethos-u1-1"))
    assert set(keys(project, folder)) == {stage.id for stage in STAGES}


def test_that_stages_up_to_one_are_in_order():
    assert stages_until("import_model") == ["import_model"]
    assert stages_until("prepare") == ["import_model", "export", "prepare"]
    assert stages_until(STAGES[-1].id) == [stage.id for stage in STAGES]


def test_that_a_version_is_that_of_the_installed_package():
    assert tool_version("numpy") == np.__version__
    assert tool_version("no-such-package-anywhere") == "none"
    assert tool_versions()["torch"] == importlib.metadata.version("torch")


def read(project, folder, name):
    return part_inputs(OpenProject(project, folder), Cache(folder / "cache"), name)


def test_that_another_config_of_a_rule_is_another_key(folder):
    before, after = (make_project(rule("r1", "global", config=c)) for c in ("a8w8", "a16w8"))
    assert changed(keys(before, folder), keys(after, folder)) == AFTER_PREPARE


def test_that_the_channels_that_modules_keep_decide_what_is_prepared(folder):
    project = make_project(rule("r1", "global"))
    eight, seven = (edits.compress(project, "stem", channels=count) for count in (8, 7))
    made = [keys(one, folder) for one in (project, eight, seven)]
    assert changed(made[0], made[1]) == changed(made[1], made[2]) == AFTER_PREPARE


def test_that_rules_for_inputs_and_outputs_are_read_apart_from_others(folder):
    without = make_project(rule("r1", "global"))
    assert read(without, folder, "rules.io") == []
    found = [
        read(make_project(rule("r1", "global"), rule("r2", "io", config=config)), folder, "rules.io")
        for config in ("a8w8", "a16w8")
    ]
    assert [len(configs) for configs in found] == [1, 1]
    assert [configs[0]["activation"]["dtype"] for configs in found] == ["int8", "int16"]
    assert read(make_project(rule("r2", "io", config="float")), folder, "rules.io") == [None]


def test_that_the_package_lists_the_rules_that_are_on(folder):
    project = make_project(
        rule("r1", "global"),
        rule("r2", "module_name", "head", "a16w8"),
        rule("r3", "module_name", "stem", "a16w8", enabled=False),
    )
    assert read(project, folder, "rules.listed") == [["global", "", "a8w8"], ["module_name", "head", "a16w8"]]


def test_that_quality_is_measured_with_its_own_data_or_that_of_the_calibration(rich):
    project = make_project(calibration=DataSource(spec="data.npy"))
    calibration = read(project, rich, "calibration")
    assert read(project, rich, "evaluation.data") == calibration
    own = read(evaluated(project, data=DataSource(spec="eval.npy")), rich, "evaluation.data")
    assert own["references"][0]["files"] == [["eval.npy", Digests().of(rich / "eval.npy")]]
    assert read(make_project(), rich, "evaluation.data") is None


def test_that_the_package_holds_what_is_known_of_the_board(folder):
    assert read(make_project(), folder, "board") == ""
    project = boards.put(OpenProject(make_project(), Path()), "himax-we2")
    file = board_file("himax-we2", folder)
    assert read(project, folder, "board") == Digests().of(file)


@for_each(
    ("fast", "trace", "traces"),
    [(False, False, False), (False, True, True), (True, False, False), (True, True, False)],
)
def test_that_a_simulator_its_runner_and_how_it_runs_decide(tmp_path, monkeypatch, fast, trace, traces):
    for name in ("fvp", "runner.elf"):
        (tmp_path / name).write_bytes(name.encode())
    setup = SimpleNamespace(
        installed=SimpleNamespace(path=tmp_path / "fvp"),
        runner=SimpleNamespace(path=tmp_path / "runner.elf"),
        settings=SimpleNamespace(fast=fast, trace=trace),
    )
    monkeypatch.setattr("workbench.pipeline.plan.simulator_setup", lambda project: setup)
    assert read(make_project(), tmp_path, "machine") == {
        "simulator": Digests().of(tmp_path / "fvp"),
        "fast": fast,
        "trace": traces,
        "runner": Digests().of(tmp_path / "runner.elf"),
    }


def test_that_the_order_in_which_options_stand_is_no_part_of_a_key():
    stage = next(stage for stage in STAGES if stage.id == "calibrate")
    tools = tool_versions()
    one, other = {"calibration": {"a": 1, "b": 2}}, {"calibration": {"b": 2, "a": 1}}
    assert stage_key(stage, one, ["x"], tools) == stage_key(stage, other, ["x"], tools)
    assert stage_key(stage, one, ["x"], tools) != stage_key(stage, one, ["y"], tools)


def test_that_every_stage_names_what_runs_it():
    assert {stage.id: stage.entry for stage in STAGES} == {
        stage.id: f"workbench.engine.stages.{stage.id}:run" for stage in STAGES
    }


def test_that_a_target_without_options_is_its_own_name_for_the_quantizer(folder):
    project = make_project(target=TargetChoice(id="formats"))
    assert read(project, folder, "target.quantizer") == "formats"


def test_that_calibration_is_the_same_with_any_evaluation_data_of_its_own(rich):
    bare = make_project(rule("r1", "global"), calibration=DataSource(spec="data.npy"))
    one = evaluated(bare, data=DataSource(spec="eval.npy"))
    two = evaluated(bare, data=DataSource(spec="data.npy"), hold_out=False)
    assert changed(keys(one, rich), keys(two, rich)) == FROM_EVALUATION

import json
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.for_each import for_each
from tests.problems import refused
from tests.workbench.project.builders import make_project, rule
from workbench.errors import WorkbenchError
from workbench.project import store
from workbench.project.configs import PRESETS, Activation, Observer, QuantConfig
from workbench.project.gate import Gate
from workbench.project.model import PROJECT_VERSION, DataSource, Preprocess


def _message(error: pytest.ExceptionInfo[WorkbenchError]) -> str:
    return str(error.value)


def test_that_a_saved_project_reads_back_equal(tmp_path):
    own = QuantConfig(activation=Activation(observer=Observer(kind="percentile")))
    project = make_project(
        rule("r1", "global"),
        rule("r2", "module_name", "encoder.3", own, enabled=False),
        calibration=DataSource(spec="a.npz", preprocess=Preprocess(size=(8, 8)), dropped=(3,)),
        presets={"mine": own},
        notes="Übung 12",
    )
    path = tmp_path / "a.qwb"
    store.save(project, path)
    assert store.load(path) == project


@given(st.lists(st.sampled_from([p.id for p in PRESETS]), max_size=6))
def test_that_every_preset_reads_back_equal_in_a_rule(ids):
    project = make_project(*(rule(f"r{i}", "module_name", f"m{i}", c) for i, c in enumerate(ids)))
    assert store.parse(store.dump(project).encode(), "x") == project


def test_that_one_changed_rule_changes_one_line_of_the_file():
    before = store.dump(make_project(rule("r1", "global"))).splitlines()
    after = store.dump(make_project(rule("r1", "global", config="a16w8"))).splitlines()
    changed = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    assert len(changed) == 1


@for_each(
    ("text", "code"),
    [
        ("", "project-empty"),
        ("  \n", "project-empty"),
        ('{"version": 1, "name": "a"', "project-json-broken"),
        ("[1, 2]", "project-not-object"),
        ("\x00{", "project-json-broken"),
        ('{"version": 99}', "project-version-newer"),
        ('{"version": "1"}', "project-version-invalid"),
        ('{"version": true}', "project-version-invalid"),
    ],
)
def test_that_a_broken_file_is_refused_with_its_reason(tmp_path, text, code):
    path = tmp_path / "a.qwb"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(WorkbenchError) as error:
        store.load(path)
    assert error.value.codes == (code,)


def test_that_bytes_which_are_no_text_are_refused(tmp_path):
    path = tmp_path / "a.qwb"
    path.write_bytes(b"\xff\xfe\x00{")
    with refused("project-not-json"):
        store.load(path)


def test_that_deep_nesting_is_refused(tmp_path):
    path = tmp_path / "a.qwb"
    path.write_text("[" * 100_000)
    with pytest.raises(WorkbenchError):
        store.load(path)


def test_that_a_huge_file_is_refused_without_reading_it(tmp_path):
    path = tmp_path / "a.qwb"
    with path.open("wb") as file:
        file.truncate(store.MAX_BYTES + 1)
    with refused("project-too-large"):
        store.load(path)


def test_that_a_missing_file_and_a_folder_are_told_apart(tmp_path):
    with refused("project-missing"):
        store.load(tmp_path / "none.qwb")
    with refused("project-is-folder"):
        store.load(tmp_path)


def test_that_all_problems_come_at_once_each_with_its_place():
    raw = json.loads(store.dump(make_project(rule("r1", "global"))))
    raw["surplus"] = 1
    raw["model"]["spec"] = ""
    raw["rules"].append({"id": "r2", "kind": "nonsense", "config": "a8w8"})
    with pytest.raises(WorkbenchError) as error:
        store.parse(json.dumps(raw).encode(), "x")
    places = {info.where.id for info in error.value.infos}
    assert {"surplus", "model.spec", "rules[1].kind"} <= places


def test_that_unknown_configs_and_double_ids_are_named():
    raw = json.loads(store.dump(make_project(rule("r1", "global"))))
    raw["rules"] += [
        {"id": "r1", "kind": "io", "config": "a9w9"},
        {"id": "r2", "kind": "module_name", "config": "a8w8"},
    ]
    with pytest.raises(WorkbenchError) as error:
        store.parse(json.dumps(raw).encode(), "x")
    codes = {"rule-id-duplicate", "config-unknown", "rule-match-missing"}
    assert codes <= set(error.value.codes)
    assert "'a9w9'" in _message(error)


@for_each(("low", "high"), [(1.0, 2.0), (1.0, -1.0), (None, 1.0)])
def test_that_a_fixed_range_must_hold_zero_and_stand_upright(low, high):
    raw = json.loads(store.dump(make_project(rule("r1", "global"))))
    observer = {"kind": "fixed", "minimum": low, "maximum": high}
    raw["rules"][0]["config"] = {"activation": {"observer": observer}}
    with pytest.raises(WorkbenchError) as error:
        store.parse(json.dumps(raw).encode(), "x")
    assert set(error.value.codes) == {"project-field-invalid"}


def test_that_a_file_of_version_0_is_migrated():
    text = """{"name": "old", "model": {"spec": "m.pt2"}, "target": "ethos-u55-128",
               "memory_mode": "Sram_Only"}"""
    project = store.parse(text.encode(), "x")
    assert project.version == PROJECT_VERSION
    assert project.target.options == {"memory_mode": "Sram_Only"}


def test_that_a_file_without_a_gate_has_the_default_limits():
    raw = json.loads(store.dump(make_project())) | {"version": 7}
    project = store.parse(json.dumps(raw).encode(), "x")
    assert project.version == PROJECT_VERSION
    assert project.gate == Gate()


def test_that_a_gate_is_saved_and_read_again():
    gate = Gate(lsb=5, argmax=None, fail_if=("cycles>100000",))
    project = make_project().model_copy(update={"gate": gate})
    assert store.parse(store.dump(project).encode(), "x").gate == gate


@for_each(
    ("gate", "place"),
    [
        ({"lsb": -1}, "gate.lsb"),
        ({"argmax": 95}, "gate.argmax"),
        ({"top1": 1}, "gate.top1"),
        ({"fail_if": ["speed>2"]}, "gate.fail_if"),
    ],
)
def test_that_an_invalid_gate_is_refused_with_its_place(gate, place):
    raw = json.loads(store.dump(make_project())) | {"gate": gate}
    with pytest.raises(WorkbenchError) as error:
        store.parse(json.dumps(raw).encode(), "x")
    assert [info.where.id for info in error.value.infos] == [place]


def test_that_numbers_a_method_gave_in_version_1_become_that_method():
    raw = json.loads(store.dump(make_project())) | {"version": 1}
    raw.pop("range_methods", None)
    raw["ranges"] = [
        {"tensor": "relu", "minimum": 0.0, "maximum": 3.0, "by": "mse"},
        {"tensor": "conv2d", "minimum": -1.0, "maximum": 1.0, "by": ""},
    ]
    project = store.parse(json.dumps(raw).encode(), "x")
    assert project.fixed_ranges() == {"conv2d": (-1.0, 1.0)}
    assert [(m.scope_text, m.method) for m in project.range_methods] == [("relu", "mse")]


@for_each(
    "broken",
    [
        {"ranges": 5},
        {"ranges": [5]},
        {"ranges": [{"by": 5}]},
        {"range_methods": 5, "ranges": []},
        {"range_methods": [{"scope": "all", "method": "best"}]},
    ],
)
def test_that_broken_ranges_of_any_version_are_refused_with_their_place(broken):
    for version in (1, PROJECT_VERSION):
        raw = json.loads(store.dump(make_project())) | broken | {"version": version}
        with pytest.raises(WorkbenchError) as error:
            store.parse(json.dumps(raw).encode(), "x")
        assert error.value.infos[0].where.id.startswith("range")


def test_that_a_read_only_file_is_not_overwritten(tmp_path):
    path = tmp_path / "a.qwb"
    store.save(make_project(), path)
    path.chmod(stat.S_IRUSR)
    with refused("project-read-only"):
        store.save(make_project(name="other"), path)
    assert store.load(path).name == "net"


def test_that_a_full_disk_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "a.qwb"
    store.save(make_project(), path)

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with refused("project-not-saved"):
        store.save(make_project(name="other"), path)
    assert store.load(path).name == "net"
    assert [p.name for p in tmp_path.iterdir()] == ["a.qwb"]


def test_that_an_edit_is_written_and_returned(tmp_path):
    path = tmp_path / "net.qwb"
    store.save(make_project(), path)
    changed = store.edit(path, lambda project: project.model_copy(update={"notes": "new"}))
    assert changed.notes == "new"
    assert store.load(path) == changed


@for_each(
    ("text", "code"),
    [
        ('{"version": ' + "1" * 5000 + "}", "project-json-broken"),
        ('{"version": 9,\n "name": }', "project-json-broken"),
        ('[{"version": 9}]', "project-not-object"),
    ],
)
def test_that_what_is_no_project_is_refused(text, code):
    with refused(code):
        store.parse(text.encode(), "x")


@for_each("text", ["a\0b", "\ud800", "end\udfff"])
def test_that_text_that_nothing_can_write_is_refused_wherever_it_stands(text):
    raw = json.loads(store.dump(make_project()))
    for odd in ({"notes": text}, {"plugins": ["a.py", text]}, {"target": {text: 1}}):
        with refused("project-text-invalid"):
            store.parse(json.dumps({**raw, **odd}).encode(), "x")


def test_that_an_option_takes_one_value():
    raw = json.loads(store.dump(make_project()))
    raw["target"]["options"] = {"optimise": ["Size"], "system_config": {}}
    with refused("target-option-invalid", "target-option-invalid") as error:
        store.parse(json.dumps(raw).encode(), "x")
    places = [info.where.id for info in error.value.infos]
    assert places == ["target.options.optimise", "target.options.system_config"]


def test_that_a_file_that_cannot_be_read_is_told_apart_from_one_that_is_not_there(tmp_path, monkeypatch):
    with refused("project-unreadable"):
        store.load(tmp_path / "a\0b.qwb")

    def locked(*_):
        raise PermissionError(13, "Permission denied")

    (tmp_path / "a.qwb").write_text("{}")
    monkeypatch.setattr(store, "read_limited", locked)
    with refused("project-unreadable"):
        store.load(tmp_path / "a.qwb")


def test_that_a_project_needs_its_folder(tmp_path):
    with refused("folder-missing"):
        store.require_folder(tmp_path / "no" / "a.qwb")
    store.require_folder(tmp_path / "a.qwb")


def test_that_letters_of_every_script_stay_readable():
    assert "Größe" in store.dump(make_project(name="Größe"))


@for_each(("mode", "writable"), [(0o555, False), (0o444, False), (0o200, True), (0o446, True)])
def test_that_a_file_that_nobody_may_write_is_not_written(tmp_path, mode, writable):
    path = tmp_path / "a.qwb"
    path.write_text("")
    path.chmod(mode)
    assert store.is_writable(path) == (writable and os.access(path, os.W_OK))


def test_that_a_text_that_is_told_is_shortened():
    with refused("project-text-invalid") as error:
        store.parse(json.dumps({"name": "x" * 300 + "\0"}).encode(), "a.qwb")
    assert len(error.value.infos[0].message) == 200


def test_that_only_an_unknown_field_is_told_to_be_removed():
    raw = json.loads(store.dump(make_project()))
    with pytest.raises(WorkbenchError) as error:
        store.parse(json.dumps({**raw, "colour": 1, "rules": 5}).encode(), "a.qwb")
    hints = {info.where.id: info.hint for info in error.value.infos}
    assert set(hints) == {"colour", "rules"}
    assert hints["colour"]
    assert hints["rules"] == ""


def test_that_a_project_of_a_million_wrong_values_is_refused_at_once():
    """Each wrong value takes 2.5 kB until it is told."""
    rules = "1," * 1_000_000
    text = f'{{"version": {PROJECT_VERSION}, "name": "n", "rules": [{rules}1]}}'
    with refused("project-too-large"):
        store.parse(text.encode(), "a.qwb")

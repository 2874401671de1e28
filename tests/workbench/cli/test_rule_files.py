"""Rules taken from MASE's ``pass_args`` and written as such: JSON, TOML and what is printed."""

import json
import tomllib

import pytest

from tests.fakes.projects import make_project
from workbench.cli import main
from workbench.project import store

ARGS = {
    "by": "type",
    "default": {"config": {"name": None}},
    "linear": {
        "config": {
            "name": "integer",
            "data_in_width": 8,
            "data_in_frac_width": 4,
            "weight_width": 8,
            "weight_frac_width": 4,
            "bias_width": 8,
            "bias_frac_width": 4,
        }
    },
}


@pytest.fixture
def rules(tmp_path, capsys):
    """Run ``workbench rules`` on a project; return exit code and standard output."""
    path = tmp_path / "net.qwb"
    store.save(make_project(), path)

    def run(*arguments):
        code = main(["rules", str(path), *map(str, arguments)])
        return code, capsys.readouterr().out

    return run


def test_that_rules_are_taken_and_listed(rules, tmp_path):
    (tmp_path / "args.json").write_text(json.dumps(ARGS))
    code, text = rules("--json", "take-mase", tmp_path / "args.json")
    document = json.loads(text)
    assert code == 0
    project = store.load(tmp_path / "net.qwb")
    assert document["rules"] == len(project.rules) > 0
    assert document["notes"] == []
    code, text = rules("--json")
    listed = json.loads(text)["rules"]
    assert [row["id"] for row in listed] == [rule.id for rule in project.rules]
    assert all(row["call"] for row in listed)
    code, text = rules("take-mase", tmp_path / "args.json")
    assert code == 0
    assert str(len(project.rules)) in text


def test_that_rules_are_written_as_json_toml_and_told(rules, tmp_path):
    (tmp_path / "args.json").write_text(json.dumps(ARGS))
    assert rules("take-mase", tmp_path / "args.json")[0] == 0
    code, text = rules("--json", "write-mase", tmp_path / "out.json")
    document = json.loads(text)
    assert (code, document["file"]) == (0, str(tmp_path / "out.json"))
    assert document["pass_args"] == json.loads((tmp_path / "out.json").read_text())
    code, text = rules("write-mase", tmp_path / "out.toml")
    assert code == 0
    assert "out.toml" in text
    written = tomllib.loads((tmp_path / "out.toml").read_text())["passes"]["quantize"]
    assert written["by"] == "type"
    assert written["linear"] == document["pass_args"]["linear"]


def test_that_a_file_that_cannot_be_written_is_named(rules, tmp_path, codes):
    (tmp_path / "args.json").write_text(json.dumps(ARGS))
    assert rules("take-mase", tmp_path / "args.json")[0] == 0
    assert rules("write-mase", tmp_path)[0] == 2
    assert codes == ["file-not-writable"]

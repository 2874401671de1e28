"""Projects begun from a recipe, a command line of ExecuTorch, or a model; each also as JSON."""

import json
import shlex

import pytest

from workbench.cli import main
from workbench.project import store

AOT = "python3 -m executorch.backends.arm.scripts.aot_arm_compiler -m mv2 -d -q"


@pytest.fixture
def new(tmp_path, monkeypatch, capsys):
    """Run ``workbench new net.qwb`` in a folder; return exit code, standard output and project."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        code = main(["new", "net.qwb", *arguments])
        path = tmp_path / "net.qwb"
        return code, capsys.readouterr().out, store.load(path) if path.exists() else None

    return run


def test_that_a_model_is_written_and_told(new, tmp_path, capsys):
    (tmp_path / "model.py").write_text("def net(): ...\n")
    given = ("--model", "model.py:net", "--target", "ethos-u55-128")
    code, text, project = new(*given, "--json")
    document = json.loads(text)
    assert (code, document["project"]) == (0, "net.qwb")
    assert document["target"] == project.target.model_dump(mode="json")
    code, text, _ = new(*given, "--force")
    assert code == 0
    assert "workbench run net.qwb" in text
    spaced = tmp_path / "my models" / "net.qwb"
    spaced.parent.mkdir()
    (spaced.parent / "model.py").write_text("def net(): ...\n")
    assert main(["new", str(spaced), *given]) == 0
    command = capsys.readouterr().out.partition("Next: ")[2].splitlines()[0]
    assert str(spaced) in shlex.split(command)


@pytest.mark.parametrize(("recipe", "texts"), [("image_classifier", False), ("llm_decoder", True)])
def test_that_a_recipe_lists_the_files_that_it_begins_with(new, tmp_path, recipe, texts):
    code, text, project = new("--recipe", recipe, "--json")
    document = json.loads(text)
    assert (code, document["project"]) == (0, "net.qwb")
    assert project.model.spec.partition(":")[0] in document["files"]
    assert any(name.endswith(".txt") for name in document["files"]) is texts
    assert len(set(document["files"])) == len(document["files"])
    assert all((tmp_path / name).is_file() for name in document["files"])
    assert new("--recipe", recipe)[0] == 2
    code, text, _ = new("--recipe", recipe, "--force")
    assert code == 0
    assert all(name in text for name in ("net.qwb", project.model.spec.partition(":")[0]))


def test_that_mode_and_scope_of_a_recipe_are_taken(new):
    assert new("--recipe", "llm_decoder", "--mode", "ethosu_8a8w")[0] == 0
    eight = new("--recipe", "llm_decoder", "--mode", "ethosu_8a8w", "--force")[2]
    sixteen = new("--recipe", "llm_decoder", "--mode", "ethosu_16a8w", "--force")[2]
    assert eight.rules != sixteen.rules
    assert new("--recipe", "llm_decoder", "--mode", "odd", "--force")[0] == 2


def test_that_a_command_line_of_executorch_lists_its_files_and_notes(new, tmp_path):
    code, text, project = new("--aot", AOT, "--json", "--name", "mine")
    document = json.loads(text)
    assert (code, document["project"], project.name) == (0, "net.qwb", "mine")
    assert all((tmp_path / name).is_file() for name in document["files"])
    assert document["notes"]
    assert new("--aot", AOT)[0] == 2
    code, text, project = new("--aot", AOT, "--force")
    assert (code, project.name) == (0, "net")
    assert all(note in text for note in document["notes"])


def test_that_a_project_needs_a_model(new, codes):
    assert new("--target", "ethos-u55-128") == (2, "", None)
    assert codes == ["model-not-given"]

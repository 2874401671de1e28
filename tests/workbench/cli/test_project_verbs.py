import argparse
import contextlib
import json
import os
from pathlib import Path

import pytest

from tests.for_each import for_each
from workbench import cli
from workbench.cli import main
from workbench.project import store
from workbench.script.quantizer import copied_corrections


def test_that_a_new_project_names_both_memory_choices_and_quantizes_all(project):
    made = store.load(project)
    assert made.target.options["system_config"] == "Ethos_U55_High_End_Embedded"
    assert made.target.options["memory_mode"] == "Shared_Sram"
    assert [(r.kind, r.config) for r in made.rules] == [("global", "a8w8")]


def test_that_an_existing_project_is_not_overwritten_unasked(project, codes):
    before = project.read_text()
    assert main(["new", str(project), "--model", "model.py:net", "--target", "ethos-u85-256"]) == 2
    assert project.read_text() == before
    assert codes == ["file-exists"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--target", "ethos-u99-1"], "target-unknown"),
        (["--target", "ethos-u55-128", "--memory-mode", "Dedicated_Sram"], "vela-memory-mode-unfit"),
        (["--target", "ethos-u55-128", "--input-shape", "1xax3"], "shape-invalid"),
        (["--target", "ethos-u55-128", "--calibration", "nowhere.npz"], "source-file-missing"),
        (["--target", "ethos-u55-128", "--config", "a9w9"], "config-unknown"),
    ],
)
def test_that_a_bad_choice_writes_nothing_and_says_why(project, tmp_path, codes, arguments, code):
    path = tmp_path / "other.qwb"
    assert main(["new", str(path), "--model", "model.py:net", *arguments]) == 2
    assert not path.exists()
    assert codes == [code]


def test_that_plan_prints_one_document_and_check_finds_no_error(project, capsys):
    assert main(["plan", str(project), "--json"]) == 0
    stages = json.loads(capsys.readouterr().out)["stages"]
    assert stages[0]["id"] == "import_model"
    assert stages[0]["state"] == "stale"
    assert main(["check", str(project), "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)
    assert checked["valid"]
    assert any("calibration" in p["message"] for p in checked["problems"])


def test_that_check_names_a_missing_model_and_exits_2(project, tmp_path, capsys):
    (tmp_path / "model.py").unlink()
    assert main(["check", str(project)]) == 2
    assert "model.py" in capsys.readouterr().err


def test_that_running_code_without_trust_exits_3_and_runs_nothing(project, tmp_path, codes):
    (tmp_path / "model.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\ndef net(): ...\n")
    assert main(["run", str(project)]) == 3
    assert codes == ["trust-required"]
    assert not (tmp_path / "ran").exists()


def test_that_rules_can_be_added_moved_switched_and_removed(project, capsys):
    arguments = ["rules", str(project), "add", "--kind", "module-name", "--match", "fc"]
    assert main([*arguments, "--config", "a16w8"]) == 0
    assert main(["rules", str(project), "disable", "r2"]) == 0
    assert not store.load(project).rules[1].enabled
    assert main(["rules", str(project), "enable", "r2"]) == 0
    assert main(["rules", str(project), "move", "r2", "--position", "0"]) == 0
    assert [r.id for r in store.load(project).rules] == ["r2", "r1"]
    assert main(["rules", str(project), "remove", "r2"]) == 0
    assert [r.id for r in store.load(project).rules] == ["r1"]
    assert "set_global" in capsys.readouterr().out


@for_each(
    ("config", "code"),
    [
        ("a9w9", "config-unknown"),
        ('{"weight": {"bits": 3}}', "config-invalid"),
        ("{", "config-invalid"),
        ("uint8", "rule-not-supported"),
    ],
)
def test_that_a_config_the_device_cannot_take_is_not_written(project, codes, config, code):
    codes.clear()
    before = project.read_text()
    assert main(["rules", str(project), "add", "--kind", "global", "--config", config]) == 2
    assert codes == [code]
    assert project.read_text() == before


def test_that_an_own_config_is_written_as_json(project):
    config = '{"activation": {"observer": {"kind": "percentile", "percentile": 99.9}}}'
    assert main(["rules", str(project), "add", "--kind", "global", "--config", config]) == 0
    assert store.load(project).rules[0].config.activation.observer.percentile == 99.9


def test_that_doctor_names_every_tool(capsys, project):
    assert main(["doctor", "--json"]) == 0
    names = {f["name"] for f in json.loads(capsys.readouterr().out)["findings"]}
    assert {"torch", "executorch", "ethos-u-vela", "FVP_Corstone_SSE-320", "cache"} <= names


def test_that_help_names_every_verb_and_exit_code(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    for word in ("new", "check", "plan", "run", "rules", "inspect", "script", "doctor", "130"):
        assert word in text


def command_lines(parser=None, words=()):
    """Yield the words of every verb and of every action of a verb."""
    for action in (parser or cli.parser())._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, below in action.choices.items():
                yield (*words, word)
                yield from command_lines(below, (*words, word))
        elif not action.option_strings:
            words = (*words, "p.qwb")


@pytest.mark.parametrize("words", list(command_lines()), ids=" ".join)
def test_that_every_verb_and_action_has_a_help_of_its_own(capsys, words):
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    usage = capsys.readouterr().out.partition("[-h]")[0].split()
    assert usage[:3] == ["usage:", "workbench", words[0]]
    assert usage[-1] == words[-1]


def test_that_a_text_is_read_with_the_tokenizer_that_is_given(project, tmp_path, codes):
    (tmp_path / "story.txt").write_text("once upon a time")
    (tmp_path / "tokenizer.json").write_text("{}")
    path = tmp_path / "reader.qwb"
    begin = ["new", str(path), "--model", "model.py:net", "--target", "ethos-u85-256"]
    told = ["--calibration", "story.txt", "--tokenizer", "tokenizer.json", "--sequence"]
    assert main([*begin, *told, "0"]) != 0
    assert codes == ["sequence-too-short"]
    assert main([*begin, *told, "1"]) == 0
    assert store.load(path).calibration.tokens.length == 1
    assert main([*begin, *told, "16", "--force"]) == 0
    tokens = store.load(path).calibration.tokens
    assert (tokens.tokenizer, tokens.length) == ("tokenizer.json", 16)


def test_that_rules_that_are_added_at_the_same_time_are_all_kept(project):
    names, started = [f"m{number}" for number in range(6)], []
    for name in names:
        started.append(os.fork())
        if not started[-1]:
            words = ["--kind", "module-name", "--match", name, "--config", "a8w8"]
            os._exit(main(["rules", str(project), "add", *words]))
    assert [os.waitpid(child, 0)[1] for child in started] == [0] * len(names)
    assert {rule.match for rule in store.load(project).rules} >= set(names)


def test_that_a_script_is_written_with_the_commands_to_run(project_file, tmp_path, capsys, codes):
    out = tmp_path / "out.py"
    words = ["script", str(project_file), "--out", str(out)]
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["script"], document["commands"]) == (str(out), [f"python {out}"])
    compile(out.read_text(), "out.py", "exec")
    copied = {path.relative_to(tmp_path) for path in (tmp_path / "ethos_u_corrections").rglob("*.py")}
    assert copied == {Path(file) for file in copied_corrections()}
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines() == [f"Wrote {out}. Run:", f"  python {out}"]
    assert main([*words, "--aot"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"Wrote {out}. Run in {tmp_path}:"
    assert "aot_arm_compiler" in lines[-1]
    assert main([*words[:-1], str(tmp_path / "no" / "folder" / "x.py")]) == 2
    assert codes == ["folder-missing"]


@for_each(
    "words",
    [
        "rules P add --kind io --config a8w8",
        "rules P remove none",
        "rules P move none --position 0",
        "rules P enable none",
        "rules P disable none",
        "rules P take-mase none.toml",
        "ranges P set x 0 1",
        "ranges P free x",
        "ranges P choose --method mse --all",
        "ranges P drop 0",
        "ranges P restore 0",
        "improve P --on bias",
        "compress P --clusters 4",
        "plugins P --add none.py",
        "settings P name=x",
        "target P optimise=Size",
        "preprocess P size=4",
    ],
)
def test_that_a_verb_that_edits_holds_the_project(project, words):
    held = []

    @contextlib.contextmanager
    def editing(path):
        held.append(path)
        yield

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "editing", editing)
        main([str(project) if word == "P" else word for word in words.split()])
    assert held == [project]

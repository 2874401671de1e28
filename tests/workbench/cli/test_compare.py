"""A run against a baseline: figures, limits, exit codes, JUnit and Markdown."""

import json
from contextlib import closing
from xml.etree import ElementTree

import pytest

from tests.for_each import for_each
from tests.schemas import checked
from workbench import api
from workbench.analysis.gate import GateResult
from workbench.cli import main
from workbench.history.outcomes import outcome_of
from workbench.history.store import History, history_path


@pytest.fixture
def project(measured):
    return measured


def compared(capsys, *words):
    """Return the exit code and the document, checked with its schema."""
    code = main(["compare", *map(str, words), "--json"])
    found = json.loads(capsys.readouterr().out)
    name = "compare" if "passed" in found else "error"
    return code, checked(found, name)


def figure(found, name):
    return next(each for each in found["figures"] if each["name"] == name)


def test_that_present_results_are_compared_with_a_run_of_the_history(project, capsys):
    code, found = compared(capsys, project, 1)
    assert code == 0
    cycles = figure(found, "cycles")
    assert (cycles["baseline"], cycles["value"], cycles["percent"]) == (2000, 1000, -50)
    (rule,) = found["changes"]["rules"]
    assert (rule["before"], rule["after"]) == ("a16w8", "a8w8")
    # A figure that only results have, not the history.
    assert figure(found, "cosine")["change"] == 0
    assert compared(capsys, f"{project}@1", f"{project}@2")[1]["figures"]


@for_each(
    ("condition", "code"),
    [
        ("cycles>1999", 4),
        ("cycles>2000", 0),
        ("cycles>+5%", 4),
        ("cycles > baseline + 200%", 0),
        ("cycles>baseline", 4),
        ("cycles>baseline+1000", 0),
        ("quality<baseline-0.01", 0),
        ("quality<-0%", 0),
        ("quality<=baseline", 4),
        ("metric<0.5", 4),
        ("metric<baseline", 4),
    ],
)
def test_that_conditions_are_absolute_or_relative_to_the_baseline(project, capsys, condition, code):
    # The run is the slow one, the baseline the fast one.
    assert compared(capsys, f"{project}@1", 2, "--fail-if", condition)[0] == code


def test_that_a_program_that_differs_fails_without_any_condition(project, tmp_path, capsys):
    with closing(History(history_path(project))) as history:
        run = history.run(2)
    gate = GateResult(verdict="differs")
    differs = outcome_of(run.model_copy(update={"gate": gate}))
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"outcome": differs.document()}))
    code, found = compared(capsys, file, project)
    assert (code, found["passed"]) == (4, False)
    assert compared(capsys, project, file)[0] == 0


def test_that_manifest_and_its_folder_are_read(project, tmp_path, capsys):
    with closing(History(history_path(project))) as history:
        outcome = outcome_of(history.run(1))
    (tmp_path / "dist").mkdir()
    manifest = tmp_path / "dist" / "manifest.json"
    manifest.write_text(json.dumps({"files": [], "outcome": outcome.document()}))
    for operand in (manifest, manifest.parent):
        assert figure(compared(capsys, project, operand)[1], "cycles")["baseline"] == 2000


def test_that_junit_and_markdown_tell_what_is_broken(project, tmp_path, capsys):
    junit, markdown = tmp_path / "r.xml", tmp_path / "r.md"
    words = ["--fail-if", "cycles>+1%", "--fail-if", "cpu_ops>9", "--junit", str(junit)]
    assert main(["compare", f"{project}@1", "2", *words, "--markdown", str(markdown)]) == 4
    suite = ElementTree.parse(junit).getroot()
    assert {k: suite.get(k) for k in ("tests", "failures", "errors")} == {
        "tests": "4",
        "failures": "1",
        "errors": "0",
    }
    (failed,) = [case for case in suite.iter("testcase") if case.find("failure") is not None]
    assert failed.get("name").startswith("cycles")
    text = markdown.read_text()
    assert "| cycles | 1,000 | 2,000 | +1,000 (+100.00 %) |" in text
    assert "**broken**" in text


@for_each(
    ("operand", "code"),
    [
        ("gone.json", "file-missing"),
        ("broken.json", "outcome-missing"),
        ("list.json", "outcome-missing"),
        ("newer.json", "outcome-missing"),
        ("empty", "file-missing"),
        ("mine.qwb@9", "run-unknown"),
        ("mine.qwb@x", "run-unknown"),
        ("gone.qwb", "project-missing"),
    ],
)
def test_that_what_cannot_be_compared_is_named(project, tmp_path, codes, monkeypatch, operand, code):
    codes.clear()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.qwb").write_bytes(project.read_bytes())
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "newer.json").write_text('{"outcome": {"version": 2}}')
    assert main(["compare", str(project), operand]) == 2
    assert codes == [code]


def test_that_settings_that_were_never_run_have_no_results(project, codes):
    api.save(api.set_global(api.open(project), "a8w4"))
    assert main(["compare", str(project), "1"]) == 2
    assert codes == ["run-missing"]


def test_that_a_condition_that_cannot_be_read_is_refused(project, codes):
    assert main(["compare", str(project), "1", "--fail-if", "cycles>++5%"]) == 2
    assert codes == ["gate-condition-invalid"]

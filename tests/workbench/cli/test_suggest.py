"""``suggest``: the list, its document, and what applying changes in the project file."""

import json

import pytest

from tests.fakes import engine as fake_engine
from tests.fakes.results import result_of
from tests.schemas import checked
from workbench import api
from workbench.cli import main
from workbench.pipeline.cache import Cache, default_root
from workbench.project import edits, store
from workbench.results import PartQuality, save_result
from workbench.studies.documents import save_study, study_folder, study_key
from workbench.studies.sensitivity import Noise, SensitivityResult, Unit, UnitSensitivity
from workbench.suggestions import KINDS


@pytest.fixture
def asked(project_file, played, capsys):
    """Run the verb; return the exit code and the document."""

    def ask(*arguments):
        capsys.readouterr()
        code = main(["suggest", str(project_file), *arguments, "--json"])
        return code, json.loads(capsys.readouterr().out)

    return ask


def study_of(project_file, **gains):
    """Keep a sensitivity study with these gains by module [dB]."""
    opened, cache = api.open(project_file), Cache(default_root())
    key = study_key("sensitivity", opened, cache, {})
    units = tuple(
        UnitSensitivity(
            unit=Unit(name=name, kind="module_name", matches=(name,), operators=()),
            without=Noise(signal=1.0, noise=10.0 ** (-(20.0 + gain) / 10.0)),
        )
        for name, gain in gains.items()
    )
    quantized = Noise(signal=1.0, noise=0.01)
    study = SensitivityResult(data="x", samples=4, total=4, labelled=False, quantized=quantized, units=units)
    save_study(study, study_folder(cache, key))


def test_that_suggestions_are_listed_and_the_project_stays(asked, project_file):
    study_of(project_file, head=6.0)
    before = project_file.read_bytes()
    code, document = asked()
    assert code == 0
    (entry,) = checked(document, "suggest")["suggestions"]
    assert (entry["id"], entry["kind"], entry["tried"]) == ("wide:head", "wide", False)
    assert entry["gain"]["sqnr_db"] == pytest.approx(6.0)
    assert entry["in_project"]
    assert document["applied"] == []
    assert project_file.read_bytes() == before


def test_that_an_id_applies_one_suggestion_and_a_kind_all_of_it(asked, project_file):
    study_of(project_file, head=6.0, stem=3.0)
    code, document = asked("--apply", "wide:stem")
    assert code == 0
    assert [entry["id"] for entry in checked(document, "suggest")["applied"]] == ["wide:stem"]
    configs = {rule.match: rule.config for rule in store.load(project_file).rules}
    assert configs == {"": "a8w8", "stem": "a16w8"}
    study_of(project_file, head=6.0, **{"stem.conv": 3.0})
    code, document = asked("--apply", "wide")
    assert code == 0
    assert [entry["id"] for entry in document["applied"]] == ["wide:head"]
    configs = {rule.match: rule.config for rule in store.load(project_file).rules}
    assert configs == {"": "a8w8", "stem": "a16w8", "head": "a16w8"}


def test_that_what_is_not_there_ends_with_2_and_changes_nothing(asked, project_file):
    study_of(project_file, head=6.0)
    before = project_file.read_bytes()
    for wanted in ("clip", "wide:stem", "nonsense", "WIDE"):
        code, document = asked("--apply", wanted)
        assert (code, document["error"]["code"]) == (2, "suggestion-unknown"), wanted
        assert "wide:head" in document["error"]["hint"]
    assert project_file.read_bytes() == before


def test_that_a_target_without_a_program_has_no_suggestions(asked, project_file, played):
    store.edit(project_file, lambda p: edits.set_target(p, edits.TargetChoice(id="formats")))
    code, document = asked()
    assert (code, document["suggestions"]) == (0, [])
    assert played.commands == []


def test_that_a_person_reads_a_table_with_reasons(project_file, played, capsys):
    study_of(project_file, head=6.0)
    assert main(["suggest", str(project_file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[0] == "id"
    assert lines[1].split()[:4] == ["wide:head", "-", "-", "+6.0"]
    assert any(line.startswith("  Quantizing it to 8 bits") for line in lines)


def test_that_every_kind_has_one_row():
    ids = [kind.id for kind in KINDS]
    assert len(ids) == len(set(ids))
    assert not any(":" in name for name in ids)


def lossy(decibels, *, shared=True):
    """Return an evaluation of an output that joins a box and a score of this SQNR [dB]."""
    box, score = (
        PartQuality(name=name, sqnr_db=sqnr, cosine=None, max_abs_error=0.1, output=0, shared=shared)
        for name, sqnr in (("box", 40.0), ("score", decibels))
    )
    return result_of("evaluate").model_copy(update={"parts": (box, score)})


@pytest.mark.parametrize(("after", "kept"), [((35.0,), True), ((16.0, 30.0), True), ((3.0, 3.2), False)])
def test_that_a_split_is_tried_and_offered_with_what_it_gained(
    project_file, played, capsys, monkeypatch, after, kept
):
    usual = fake_engine.write_result
    left = [lossy(3.0), *(lossy(value, shared=False) for value in after)]

    def leave(stage, folder):
        usual(stage, folder)
        if stage == "evaluate":
            save_result(left.pop(0), folder)

    monkeypatch.setattr(fake_engine, "write_result", leave)
    code = main(["suggest", str(project_file), "--apply", "split_output", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert left == []
    assert code == (0 if kept else 2)
    assert store.load(project_file).split_outputs == ((0,) if kept else ())
    if kept:
        (entry,) = checked(document, "suggest")["applied"]
        assert (entry["id"], entry["tried"]) == ("split_output", True)
        assert entry["gain"]["sqnr_db"] == pytest.approx(after[-1] - 3.0)


def test_that_a_split_whose_program_is_compiled_wrong_is_not_offered(
    project_file, played, capsys, monkeypatch
):
    usual = fake_engine.write_result
    right = result_of("verify")
    wrong = right.model_copy(
        update={"max_lsb": 90, "outputs": (right.outputs[0].model_copy(update={"max_lsb": 90}),)}
    )
    evaluated, verified = [lossy(3.0), lossy(35.0), lossy(30.0)], [wrong, wrong, right]

    def leave(stage, folder):
        usual(stage, folder)
        left = {"evaluate": evaluated, "verify": verified}.get(stage)
        if left is not None:
            save_result(left.pop(0), folder)

    monkeypatch.setattr(fake_engine, "write_result", leave)
    assert main(["run", str(project_file), "--skip", "run"]) == 4
    capsys.readouterr()
    assert main(["suggest", str(project_file), "--apply", "split_output", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["applied"]
    assert entry["title"].endswith("with a16w8 for the whole model")
    assert entry["gain"]["sqnr_db"] == pytest.approx(27.0)
    assert verified == evaluated == []

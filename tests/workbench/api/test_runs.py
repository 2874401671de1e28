"""Runs and studies of the API over engines that play their events."""

import json
from dataclasses import replace

import pytest

import workbench.api as wb
from tests.fakes.engine import FakeEngine, Play
from tests.fakes.projects import make_project, write_project
from tests.fakes.results import result_of, write_result
from tests.for_each import for_each
from workbench.analysis.silicon import time_of
from workbench.errors import ErrorInfo
from workbench.history.store import History, history_path
from workbench.pipeline.cache import Cache
from workbench.pipeline.stages import STAGES
from workbench.project.gate import Gate
from workbench.project.model import DataSource, Rule, TargetChoice
from workbench.results import CompiledProgram, save_result
from workbench.studies.documents import Blame
from workbench.studies.sensitivity import SensitivityResult

STAGE_IDS = [stage.id for stage in STAGES]


@pytest.fixture
def net(project_file):
    return wb.open(project_file)


@pytest.fixture
def wrong(played, monkeypatch):
    """Engines whose compiled program differs."""
    from tests.fakes import engine

    def write(stage, folder):
        write_result(stage, folder)
        if stage == "verify":
            compiled = CompiledProgram(samples=16, elements=160, equal=159, max_lsb=7)
            save_result(result_of(stage).model_copy(update={"compiled": compiled}), folder)

    monkeypatch.setattr(engine, "write_result", write)
    return played


def states(result):
    return {stage.id: stage.state for stage in result.stages}


def test_that_a_run_gives_the_result_of_every_stage(net, played, tmp_path):
    result = wb.run(net, skip=("run",), out=tmp_path / "out")
    assert states(result) == {id_: "skipped" if id_ == "run" else "done" for id_ in STAGE_IDS}
    assert result.succeeded
    assert result.errors == ()
    assert result.raise_for_errors() is result
    assert result.converted == result_of("convert")
    assert result.evaluated == result_of("evaluate")
    assert result.lowered == result_of("lower")
    assert result.verified == result_of("verify")
    assert result.packaged == result_of("package")
    assert set(result.folders) == {*STAGE_IDS} - {"run"}
    assert result.gate.verdict == "right"
    assert result.document["gate"] == result.gate.model_dump(mode="json")
    assert (tmp_path / "out" / "net.pte").read_bytes() == b"PTE!"
    assert result.record.quality.sqnr_db == 34.5
    assert result.record.gate == result.gate
    assert result.history_problem is None
    html = result._repr_html_()
    assert "Run of net" in html
    assert "<td>package</td><td>done</td><td>0.20 s</td><td></td>" in html
    command = played.commands[0]
    assert (command.until, command.skip, command.accelerate) == ("package", ("run",), True)
    assert command.project == net.project
    assert command.plan.key("package") == result.stages[-1].key


def test_that_a_run_ends_at_the_stage_that_is_asked_for(net, played):
    result = wb.run(net, "evaluate")
    assert list(states(result)) == STAGE_IDS[: STAGE_IDS.index("evaluate") + 1]
    assert result.lowered is None
    assert result.packaged is None
    assert result.gate is None
    assert "gate" not in result.document
    assert result.record.gate is None


def test_that_results_in_the_cache_need_no_engine(net, played):
    first = wb.run(net, "lower")
    again = wb.run(net, "lower")
    assert len(played.made) == 1
    assert set(states(again).values()) == {"cached"}
    assert {stage.elapsed_s for stage in again.stages} == {0.0}
    assert [s.key for s in again.stages] == [s.key for s in first.stages]
    assert again.lowered == first.lowered
    skipped = wb.run(net, "lower", skip=("evaluate",))
    assert states(skipped)["evaluate"] == "skipped"
    assert skipped.evaluated is None


def test_that_a_damaged_result_is_computed_again(net, played):
    result = wb.run(net, "evaluate")
    file = result.folders["convert"] / "result.json"
    file.write_bytes(file.read_bytes().replace(b"14", b"15"))
    again = wb.run(net, "evaluate")
    assert len(played.made) == 2
    assert again.converted == result_of("convert")
    assert states(again) == {
        **states(result),
        **dict.fromkeys(STAGE_IDS[:4], "cached"),
        "convert": "done",
        "evaluate": "cached",
    }


def test_that_a_run_tells_what_check_warns_of_as_soon_as_it_is_known(net, played):
    lost = Rule(id="lost", kind="module_name", match="nowhere", config="a8w8")
    project = net.project.model_copy(update={"rules": (*net.project.rules, lost)})
    unmatched = replace(net, project=project)
    order = []
    result = wb.run(
        unmatched,
        "evaluate",
        on_event=lambda event: order.append(getattr(event, "stage", "")),
        on_warning=lambda info: order.append(info.code),
    )
    assert order[0] == "calibration-missing"
    assert order.index("export") < order.index("rule-unmatched") < order.index("prepare")
    assert len([code for code in order if code == "rule-unmatched"]) == 1
    assert {info["code"] for info in result.document["checked"]} == {
        info.code for info in wb.check(unmatched).warnings
    }
    again = []
    wb.run(unmatched, "evaluate", on_warning=again.append)
    assert again == list(wb.check(unmatched).warnings)


def test_that_a_stage_that_fails_is_in_the_result(net, played):
    infos = (ErrorInfo(message="Out of data.", code="no-data"), ErrorInfo(message="Twice.", code="again"))
    played.plays = [Play(fail="calibrate", infos=infos)]
    result = wb.run(net)
    assert list(states(result))[-1] == "calibrate"
    assert states(result)["calibrate"] == "failed"
    assert not result.succeeded
    assert [info.code for info in result.errors] == ["no-data", "again"]
    assert result.record is None
    assert not history_path(net.path).exists()
    told = result.stages[-1].document()
    assert told["error"]["code"] == "no-data"
    assert [info["code"] for info in told["error"]["all"]] == ["no-data", "again"]
    assert told["elapsed_s"] == 0.1
    assert wb.StageReport("lower", "k", "done", 1.23456).document()["elapsed_s"] == 1.235
    assert "Out of data.; Twice." in result._repr_html_()
    with pytest.raises(wb.WorkbenchError) as caught:
        result.raise_for_errors()
    assert [info.code for info in caught.value.infos] == ["no-data", "again"]


def test_that_a_crash_fails_the_stage_and_keeps_the_last_lines(net, played):
    lines = [f"line {number}" for number in range(50)]
    engine = FakeEngine(Play(crash="lower"), printed=lines)
    played.__class__ = type("One", (type(played),), {"__call__": lambda self, toolchain: engine})
    seen, heard = [], []
    result = wb.run(net, on_output=heard.append, on_event=seen.append)
    (info,) = result.errors
    assert info.code == "engine-ended"
    assert info.where.id == "lower"
    assert info.details.splitlines() == lines[-40:]
    assert heard == lines
    assert states(result)["lower"] == "failed"
    assert result.stages[-1].elapsed_s == 0.0
    assert type(seen[0]).__name__ == "Ready"


def test_that_a_job_that_the_user_ends_raises(net, played):
    engine = FakeEngine(Play(hold="lower"))
    played.__class__ = type("One", (type(played),), {"__call__": lambda self, toolchain: engine})

    def end(event):
        if getattr(event, "stage", "") == "lower" and type(event).__name__ == "LogLine":
            engine.cancel("run")

    with pytest.raises(wb.Cancelled):
        wb.run(net, on_event=end)
    assert engine.stopped


@for_each(
    ("target", "until", "code"),
    [("ethos-u55-128", "lower", "out-without-package"), ("formats", None, "target-without-package")],
)
def test_that_deliverables_need_a_package(net, played, tmp_path, target, until, code):
    if target == "formats":
        rules = (Rule(id="r1", kind="global", config="integer-8"),)
        net = net.edited(lambda p: p.model_copy(update={"target": TargetChoice(id=target), "rules": rules}))
    with pytest.raises(wb.WorkbenchError) as caught:
        wb.run(net, until, out=tmp_path / "out")
    assert [info.code for info in caught.value.infos] == [code]
    assert not played.made


def test_that_a_condition_that_cannot_be_read_starts_nothing(net, played):
    with pytest.raises(wb.WorkbenchError) as caught:
        wb.run(net, fail_if=("speed>2",))
    assert caught.value.infos[0].code == "gate-condition-invalid"
    assert not played.made


def test_that_code_runs_only_with_trust(tmp_path, played):
    (tmp_path / "model.py").write_text("def net(): ...\n")
    net = wb.new("model.py:net", "ethos-u55-128", folder=tmp_path)
    with pytest.raises(wb.TrustRequiredError):
        wb.run(net, "export")
    with pytest.raises(wb.TrustRequiredError):
        wb.study(net, "blame", Blame, {})
    assert not played.made
    assert wb.run(net, "export", trust=True).succeeded
    assert wb.study(net, "blame", Blame, {}, trust=True).compilations == 5


def test_that_a_program_that_differs_is_not_delivered_unless_asked(net, wrong, tmp_path):
    held = wb.run(net, out=tmp_path / "out", skip=("run",))
    assert held.gate.verdict == "differs"
    assert [limit.name for limit in held.gate.limits if limit.held is False] == ["compiled"]
    assert not (tmp_path / "out").exists()
    assert held.document["package"]["withheld"]
    assert held.document["package"]["pte"]["path"] == str(held.folders["package"] / "net.pte")
    assert wb.run(net, skip=("run",)).document["package"]["withheld"]
    # The files in the cache do not say that they differ.
    assert wb.run(net, skip=("run",), allow_differences=True).document["package"]["withheld"]
    asked = wb.run(net, out=tmp_path / "out", skip=("run",), allow_differences=True)
    assert not asked.document["package"]["withheld"]
    assert asked.document["package"]["pte"]["path"] == str(tmp_path / "out" / "net.pte")
    assert (tmp_path / "out" / "net.pte").exists()


def test_that_conditions_of_a_run_replace_those_of_the_project(net, played):
    net = net.edited(lambda p: p.model_copy(update={"gate": Gate()}))
    assert wb.run(net, skip=("run",)).gate.verdict == "right"
    strict = wb.run(net, skip=("run",), fail_if=("lsb>0",))
    assert strict.gate.verdict == "differs"
    assert [(x.name, x.value) for x in strict.gate.limits if not x.held] == [("lsb", 1.0)]
    assert strict.record.gate == strict.gate
    early = wb.run(net, "evaluate", fail_if=("sqnr<40",))
    assert early.gate.verdict in {"differs", "not verified"}
    assert [x.held for x in early.gate.limits if x.name == "sqnr"] == [False]
    unknown = wb.run(net, "evaluate", fail_if=("quality<1",), cache=Cache(net.folder / "other"))
    assert unknown.gate.verdict == "not verified"
    assert unknown.record.gate == unknown.gate


def test_that_the_verdict_says_why_nothing_was_verified(net, played):
    skipped = wb.run(net, skip=("verify", "run")).gate
    assert (skipped.verdict, skipped.reason) == ("not verified", "The stage verify was skipped.")
    failing = Play(fail="verify", infos=(ErrorInfo(message="No.", code="no"),))
    played.plays = [failing]
    failed = wb.run(net, skip=("run",)).gate
    assert (failed.verdict, failed.reason) == ("not verified", "The stage verify failed.")
    played.plays = [Play(fail="lower", infos=(ErrorInfo(message="No.", code="no"),))]
    early = wb.run(net, "verify", cache=Cache(net.folder / "other")).gate
    assert (early.verdict, early.reason) == ("not verified", "The stage verify did not run.")


def test_that_each_run_is_in_the_history_with_its_best_known_verdict(net, played):
    wb.run(net, skip=("run",))
    wb.run(net, "evaluate")
    history = History(history_path(net.path))
    (kept,) = history.runs()
    history.close()
    assert kept.gate.verdict == "right"
    assert kept.cost.cycles == 1000


def test_that_a_history_that_cannot_be_written_is_told(net, played):
    history_path(net.path).mkdir()
    result = wb.run(net, "evaluate")
    assert result.succeeded
    assert result.history_problem is not None
    assert wb.record_run(net.path, None) is None


def test_that_a_project_without_a_file_leaves_no_history(net, played, tmp_path):
    unsaved = wb.OpenProject(net.project, net.folder)
    assert wb.run(unsaved, "evaluate").history_problem is None
    assert not history_path(net.path).exists()


def test_that_two_runs_are_compared(net, played):
    before = wb.run(net, skip=("run",))
    after = wb.run(wb.set_module_name(net, "head", "a16w8"), skip=("run",))
    found = wb.compare(before, after)
    assert not found.equal
    assert [(c.what, c.before, c.after) for c in found.parts["rules"]] == [("head", "", "a16w8")]
    assert "<td>rules</td><td>head</td><td>-</td><td>a16w8</td>" in found._repr_html_()
    assert wb.compare(before, before).equal
    early = wb.run(net, "export", cache=Cache(net.folder / "other"))
    for pair in ((early, before), (before, early)):
        with pytest.raises(wb.WorkbenchError) as caught:
            wb.compare(*pair)
        assert caught.value.infos[0].code == "run-without-quality"


def test_that_a_study_gives_its_result(net, played):
    seen = []
    result = wb.study(
        net, "sensitivity", SensitivityResult, {"samples": 3}, accelerate=False, on_event=seen.append
    )
    assert result.samples == 3
    assert wb.sensitivity(net, 3) == result
    assert len(played.commands) == 1
    command = played.commands[0]
    assert (command.job, command.study) == ("sensitivity", "sensitivity")
    assert command.options == {"samples": 3}
    assert not command.accelerate
    assert seen


def test_that_a_study_that_dies_has_no_result(net, played, monkeypatch):
    from tests.fakes import studies
    from workbench.protocol import EngineExit

    def die(command, held_at=0):
        yield EngineExit(expected=False, sentence="It died.", job=command.job)

    monkeypatch.setattr(studies, "play", die)
    with pytest.raises(wb.JobFailedError) as caught:
        wb.study(net, "sensitivity", SensitivityResult, {"samples": 3})
    assert [(info.code, info.where.id) for info in caught.value.infos] == [("engine-ended", "sensitivity")]


def test_that_the_document_has_a_part_for_each_stage_that_ran(net, played):
    document = wb.run(net, "convert").document
    assert {"evaluate", "lower", "verify", "run", "package", "board", "suggestions"}.isdisjoint(document)
    assert [s["id"] for s in document["stages"]] == STAGE_IDS[:5]
    whole = wb.run(net, skip=("run",), accelerate=False).document
    assert whole["acceleration"]["active"] is False
    more = {"time": time_of(result_of("lower")).model_dump(mode="json"), "cycle_corrections": []}
    (module,) = whole["lower"].pop("modules")
    assert (module["module"], module["cycles"], module["share"]) == ("stem.conv", 900, 1.0)
    assert whole["lower"] == {**json.loads(result_of("lower").model_dump_json()), **more}
    assert whole["project"] == "net"
    assert whole["tools"]["ethos-u-vela"]
    assert whole["package"]["method_pool_bytes"] == 1024
    assert whole["package"]["planned_bytes"] == [512]
    assert "emulated" not in whole
    assert whole["outcome"]["figures"]
    assert "outcome" not in wb.run(net, "export", cache=Cache(net.folder / "other")).document


def test_that_a_data_file_that_is_missing_ends_the_run_before_an_engine(tmp_path, played):
    path = write_project(tmp_path / "mine", make_project(calibration=DataSource(spec="data.npz")))
    with pytest.raises(wb.WorkbenchError) as caught:
        wb.run(wb.open(path))
    assert [info.code for info in caught.value.infos] == ["source-file-missing"]
    assert not played.made

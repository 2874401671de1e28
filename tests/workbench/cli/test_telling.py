"""What single verbs tell people, over results that are given."""

import dataclasses
import json
from types import SimpleNamespace

from tests.for_each import for_each
from tests.workbench.cli.test_printing import lines
from workbench import api
from workbench.cli import main, project, rules, run, search, studies, weights
from workbench.cli import runs as runs_verb
from workbench.cli.output import ProgressPrinter
from workbench.errors import ErrorInfo
from workbench.project.model import TargetChoice
from workbench.results import ChannelLayer, VelaTotals
from workbench.studies.search import Candidate, Limits, SearchResult
from workbench.studies.sweep import SweepPoint, SweepResult
from workbench.studies.training import TrainingResult


def test_that_an_export_is_asked_for_where_no_layer_is_known(monkeypatch, capsys, project_file):
    for layers in ((), (ChannelLayer(module="a", channels=16),)):
        monkeypatch.setattr(weights.api, "channel_layers", lambda _, layers=layers: layers)
        assert main(["compress", str(project_file)]) == 0
        assert ("not exported" in capsys.readouterr().out) == (not layers)


PROBLEM = ErrorInfo(message="Not kept.", code="history-damaged")


@for_each(("problem", "told"), [(PROBLEM, "warning: Not kept.\n"), (None, "")])
def test_that_a_history_that_cannot_be_kept_is_a_warning(monkeypatch, capsys, measured, problem, told):
    stage = SimpleNamespace(id="package", errors=())
    result = SimpleNamespace(
        stages=(stage,), history_problem=problem, document={}, succeeded=True, gate=None, accuracy=None
    )
    monkeypatch.setattr(run.api, "run", lambda *_, **__: result)
    assert main(["run", str(measured), "--until", "package", "--json"]) == 0
    assert capsys.readouterr().err == told
    history = dataclasses.replace(api.history(api.open(measured)), problem=problem)
    monkeypatch.setattr(runs_verb.api, "history", lambda _: history)
    assert main(["runs", str(measured)]) == 0
    assert capsys.readouterr().err == told


@for_each("warning", ["Other data.", ""])
def test_that_a_difference_of_runs_with_other_data_is_told(monkeypatch, capsys, measured, warning):
    difference = api.compare_runs(api.open(measured), 1, 2)
    difference = dataclasses.replace(difference, warning=warning)
    monkeypatch.setattr(runs_verb.api, "compare_runs", lambda *_: difference)
    assert main(["runs", str(measured), "--diff", "1", "2"]) == 0
    assert capsys.readouterr().err == (f"{warning}\n" if warning else "")


def test_that_rules_that_are_off_are_marked(project_file, capsys):
    words = ["rules", str(project_file)]
    assert main([*words, "add", "--kind", "module-name", "--match", "fc", "--config", "a8w8"]) == 0
    assert main([*words, "disable", "r2"]) == 0
    capsys.readouterr()
    assert main(words) == 0
    assert [line.split()[-1] == "off" for line in lines(capsys)[1:]] == [False, True]


@for_each(("flags", "accelerate"), [([], True), (["--no-acceleration"], False)])
@for_each("pending", [True, False])
def test_that_rules_of_plug_ins_that_are_not_known_yet_are_told(
    monkeypatch, capsys, project_file, flags, accelerate, pending
):
    asked = []

    def resolve(opened, **how):
        asked.append(how["accelerate"])
        return SimpleNamespace(
            resolution=SimpleNamespace(modules={}, nodes={}, counts={}), types={}, plugins_pending=pending
        )

    monkeypatch.setattr(rules.api, "resolve_rules", resolve)
    assert main(["rules", str(project_file), "--resolve", *flags]) == 0
    printed = capsys.readouterr()
    assert ("plug-in" in printed.err) == pending
    assert printed.out.split() == ["module", "type", "config", "rule", "overrides"]
    assert asked == [accelerate]


@for_each("matched", [True, False])
def test_that_rules_that_could_not_be_matched_are_noted(monkeypatch, capsys, project_file, matched):
    result = SimpleNamespace(valid=True, matches_checked=matched, problems=(), errors=(), warnings=())
    monkeypatch.setattr(project.api, "check", lambda _: result)
    assert main(["check", str(project_file)]) == 0
    assert capsys.readouterr().err.startswith("note:") == (not matched)


def test_that_a_plan_is_listed_stage_by_stage(project_file, capsys):
    assert main(["plan", str(project_file)]) == 0
    head, first, *_ = lines(capsys)
    assert head == "stage state key"
    assert first.startswith("import_model stale ")


def test_that_plug_ins_are_listed_with_their_items(project_file, capsys):
    (project_file.parent / "mine.py").write_text("from workbench.sdk import config\n")
    assert main(["plugins", str(project_file)]) == 0
    assert lines(capsys)[0] == "kind name what it does plug-in"


def test_that_a_program_that_compiles_has_no_culprits(monkeypatch, project_file, capsys):
    result = SimpleNamespace(reason="", culprits=(), compilations=1)
    monkeypatch.setattr(studies.api, "blame", lambda *_, **__: result)
    assert main(["blame", str(project_file)]) == 0
    assert lines(capsys) == ["The compiler accepts the program."]


def test_that_boards_are_listed_for_people(capsys):
    assert main(["boards"]) == 0
    assert lines(capsys)[0] == "board devices memories [KiB]"


def test_that_a_report_is_written_and_told(monkeypatch, project_file, tmp_path, capsys):
    monkeypatch.setattr(runs_verb.api, "report", lambda _: "größe")
    out = tmp_path / "page.html"
    assert main(["report", str(project_file), "--out", str(out)]) == 0
    assert lines(capsys) == [f"{out}: 7 bytes"]
    assert out.read_text() == "größe"
    assert main(["report", str(project_file), "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"version": 1, "path": str(out), "bytes": 7}


def test_that_output_of_the_toolchain_is_printed_where_it_is_asked_for(capsys):
    for printer, told in ((ProgressPrinter(), ""), (ProgressPrinter(verbose=True), "x\n")):
        printer.output("x")
        assert capsys.readouterr().err == told


def test_that_where_a_model_was_measured_after_training_is_told(monkeypatch, capsys, project_file):
    for held_out, told in ((1, "1 sample held out."), (0, "the training samples.")):
        result = TrainingResult(
            data="d", device="cpu", samples=4, held_out=held_out, one_by_one=False, total=1, start_db=10.0
        )
        monkeypatch.setattr(weights.api, "train", lambda *_, result=result, **__: result)
        assert main(["train", str(project_file)]) == 0
        assert f"predicted on {told}" in capsys.readouterr().out


def test_that_a_candidate_without_figures_is_listed_with_its_problem(monkeypatch, capsys, project_file):
    broken = Candidate(number=1, origin="search", choices={"a": "a8w8"}, problem="It broke.")
    result = SearchResult(limits=Limits(), total=1, units=(), candidates=(broken,))
    monkeypatch.setattr(search.api, "search", lambda *_, **__: result)
    assert main(["search", str(project_file)]) == 1
    assert lines(capsys)[1] == "1 - - - - - broken search It broke."


def test_that_points_of_a_sweep_have_their_problem_or_remark(monkeypatch, capsys, project_file):
    def point(limit, **fields):
        options = {"arena_cache_bytes": limit, "memory_mode": "Shared_Sram"}
        return SweepPoint(target=TargetChoice(id="ethos-u55-128", options=options), **fields)

    totals = VelaTotals(
        cycles_total=1, cycles_vela=1, cycles_npu=1, inference_ms=1.0, sram_bytes=4096, flash_bytes=1, macs=1
    )
    points = (point(4096, totals=totals), point(2048, totals=totals), point(1, problem="No."))
    result = SweepResult(tool="Vela", total=3, points=points)
    monkeypatch.setattr(search.api, "sweep", lambda *_, **__: result)
    assert main(["sweep", str(project_file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["points"]
    assert [(each["problem"], bool(each["remark"])) for each in found] == [
        (None, False),
        (None, True),
        ("No.", False),
    ]
    assert [each["remark"] is None for each in found] == [True, False, True]
    assert main(["sweep", str(project_file)]) == 0
    *_, estimated, note, skipped = lines(capsys)
    assert estimated.startswith("Estimated by Vela")
    assert note.startswith("note: ethos-u55-128, Shared_Sram: needs 4 KiB")
    assert skipped == "skipped: ethos-u55-128: No."


def test_that_a_comparison_is_a_table_of_figures_and_of_changes(monkeypatch, capsys):
    def figure(name, baseline, value, change=None, percent=None):
        values = {"baseline": baseline, "value": value, "change": change, "percent": percent}
        return SimpleNamespace(name=name, comparable=True, **values)

    change = SimpleNamespace(what="head", before="", after="a16w8")
    for passed, code in ((True, 0), (False, 4)):
        comparison = SimpleNamespace(
            figures=(
                figure("cycles", 2000, 1000, -1000, -50),
                figure("lsb", 1, 1, 0, 0),
                figure("top1", None, 0.5),
            ),
            parts={
                "figures": (change,),
                "rules": (change, SimpleNamespace(what="stem", before="a8w8", after="")),
                "files": (),
            },
            passed=passed,
            broken=(),
            junit=str,
            markdown=str,
        )
        monkeypatch.setattr(runs_verb.api, "compare", lambda *_, c=comparison, **__: c)
        assert main(["compare", "a.json", "b.json"]) == code
        assert lines(capsys) == [
            "figure baseline now change",
            "cycles 2,000 1,000 -1,000 -50.00 %",
            "lsb 1 1 = +0.00 %",
            "top1 - 0.5",
            "rules:",
            "baseline now",
            "head - a16w8",
            "stem a8w8 -",
            "Passed." if passed else "Failed.",
        ]

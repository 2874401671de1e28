"""What verbs print for people: tables, progress, programs, reports of simulators and boards."""

import io
import json
import sys

import pytest

from tests.for_each import for_each
from workbench import api
from workbench.api.board import BoardRun, Difference
from workbench.api.settings import Setting, Settings
from workbench.cli import arrays, boards, installation, main, output, programs, project
from workbench.cli import runs as runs_verb
from workbench.cli.fvp import print_report
from workbench.doctor import Finding
from workbench.errors import ErrorInfo, Place, WorkbenchError
from workbench.project.model import Compression
from workbench.protocol import StageFailed
from workbench.results import ChannelLayer
from workbench.results.simulation import BundleCheck, Diagnosis, Measurement, Pool, SimulationReport


def lines(capsys):
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_that_a_document_has_a_version_plain_letters_and_no_number_that_json_lacks(capsys):
    output.print_json({"name": "größe", "value": 1.5})
    text = capsys.readouterr().out
    assert json.loads(text) == {"version": output.JSON_VERSION, "name": "größe", "value": 1.5}
    assert "größe" in text
    with pytest.raises(ValueError, match="JSON"):
        output.print_json({"value": float("nan")})


def test_that_columns_are_as_wide_as_their_widest_cell(capsys):
    output.print_table(("a", "name"), [("long", "x"), (1, "two\nlines")])
    assert capsys.readouterr().out.splitlines() == ["a     name", "long  x", "1     two lines"]


class Terminal(io.StringIO):
    """A terminal of 60 columns."""

    def isatty(self):
        return True


def test_that_a_terminal_has_a_bar_that_a_line_takes_the_place_of(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", "60")
    progress = output.Progress()
    progress.update("lower", 0.5, "half way through")
    assert sys.stderr.getvalue() == ("       lower " + "█" * 12 + "·" * 12 + "  50% half way t (0 s)")
    progress.update("lower", 1.0, "")
    assert sys.stderr.getvalue().endswith("\r\x1b[2K       lower " + "█" * 24 + " 100%  (0 s)")
    progress.update("lower", 0.0, "")
    assert "·" * 24 + "   0%" in sys.stderr.getvalue()
    progress.update("lower", None, "")
    assert sys.stderr.getvalue().endswith("\r\x1b[2K       lower …  (0 s)")
    progress.line("done")
    assert sys.stderr.getvalue().endswith("(0 s)\r\x1b[2Kdone\n")
    progress.line("again")
    assert sys.stderr.getvalue().endswith("\ndone\nagain\n") or sys.stderr.getvalue().endswith(
        "done\nagain\n"
    )


def test_that_without_a_terminal_a_line_is_printed_every_few_seconds(monkeypatch, capsys):
    now = [100.0]
    monkeypatch.setattr(output.time, "monotonic", lambda: now[0])
    progress = output.Progress()
    progress.update("lower", 0.25, "at work")
    assert capsys.readouterr().err == ""
    now[0] += output.PLAIN_PERIOD_S
    progress.update("lower", 0.25, "at work")
    assert capsys.readouterr().err == "       lower   25%  at work\n"
    progress.update("lower", 0.5, "at work")
    now[0] += output.PLAIN_PERIOD_S
    progress.update("lower", None, "")
    assert capsys.readouterr().err == "       lower  running\n"


@pytest.mark.parametrize(("work", "word"), [("lower", "Compile"), ("sensitivity", "sensitivity")])
def test_that_a_stage_or_a_study_that_fails_is_named(capsys, work, word):
    printer = output.ProgressPrinter()
    printer.event(StageFailed(job="1", stage=work, key="", elapsed_s=0.5, infos=()))
    assert capsys.readouterr().err.split() == [word, "failed", "0.50", "s"]


def test_that_the_temporary_cache_is_gone_afterwards():
    class Options:
        no_cache = True

    with output.opened_cache(Options()) as cache:
        root = cache.root
        assert root.exists()
    assert not root.exists()
    with output.opened_cache(object()) as cache:
        assert "own" in str(cache.root)


DESCRIPTION = {
    "bytes": 12345,
    "methods": ["forward", "other"],
    "method": "forward",
    "inputs": [{"type": "tensor", "dtype": "int8", "shape": [1, 4]}],
    "outputs": [{"type": "int"}],
    "delegates": [
        {
            "index": 0,
            "backend": "EthosUBackend",
            "bytes": 9000,
            "vela_blocks": {"weight_data": 5000, "cmd_data": 200},
            "external_blocks": ["weight_data"],
            "scratch_bytes": 4096,
            "npu": {
                "family": "ethos-u55",
                "macs": 128,
                "commands": 1234,
                "operations": {"convolution": 2, "copy": 1},
            },
        },
        {"index": 1, "backend": "Other", "bytes": 7},
    ],
    "memory": {"planned_bytes": [1024, 2048], "method_pool_bytes": 4192, "scratch_pool_bytes": 5120},
    "constants_bytes": 33,
    "named_data_bytes": {"weights": 5000},
    "test_cases": 2,
    "kernels": ["aten::add.out", "aten::mul.out"],
}


def test_that_a_program_is_described_line_by_line(monkeypatch, capsys, tmp_path):
    found = api.Inspection(DESCRIPTION, [["0x0 a", "0x4 b"]])
    monkeypatch.setattr(programs.api, "inspect", lambda *_, **__: found)
    assert main(["inspect", str(tmp_path / "net.pte")]) == 0
    assert lines(capsys) == [
        "net.pte: 12,345 bytes, methods forward, other", "method forward", "input int8 [1, 4]",
        "output int", "delegate 0: EthosUBackend, 9,000 bytes",
        "weight_data 5,000 bytes, beside the program", "cmd_data 200 bytes",
        "scratch needed 4,096 bytes", "compiled for ethos-u55-128, 1,234 commands",
        "2 convolution, 1 copy", "delegate 1: Other, 7 bytes", "planned buffers 1,024, 2,048 bytes",
        "method pool 4,192 bytes", "scratch pool 5,120 bytes", "constants 33 bytes",
        "named data weights 5,000 bytes", "test vectors 2 samples",
        "kernels aten::add.out, aten::mul.out", "", "0x0 a", "0x4 b",
    ]  # fmt: skip
    assert main(["inspect", "net.pte", "--json"]) == 0
    assert "commands" not in json.loads(capsys.readouterr().out)
    for asked in (["--commands"], ["--find", "a"]):
        assert main(["inspect", "net.pte", "--json", *asked]) == 0
        assert json.loads(capsys.readouterr().out)["commands"] == [["0x0 a", "0x4 b"]]
    plain = {**DESCRIPTION, "methods": ["forward"], "kernels": [], "test_cases": 0,
             "named_data_bytes": {}, "delegates": []}  # fmt: skip
    monkeypatch.setattr(programs.api, "inspect", lambda *_, **__: api.Inspection(plain, []))
    assert main(["inspect", "net.pte"]) == 0
    printed = lines(capsys)
    assert printed[0] == "net.pte: 12,345 bytes, methods forward"
    assert printed[1] == "input int8 [1, 4]"
    assert printed[-1] == "kernels none"


def found(name, state):
    return Finding(name=name, state=state, version="1.0", why="Why.", remedy="Do this.")


def test_that_doctor_marks_what_is_missing_and_says_how_to_get_it(monkeypatch, capsys):
    checks = [found("torch", "ok"), found("vela", "different"), found("fvp", "optional")]
    monkeypatch.setattr(installation, "findings", lambda: checks)
    assert main(["doctor"]) == 0
    assert lines(capsys) == [
        "ok torch 1.0",
        "!! vela 1.0",
        "Why.",
        "Do this.",
        "-- fvp 1.0",
        "Why.",
        "Do this.",
    ]
    checks.append(found("executorch", "missing"))
    assert main(["doctor"]) == 1
    assert lines(capsys)[-3:] == ["NO executorch 1.0", "Why.", "Do this."]
    assert main(["doctor", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["healthy"] is False
    assert len(document["findings"]) == 4


def report(**fields):
    return SimulationReport(
        **{
            "simulator": "FVP",
            "version": "11.27",
            "target": "ethos-u55-128",
            "fast": False,
            "succeeded": True,
            "samples": 2,
            "exit_reason": "It ended.",
            **fields,
        }
    )


def test_that_a_report_has_cycles_pools_checks_and_failures(capsys):
    measured = tuple(Measurement(npu_cycles=cycles, inferences=2) for cycles in (2000, 3000))
    full = report(
        succeeded=False,
        measurements=measured,
        pools=(Pool(name="method", given=2048, used=1024), Pool(name="scratch", given=4096)),
        bundle=(BundleCheck(index=0, passed=True), BundleCheck(index=1, passed=False)),
        explanation=("It waits.",),
        diagnoses=(Diagnosis(line="E: no", cause="Cause.", remedy="Remedy."),),
        last_lines=("last",),
    )
    file = {"path": "/x/a.npy", "dtype": "int8", "shape": [1, 2]}
    print_report(full, ["A note."], [file])
    assert lines(capsys) == [
        "Failed It ended.",
        "Cycles 1,250 NPU cycles per inference, 1,000 to 1,500, measured (FVP 11.27)",
        "Pool method: 1,024 of 2,048 bytes",
        "Pool scratch: 4,096 bytes",
        "Bundle test 0: equal within the runner's tolerance",
        "Bundle test 1: different",
        "It waits.",
        "Failure E: no",
        "Cause.",
        "Remedy.",
        "Note A note.",
        "Output /x/a.npy int8 [1, 2]",
    ]
    one = report(measurements=measured[:1], version="")
    print_report(one, [], [])
    assert lines(capsys) == ["Done It ended.", "Cycles 1,000 NPU cycles per inference, measured (FVP)"]
    print_report(report(measurements=measured, fast=True), [], [])
    assert lines(capsys) == ["Done It ended."]
    print_report(report(succeeded=False, last_lines=tuple(map(str, range(20)))), [], [])
    assert lines(capsys) == ["Failed It ended.", *map(str, range(10, 20))]


def test_that_a_run_on_a_board_prints_what_was_compared(monkeypatch, capsys, project_file, codes):
    difference = Difference("functional simulator", 10, 9, 2.0)
    outcome = BoardRun(report(), (None,), (difference,), True, 1500.0, 1000)
    asked = []

    def run(opened, link, *, log, live):
        asked.append((link, log))
        live(["printed\r"])
        return outcome

    monkeypatch.setattr(boards.api, "run_on_board", run)
    words = ["board", "run", str(project_file), "--port", "/dev/x", "--baud", "9600"]
    assert main([*words, "--log", "uart.log"]) == 0
    assert lines(capsys) == [
        "Done It ended.",
        "Compared 9 of 10 values equal to the functional simulator, at most 2 apart",
        "the functional simulator equals the TOSA reference model (verify)",
        "Cycles 1,500 measured, 1,000 estimated",
    ]
    link, log = asked[0]
    assert (link.port, link.baud, link.timeout_s, str(log)) == ("/dev/x", 9600, 120.0, "uart.log")
    assert main([*words, "--verbose", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["equals_tosa"] is True
    assert "printed" in printed.err
    problem = ErrorInfo(message="Not kept.", code="history-damaged")
    outcome = BoardRun(report(), (), (), False, None, 1000, problem)
    assert main(words) == 0
    printed = capsys.readouterr()
    assert "differs from the TOSA" in printed.out
    assert "Cycles" not in printed.out
    assert printed.err.startswith("warning: Not kept.")
    outcome = BoardRun(report(), (), (), None, None, 1000)
    assert main(words) == 0
    assert lines(capsys) == ["Done It ended."]
    for wrong in (["--baud", "0"], ["--timeout", "-1"]):
        assert main([*words, *wrong]) == 2
    assert codes == ["board-option-invalid"] * 2


def test_that_layers_are_listed_with_what_stays_and_what_goes_with_it():
    from workbench.cli.weights import _layer_rows

    layers = (
        ChannelLayer(module="a", channels=16, partners=("b", "c")),
        ChannelLayer(module="b", channels=8, fixed="makes an output"),
        ChannelLayer(module="c", channels=4),
    )
    entries = (
        Compression(module="a", channels=8),
        Compression(module="c", clusters=7),
        Compression(module="gone", channels=3),
        Compression(module="", clusters=15),
    )
    assert _layer_rows(layers, entries) == [
        ("a", "16 -> 8", "15", "b, c"),
        ("b", "8", "15", "stays: it makes an output"),
        ("c", "4", "7", ""),
        ("gone", "3", "", ""),
    ]
    assert _layer_rows(layers[:1], ()) == [("a", "16", "", "b, c")]
    assert _layer_rows((), entries[3:]) == [("every layer", "", "15", "")]


def test_that_settings_that_were_set_are_shown_with_those_below(monkeypatch, capsys, project_file):
    rows = (
        Setting("calibration.limit", 5, "a number"),
        Setting("calibrate", None, "x"),
        Setting("gate.lsb", 2.5, "a number"),
        Setting("name", "net", "text"),
        Setting("notes", ["größe"], "texts"),
    )
    monkeypatch.setattr(project.api, "settings", lambda _: Settings(rows))
    monkeypatch.setattr(project.api, "set_settings", lambda opened, _: opened)
    assert main(["settings", str(project_file), "calibration=x"]) == 0
    assert lines(capsys) == ["key value takes", "calibration.limit 5 a number"]
    assert main(["settings", str(project_file), "gate.lsb=1"]) == 0
    assert lines(capsys)[1:] == ["gate.lsb 2.5 a number"]
    assert main(["settings", str(project_file)]) == 0
    assert lines(capsys)[1:] == [
        "calibration.limit 5 a number",
        "calibrate x",
        "gate.lsb 2.5 a number",
        "name net text",
        'notes ["größe"] texts',
    ]


@for_each("texts", [["a"], ["a=1", "a=2"], ["a=1", " a =2"]])
def test_that_an_assignment_is_written_once_with_an_equals_sign(texts):
    with pytest.raises(WorkbenchError) as caught:
        project.assignments(texts, "some-code")
    assert caught.value.codes == ("some-code",)
    assert ("twice" in caught.value.infos[0].message) == (len(texts) > 1)
    assert project.assignments(["a=1=2", " b=", "c= x"]) == {"a": "1=2", "b": "", "c": " x"}


def test_that_preprocessing_is_listed_for_each_kind_of_data(project_file, capsys):
    from PIL import Image

    (project_file.parent / "pics").mkdir()
    Image.new("RGB", (8, 8)).save(project_file.parent / "pics" / "a.png")
    main(["settings", str(project_file), "calibration=pics", "evaluation.data=pics"])
    words = ["preprocess", str(project_file)]
    assert main([*words, "size=8,layout=bgr", "--data", "calibration"]) == 0
    assert lines(capsys)[-3:] == [
        "data source preprocess",
        "calibration pics size=8x8,layout=bgr",
        "evaluation pics -",
    ]
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["calibration"]["layout"] == "bgr"
    assert document["evaluation"] is None
    assert main([*words, ""]) == 0
    assert lines(capsys)[1:] == ["calibration pics -", "evaluation pics -"]


def test_that_options_of_a_target_are_listed_with_their_choices(project_file, capsys):
    assert main(["target", str(project_file), "optimise=Size"]) == 0
    printed = {line.split()[0]: line for line in lines(capsys)}
    assert printed["optimise"].startswith('optimise "Size" ')
    assert printed["optimise"].endswith("Performance, Size")
    assert main(["target", str(project_file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["options"]["optimise"] == "Size"


def test_that_runs_are_compared_part_by_part(measured, capsys):
    assert main(["runs", str(measured), "--diff", "1", "2"]) == 0
    printed = lines(capsys)
    assert printed[printed.index("rules:") + 1] == "run 1 run 2"
    assert any("a16w8 a8w8" in line for line in printed)
    assert main(["runs", str(measured), "--diff", "1", "2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["a"], document["b"]) == (1, 2)
    assert document["rules"][0]["before"] == "a16w8"
    assert main(["runs", str(measured), "--diff", "2", "2"]) == 0
    both = capsys.readouterr()
    assert both.out == ""
    assert both.err


def test_that_runs_are_listed_with_their_figures(measured, capsys):
    from contextlib import closing

    from workbench.history.store import History, history_path

    with closing(History(history_path(measured))) as history:
        run = history.run(2)
    row = runs_verb._run_row(run, best=True)
    assert row[0] == "2"
    assert len(row[1]) == 19
    assert "T" not in row[1]
    assert row[3:] == ["34.5 SQNR", "34.50", "1,000", "-", "4.0", "right", "accurate enough", "*"]
    bare = run.model_copy(
        update={
            "cost": None,
            "gate": None,
            "accuracy_result": None,
            "quality": run.quality.model_copy(update={"sqnr_db": None}),
        }
    )
    assert runs_verb._run_row(bare, best=False)[3:] == ["-"] * 7 + [""]
    assert main(["runs", str(measured)]) == 0
    listed = lines(capsys)
    assert [line.split()[0] for line in listed] == ["run", "1", "2"]
    assert main(["runs", str(measured), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [run["number"] for run in document["runs"]] == [1, 2]
    assert document["runs"][1]["best"] is True
    assert main(["runs", str(measured), "--restore", "1"]) == 0
    assert lines(capsys)[0].startswith("Restored the rules of run 1: ")


def test_that_results_of_array_jobs_are_printed_with_their_figures(capsys):
    assert arrays._figures({"shape": [1, 2], "scale": 0.5, "zero_point": -3}) == (
        ": 1x2, scale 0.5, zero point -3"
    )
    assert arrays._figures({"shape": [], "sqnr_db": 12.345}) == ": scalar, SQNR 12.35 dB"
    assert arrays._figures({"scale": None, "sqnr_db": None}) == ""


CHILD = """
import json, sys
name, asked, answer = sys.argv[-3:]
given = json.load(open(asked))
if name == "silent":
    sys.exit(3)
document = {"name": name, **given}
if name == "refused":
    document = {"infos": [{"message": "No.", "code": "job-refused"}]}
json.dump(document, open(answer, "w"))
print("noise")
"""


def test_that_array_jobs_are_asked_of_another_process(monkeypatch, tmp_path, capfd):
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    modules = []

    def command(module, *arguments):
        modules.append(module)
        return [sys.executable, "-S", str(script), *arguments]

    monkeypatch.setattr(arrays.interpreter, "command", command)
    assert arrays.ask("formats", {"jobs": [1]}) == {"name": "formats", "jobs": [1]}
    assert modules == ["workbench.engine.jobs.array_jobs"]
    # Only results are on the standard output.
    assert capfd.readouterr() == ("", "noise\n")
    for name, code in (("refused", "job-refused"), ("silent", "engine-job-ended")):
        with pytest.raises(WorkbenchError) as caught:
            arrays.ask(name, {})
        assert caught.value.codes == (code,)
    assert caught.value.infos[0].where == Place(kind="tool", id="engine.array_jobs.silent")


@for_each(
    ("error", "code", "told"),
    [
        (KeyboardInterrupt(), 130, "Cancelled.\n"),
        (BrokenPipeError(), 1, ""),
        (ZeroDivisionError("by\nzero"), 1, "error: by (ZeroDivisionError)"),
        (ValueError(), 1, "error: ValueError (ValueError)"),
    ],
)
def test_that_whatever_ends_a_verb_is_an_exit_code_and_a_line(monkeypatch, capsys, error, code, told):
    def fail():
        raise error

    monkeypatch.setattr(installation, "findings", fail)
    assert main(["doctor"]) == code
    assert capsys.readouterr().err.startswith(told)
    assert main(["doctor", "--json"]) == code
    out = capsys.readouterr().out
    if told:
        document = json.loads(out)
        assert document["exit_code"] == code
        assert document["error"]["code"] == ("cancelled" if code == 130 else "unexpected")

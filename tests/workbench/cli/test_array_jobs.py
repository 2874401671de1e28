"""Array jobs on the command line: one or a batch, what is shown, and which code they end with."""

import argparse
import json
from pathlib import Path

import pytest

from tests.for_each import for_each
from workbench.cli import arrays, main
from workbench.cli.arrays import perform, read_jobs
from workbench.errors import WorkbenchError

DONE = {"index": 0, "out": "a.npy", "shape": [2, 3], "scale": 0.5, "zero_point": -3, "sqnr_db": 41}
REFUSED = {"index": 1, "error": "no such scheme", "infos": [{"message": "no", "code": "unknown"}]}


def options(batch=None, *, as_json=False):
    return argparse.Namespace(batch=batch, json=as_json)


def jobs_in(folder: Path, jobs) -> Path:
    path = folder / "jobs.json"
    path.write_text(json.dumps(jobs))
    return path


class Answers:
    """What a process would answer; keeps what it was asked."""

    def __init__(self, *results):
        self.results, self.asked = results, []

    def __call__(self, jobs):
        self.asked = jobs
        return {"results": [dict(result) for result in self.results]}


def test_that_one_job_takes_the_options_that_were_given(capsys):
    answers = Answers(DONE)
    assert perform(options(), {"scheme": "mxint", "axis": None}, answers) == 0
    assert answers.asked == [{"scheme": "mxint"}]
    assert capsys.readouterr().out == "a.npy: 2x3, scale 0.5, zero point -3, SQNR 41.00 dB\n"


@for_each(
    ("result", "line"),
    [
        ({"out": "a"}, "a"),
        ({"out": "a", "shape": []}, "a: scalar"),
        ({"out": "a", "shape": [4], "scale": None, "sqnr_db": None}, "a: 4"),
        ({"out": "a", "scale": 1 / 3, "zero_point": 0}, "a: scale 0.333333333, zero point 0"),
        ({"out": "a", "sqnr_db": 0.0}, "a: SQNR 0.00 dB"),
    ],
)
def test_that_figures_are_shown_where_there_are_any(capsys, result, line):
    perform(options(), {}, Answers({"index": 0, **result}))
    assert capsys.readouterr().out == line + "\n"


def test_that_the_only_job_is_refused_with_its_problem(capsys):
    with pytest.raises(WorkbenchError) as caught:
        perform(options(), {}, Answers(REFUSED))
    assert [info.code for info in caught.value.infos] == ["unknown"]
    assert capsys.readouterr().out == ""


def test_that_one_job_as_json_has_no_index(capsys):
    perform(options(as_json=True), {}, Answers(DONE))
    document = json.loads(capsys.readouterr().out)
    assert document["out"] == "a.npy"
    assert "index" not in document


def test_that_the_options_are_the_defaults_of_a_batch(tmp_path, capsys):
    batch = jobs_in(tmp_path, [{"out": "a"}, {"scheme": "own"}, "no object"])
    answers = Answers(DONE, {**DONE, "index": 1})
    assert perform(options(batch), {"scheme": "mxint", "out": None}, answers) == 0
    assert answers.asked == [{"scheme": "mxint", "out": "a"}, {"scheme": "own"}, "no object"]
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_that_a_batch_with_a_refused_job_fails_and_shows_the_others(tmp_path, capsys):
    warned = {**DONE, "warnings": ["values were clipped"]}
    code = perform(options(jobs_in(tmp_path, [{}, {}])), {}, Answers(warned, REFUSED))
    shown = capsys.readouterr()
    assert code == 1
    assert [line.partition(":")[0] for line in shown.out.splitlines()] == ["a.npy"]
    assert "warning: a.npy: values were clipped" in shown.err
    assert "error: job 1: no such scheme" in shown.err


def test_that_a_batch_as_json_counts_the_refused_jobs(tmp_path, capsys):
    batch = jobs_in(tmp_path, [{}, {}])
    assert perform(options(batch, as_json=True), {}, Answers(DONE, REFUSED)) == 1
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert document["refused"] == 1
    assert [sorted(result) for result in document["results"]][1] == ["error", "index"]
    assert "error: job" not in shown.err


@for_each(
    ("text", "code"),
    [
        ("{}", "jobs-not-list"),
        ("1", "jobs-not-list"),
        ("", "jobs-not-json"),
        ("[" * 100_000, "jobs-not-json"),
        ("[1,", "jobs-not-json"),
    ],
)
def test_that_a_file_without_a_list_of_jobs_is_refused(tmp_path, text, code):
    path = tmp_path / "jobs.json"
    path.write_text(text)
    with pytest.raises(WorkbenchError) as caught:
        read_jobs(path)
    (info,) = caught.value.infos
    assert (info.code, info.where.kind, info.where.id) == (code, "file", str(path))


def test_that_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(WorkbenchError) as caught:
        read_jobs(tmp_path / "absent.json")
    assert caught.value.infos[0].code == "file-unreadable"
    assert read_jobs(jobs_in(tmp_path, [])) == []


@for_each(
    ("words", "asked"),
    [
        (
            ("quantize", "--in", "x.npy", "--out", "q.npz", "--mode", "sym", "--role", "weight"),
            {"in": "x.npy", "out": "q.npz", "mode": "sym", "role": "weight"},
        ),
        (
            (
                "matmul",
                "--a",
                "a.npy",
                "--b",
                "b.npy",
                "--bias",
                "c.npy",
                "--out",
                "y.npy",
                "--mode",
                "asym",
                "--numerics",
                "nnpa",
            ),
            {"a": "a.npy", "b": "b.npy", "bias": "c.npy", "out": "y.npy", "mode": "asym", "numerics": "nnpa"},
        ),
    ],
)
def test_that_the_arithmetic_of_nnpa_is_asked_with_the_options_that_were_given(words, asked):
    given = []

    def answer(name, arguments):
        given.append((name, arguments))
        return {"results": [{"index": 0, "out": "out"}]}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "ask", answer)
        assert main(["nnpa", *words]) == 0
    assert given == [("nnpa", {"operation": words[0], "jobs": [asked]})]

"""``workbench formats``: the list, and what is refused before anything is computed."""

import json
import re

import pytest

from tests.for_each import for_each
from workbench.cli import arrays, main
from workbench.targets.formats.schemes import SPECS


@pytest.fixture
def asked(monkeypatch):
    """The jobs that would have been computed; each is answered with its own output."""
    jobs = []

    def ask(name, arguments):
        assert name == "formats"
        jobs.extend(arguments["jobs"])
        results = [{"index": i, "out": job["out"]} for i, job in enumerate(arguments["jobs"])]
        return {"results": results}

    monkeypatch.setattr(arrays, "ask", ask)
    return jobs


def quantize(*arguments):
    return main(["formats", "quantize", *map(str, arguments)])


def test_that_the_list_tells_parameters_and_differences(capsys):
    assert main(["formats", "list", "--json"]) == 0
    found = {f["name"]: f for f in json.loads(capsys.readouterr().out)["formats"]}
    assert {"integer", "mxfp", "nvfp4", "lutnet"} <= set(found)
    assert found["log"]["differences"]
    assert [p["name"] for p in found["integer"]["parameters"]][:2] == ["width", "frac_width"]
    assert main(["formats", "list"]) == 0
    listed = capsys.readouterr().out
    assert "mase: Zero becomes" in listed
    for spec in SPECS:
        part = listed.split(f"{spec.name}: {spec.title}\n")[1].split("  source: ")[0]
        assert part.count("mase: ") == len(spec.differences) * spec.mase
        assert part.count("in MASE.") == (not spec.differences or not spec.mase)
        ranges = [p for p in spec.parameters if p.least is not None or p.most is not None]
        assert "None.." not in part
        told = re.findall(r" (-?[\d.]+)\.\.(-?\d[\d.]*)? ", part)
        assert told == [(str(p.least), "" if p.most is None else str(p.most)) for p in ranges]
        assert part.count("required") == sum(p.required for p in spec.parameters)


@for_each(("params", "said"), [("[8]", "not an object"), ("{8", "not JSON")])
def test_that_a_bad_request_is_refused_in_a_sentence(asked, capsys, params, said):
    assert quantize("--scheme", "integer", "--params", params, "--in", "x", "--out", "y") == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    assert asked == []


def test_that_only_the_options_that_were_given_reach_the_engine(asked):
    words = ("--params", '{"width": 4}', "--in", "x", "--out", "y", "--mase-compatible")
    assert quantize("--scheme", "integer", *words) == 0
    job = {"in": "x", "out": "y", "scheme": "integer", "params": {"width": 4}}
    assert asked == [{**job, "mase_compatible": True}]


def test_that_the_options_are_the_defaults_of_a_batch(asked, tmp_path, capsys):
    (tmp_path / "jobs.json").write_text('[{"out": "a"}, {"out": "b", "scheme": "log"}]')
    words = ("--scheme", "integer", "--batch", tmp_path / "jobs.json", "--json")
    assert quantize(*words) == 0
    assert asked == [{"out": "a", "scheme": "integer"}, {"out": "b", "scheme": "log"}]
    document = json.loads(capsys.readouterr().out)
    assert [r["out"] for r in document["results"]] == ["a", "b"]
    assert document["refused"] == 0


def test_that_a_batch_that_is_no_list_is_a_usage_error(tmp_path, codes):
    (tmp_path / "jobs.json").write_text("{}")
    assert quantize("--batch", tmp_path / "jobs.json") == 2
    assert codes == ["jobs-not-list"]

"""The verb ``simulate``."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from tests.for_each import for_each
from tests.workbench.npu.streams import COPY, DATA, Stream, compiled
from workbench.cli import main
from workbench.npu import program

TFLITE = DATA.parents[1] / "data" / "programs" / "resize_u85_vela.tflite"


@pytest.fixture
def case(tmp_path):
    """A raw delegate with its inputs, as files."""
    chosen = compiled()["net_indexed_0"]
    (tmp_path / "net.bin").write_bytes(chosen.blob)
    np.savez(tmp_path / "x.npz", in0=chosen.inputs[0], in1=chosen.inputs[1])
    return chosen


def test_that_a_raw_delegate_gives_integers(case, tmp_path, capsys):
    arguments = ["simulate", str(tmp_path / "net.bin"), "--inputs", str(tmp_path / "x.npz")]
    assert main([*arguments, "--out", str(tmp_path / "y.npz"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["outputs"] == [{"name": "out0", "dtype": "int8", "shape": [1, 5, 4]}]
    assert document["devices"][0].startswith("ethos-u")
    assert document["findings"] == []
    with np.load(tmp_path / "y.npz") as found:
        assert np.array_equal(found["out0"], case.outputs[0])


def test_that_counters_are_those_of_each_operation(case, tmp_path, capsys):
    arguments = ["simulate", str(tmp_path / "net.bin"), "--inputs", str(tmp_path / "x.npz")]
    assert main([*arguments, "--counters", "--json"]) == 0
    counters = json.loads(capsys.readouterr().out)["counters"]
    assert counters["totals"]["operations"] == len(counters["operations"]) > 0
    assert counters["totals"]["macs"] == sum(one["macs"] for one in counters["operations"]) > 0
    assert main([*arguments, "--counters"]) == 0
    assert f"{counters['totals']['macs']:,} MACs" in capsys.readouterr().out


@pytest.mark.usefixtures("case")
def test_that_a_batch_goes_on_behind_a_job_that_is_refused(tmp_path, capsys):
    job = {"file": str(tmp_path / "net.bin"), "inputs": str(tmp_path / "x.npz")}
    jobs = [job, {"file": "nowhere.bin"}, 7, {**job, "out": str(tmp_path / "y.npz")}, {"fil": "x"}]
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    assert main(["simulate", "--batch", str(tmp_path / "jobs.json"), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    results = document["results"]
    assert [result["index"] for result in results] == [0, 1, 2, 3, 4]
    assert ["error" in result for result in results] == [False, True, True, False, True]
    assert document["refused"] == 3
    assert (tmp_path / "y.npz").is_file()


def test_that_test_vectors_are_used_where_no_inputs_are_given(capsys):
    assert main(["simulate", str(DATA / "digits" / "digits.bpte"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["test_vectors"]) == 4
    assert all(vector["elements"] == 10 for vector in document["test_vectors"])


def test_that_a_check_that_finds_something_fails(tmp_path, capsys):
    path = tmp_path / "copy.bin"
    path.write_bytes(Stream().set(COPY, IFM_BASE0=32).do("POOL", 1).do("STOP").blob())
    assert main(["simulate", str(path), "--json"]) == 0
    capsys.readouterr()
    assert main(["simulate", str(path), "--check", "--json"]) == 1
    printed = capsys.readouterr()
    (finding,) = json.loads(printed.out)["findings"]
    assert finding["code"] == "uninitialised-read"
    assert "NPU_OP_POOL" in printed.err


def test_that_a_fault_names_the_command_and_fails(tmp_path, capsys):
    path = tmp_path / "copy.bin"
    path.write_bytes(Stream().set(COPY, IFM_BASE0=500).do("POOL", 1).do("STOP").blob())
    assert main(["simulate", str(path), "--json"]) == 1
    printed = capsys.readouterr()
    assert "NPU_OP_POOL" in json.loads(printed.out)["error"]
    assert "NPU_OP_POOL" in printed.err


@for_each("arguments", [[], ["nowhere.pte"], ["--batch", "nowhere.json"], ["--batch", "simulate.json"]])
def test_that_wrong_usage_is_refused(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "simulate.json").write_text("{}")
    assert main(["simulate", *arguments]) == 2
    assert capsys.readouterr().err.startswith("error")


@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_that_inputs_that_cannot_be_read_are_refused(content, case, tmp_path, capsys):
    path = tmp_path / "broken.npz"
    if content is None:
        np.savez(path, other=case.inputs[0])
    else:
        path.write_bytes(content)
    assert main(["simulate", str(tmp_path / "net.bin"), "--inputs", str(path)]) == 2
    assert "option inputs" in capsys.readouterr().err


class Fake:
    """A program that gives some outputs for any inputs."""

    machines, inputs = (), ()

    def __init__(self, outputs=(), expected=None):
        self.outputs = [np.asarray(each) for each in outputs]
        self.cases = ()
        if expected is not None:
            arrays = [np.asarray(each) for each in expected]
            self.cases = (SimpleNamespace(inputs=(), expected=arrays),)

    def run(self, *_):
        peaks = {0: {0: 5, 1: 6, 2: 7}}
        return SimpleNamespace(outputs=self.outputs, peak=peaks, findings=(), counters=())


def test_that_the_last_four_programs_are_kept(tmp_path, monkeypatch):
    loaded = []

    def load(path, _):
        loaded.append(path.name)
        return Fake()

    monkeypatch.setattr(program, "load", load)
    for names, times in (("ABCDA", 4), ("ABCDEA", 6), ("ABCDEB", 5), ("AA", 1)):
        loaded.clear()
        (tmp_path / "jobs.json").write_text(json.dumps([{"file": name} for name in names]))
        assert main(["simulate", "--batch", str(tmp_path / "jobs.json")]) == 0
        assert len(loaded) == times


NAN = float("nan")


@for_each(
    ("outputs", "expected", "found"),
    [
        ([[1, 2, 3, 4]], [[1, 2, 6, 2]], (4, 2, 3.0)),
        ([[1, -2]], [[1, -2]], (2, 2, 0.0)),
        ([[1.0], [2.0, 5.0]], [[2.5], [2.0, 5.0]], (3, 2, 1.5)),
        ([[NAN, 1.0]], [[NAN, 1.0]], (2, 2, 0.0)),
        ([[]], [[]], (0, 0, 0.0)),
        ([[1, 2]], [[1, 2, 3]], (0, 0, 0.0)),
        ([], [], (0, 0, 0.0)),
    ],
)
def test_that_outputs_are_compared_with_those_of_the_test_vector(
    tmp_path, monkeypatch, capsys, outputs, expected, found
):
    monkeypatch.setattr(program, "load", lambda *_: Fake(outputs, expected))
    (tmp_path / "net.bin").write_bytes(b"")
    assert main(["simulate", str(tmp_path / "net.bin"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    keys = ("elements", "equal", "max_abs_difference")
    assert document["test_vectors"] == [dict(zip(keys, found, strict=True))]
    # The regions of Vela's command streams, in their order.
    assert document["memory_peak_bytes"] == {"0": {"constants": 5, "scratch": 6, "fast scratch": 7}}


def told(capsys, *arguments):
    """Return the exit code, and the lines that a person reads."""
    code = main(["simulate", *map(str, arguments)])
    return code, [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.usefixtures("case")
def test_that_a_person_reads_what_was_computed_and_where_it_went(tmp_path, capsys):
    file, out = tmp_path / "net.bin", tmp_path / "y.npz"
    code, lines = told(capsys, file, "--inputs", tmp_path / "x.npz", "--out", out)
    assert code == 0
    assert lines[0].startswith(f"{file}: computed for ethos-u")
    assert lines[1:] == [f"inputs {tmp_path / 'x.npz'}", "out0 int8 1x5x4", f"written {out}"]


def test_that_a_person_reads_how_near_the_test_vectors_are(tmp_path, capsys):
    program = DATA / "digits" / "digits.bpte"
    out = tmp_path / "y.npz"
    code, lines = told(capsys, program, "--out", out)
    assert code == 0
    assert lines[1] == "inputs test vectors of the program"
    vectors = [line for line in lines if line.startswith("vector ")]
    assert len(vectors) == 4
    assert all("of 10 elements equal, largest difference" in line for line in vectors)
    with np.load(out) as found:
        assert set(found) == {f"case{number}_out0" for number in range(4)}


@pytest.mark.usefixtures("case")
def test_that_a_batch_is_read_by_a_person_too(tmp_path, capsys):
    inputs, file = str(tmp_path / "x.npz"), str(tmp_path / "net.bin")
    jobs = [{"file": file, "inputs": inputs}, {"file": 7}, {"inputs": inputs}]
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    assert main(["simulate", "--batch", str(tmp_path / "jobs.json")]) == 1
    printed = capsys.readouterr()
    assert printed.out.count("computed for ethos-u") == 1
    assert "job 1" in printed.err
    assert "job 2" in printed.err
    assert main(["simulate", "--batch", str(tmp_path / "jobs.json"), "--json"]) == 1
    results = json.loads(capsys.readouterr().out)["results"]
    codes = [[info["code"] for info in result.get("infos", ())] for result in results]
    assert codes == [[], ["batch-job-invalid"], ["batch-job-invalid"]]


@pytest.mark.usefixtures("case")
def test_that_outputs_that_cannot_be_written_are_refused(tmp_path, capsys):
    (tmp_path / "folder").mkdir()
    given = [tmp_path / "net.bin", "--inputs", tmp_path / "x.npz", "--out", tmp_path / "folder"]
    assert told(capsys, *given, "--json")[0] == 2
    assert main(["simulate", *map(str, given), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["infos"][0]["code"] == "file-not-writable"


@for_each(("shape", "value", "equal"), [((1, 8, 8, 3), 5, 192), ((1, 8, 8, 3), 6, 0), ((1, 8), 5, None)])
def test_that_a_compiled_tflite_is_compared_with_its_reference(
    shape, value, equal, tmp_path, monkeypatch, capsys
):
    """The reference kernels are another process: a stand-in for it answers with one value."""
    given = {}

    def kernels(self, name, arguments, outputs):
        given[name] = arguments
        return [np.full(shape, value, np.int8)]

    def run(self, inputs, options, operators, state=None):
        return program.Result((np.full((1, 8, 8, 3), 5, np.int8),), (), (), {}, {}, {})

    monkeypatch.setattr("workbench.npu.operator_process.CpuOperatorProcess.__call__", kernels)
    monkeypatch.setattr(program.Program, "run", run)
    original = tmp_path / "net.tflite"
    original.write_bytes(b"original")
    arguments = ["simulate", str(TFLITE), "--reference", str(original), "--json"]
    assert main(arguments) == (2 if equal is None else 0)
    document = json.loads(capsys.readouterr().out)
    assert bytes(given["tflite::whole"][0]) == b"original"
    if equal is None:
        assert document["infos"][0]["code"] == "reference-does-not-fit"
    else:
        (output,) = document["reference"]["outputs"]
        assert (output["elements"], output["equal"]) == (192, equal)

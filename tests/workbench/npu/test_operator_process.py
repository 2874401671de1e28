"""The process that computes CPU operators: its messages, and how long it lives.

The process is a small program in place of the one with torch; it speaks the same messages.
"""

import io
import json
import sys

import numpy as np
import pytest

from tests.problems import refused
from workbench.npu.cpu import Output
from workbench.npu.operator_process import CpuOperatorProcess, receive, send

ARRAYS = (
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.arange(6, dtype=np.int8).reshape(2, 3).T,
    np.array(7, np.int64),
    np.zeros((0, 4), np.int16),
    np.array([True, False]),
)
# Answers with the first array of a request and what was asked; ends where it is asked for "end".
CHILD = """
import json, math, sys
MARK = b"\\x1eworkbench "
sizes = {"<f4": 4, "|i1": 1, "<i8": 8, "|b1": 1}
for line in iter(sys.stdin.buffer.readline, b""):
    line = line.removeprefix(MARK)
    request = json.loads(line)
    data = [sys.stdin.buffer.read(sizes[kind] * math.prod(shape))
            for kind, shape in request["arrays"]]
    if request["name"] == "end":
        break
    with open(sys.argv[1], "a") as log:
        log.write(line.decode())
    answer = {"arrays": request["arrays"][:1]}
    if request["name"] == "refused":
        answer = {"infos": [{"message": "No.", "code": "operator-refused"}], "arrays": []}
        data = []
    sys.stdout.buffer.write(MARK + json.dumps(answer).encode() + b"\\n" + b"".join(data[:1]))
    sys.stdout.buffer.flush()
"""


@pytest.fixture
def log(tmp_path, monkeypatch):
    """The requests that the small program has answered, and the modules that were started."""
    script, path, modules = tmp_path / "child.py", tmp_path / "log", []
    script.write_text(CHILD)

    def command(module):
        modules.append(module)
        return [sys.executable, "-S", str(script), str(path)]

    monkeypatch.setattr("workbench.interpreter.command", command)
    return path, modules


def test_that_a_message_reads_back_as_it_was_sent():
    wire = io.BytesIO()
    send(wire, {"name": "a::b"}, ARRAYS)
    send(wire, {"name": "last"}, ())
    wire.seek(0)
    document, arrays = receive(wire)
    assert document["name"] == "a::b"
    for found, sent in zip(arrays, ARRAYS, strict=True):
        assert (found.dtype, found.shape) == (sent.dtype, sent.shape)
        assert np.array_equal(found, sent)
    assert receive(wire) == ({"name": "last", "arrays": []}, [])
    assert receive(wire) is None


def test_that_a_message_is_a_line_of_json_with_the_bytes_behind():
    wire = io.BytesIO()
    send(wire, {"name": "x"}, [np.array([1, 2], np.int16)])
    line, _, data = wire.getvalue().partition(b"\n")
    assert line.startswith(b"\x1eworkbench ")
    assert json.loads(line.removeprefix(b"\x1eworkbench ")) == {"name": "x", "arrays": [["<i2", [2]]]}
    assert data == b"\1\0\2\0"


def test_that_a_line_that_is_cut_short_is_the_end():
    assert receive(io.BytesIO(b'\x1eworkbench {"arrays": []}')) is None


def test_that_arrays_of_lists_are_named_by_their_number_and_one_process_computes_all(log):
    path, modules = log
    first, second = ARRAYS[0], ARRAYS[2]
    with CpuOperatorProcess() as compute:
        (found,) = compute("a::b", [[first, 2], 0.5, (second, None), "x"], [Output("int8", (2,))])
        assert np.array_equal(found, first)
        assert found.dtype == np.float32
        compute("a::c", [second], [])
    requests = [json.loads(line) for line in path.read_text().splitlines()]
    assert requests[0]["arguments"] == [[{"array": 0}, 2], 0.5, [{"array": 1}, None], "x"]
    assert requests[0]["outputs"] == [["int8", [2]]]
    assert [kind for kind, _ in requests[0]["arrays"]] == ["<f4", "<i8"]
    assert [request["name"] for request in requests] == ["a::b", "a::c"]
    assert modules == ["workbench.engine.ethos_u.cpu_operators"]


def test_that_what_an_operator_refuses_is_the_users_problem(log):
    with CpuOperatorProcess() as compute:
        with refused("operator-refused"):
            compute("refused", [], [])
        assert len(compute("a::b", [ARRAYS[0]], [])) == 1
    assert len(log[1]) == 1


def test_that_a_process_that_ends_is_told_and_started_anew(log):
    compute = CpuOperatorProcess()
    with refused("engine-job-ended") as caught:
        compute("end", [], [])
    assert caught.value.infos[0].where.kind == "tool"
    assert len(compute("a::b", [ARRAYS[0]], [])) == 1
    assert len(log[1]) == 2
    process = compute._process
    compute.close()
    assert process.returncode is not None
    compute.close()


def test_that_what_an_environment_prints_at_its_start_is_no_message():
    wire = io.BytesIO(b"hello\nno end of line: ")
    wire.seek(0, io.SEEK_END)
    send(wire, {"status": "done"}, [np.arange(3, dtype=np.int8)])
    wire.seek(0)
    document, arrays = receive(wire)
    assert document["status"] == "done"
    assert arrays[0].tolist() == [0, 1, 2]
    assert receive(wire) is None

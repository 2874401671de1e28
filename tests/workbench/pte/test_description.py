"""Any program is opened as it is, and none, however damaged, is more than a sentence."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.for_each import for_each
from tests.problems import refused
from workbench.errors import WorkbenchError
from workbench.pte import description, npu_commands, vela_stream
from workbench.pte.description import describe, memory
from workbench.pte.program import decode

PROGRAMS = Path(__file__).parents[2] / "data" / "programs"
ALL = sorted(path.name for path in PROGRAMS.glob("*.pte"))
BYTES = {name: (PROGRAMS / name).read_bytes() for name in ALL}


def everything(data: bytes) -> None:
    """Look at all there is; only a WorkbenchError may come of it."""
    with contextlib.suppress(WorkbenchError):
        describe(data)
    with contextlib.suppress(WorkbenchError):
        program = decode(data)
        for method in program.methods:
            description.planned(method)
            description.constants(program, method)
            list(description.instructions(method))
            description.calls_of_kernels(method)
            for delegate in method.delegates:
                if delegate.backend == vela_stream.ETHOS_U:
                    blocks = vela_stream.blocks(delegate.data)
                    commands = vela_stream.commands(blocks)
                    if commands is not None:
                        npu_commands.target_of_commands(commands)
                        stream = npu_commands.decode(commands)
                        list(npu_commands.listing(stream))
                        ports = (vela_stream.ports(blocks, s) for s in ("inputs", "outputs"))
                        npu_commands.tensors(stream, *ports)


@for_each(
    ("name", "family", "macs"),
    [("u55.pte", "ethos-u55", 128), ("u65.pte", "ethos-u65", 256), ("u85.pte", "ethos-u85", 256)],
)
def test_that_the_npu_a_program_was_compiled_for_is_read_from_its_commands(name, family, macs):
    (delegate,) = describe(BYTES[name])["delegates"]
    assert (delegate["npu"]["family"], delegate["npu"]["macs"]) == (family, macs)
    assert delegate["compile_specs"]["target"] == f"{family}-{macs}"
    assert delegate["scratch_bytes"] > 0
    assert delegate["outputs"][0]["item_bytes"] == 1


def test_that_commands_are_told_as_operations():
    data = BYTES["u55.pte"]
    (delegate,) = decode(data).methods[0].delegates
    stream = npu_commands.decode(vela_stream.blocks(delegate.data)["cmd_data"].data)
    (first, second) = (o for o in stream.operations if o.kind == "convolution")
    assert (first.ifm, first.ofm, first.kernel) == ((8, 8, 2), (8, 8, 4), (3, 3))
    assert second.ofm[-1] == 3
    lines = list(npu_commands.listing(stream))
    assert len(lines) == len(stream.commands)
    assert sum("3x3 convolution, (8, 8, 2) to (8, 8, 4)" in line for line in lines) == 1
    assert lines[-1].endswith("NPU_OP_STOP                    65535")


def test_that_tensors_of_the_npu_know_who_writes_and_reads_them():
    (delegate,) = decode(BYTES["u55.pte"]).methods[0].delegates
    blocks = vela_stream.blocks(delegate.data)
    stream = npu_commands.decode(vela_stream.commands(blocks))
    ports = [vela_stream.ports(blocks, side) for side in ("inputs", "outputs")]
    found = npu_commands.tensors(stream, *ports)
    by_name = {tensor.name: tensor for tensor in found}
    assert by_name["input 0"].uses[0] == stream.operations[0].offset
    assert stream.operations[-1].offset in by_name["output 0"].written
    weights = [t for t in found if t.name == "weights"]
    # Vela has those of the first convolution copied nearer before they are read.
    assert [t.address_text.split()[0] for t in weights] == ["scratch", "constants"]
    assert sum(len(t.read) for t in weights) == 2


def test_that_the_plan_says_where_a_tensor_lies_and_during_which_instructions():
    program = decode(BYTES["no_delegate.pte"])
    rows = {row.index: row for row in description.planned(program.method())}
    assert (rows[4].role, rows[4].bytes, rows[4].first, rows[4].last) == ("input", 512, 0, 0)
    assert rows[31].role == "output"
    assert all(r.address + r.bytes <= 2048 for r in rows.values())
    assert description.calls_of_kernels(program.method())["aten::addmm.out"] == 1
    last = list(description.instructions(program.method()))[-1]
    assert last.name == "aten::addmm.out"
    assert "float32 1x3" in last.values[-1]


def test_that_a_method_that_is_not_there_is_refused_with_those_that_are():
    with refused("program-method-unknown"):
        describe(BYTES["u55.pte"], "backward")


def test_that_a_program_without_delegates_tells_its_kernels_and_constants():
    found = describe(BYTES["no_delegate.pte"])
    assert found["delegates"] == []
    assert "aten::convolution.out" in found["kernels"]
    # 4 x 2 x 3 x 3 and 3 x 4 weights with their biases, in float32.
    assert found["constants_bytes"] >= 4 * (72 + 4 + 12 + 3)
    assert found["memory"]["scratch_pool_bytes"] == 0
    assert memory(BYTES["no_delegate.pte"]).planned_bytes == (2048,)


def test_that_another_backends_delegates_are_shown_as_what_they_are():
    found = describe(BYTES["xnnpack.pte"])
    assert {d["backend"] for d in found["delegates"]} == {"XnnpackBackend"}
    assert "npu" not in found["delegates"][0]
    assert sum(found["named_data_bytes"].values()) == 364


@for_each("name", ALL)
def test_that_a_program_cut_short_anywhere_is_told_or_refused(name):
    data = BYTES[name]
    for length in range(0, len(data), 37):
        everything(data[:length])


@given(data=st.data())
def test_that_damaged_programs_never_do_more_than_be_refused(data):
    damage_and_read(data)


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=2000)
def test_that_no_damage_of_many_does_more_than_be_refused(data):
    damage_and_read(data)


def damage_and_read(data):
    damaged = bytearray(BYTES[data.draw(st.sampled_from(ALL))])
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(8, len(damaged) - 5))
        value = data.draw(st.sampled_from([0, 1, 0xFF, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000000, 4]))
        struct.pack_into("<I", damaged, at, value)
    everything(bytes(damaged))


@given(noise=st.binary(max_size=400))
def test_that_noise_behind_the_mark_is_refused_in_a_sentence(noise):
    everything(b"\x10\0\0\0ET12" + noise)
    everything(b"\x10\0\0\0BP08" + noise)


def test_that_what_is_no_program_is_refused_with_what_to_choose():
    with refused("program-not-executorch"):
        describe(b"PK\x03\x04 a zip file, say")


@for_each(
    ("name", "content", "code"),
    [
        ("whole.pte", None, None),
        ("cut.pte", lambda data: data[:900], "program-damaged"),
        ("other.pte", lambda data: b"\0" * len(data), "program-not-executorch"),
        ("empty.ptd", lambda data: data[:4] + b"FT01" + bytes(900), "program-damaged"),
        ("raw.bin", lambda data: b"vela_bin_stream\0" + bytes(900), None),
    ],
)
def test_that_a_large_file_is_decoded_before_it_is_read(tmp_path, monkeypatch, name, content, code):

    data = (PROGRAMS / "u55.pte").read_bytes()
    data = content(data) if content else data
    (tmp_path / name).write_bytes(data)
    assert description.program_bytes(tmp_path / name) == data
    monkeypatch.setattr(description, "_LARGE_BYTES", 100)
    if code is None:
        assert description.program_bytes(tmp_path / name) == data
    else:
        with refused(code):
            description.program_bytes(tmp_path / name)


def test_that_the_blocks_of_a_delegate_are_listed_with_their_sizes():
    data = BYTES["u55.pte"]
    (delegate,) = decode(data).methods[0].delegates
    blocks = vela_stream.blocks(delegate.data)
    (told,) = describe(data)["delegates"]
    assert told["vela_blocks"] == {
        name: len(blocks[name].data) for name in blocks if not name.startswith("vela_")
    }
    assert {"cmd_data", "weight_data", "inputs", "outputs"} <= told["vela_blocks"].keys()

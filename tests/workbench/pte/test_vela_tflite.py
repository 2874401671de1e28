"""A TensorFlow Lite file compiled by Vela 5.1.0 (from ``tests/data/tosa/resize_u85.tosa``)."""

import json
import random
import struct
from pathlib import Path

import pytest

from tests.for_each import for_each
from tests.problems import refused
from workbench.cli import main
from workbench.errors import WorkbenchError
from workbench.pte import vela_stream
from workbench.pte.description import describe, read_program

FILE = Path(__file__).parents[2] / "data" / "programs" / "resize_u85_vela.tflite"


def test_that_the_delegate_has_the_blocks_ports_and_memory_of_the_file():
    method = read_program(FILE.read_bytes()).method()
    assert [(v.dtype, v.shape) for v in method.tensors(method.inputs)] == [("int8", (1, 4, 8, 8))]
    blocks = vela_stream.blocks(method.delegates[0].data)
    assert len(blocks["cmd_data"].data) == 552
    assert vela_stream.scratch_bytes(blocks) == 1024
    (port,) = vela_stream.ports(blocks, "outputs")
    assert (port.shape, port.item_bytes) == ((1, 1, 1, 4, 16, 16), 1)


def test_that_inspect_shows_device_operations_and_commands(capsys):
    assert main(["inspect", str(FILE), "--json", "--find", "npu_op_resize"]) == 0
    found = json.loads(capsys.readouterr().out)
    npu = found["delegates"][0]["npu"]
    assert (npu["family"], npu["macs"]) == ("ethos-u85", 256)
    assert npu["operations"] == {"pooling": 2, "resize": 1}
    assert len(found["commands"][0]) == 1


def test_that_a_file_that_vela_has_not_compiled_says_how():
    with refused("tflite-not-compiled"):
        describe(FILE.read_bytes().replace(b"ethos-u\0", b"other-u\0"))


@for_each("length", [9, 100, 700, 1400])
def test_that_a_file_cut_short_is_refused(length):
    with refused("program-damaged"):
        describe(FILE.read_bytes()[:length])


@for_each("shape", [(1, 2**20, 2**20, 16), (1, 4, 16, -16), (2**31 - 1, 0, 2, 2)])
def test_that_a_tensor_of_an_operator_of_the_npu_has_a_possible_shape(shape):
    old, new = (struct.pack("<5i", 4, *sizes) for sizes in ((1, 4, 16, 16), shape))
    with refused("program-damaged"):
        describe(FILE.read_bytes().replace(old, new))


@pytest.mark.parametrize("count", [60, pytest.param(3000, marks=pytest.mark.slow)])
def test_that_damaged_files_end_in_a_sentence_or_a_description(count):
    generator, whole = random.Random(0), FILE.read_bytes()
    for _ in range(count):
        data = bytearray(whole)
        for _ in range(generator.choice((1, 2, 8))):
            data[generator.randrange(8, len(data))] = generator.randrange(256)
        try:
            describe(bytes(data), whole=True)
        except WorkbenchError:
            continue

"""What a TensorFlow Lite file says of itself, compiled or not, against LiteRT's own schema."""

import random

import numpy as np
import pytest

from tests import tflite_models as ops
from tests.litert_search import NETWORKS
from tests.problems import refused
from tests.workbench.pte.test_vela_tflite import FILE
from workbench.errors import WorkbenchError
from workbench.pte.tflite_model import read_tflite


def test_that_inputs_outputs_and_operators_are_those_of_the_file():
    w = ops.Writer(0)
    x = w.input(1, 9, 9, 3, scale=float(np.float32(0.05)), zero=-7)
    y = ops.convolution(w, x, 8)
    model = read_tflite(w.done(ops.pool(w, "MAX_POOL_2D", y), y))
    (taken,) = model.inputs
    assert (taken.dtype, taken.shape, taken.zero_point) == ("int8", (1, 9, 9, 3), -7)
    assert taken.scale == np.float32(0.05)
    assert [out.shape for out in model.outputs] == [(1, 4, 4, 8), (1, 9, 9, 8)]
    assert model.operators == ("tflite::CONV_2D", "tflite::MAX_POOL_2D")
    assert (model.integer_operators, model.is_compiled) == (2, False)
    assert model.on_cpu == {"CONV_2D": 1, "MAX_POOL_2D": 1}


def test_that_operators_have_the_names_of_the_schema():
    from ai_edge_litert import schema_py_generated as schema

    for make in NETWORKS.values():
        content = make(0)
        names = {value: name for name, value in vars(schema.BuiltinOperator).items() if name.isupper()}
        graph = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(content, 0))
        expected = [
            names[graph.operatorCodes[o.opcodeIndex].builtinCode] for o in graph.subgraphs[0].operators
        ]
        assert [name.removeprefix("tflite::") for name in read_tflite(content).operators] == expected


def test_that_a_file_compiled_by_vela_is_told_from_others():
    model = read_tflite(FILE.read_bytes())
    assert model.is_compiled
    assert model.on_cpu == {}


def test_that_something_else_is_no_model():
    for content in (b"", b"PK\3\4", bytes(64), FILE.read_bytes()[:4]):
        with refused("tflite-not-a-model"):
            read_tflite(content)


@pytest.mark.parametrize("count", [100, pytest.param(5000, marks=pytest.mark.slow)])
def test_that_cut_and_damaged_files_are_refused_or_read(count):
    generator, whole = random.Random(0), NETWORKS["mobile"](0)
    for length in range(8, len(whole), len(whole) // 50):
        with refused("program-damaged"):
            read_tflite(whole[:length])
    for _ in range(count):
        data = bytearray(whole)
        for _ in range(generator.choice((1, 2, 8))):
            data[generator.randrange(8, len(data))] = generator.randrange(256)
        try:
            read_tflite(bytes(data))
        except WorkbenchError:
            continue

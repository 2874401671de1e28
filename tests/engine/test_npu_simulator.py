"""The simulator against the TOSA reference model, on what Vela makes here and now."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import numpy as np
import pytest

from workbench.npu.program import load
from workbench.npu.state import Options
from workbench.npu.weights import decode

pytestmark = pytest.mark.engine

TOSA = Path(__file__).parent.parent / "data" / "tosa"
U55 = ("Ethos_U55_High_End_Embedded", "Shared_Sram")
U65 = ("Ethos_U65_High_End", "Dedicated_Sram")
U85 = ("Ethos_U85_SYS_DRAM_Mid", "Dedicated_Sram_256KB")
RANGES = {"INT8": (-128, 127, np.int8), "INT16": (-32768, 32767, np.int16), "INT32": (0, 3, np.int32)}


def compiled(name, accelerator, configuration):
    from executorch.backends.arm.arm_vela import vela_compile

    arguments = [
        f"--accelerator-config={accelerator}",
        "--output-format=raw",
        "--config=Arm/vela.ini",
        f"--system-config={configuration[0]}",
        f"--memory-mode={configuration[1]}",
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        return vela_compile((TOSA / name).read_bytes(), arguments).processed_bytes


def reference(name, generator):
    """Return random inputs and what the reference model gives for them."""
    import tosa_reference_model
    from tosa.DType import DType
    from tosa.TosaGraph import TosaGraph

    program = (TOSA / name).read_bytes()
    block = TosaGraph.GetRootAs(program).Regions(0).Blocks(0)
    kinds = {code: kind for kind, code in vars(DType).items() if isinstance(code, int)}
    tensors = {block.Tensors(i).Name(): block.Tensors(i) for i in range(block.TensorsLength())}
    inputs = []
    for place in range(block.InputsLength()):
        tensor = tensors[block.Inputs(place)]
        least, most, dtype = RANGES[kinds[tensor.Type()]]
        shape = [tensor.Shape(axis) for axis in range(tensor.ShapeLength())]
        inputs.append(generator.integers(least, most, shape, dtype, endpoint=True))
    outputs, status = tosa_reference_model.run(
        program, inputs, verbosity="NONE", initialize_variable_tensor_from_numpy=True
    )
    assert status == tosa_reference_model.GraphStatus.TOSA_VALID
    return inputs, [np.asarray(values) for values in outputs]


@pytest.mark.parametrize(
    ("name", "accelerator", "configuration"),
    [
        ("gather_u55.tosa", "ethos-u55-64", U55),
        ("gather_u55.tosa", "ethos-u65-512", U65),
        ("gather_u55.tosa", "ethos-u85-128", U85),
        ("gather_u85.tosa", "ethos-u85-512", U85),
        ("resize_u85.tosa", "ethos-u85-256", U85),
        ("resize_u85.tosa", "ethos-u85-2048", U85),
    ],
)
def test_that_what_vela_compiles_gives_the_bytes_of_the_reference_model(name, accelerator, configuration):
    program = load(bytes(compiled(name, accelerator, configuration)))
    generator = np.random.default_rng(0)
    for _ in range(2):
        inputs, wanted = reference(name, generator)
        result = program.run(inputs, Options(check=True))
        assert [o.tobytes() for o in result.outputs] == [w.tobytes() for w in wanted]
        assert result.findings == ()


def test_that_weights_decode_as_arm_decodes_them():
    from ethosu import mlw_codec

    generator = np.random.default_rng(1)
    for spread, share in ((3, 1.0), (25, 1.0), (25, 0.2), (90, 0.05), (120, 1.0)):
        weights = generator.normal(0, spread, 5000).round().clip(-255, 255)
        weights *= generator.random(5000) < share
        stream = bytes(mlw_codec.encode([int(weight) for weight in weights]))
        wanted = np.asarray(mlw_codec.decode(bytearray(stream)), np.int16)
        assert np.array_equal(decode(stream, 1 << 20), wanted)


@pytest.mark.slow
def test_that_operators_of_the_cpu_are_computed_by_torch(tmp_path):
    """A program without a delegate, by ``workbench simulate``, equals the model."""
    import torch
    from executorch.exir import to_edge

    from workbench.cli import main

    class Net(torch.nn.Module):
        def forward(self, x, y):
            values, where = torch.topk(torch.cat([x, y.to(x.dtype)], 1), 3)
            return values.softmax(-1).clamp(min=0.2), where > 2

    inputs = (torch.randn(2, 4), torch.arange(8).reshape(2, 4))
    program = to_edge(torch.export.export(Net(), inputs)).to_executorch()
    (tmp_path / "net.pte").write_bytes(program.buffer)
    np.savez(tmp_path / "in.npz", in0=inputs[0].numpy(), in1=inputs[1].numpy())
    files = [str(tmp_path / name) for name in ("net.pte", "in.npz", "out.npz")]
    assert main(["simulate", files[0], "--inputs", files[1], "--out", files[2]]) == 0
    with np.load(tmp_path / "out.npz") as made:
        for number, expected in enumerate(Net()(*inputs)):
            assert np.array_equal(made[f"out{number}"], expected.numpy())
            assert made[f"out{number}"].dtype == expected.numpy().dtype

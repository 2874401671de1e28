"""Exports that share the table of ONNX functions write what stock exports write."""

import pytest
import torch
from torch.onnx._internal.exporter._registration import ONNXRegistry

from workbench.engine.acceleration.onnx_registry import shared_registry

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]


def exported(model, opset):
    inputs = (torch.ones(2, 8),)
    program = torch.export.export(model, inputs)
    made = torch.onnx.export(program, inputs, dynamo=True, opset_version=opset, verbose=False)
    return made.model_proto.SerializeToString(deterministic=True)


MODEL = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.GELU()).eval()


@pytest.mark.slow
def test_that_files_have_the_same_bytes_for_each_opset():
    for opset in (20, 18, 20):
        stock = exported(MODEL, opset)
        with shared_registry():
            assert exported(MODEL, opset) == stock


@pytest.mark.slow
def test_that_a_function_that_one_export_registers_stays_there():
    target = torch.ops.aten.relu.default
    with shared_registry():
        known = ONNXRegistry.from_torchlib(20).get_decomps(target)
        own = ONNXRegistry.from_torchlib(20)
        own.register_op(target, lambda x: x)
        assert len(own.get_decomps(target)) == len(known) + 1
        assert ONNXRegistry.from_torchlib(20).get_decomps(target) == known
    assert ONNXRegistry.from_torchlib(20).get_decomps(target)[0] is not known[0]

"""What all exports to ONNX share."""

import functools

import pytest
from torch.onnx._internal.exporter._registration import ONNXRegistry


@pytest.fixture(scope="session", autouse=True)
def functions_of_torchlib():
    """Read the source of torch's 500 functions for ONNX once, which else each export does."""
    read = functools.cache(ONNXRegistry.from_torchlib)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ONNXRegistry, "from_torchlib", staticmethod(read))
        yield

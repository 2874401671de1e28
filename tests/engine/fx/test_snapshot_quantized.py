"""Prepared, converted and lowered programs show observers, grids and delegates."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import pytest
import torch
from torch import nn

from workbench.engine.acceleration.range_search import quick_search
from workbench.engine.fx.snapshot import snapshot
from workbench.engine.runtime.accelerated import accelerated
from workbench.graph.snapshot import GraphSnapshot, Node

pytestmark = pytest.mark.engine


@dataclass(frozen=True)
class Levels:
    exported: GraphSnapshot
    prepared: GraphSnapshot
    converted: GraphSnapshot
    edge: GraphSnapshot


class Small(nn.Module):
    """What MobileNetV1 is made of, once."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU())
        self.each = nn.Sequential(nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.BatchNorm2d(16), nn.ReLU())
        self.point = nn.Sequential(nn.Conv2d(16, 16, 1), nn.BatchNorm2d(16), nn.ReLU())
        self.pool, self.classifier = nn.AdaptiveAvgPool2d(1), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.pool(self.point(self.each(self.stem(x)))).flatten(1))


@pytest.fixture(scope="module", params=["small", pytest.param("MobileNetV1", marks=pytest.mark.slow)])
def levels(request: pytest.FixtureRequest) -> Levels:
    return levels_of(request.param)


def levels_of(name: str) -> Levels:
    # The toolchain warns about itself while it is imported and while it runs.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "small":
            return make_levels(Small().eval(), (torch.randn(1, 3, 16, 16),))
        from executorch.examples.models.mlperf_tiny import MobileNetV1025Model

        model = MobileNetV1025Model()
        return make_levels(model.get_eager_model().eval(), model.get_example_inputs())


def make_levels(net: nn.Module, inputs: tuple[torch.Tensor, ...]) -> Levels:
    from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
    from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config
    from executorch.exir import to_edge_transform_and_lower
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    program = torch.export.export(net, inputs)
    exported = snapshot(program, "float", net)
    quantizer = EthosUQuantizer(EthosUCompileSpec("ethos-u55-128"))
    quantizer.set_global(get_symmetric_quantization_config())
    module = prepare_pt2e(program.module(check_guards=False), quantizer)
    module(*inputs)
    prepared = snapshot(module, "prepared", exported.modules)
    with quick_search():
        module = convert_pt2e(module)
    converted = snapshot(module, "converted", exported.modules)
    with accelerated():
        lowered = to_edge_transform_and_lower(
            torch.export.export(module, inputs),
            partitioner=[EthosUPartitioner(EthosUCompileSpec("ethos-u55-128"))],
        )
    edge = snapshot(lowered.exported_program(), "edge", exported.modules)
    return Levels(exported, prepared, converted, edge)


def convolutions(levels: Levels) -> list[Node]:
    return [node for node in levels.exported.nodes if node.op == "aten.conv2d.default"]


def test_that_observers_say_what_they_watch(levels: Levels) -> None:
    observers = [node for node in levels.prepared.nodes if node.kind == "observer"]
    assert len(observers) >= 2 * len(convolutions(levels)) > 0
    first = observers[0]
    assert first.op == "HistogramObserver"
    assert first.attrs["dtype"] == "int8"
    assert float(first.attrs["min_val"]) < float(first.attrs["max_val"])
    assert first.outputs == levels.prepared.producers(first.id)[0].outputs


def test_that_an_observer_stands_with_the_operation_it_follows(levels: Levels) -> None:
    for node in levels.prepared.nodes:
        if node.kind == "observer":
            (watched,) = levels.prepared.producers(node.id)
            assert watched.kind == "input" or node.group == watched.group


def test_that_quantized_tensors_carry_a_legible_grid(levels: Levels) -> None:
    quantize = next(node for node in levels.converted.nodes if node.kind == "quantize")
    grid = quantize.outputs[0].qparams
    assert grid is not None
    assert (grid.bits, grid.dtype, grid.axis) == (8, "int8", None)
    assert 0 < grid.scale[0] < 1
    assert quantize.outputs[0].dtype == "int8"
    assert (
        quantize.outputs[0].shape
        == next(n for n in levels.exported.nodes if n.kind == "input").outputs[0].shape
    )


def test_that_quantized_weights_carry_a_grid_per_channel(levels: Levels) -> None:
    conv = next(n for n in levels.converted.nodes if n.op == "aten.conv2d.default")
    dequantize = levels.converted.producers(conv.id)[1]
    (weight, *_) = levels.converted.producers(dequantize.id)
    for node in (dequantize, weight):
        grid = node.outputs[0].qparams
        assert grid is not None
        assert grid.axis == 0
        assert len(grid.scale) == node.outputs[0].shape[0]
        assert node.group == conv.group


def test_that_every_group_of_the_model_is_there_at_every_quantized_level(levels: Levels) -> None:
    expected = {node.group for node in convolutions(levels)}
    for level in (levels.prepared, levels.converted):
        assert expected <= {node.group for node in level.nodes}


def test_that_a_delegate_is_one_node_with_its_content_nested(levels: Levels) -> None:
    (delegate,) = [node for node in levels.edge.nodes if node.kind == "delegate"]
    assert delegate.attrs["backend"] == "EthosUBackend"
    assert int(delegate.attrs["bytes"]) > 1000
    inside = [n for n in levels.edge.nodes if n.id.startswith(f"{delegate.id}/")]
    assert sum("convolution" in node.op for node in inside) == len(convolutions(levels))
    assert all(node.group[0] == delegate.group[0] for node in inside if node.kind == "call")


def test_that_operations_know_where_they_come_from(levels: Levels) -> None:
    names = {node.id for node in levels.exported.nodes}
    convs = [node for node in levels.converted.nodes if node.op == "aten.conv2d.default"]
    assert convs
    assert {node.attrs["origin"] for node in convs} <= names

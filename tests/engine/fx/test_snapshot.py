"""Real programs at every level become pictures that say where each operation comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from workbench.engine.fx.snapshot import snapshot
from workbench.graph.snapshot import GraphSnapshot

if TYPE_CHECKING:
    from pathlib import Path

# torch warns about its own parts while it exports.
pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("ignore")]


class Blocks(nn.Module):
    """A ModuleList, a ModuleDict, an alias, a module used twice and one never used."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.heads = nn.ModuleDict({"left": nn.Linear(4, 4)})
        self.alias = self.blocks[0]
        self.relu = nn.ReLU()
        self.never = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = self.relu(block(x))
        values, _ = torch.topk(self.heads["left"](x) + self.alias(x), 2)
        return values


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(4, 4)
        self.right = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda t: self.left(t).relu(), self.right, (x,))


@pytest.fixture(scope="module")
def blocks() -> GraphSnapshot:
    net = Blocks().eval()
    return snapshot(torch.export.export(net, (torch.randn(2, 4),)), "float", net)


def test_that_list_and_dict_levels_are_recovered(blocks: GraphSnapshot) -> None:
    groups = {node.id: node.group for node in blocks.nodes}
    assert groups["linear"] == ("blocks", "0")
    assert groups["linear_2"] == ("heads", "left")
    assert groups["add"] == ()


def test_that_the_second_call_of_a_module_is_another_group(blocks: GraphSnapshot) -> None:
    assert blocks.node("relu").group == ("relu",)
    assert blocks.node("relu_1").group == ("relu@1",)
    assert (blocks.node("relu_1").module, blocks.node("relu_1").call) == ("relu", 1)


def test_that_modules_never_called_are_listed_with_their_class(blocks: GraphSnapshot) -> None:
    never = blocks.modules_by_path["never"]
    assert (never.type_name, never.parent, never.parameters) == ("torch.nn.modules.linear.Linear", "", 10)
    assert blocks.modules_by_path["blocks.1"].parent == "blocks"


def test_that_the_line_of_python_is_told_without_folders(blocks: GraphSnapshot) -> None:
    source = blocks.node("relu").source
    assert source.startswith("test_snapshot.py:")
    assert "in forward: x = self.relu(block(x))" in source


def test_that_edges_name_the_output_they_carry(blocks: GraphSnapshot) -> None:
    items = [edge for edge in blocks.edges if edge.source == "topk"]
    assert [edge.output_index for edge in items] == [0, 1]
    topk = blocks.node("topk")
    assert [info.dtype for info in topk.outputs] == ["float32", "int64"]
    assert topk.attrs["k"] == "2"


def test_that_parameters_stand_with_their_user_and_know_their_name(blocks: GraphSnapshot) -> None:
    weight = blocks.node("p_blocks_1_weight")
    assert (weight.kind, weight.group) == ("parameter", ("blocks", "1"))
    assert weight.attrs["target"] == "blocks.1.weight"


def test_that_without_a_model_modules_come_from_the_operations() -> None:
    program = torch.export.export(Blocks().eval(), (torch.randn(2, 4),))
    modules = snapshot(program, "float").modules_by_path
    assert modules["blocks"].parameters == 40
    assert modules["blocks.1"].type_name == "torch.nn.modules.linear.Linear"
    assert "never" not in modules


def test_that_strict_export_gives_the_same_groups() -> None:
    program = torch.export.export(Blocks().eval(), (torch.randn(2, 4),), strict=True)
    strict = snapshot(program.run_decompositions(), "float")
    assert {("blocks", "0"), ("relu@1",), ("heads", "left")} <= {n.group for n in strict.nodes}


def test_that_dynamic_sizes_keep_their_symbol() -> None:
    batch = torch.export.Dim("batch", min=2, max=8)
    program = torch.export.export(Blocks().eval(), (torch.randn(2, 4),), dynamic_shapes=({0: batch},))
    shape = snapshot(program, "float").node("linear").outputs[0].shape
    assert isinstance(shape[0], str)
    assert shape[1] == 4


def test_that_the_branches_of_cond_are_nested_groups() -> None:
    program = torch.export.export(Branching().eval(), (torch.randn(2, 4),))
    graph = snapshot(program, "float")
    relu = next(node for node in graph.nodes if node.op == "aten.relu.default")
    assert relu.id == "cond/true/relu"
    assert relu.group == ("cond", "true")
    assert graph.node("cond").kind == "control"
    assert {node.id for node in graph.producers("cond")} == {"gt", "cond/true/output", "cond/false/output"}
    assert "p_right_weight" in {node.id for node in graph.producers("cond/false/linear")}


def test_that_a_loop_shows_its_condition_and_body() -> None:
    from torch._higher_order_ops.while_loop import while_loop

    class Loop(nn.Module):
        def forward(self, x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x.relu()), (i, x))

    graph = snapshot(torch.export.export(Loop(), (torch.randn(2), torch.tensor(0))), "float")
    assert {("while_loop", "cond"), ("while_loop", "body")} <= {n.group for n in graph.nodes}


@pytest.mark.slow
def test_that_a_transformer_has_its_layers_as_groups(tmp_path: Path) -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    net = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).train()
    program = torch.export.export(net, (torch.randn(1, 5, 16),)).run_decompositions()
    graph = snapshot(program, "float", net)
    groups = {node.group[:2] for node in graph.nodes}
    assert {("layers", "0"), ("layers", "1"), ("layers", "2")} <= groups
    graph.save(tmp_path / "graph.json")
    assert GraphSnapshot.load(tmp_path / "graph.json") == graph

"""Accelerated lowering gives the bytes of stock lowering, whatever the numbers look like."""

from __future__ import annotations

import gc
import pickle
from typing import TYPE_CHECKING, Any

import pytest
import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec
from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config
from torch import nn
from torch._export import utils as export_utils
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.fx import GraphModule, proxy, traceback
from torch.utils import _pytree

from tests.engine.acceleration import programs
from workbench.engine.acceleration import gate, remembered
from workbench.engine.acceleration.table import ACCELERATIONS, accelerated, applied

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


@pytest.fixture(autouse=True)
def no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "folder", lambda: tmp_path / "cache")


@pytest.mark.parametrize("case", programs.marked(programs.CASES, {"two delegates"}))
def test_that_the_pte_has_the_same_bytes_with_all_accelerations(case: str) -> None:
    program = programs.exported(case)
    target = programs.CASES[case][2]
    stock = programs.lowered(program, EthosUCompileSpec(target))
    with applied() as ids:
        assert len(ids) == len(ACCELERATIONS)
        assert programs.lowered(program, EthosUCompileSpec(target)) == stock


@pytest.mark.slow
@pytest.mark.parametrize("row", ACCELERATIONS, ids=lambda row: row.id)
def test_that_each_acceleration_alone_keeps_the_bytes(row: Any) -> None:
    program = programs.exported("two delegates")
    stock = programs.lowered(program, EthosUCompileSpec(programs.U55))
    with applied({row.id}) as ids:
        assert ids == {row.id}
        assert programs.lowered(program, EthosUCompileSpec(programs.U55)) == stock


class Branches(nn.Module):
    """A convolution under a condition."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.left, self.right = (nn.Conv2d(3, 3, 3, padding=1) for _ in range(3))

    def forward(self, x: torch.Tensor, which: torch.Tensor) -> torch.Tensor:
        return torch.cond(which, self.left, self.right, [self.stem(x)])


def test_that_control_flow_keeps_its_bytes() -> None:
    torch.manual_seed(0)
    samples = [(torch.randn(programs.IMAGE), torch.tensor([which])) for which in (True, False)]
    quantizer = EthosUQuantizer(EthosUCompileSpec(programs.U85))
    quantizer.set_global(get_symmetric_quantization_config())
    exported = torch.export.export(Branches().eval(), samples[0])
    with torch.no_grad():
        module = quantizer._quantize_with_submodules(
            exported.module(check_guards=False), samples, is_qat=False
        )
    program = torch.export.export(module, samples[0])
    stock = programs.lowered(program, EthosUCompileSpec(programs.U85))
    with applied():
        assert programs.lowered(program, EthosUCompileSpec(programs.U85)) == stock


def test_that_the_stock_toolchain_is_back_after_the_block() -> None:
    places = [
        (GraphModule, "recompile"),
        (ExportedProgram, "run_decompositions"),
        (FakeTensorMode, "_validate_cache_key"),
        (traceback, "copy"),
        (_pytree, "tree_map"),
        (_pytree, "tree_map_only"),
        (_pytree, "tree_leaves"),
        (export_utils, "_materialize_cpp_cia_ops"),
    ]
    before = [vars(owner)[name] for owner, name in places]
    table, thresholds = dict(proxy._create_arg_bypass), gc.get_threshold()
    with applied():
        inside = [vars(owner)[name] for owner, name in places]
        assert gc.get_threshold() != thresholds
    assert all(now is not was for now, was in zip(inside, before, strict=True))
    assert [vars(owner)[name] for owner, name in places] == before
    assert proxy._create_arg_bypass == table
    assert gc.get_threshold() == thresholds


def test_that_a_module_whose_code_is_due_can_be_run_read_and_pickled_later() -> None:
    with applied({"lazy-recompile"}):
        modules = [torch.fx.symbolic_trace(nn.ReLU()) for _ in range(4)]
    x = torch.tensor([-1.0, 2.0])
    assert torch.equal(modules[0](x), torch.relu(x))
    assert "torch.nn.functional.relu" in modules[1].code
    assert torch.equal(pickle.loads(pickle.dumps(modules[2]))(x), torch.relu(x))
    assert torch.equal(torch.fx.symbolic_trace(modules[3])(x), torch.relu(x))


def test_that_a_change_after_the_code_was_written_is_seen() -> None:
    module = torch.fx.symbolic_trace(nn.ReLU())
    x = torch.tensor([-1.0, 2.0])
    with applied({"lazy-recompile"}):
        node = next(node for node in module.graph.nodes if node.op == "call_function")
        node.target = torch.neg
        node.kwargs = {}
        module.recompile()
        assert torch.equal(module(x), -x)
        assert "neg" in module.code


def test_that_containers_are_mapped_as_in_stock() -> None:
    trees = [
        ((1, [2.0, torch.ones(1)], {"a": (None, "x")}), {}),
        torch.return_types.max((torch.ones(1), torch.zeros(1))),
        torch.fx.immutable_collections.immutable_list([1, torch.ones(2)]),
        torch.ones(3),
        [],
    ]

    def results() -> list[str]:
        mapped = [_pytree.tree_map(lambda leaf: (leaf,), tree) for tree in trees]
        only = [_pytree.tree_map_only(torch.Tensor, torch.neg, tree) for tree in trees]
        numbers = [_pytree.tree_map_only((int, float), str, tree) for tree in trees]
        leaves = [_pytree.tree_leaves(tree) for tree in trees]
        return [repr((type(x), x)) for x in (*mapped, *only, *numbers, *leaves)]

    stock = results()
    with applied({"direct-trees"}):
        assert results() == stock


def test_that_nothing_is_changed_when_switched_off_or_unproven(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines: list[str] = []
    with accelerated(log=lines.append) as ids:
        assert ids == {row.id for row in ACCELERATIONS}
    with accelerated(enabled=False, log=lines.append) as ids:
        assert ids == set()
    assert lines == []
    monkeypatch.setattr(gate, "versions", lambda: {"python": "3.11", "torch": "9.9"})
    with accelerated(log=lines.append) as ids:
        assert ids == set()
    assert "torch 9.9" in lines[0]


def test_that_the_self_test_proves_an_unknown_set_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(gate, "PROVEN", ())
    assert not gate.approve(lines.append)
    assert gate.prove(lines.append)
    assert gate.approve(lines.append)


def test_that_a_failed_self_test_goes_before_the_list_of_proven_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(
        "workbench.engine.acceleration.selftest.differences", lambda log: ["attention"]
    )
    assert not gate.prove(lines.append)
    assert not gate.approve(lines.append)
    assert "attention" in lines[0]

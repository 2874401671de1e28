"""Accelerated lowering gives the bytes of stock lowering, whatever the numbers look like."""

from __future__ import annotations

import gc
import importlib
import inspect
import pickle
from typing import TYPE_CHECKING, Any

import pytest
import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec
from torch import nn
from torch.fx import proxy
from torch.utils import _pytree

from tests.engine.acceleration import programs
from workbench import disk_cache, toolchain_versions
from workbench.engine.acceleration.table import LOWERING
from workbench.engine.runtime.accelerated import accelerated, applied
from workbench.engine.selftest import proof as selftest

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
    monkeypatch.setattr(disk_cache, "folder", lambda: tmp_path / "cache")


# Quickly, the script of a small project is compared, which is the stock toolchain.
@pytest.mark.slow
@pytest.mark.parametrize("case", programs.CASES)
def test_that_the_pte_has_the_same_bytes_with_all_accelerations(case: str) -> None:
    program = programs.exported(case)
    target = programs.CASES[case][2]
    stock = programs.lowered(program, EthosUCompileSpec(target))
    with applied() as ids:
        assert len(ids) == len(LOWERING)
        assert programs.lowered(program, EthosUCompileSpec(target)) == stock


@pytest.fixture(scope="module")
def two_delegates() -> tuple[Any, bytes]:
    program = programs.exported("two delegates")
    return program, programs.lowered(program, EthosUCompileSpec(programs.U55))


@pytest.mark.slow
@pytest.mark.parametrize("row", LOWERING, ids=lambda row: row.id)
def test_that_each_acceleration_alone_keeps_the_bytes(row: Any, two_delegates: tuple[Any, bytes]) -> None:
    program, stock = two_delegates
    with applied({row.id}) as ids:
        assert ids == {row.id}
        assert programs.lowered(program, EthosUCompileSpec(programs.U55)) == stock


@pytest.mark.slow
@pytest.mark.parametrize("case", selftest.CASES, ids=lambda case: case.name)
def test_that_the_self_test_finds_no_difference(case: Any) -> None:
    lines: list[str] = []
    assert not selftest.differs(case, lines.append), lines


@pytest.mark.slow
def test_that_control_flow_keeps_its_bytes() -> None:
    case = next(case for case in selftest.CASES if case.has_branches)
    assert not selftest.differs(case, print)


def test_that_the_stock_toolchain_is_back_after_the_block() -> None:
    places = [
        _owner_and_name(path)
        for row in LOWERING
        for path in row.patches
        if not path.endswith(":_create_arg_bypass")
    ]
    thresholds = gc.get_threshold()
    table = dict(proxy._create_arg_bypass)
    before = [inspect.getattr_static(owner, name) for owner, name in places]
    with applied():
        inside = [inspect.getattr_static(owner, name) for owner, name in places]
        assert gc.get_threshold() != thresholds
        assert proxy._create_arg_bypass != table
    assert all(now is not was for now, was in zip(inside, before, strict=True))
    assert [inspect.getattr_static(owner, name) for owner, name in places] == before
    assert proxy._create_arg_bypass == table
    assert gc.get_threshold() == thresholds


def _owner_and_name(path: str) -> tuple[Any, str]:
    module, _, names = path.partition(":")
    owner: Any = importlib.import_module(module)
    *parents, name = names.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    return owner, name


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
    with applied({"pytree-map"}):
        assert results() == stock


def test_that_nothing_is_changed_when_switched_off_or_unproven(monkeypatch: pytest.MonkeyPatch) -> None:
    with accelerated() as ids:
        assert ids == {row.id for row in LOWERING}
    with accelerated(enabled=False) as ids:
        assert ids == set()
    monkeypatch.setattr(toolchain_versions, "versions", lambda: {"python": "3.13"})
    with accelerated() as ids:
        assert ids == set()
    assert "python 3.13" in toolchain_versions.status().reason


@pytest.mark.slow
def test_that_the_self_test_proves_an_unknown_set_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain_versions, "PROVEN", ())
    monkeypatch.setattr(selftest, "CASES", selftest.CASES[:1])
    assert not toolchain_versions.status().active
    assert selftest.prove(print)
    assert toolchain_versions.status().active


def test_that_a_failed_self_test_goes_before_the_list_of_proven_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(selftest, "differences", lambda log: ["attention"])
    lines: list[str] = []
    assert not selftest.prove(lines.append)
    assert not toolchain_versions.status().active
    assert "attention" in lines[0]

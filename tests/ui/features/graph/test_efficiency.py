"""The overlays of what operations lose against the device's limits."""

import pytest

from tests.fakes.results import result_of
from ui.features.graph.graph_results import CompiledRow, cost
from ui.features.graph.marks import Marks, Overlay
from workbench.graph.hierarchy import Hierarchy


def row(owner, cycles, ideal):
    operation = result_of("lower").vela[0].operations[0]
    changed = operation.model_copy(update={"cycles": cycles, "ideal_cycles": ideal})
    return CompiledRow(changed, owner, None)


def test_that_efficiency_is_that_of_all_rows_of_an_operation():
    rows = [row("conv2d", 900, 450), row("conv2d", 100, 50), row("linear", 200, 200)]
    known = {measure.id: measure for measure in cost(rows, "exported", 128)}
    assert known["efficiency"].values == {"conv2d": pytest.approx(50), "linear": 100}
    assert known["lost_cycles"].values == {"conv2d": 500, "linear": 0}


def test_that_nothing_is_said_without_limits():
    assert "efficiency" not in {m.id for m in cost([row("conv2d", 900, 0)], "exported", 128)}


def test_that_a_closed_group_has_the_efficiency_of_its_operations_together(layers):
    rows = [row("conv2d_0", 900, 90), row("relu_0", 100, 100), row("conv2d_1", 50, 50)]
    known = {measure.id: measure for measure in cost(rows, "exported", 128)}
    told, weights = known["efficiency"], known[known["efficiency"].weigher].values
    marks = Marks()
    marks.overlay = Overlay(told.values, "", merge=told.merge, weights=weights)
    tree = Hierarchy(layers)
    # 190 of 1000 cycles; the lowest is 10 %, and the mean of both 55 %.
    assert marks.amount("layers/0/", tree) == pytest.approx(19)
    assert marks.amount("conv2d_0", tree) == pytest.approx(10)

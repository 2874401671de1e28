"""Costs by operation and module; quality rows; deliverables."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtTest import QAbstractItemModelTester

from tests.fakes.results import result_of
from ui.features.accuracy.quality_cards import (
    OUTPUT_COLUMNS,
    TENSOR_COLUMNS,
    describe_output,
    describe_quality,
)
from ui.features.cost.cost_table import (
    CPU_COLUMNS,
    MODULE_COLUMNS,
    OPERATION_COLUMNS,
    depths,
    describe_cpu_node,
    describe_module,
    module_name,
)
from ui.features.deliver.deliver_panel import FILE_COLUMNS, describe_file
from ui.shared.npu_operations import OperationRow, describe_operation, operation_rows
from ui.shared.sortable_table import FigureTableModel, Role
from workbench.targets.ethos_u.efficiency import by_module

MODULES = ("a.x.1", "a.x.2", "", "a.y", "b", "a.x.1")


def lowered(delegates=1, modules=MODULES):
    result = result_of("lower")
    base = result.vela[0].operations[0]
    operations = tuple(
        base.model_copy(update={"module": m, "cycles": 10 * (i + 1)}) for i, m in enumerate(modules)
    )
    reports = tuple(
        result.vela[0].model_copy(update={"delegate": d, "operations": operations}) for d in range(delegates)
    )
    return result.model_copy(update={"vela": reports, "delegates": delegates})


def test_that_operations_of_every_delegate_stand_in_order_with_shares():
    rows = operation_rows(lowered(2))
    assert [row.delegate for row in rows] == [0] * 6 + [1] * 6
    assert sum(row.share for row in rows) == pytest.approx(1.0)
    assert "estimated by Vela" in describe_operation(rows[0])
    assert operation_rows(lowered(0)) == []


def test_that_the_deepest_module_gives_the_depths():
    assert depths(operation_rows(lowered())) == 3
    assert depths([]) == 1


def test_that_a_module_says_how_near_the_limit_it_is_and_what_it_is_lost_to(qtbot):
    operations = [
        o.model_copy(update={"ideal_cycles": 2, "cause": "stride"}) for o in lowered().vela[0].operations
    ]
    near, *rest = operations
    near = near.model_copy(update={"ideal_cycles": 9, "cause": "", "module": "near"})
    model = FigureTableModel(MODULE_COLUMNS, describe_module)
    model.set_rows(by_module([near, *rest]))
    titles = [column.title for column in MODULE_COLUMNS]
    shown = {
        model.index(row, 0).data(): [
            model.index(row, titles.index(t)).data() for t in ("Efficiency", "Lost to")
        ]
        for row in range(model.rowCount())
    }
    assert shown["near"] == ["90 %", "\u2013"]
    assert shown["a.y"] == ["5 %", "stride above 3"]
    assert module_name(by_module(rest)[1]) == "(outside modules)"
    said = describe_operation(OperationRow(0, 0, rest[2].model_copy(update={"efficiency": 0.05}), 0.1))
    assert "efficiency 5 %: the device needs at least 2 cycles; lost to stride above 3" in said


def test_that_an_operation_without_cycles_has_no_efficiency():
    (first, *_) = lowered().vela[0].operations
    table = FigureTableModel(OPERATION_COLUMNS, describe_operation)
    free = first.model_copy(update={"cycles": 0, "efficiency": 1.0})
    table.set_rows([OperationRow(0, 0, free, 0.0), OperationRow(1, 0, first, 1.0)])
    column = [c.title for c in OPERATION_COLUMNS].index("Efficiency")
    assert [table.index(row, column).data() == "\u2013" for row in (0, 1)] == [True, False]


def test_that_every_table_keeps_qts_contract(qtbot):
    mode = QAbstractItemModelTester.FailureReportingMode.Fatal
    evaluate, package = result_of("evaluate"), result_of("package")
    for model, rows in (
        (FigureTableModel(OPERATION_COLUMNS, describe_operation), operation_rows(lowered())),
        (FigureTableModel(MODULE_COLUMNS, describe_module), by_module(lowered().vela[0].operations)),
        (FigureTableModel(CPU_COLUMNS, describe_cpu_node), lowered().cpu_nodes),
        (FigureTableModel(FILE_COLUMNS, describe_file), package.files),
        (FigureTableModel(OUTPUT_COLUMNS, describe_output), evaluate.outputs),
        (FigureTableModel(TENSOR_COLUMNS, describe_quality), evaluate.tensors),
    ):
        tester = QAbstractItemModelTester(model, mode)
        model.set_rows(rows)
        for column in range(model.columnCount()):
            model.sort(column)
        assert model.rowCount() == len(rows)
        model.set_rows([])
        del tester


def test_that_the_share_of_cycles_has_a_bar(qtbot):
    model = FigureTableModel(OPERATION_COLUMNS, describe_operation)
    model.set_rows(operation_rows(lowered()))
    assert model.index(0, 4).data(Role.SHARE) == pytest.approx(10 / 210)
    assert model.index(0, 4).data() == "4.76 %"


def test_that_a_cpu_node_says_why(qtbot):
    model = FigureTableModel(CPU_COLUMNS, describe_cpu_node)
    model.set_rows(result_of("lower").cpu_nodes)
    assert model.index(0, 1).data() == "float32 is not taken"


def test_that_a_corrected_operation_says_what_vela_says_and_why():
    kept, changed = operation_rows(lowered())[:2]
    changed = replace(
        changed,
        operation=changed.operation.model_copy(
            update={"cycles": 40, "cycles_vela": 90, "corrections": ("no_activation",)}
        ),
    )
    model = FigureTableModel(OPERATION_COLUMNS, describe_operation)
    model.set_rows([kept, changed])
    column = next(i for i, c in enumerate(OPERATION_COLUMNS) if c.title == "Vela says")
    assert model.index(1, column).data() == "90"
    assert "Vela says 90 cycles; corrected: output without activation" in describe_operation(changed)
    assert "Vela says" not in describe_operation(kept)

"""One device of each kind, the chosen one first, and configs behind the names of columns."""

import pytest

from workbench.errors import WorkbenchError
from workbench.project.model import TargetChoice
from workbench.studies.matrix import Cell, DevicePlacement, Placement, config_of, one_of_each_kind
from workbench.targets import target_of


def test_that_the_chosen_device_stands_for_its_kind_and_its_options_go_along():
    choice = TargetChoice(id="ethos-u65-512", options={"optimise": "Size"})
    found = one_of_each_kind(choice)
    kinds = {variant.id: variant.kind for variant in target_of(choice.id).variants}
    assert found[0] == (kinds["ethos-u65-512"], choice)
    assert {kind for kind, _ in found} == set(kinds.values())
    assert len(found) == 3
    for kind, other in found:
        assert kinds[other.id] == kind
        assert other.options == {"optimise": "Size"}


def test_that_a_target_that_places_nothing_is_refused():
    with pytest.raises(WorkbenchError) as caught:
        one_of_each_kind(TargetChoice(id="formats"))
    assert caught.value.infos[0].where.id == "target.id"


def test_that_a_column_of_trained_weights_has_the_config_of_its_name():
    assert config_of("a8w4-qat") == "a8w4"
    assert config_of("a8w4") == "a8w4"


def test_that_a_cell_claims_nothing_that_was_not_computed():
    cell = Cell(target="ethos-u55-128", config="a8w8")
    assert (cell.warned, cell.delegates, cell.cycles, cell.exact) == (False, 0, 0, None)
    assert (cell.cpu_nodes, cell.max_lsb, cell.gain_db) == (0, 0, None)
    assert not Placement().is_done


def test_that_a_device_that_cannot_run_the_model_has_no_operators():
    placed = DevicePlacement(kind="Ethos-U55", target="ethos-u55-128", problem="No.")
    assert (placed.npu, placed.cpu) == (0, ())

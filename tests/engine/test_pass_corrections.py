"""Corrections of single passes of ExecuTorch: with one a program is made, and it is right."""

import shutil
from pathlib import Path

import pytest

from tests.engine.in_process import Engine, as_written, project, without
from tests.engine.remedies import follow
from workbench.project import edits
from workbench.project.model import DataSource
from workbench.targets.ethos_u.corrections import SWITCHED_OFF

pytestmark = pytest.mark.engine
NETWORKS = Path(__file__).with_name("pass_networks.py")


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    made = Engine(tmp_path_factory.mktemp("passes"))
    shutil.copy(NETWORKS, made.folder)
    yield made
    made.close()


def network(name, config="a8w8", **fields):
    return as_written(project(f"{NETWORKS.name}:{name}", config, "ethos-u85-256", **fields))


def test_that_means_that_lie_halfway_are_those_of_the_quantized_model(engine):
    assert engine.verified(network("halves")).max_lsb == 0


@pytest.mark.slow
def test_that_means_that_lie_halfway_are_others_without_the_correction(engine):
    assert engine.verified(without(network("halves"), "pool_zero_points")).max_lsb == 1


FAILING = [
    pytest.param("attending_constants", "static_sizes", marks=pytest.mark.slow),
    ("selected_deviation", "static_sizes"),
    ("viewed", "views_reshaped"),
    ("clipped", "clamps_from_hardtanh"),
    pytest.param("halved_until_small", "loops_of_single_numbers", marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "correction"), FAILING)
def test_that_a_pass_fails_on_a_network_without_its_correction(engine, name, correction):
    assert engine.run(without(network(name), correction), "verify") == "failed"
    assert engine.failure.code == SWITCHED_OFF
    assert engine.failure.where.id == f"target.options.{correction}"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "correction"), FAILING)
def test_that_a_network_that_a_pass_fails_on_goes_through(engine, name, correction):
    assert engine.verified(network(name)).max_lsb <= 1
    rows = engine.result(network(name), "prepare").corrections
    assert next(row.places for row in rows if row.id == correction)


def test_that_rows_that_are_sorted_come_back_in_their_order(engine):
    # The assignment by computed places is a new value of one type, without the correction.
    assert engine.verified(network("inverted_order")).max_lsb <= 1


def test_that_places_are_known_where_operators_were_taken_apart_before(engine):
    made = network("viewed")
    edited = edits.assign(made, "module_name", "last", "a16w8")
    places = []
    for project_of_run in (made, edited):
        assert engine.run(project_of_run, "prepare") == "done", engine.failure
        rows = engine.result(project_of_run, "prepare").corrections
        places.append(next(row.places for row in rows if row.id == "views_reshaped"))
    assert places[0] == places[1] != ()


@pytest.mark.slow
def test_that_a_loop_with_a_part_on_the_cpu_is_refused(engine):
    refused, remedied = network("counted_as_floats"), network("counted_in_python")
    assert follow(engine, "loop-on-cpu", refused, remedied).where.id == "while_loop"


@pytest.mark.slow
def test_that_a_loop_that_counts_is_refused_with_a_remedy_that_works(engine):
    remedied = network("counted_in_python")
    assert follow(engine, "loop-not-lowerable", network("counted"), remedied).where.id == "while_loop"
    assert engine.result(remedied, "verify").max_lsb <= 1


@pytest.mark.slow
def test_that_a_sum_in_a_branch_has_a_kernel_of_8_bits(engine):
    """ExecuTorch gives passes over the graph of a branch no program, which has the kernel."""
    data = DataSource(spec=f"{NETWORKS.name}:both_branches")
    made = network("summed_in_branch", "a16w8", calibration=data)
    rows = engine.lowered(made).corrections
    assert next(row.places for row in rows if row.id == "sums_in_8_bits")
    assert engine.run(without(made, "sums_in_8_bits"), "lower", "evaluate") == "failed"

"""Every tensor inside the integer program, against real runs of the reference model."""

import numpy as np
import pytest

from tests.engine.in_process import CALIBRATED, project, without
from workbench.graph.snapshot import GraphSnapshot
from workbench.project import edits
from workbench.project.model import Evaluation
from workbench.results import GRAPH_FILE

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]


def test_that_every_tensor_inside_is_compared_and_the_first_divergence_named(engine):
    made = project("small", **CALIBRATED)
    assert engine.run(made, "verify", "evaluate") == "done"
    found = engine.result(made, "verify")
    tensors = {t.tensor: t for t in found.tensors}
    assert {"relu", "linear"} <= set(tensors)
    assert found.tensor_samples == 4
    assert all(t.max_lsb <= 2 and t.exact > 0.5 for t in tensors.values())
    assert all(t.sqnr_db is None or t.sqnr_db > 25 for t in tensors.values())
    unequal = [t.tensor for t in found.tensors if t.max_lsb]
    assert found.first_divergence == (unequal[0] if unequal else "")


@pytest.mark.slow
def test_that_tensors_inside_name_the_operation_that_makes_them(engine):
    made = project("normed", target="ethos-u85-256", **CALIBRATED)
    assert engine.run(made, "verify") == "done", engine.events
    graph = GraphSnapshot.load(engine.path(made, "export") / GRAPH_FILE).nodes_by_id
    tensors = engine.result(made, "verify").tensors
    assert {"linear", "linear_1", "add"} <= {tensor.origin for tensor in tensors}
    assert all(tensor.max_lsb <= 2 and tensor.exact > 0.5 for tensor in tensors)
    assert all(graph[t.origin].module == t.module for t in tensors if t.origin)


def test_that_outputs_stay_the_same_bits_when_inner_tensors_are_exposed(engine):
    import tosa_reference_model

    from workbench.engine.ethos_u.intermediates import exposed, output_names

    made = project("small", **CALIBRATED)
    assert engine.run(made, "lower", "evaluate") == "done"
    flatbuffer = (engine.path(made, "lower") / "delegate_0.tosa").read_bytes()
    names = output_names(flatbuffer)
    more = exposed(flatbuffer, [*names, "tosa_conv2d_default"])
    assert output_names(more) == [*names, "tosa_conv2d_default"]
    inputs = [np.arange(-96, 96, dtype=np.int8).reshape(1, 3, 8, 8)]
    runs = [
        tosa_reference_model.run(
            program, inputs, verbosity="NONE", initialize_variable_tensor_from_numpy=True
        )[0]
        for program in (flatbuffer, more)
    ]
    assert len(runs[1]) == len(names) + 1
    for plain, exposing in zip(runs[0], runs[1], strict=False):
        assert np.array_equal(plain, exposing)


@pytest.mark.slow
def test_that_two_delegates_and_a_fixed_range_are_followed_too(engine):
    made = without(project("functional6"), "plain_operators")
    made = edits.fix_range(made, "conv2d_1", -0.5, 0.5)
    assert engine.run(made, "verify", "evaluate") == "done"
    found = {t.tensor: t for t in engine.result(made, "verify").tensors}
    assert {"conv2d", "conv2d_1"} <= set(found)
    assert all(t.max_lsb <= 2 for t in found.values())


def test_that_samples_are_listed_worst_first_and_shares_of_the_error_sum_to_one(engine):
    made = project("small", evaluation=Evaluation(hold_out=False), **CALIBRATED)
    assert engine.run(made, "evaluate") == "done"
    found = engine.result(made, "evaluate")
    assert sorted(s.sample for s in found.worst) == list(range(8))
    keys = [(s.float_class == s.quantized_class, s.sqnr_db) for s in found.worst]
    assert keys == sorted(keys)
    assert sum(t.error_share or 0.0 for t in found.tensors) == pytest.approx(1.0)


@pytest.mark.parametrize("network", ["lengths", pytest.param("lengths_twice", marks=pytest.mark.slow)])
def test_that_a_table_at_the_end_of_a_decomposed_operator_is_compared_with_itself(engine, network):
    made = project(f"wide_networks.py:{network}")
    assert engine.run(made, "verify", "evaluate") == "done", engine.failure
    verified = engine.result(made, "verify")
    assert verified.max_lsb == 0
    compared = {tensor.tensor: tensor.max_lsb for tensor in verified.tensors}
    assert "pow_1" in compared
    assert set(compared.values()) == {0}


@pytest.mark.slow
def test_that_parts_and_changes_of_layout_are_compared_with_themselves_or_left_out(engine):
    made = project("wide_networks.py:laid_out")
    assert engine.run(made, "verify", "evaluate") == "done", engine.failure
    compared = {tensor.tensor: tensor.max_lsb for tensor in engine.result(made, "verify").tensors}
    assert {"conv2d", "mul", "cat"} <= set(compared)
    assert set(compared.values()) == {0}

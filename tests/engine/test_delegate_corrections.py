"""Corrections of delegates' graphs: with one the compiled program is what its TOSA is."""

import shutil
from pathlib import Path

import pytest

from tests.engine.in_process import Engine, project
from workbench.graph.snapshot import GraphSnapshot
from workbench.pipeline.resolution import resolve_graph, whole_refusals
from workbench.project import edits
from workbench.project.model import TargetChoice
from workbench.results import GRAPH_FILE
from workbench.targets.ethos_u.correction import (
    COMPUTED,
    FLIPPED,
    JOINED,
    LAYOUTS,
    MOVED,
    NEGATED,
    PIXELS,
    POOLS,
    QUANTIZED,
    RESCALED,
    ROWS,
    SLICES,
)

pytestmark = pytest.mark.engine
NETWORKS = Path(__file__).with_name("delegate_networks.py")
BESIDE = "beside_networks.py"
U55, U65, U85 = "ethos-u55-128", "ethos-u65-256", "ethos-u85-256"


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    made = Engine(tmp_path_factory.mktemp("delegates"))
    for name in (NETWORKS.name, "corrected_networks.py", BESIDE):
        shutil.copy(NETWORKS.with_name(name), made.folder)
    yield made
    made.close()


def network(name, config, device, **options):
    made = project(name if ":" in name else f"{NETWORKS.name}:{name}", config, device)
    return edits.set_target(made, TargetChoice(id=device, options=options))


def places(engine, made, correction):
    results = engine.result(made, "prepare"), engine.result(made, "lower")
    rows = [row for result in results for row in result.corrections]
    return next(row.places for row in rows if row.id == correction)


def is_right(engine, made):
    """Return whether the program compiles and computes what the quantized model does."""
    if engine.run(made, "verify", "evaluate") != "done":
        return False
    found = engine.result(made, "verify")
    told = found.compiled
    same = not told.refused and not told.findings and told.equal == told.elements
    return same and found.max_lsb <= 4


def foretold(engine, made):
    """Return the options that ``check`` names before anything is compiled."""
    assert engine.run(made, "prepare") == "done"
    graph = GraphSnapshot.load(engine.path(made, "export") / GRAPH_FILE)
    infos = whole_refusals(made, graph, resolve_graph(made, graph))
    return {info.where.id for info in infos}


# Some that no other quick test shows. The figures of all corrections are held by another test.
QUICK = [
    ("function_of_flipped", "a8w8", U85, LAYOUTS),
    ("wide_padded_pool", "a8w8", U85, POOLS),
    ("summed_rows", "a8w8", U85, ROWS),
]
SLOW = [
    ("function_of_sums", "a8w8", U55, ROWS),
    ("function_of_sums", "a16w8", U85, ROWS),
    ("function_of_largest", "a8w8", U85, ROWS),
    ("clamped_batch", "a8w8", U65, ROWS),
    ("summed_rows", "a16w8", U55, ROWS),
    ("summed_columns", "a8w8", U55, ROWS),
    ("summed_columns", "a16w8", U85, ROWS),
    ("rows_compared", "a16w8", U65, RESCALED),
    ("products_of_parts", "a16w8", U55, QUANTIZED),
    ("mean_of_part", "a16w8", U85, SLICES),
    ("number_minus_value", "a8w8", U55, MOVED),
    ("negated_largest", "a8w8", U55, NEGATED),
    ("multiplied_and_joined", "a8w8", U55, JOINED),
    ("largest_of_part", "a8w8", U55, SLICES),
    ("largest_of_part", "a16w8", U85, SLICES),
    ("dilated_parts", "a8w8", U55, SLICES),
    ("dilated_parts", "a16w8", U85, SLICES),
    ("batch_in_groups", "a8w8", U85, SLICES),
    ("batch_in_groups", "a16w8", U55, SLICES),
    ("least_of_part", "a8w8", U85, SLICES),
    ("mean_of_part", "a16w8", U55, SLICES),
    ("grown_part_of_input", "a16w8", U85, SLICES),
    ("multiplied_and_joined", "a16w8", U85, JOINED),
    ("padded_product", "a8w8", U55, JOINED),
    ("resized_and_joined", "a8w8", U55, JOINED),
    ("function_of_flipped", "a16w8", U85, LAYOUTS),
    ("function_of_flipped_clamp", "a8w8", U85, LAYOUTS),
    ("detected_and_joined", "a8w8", U85, LAYOUTS),
    ("detector_rows", "a8w8", U55, LAYOUTS),
    ("detector_rows", "a8w8", U85, LAYOUTS),
    ("detected_and_joined", "a8w8", "ethos-u85-128", LAYOUTS),
    ("negated_largest", "a16w8", U85, NEGATED),
    ("wide_strides", "a8w8", U85, SLICES),
    ("wide_strides", "a16w8", U85, SLICES),
    ("clamped_rows", "a16w8", U55, ROWS),
    ("clamped_rows", "a16w8", U85, ROWS),
    ("padded_batch", "a16w8", U55, SLICES),
    ("padded_batch", "a16w8", U85, SLICES),
    ("grown_batch", "a16w8", U85, SLICES),
    ("padded_and_folded", "a16w8", U85, SLICES),
    ("modulated_rows", "a8w8", U85, SLICES),
    ("modulated_rows", "a16w8", U85, SLICES),
]
CORRECTED = [*QUICK, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)]


@pytest.mark.parametrize(("name", "config", "device", "correction"), CORRECTED)
def test_that_a_program_is_right_with_its_correction_and_foretold_without(
    engine, name, config, device, correction
):
    made = network(name, config, device)
    assert is_right(engine, made)
    assert places(engine, made, correction)
    assert foretold(engine, made) == set()
    wrong = network(name, config, device, **{correction: False})
    assert foretold(engine, wrong) == {f"target.options.{correction}"}


def test_that_networks_beside_each_other_are_right_with_their_corrections(engine):
    made, corrections = (
        network(f"{BESIDE}:corrected_delegates", "a8w8", U55),
        (JOINED, NEGATED, MOVED),
    )
    assert is_right(engine, made)
    assert all(places(engine, made, correction) for correction in corrections)
    assert foretold(engine, made) == set()
    options = dict.fromkeys(corrections, False)
    wrong = network(f"{BESIDE}:corrected_delegates", "a8w8", U55, **options)
    assert foretold(engine, wrong) == {f"target.options.{each}" for each in corrections}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "config", "device", "correction"), CORRECTED)
def test_that_a_program_is_not_right_without_its_correction(
    engine, name, config, device, correction
):
    assert not is_right(engine, network(name, config, device, **{correction: False}))


@pytest.mark.slow
def test_that_a_product_is_copied_before_it_is_flipped(engine):
    """Without the copy, the process of the compiler ends."""
    made = network("flipped_product", "a8w8", "ethos-u85-2048")
    assert is_right(engine, made)
    assert len(places(engine, made, FLIPPED)) == 1
    off = network("flipped_product", "a8w8", "ethos-u85-2048", **{FLIPPED: False})
    assert foretold(engine, off) == {f"target.options.{FLIPPED}"}


@pytest.mark.slow
def test_that_a_single_pixel_is_repeated_on_the_npu(engine):
    """The process of the compiler ends on a resize of one element in 16 bits."""
    made = network("single_mean_spread", "a16w8", U55)
    assert is_right(engine, made)
    assert len(places(engine, made, PIXELS)) == 1
    off = network("single_mean_spread", "a16w8", U55, **{PIXELS: False})
    assert foretold(engine, off) == {f"target.options.{PIXELS}"}


@pytest.mark.slow
def test_that_a_single_pixel_is_resized_bilinearly_on_the_npu(engine):
    bilinear = network("mean_spread", "a8w8", U55)
    assert is_right(engine, bilinear)
    assert {node.cause for node in engine.result(bilinear, "lower").cpu_nodes} == {"border"}


@pytest.mark.slow
@pytest.mark.parametrize("config", ["a8w8", "a16w8"])
def test_that_parts_of_windows_are_copied_before_they_are_scaled(engine, config):
    """Without the copy, the process of the compiler ends."""
    made = network("windows_in_parts", config, U55)
    assert is_right(engine, made)
    assert len(places(engine, made, SLICES)) == 2
    off = network("windows_in_parts", config, U55, **{SLICES: False})
    assert foretold(engine, off) == {f"target.options.{SLICES}"}


@pytest.mark.slow
def test_that_a_transposed_convolution_of_a_part_of_the_input_goes_in_16_bits(engine):
    assert is_right(engine, network("grown_part_of_input", "a16w8", U55))


@pytest.mark.slow
def test_that_a_clamp_of_columns_that_become_a_batch_is_right(engine):
    made = network("clamped_columns", "a16w8", U55)
    assert is_right(engine, made)
    assert len(places(engine, made, ROWS)) == 1


@pytest.mark.slow
def test_that_a_clamp_of_columns_is_wrong_without_the_correction(engine):
    assert not is_right(engine, network("clamped_columns", "a16w8", U55, **{ROWS: False}))


def test_that_a_convolution_with_computed_weights_runs_on_the_cpu(engine):
    made = network("computed_kernel", "a8w8", U85)
    assert is_right(engine, made)
    assert len(places(engine, made, COMPUTED)) == 1
    operators = [node.op for node in engine.result(made, "lower").cpu_nodes]
    assert "aten.convolution.default" in operators


@pytest.mark.slow
def test_that_a_convolution_with_computed_weights_is_not_right_without_its_correction(engine):
    assert not is_right(engine, network("computed_kernel", "a8w8", U85, **{COMPUTED: False}))


@pytest.mark.slow
def test_that_a_value_that_is_only_permuted_back_and_forth_stays_off_the_npu(engine):
    assert is_right(engine, network("permuted_back_and_forth", "a16w8", U55))

"""Corrections of delegates' graphs: with one the compiled program is what its TOSA is."""

import shutil
from pathlib import Path

import pytest

from tests.engine.in_process import Engine, as_written, project
from workbench.project import edits
from workbench.project.model import TargetChoice

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


# What mends the same fault at another place, and is switched off where a correction is tested.
HIDDEN_BY = {"rescales_joined": ("equal_operations_joined",)}


def network(name, config, device, **options):
    made = project(name if ":" in name else f"{NETWORKS.name}:{name}", config, device)
    return as_written(edits.set_target(made, TargetChoice(id=device, options=options)))


def without(*corrections):
    return dict.fromkeys(corrections, False)


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


# Some that no other quick test shows. The figures of all corrections are held by another test.
QUICK = [
    ("function_of_flipped", "a8w8", U85, "activations_before_layouts"),
    ("wide_padded_pool", "a8w8", U85, "padded_pools"),
    ("pooled_functions", "a8w8", U55, "tables_before_pools"),
    ("summed_rows", "a8w8", U85, "clamps_over_rows"),
]
SLOW = [
    ("pooled_and_turned", "a8w8", U55, "outputs_kept"),
    ("pooled_and_turned", "a16w8", U85, "outputs_kept"),
    ("chosen_beside_function", "a8w8", U85, "types_of_choices"),
    ("chosen_beside_function", "a16w8", U85, "types_of_choices"),
    ("filled_choice", "a8w8", U85, "types_of_choices"),
    ("pooled_functions", "a16w8", U85, "tables_before_pools"),
    ("pooled_functions", "a8w8", U65, "tables_before_pools"),
    ("function_of_sums", "a8w8", U55, "clamps_over_rows"),
    ("function_of_sums", "a16w8", U85, "clamps_over_rows"),
    ("function_of_largest", "a8w8", U85, "clamps_over_rows"),
    ("softmax_of_groups", "a8w8", U55, "clamps_over_rows"),
    ("softmax_of_groups", "a16w8", U85, "clamps_over_rows"),
    ("function_of_grouped_sums", "a8w8", U65, "clamps_over_rows"),
    ("functions_of_anchors", "a8w8", U55, "clamps_over_rows"),
    ("functions_of_anchors", "a8w8", U85, "clamps_over_rows"),
    ("functions_of_gated_anchors", "a8w8", U55, "clamps_over_rows"),
    ("anchors_joined_again", "a8w8", U65, "clamps_over_rows"),
    ("functions_of_grouped_means", "a8w8", U55, "clamps_over_rows"),
    ("functions_of_grouped_means", "a16w8", U85, "clamps_over_rows"),
    ("clamped_batch", "a8w8", U65, "clamps_over_rows"),
    ("summed_rows", "a16w8", U55, "clamps_over_rows"),
    ("summed_columns", "a8w8", U55, "clamps_over_rows"),
    ("summed_columns", "a16w8", U85, "clamps_over_rows"),
    ("rows_compared", "a16w8", U65, "rescales_joined"),
    ("products_of_parts", "a16w8", U55, "quantized_where_computed"),
    ("mean_of_part", "a16w8", U85, "slices_computed"),
    ("number_minus_value", "a8w8", U55, "layouts_moved_to_values"),
    ("negated_largest", "a8w8", U55, "negations_rescaled"),
    ("multiplied_and_joined", "a8w8", U55, "joined_computed"),
    ("largest_of_part", "a8w8", U55, "slices_computed"),
    ("largest_of_part", "a16w8", U85, "slices_computed"),
    ("dilated_parts", "a8w8", U55, "slices_computed"),
    ("dilated_parts", "a16w8", U85, "slices_computed"),
    ("batch_in_groups", "a8w8", U85, "slices_computed"),
    ("batch_in_groups", "a16w8", U55, "slices_computed"),
    ("least_of_part", "a8w8", U85, "slices_computed"),
    ("mean_of_part", "a16w8", U55, "slices_computed"),
    ("grown_part_of_input", "a16w8", U85, "slices_computed"),
    ("multiplied_and_joined", "a16w8", U85, "joined_computed"),
    ("padded_product", "a8w8", U55, "joined_computed"),
    ("resized_and_joined", "a8w8", U55, "joined_computed"),
    ("function_of_flipped", "a16w8", U85, "activations_before_layouts"),
    ("function_of_flipped_clamp", "a8w8", U85, "activations_before_layouts"),
    ("detected_and_joined", "a8w8", U85, "activations_before_layouts"),
    ("detector_rows", "a8w8", U55, "activations_before_layouts"),
    ("functions_of_rows_of_images", "a8w8", U55, "activations_before_layouts"),
    ("functions_of_heads", "a8w8", U55, "clamps_over_rows"),
    ("functions_of_heads", "a16w8", U85, "clamps_over_rows"),
    ("products_of_heads", "a8w8", U55, "views_behind_slices"),
    ("grey_as_colours", "a8w8", U55, "joins_of_one_value"),
    ("rows_turned_around", "a16w8", U65, "joins_of_one_value"),
    ("pooled_both_ways", "a8w8", U55, "joined_computed"),
    ("pooled_both_ways", "a16w8", U85, "joined_computed"),
    ("channel_statistics", "a8w8", U65, "joined_computed"),
    ("padded_largest", "a8w8", U85, "joined_computed"),
    ("largest_before_rows", "a8w8", U55, "joined_computed"),
    ("factorized", "a8w8", U85, "functions_of_sums"),
    ("function_twice", "a8w8", U55, "twins_with_own_grids"),
    ("function_twice", "a16w8", U65, "twins_with_own_grids"),
    ("elus", "a8w8", U55, "twins_with_own_grids"),
    ("least_with_place", "a8w8", U55, "minima_from_maxima"),
    ("function_of_part_of_batch", "a8w8", U55, "clamps_over_rows"),
    ("function_of_turned_rows", "a8w8", U55, "clamps_over_rows"),
    ("function_of_batch_turned_around", "a16w8", U85, "clamps_over_rows"),
    ("function_of_batch", "a8w8", U55, "clamps_over_rows"),
    ("function_of_batch", "a8w8", U85, "clamps_over_rows"),
    ("function_of_turned_rows", "a8w8", U85, "clamps_over_rows"),
    ("columns_as_rows", "a16w8", U85, "joins_of_one_value"),
    ("padded_function_of_turned", "a8w8", U55, "activations_before_layouts"),
    ("detector_rows", "a8w8", U85, "activations_before_layouts"),
    ("detector_rows", "a16w8", U85, "activations_before_layouts"),
    ("detected_and_joined", "a8w8", "ethos-u85-128", "activations_before_layouts"),
    ("clamped_rows", "a16w8", U55, "clamps_over_rows"),
    ("clamped_rows", "a16w8", U85, "clamps_over_rows"),
    ("rotary_keys", "a8w8", U85, "slices_flattened"),
    ("rotary_keys", "a16w8", U85, "slices_flattened"),
    ("windows_in_parts", "a8w8", U85, "slices_flattened"),
    ("windows_in_parts", "a16w8", U85, "slices_flattened"),
    ("padded_batch", "a16w8", U55, "slices_computed"),
    ("padded_batch", "a16w8", U85, "slices_computed"),
    ("padded_and_folded", "a16w8", U85, "slices_computed"),
    ("modulated_rows", "a8w8", U85, "slices_computed"),
    ("modulated_rows", "a16w8", U85, "slices_computed"),
]
CORRECTED = [*QUICK, *(pytest.param(*case, marks=pytest.mark.slow) for case in SLOW)]


@pytest.mark.parametrize(("name", "config", "device", "correction"), CORRECTED)
def test_that_a_program_is_right_with_its_correction(engine, name, config, device, correction):
    made = network(name, config, device, **without(*HIDDEN_BY.get(correction, ())))
    assert is_right(engine, made)
    assert places(engine, made, correction)


def test_that_networks_beside_each_other_are_right_with_their_corrections(engine):
    made, corrections = (
        network(f"{BESIDE}:corrected_delegates", "a8w8", U55),
        ("joined_computed", "negations_rescaled", "layouts_moved_to_values"),
    )
    assert is_right(engine, made)
    assert all(places(engine, made, correction) for correction in corrections)


# They were wrong once. With each correction off, and with all that change them, they are right today.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "config", "device"),
    [
        ("turned_function_in_images", "a8w8", U55),
        ("turned_function_in_images", "a8w8", U85),
        ("anchors_of_batch", "a8w8", U55),
        ("anchors_of_batch", "a8w8", U85),
        ("grown_batch", "a16w8", U85),
    ],
)
def test_that_a_program_is_right(engine, name, config, device):
    assert is_right(engine, network(name, config, device))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "config", "device", "correction"), CORRECTED)
def test_that_a_program_is_not_right_without_its_correction(engine, name, config, device, correction):
    options = without(correction, *HIDDEN_BY.get(correction, ()))
    assert not is_right(engine, network(name, config, device, **options))


@pytest.mark.slow
def test_that_an_output_that_is_lost_without_the_correction_is_named(engine):
    lost = engine.verified(network("pooled_and_turned", "a8w8", U55, outputs_kept=False)).compiled
    assert [fault.code for fault in lost.findings] == ["npu-output-missing"]


@pytest.mark.slow
def test_that_a_clamp_behind_a_copy_of_several_images_is_right(engine):
    assert is_right(engine, network("turned_batch", "a8w8", U55))


@pytest.mark.slow
def test_that_a_product_is_copied_before_it_is_flipped(engine):
    """Without the copy, the process of the compiler ends."""
    made = network("flipped_product", "a8w8", "ethos-u85-2048")
    assert is_right(engine, made)
    assert len(places(engine, made, "flips_of_copies")) == 1


@pytest.mark.slow
def test_that_a_single_pixel_is_repeated_on_the_npu(engine):
    """The process of the compiler ends on a resize of one element in 16 bits."""
    made = network("single_mean_spread", "a16w8", U55)
    assert is_right(engine, made)
    assert len(places(engine, made, "repeated_pixels")) == 1


@pytest.mark.slow
def test_that_a_single_pixel_is_resized_bilinearly_on_the_npu(engine):
    bilinear = network("mean_spread", "a8w8", U55)
    assert is_right(engine, bilinear)
    assert {node.cause for node in engine.result(bilinear, "lower").cpu_nodes} == {"border"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rotary_keys", "windows_in_parts"])
@pytest.mark.parametrize(("config", "device"), [("a8w8", U55), ("a16w8", U55), ("a8w8", U65)])
def test_that_parts_of_five_dimensions_are_taken_in_fewer(engine, name, config, device):
    """In five dimensions, the process of the compiler ends."""
    made = network(name, config, device)
    assert is_right(engine, made)
    assert places(engine, made, "slices_flattened")


@pytest.mark.slow
def test_that_a_transposed_convolution_of_a_part_of_the_input_goes_in_16_bits(engine):
    assert is_right(engine, network("grown_part_of_input", "a16w8", U55))


@pytest.mark.slow
def test_that_a_clamp_of_columns_that_become_a_batch_is_right(engine):
    made = network("clamped_columns", "a16w8", U55)
    assert is_right(engine, made)
    assert len(places(engine, made, "clamps_over_rows")) == 1


@pytest.mark.slow
def test_that_a_clamp_of_columns_is_wrong_without_the_correction(engine):
    assert not is_right(engine, network("clamped_columns", "a16w8", U55, clamps_over_rows=False))


def test_that_a_convolution_with_computed_weights_runs_on_the_cpu(engine):
    made = network("computed_kernel", "a8w8", U85)
    assert is_right(engine, made)
    assert len(places(engine, made, "computed_weights_on_cpu")) == 1
    operators = [node.op for node in engine.result(made, "lower").cpu_nodes]
    assert "aten.convolution.default" in operators


@pytest.mark.slow
def test_that_a_convolution_with_computed_weights_is_not_right_without_its_correction(engine):
    assert not is_right(engine, network("computed_kernel", "a8w8", U85, computed_weights_on_cpu=False))


@pytest.mark.slow
def test_that_a_value_that_is_only_permuted_back_and_forth_stays_off_the_npu(engine):
    assert is_right(engine, network("permuted_back_and_forth", "a16w8", U55))

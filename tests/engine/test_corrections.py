"""Corrections of the tools: with one a program is the quantized model, without it is not."""

import shutil
from pathlib import Path

import pytest

from tests.engine.in_process import Engine, as_written, project
from workbench.project import edits
from workbench.project.model import DataSource, TargetChoice
from workbench.targets.ethos_u.corrections import CORRECTIONS, SWITCHED_OFF

pytestmark = pytest.mark.engine

FOLDER = Path(__file__).parent
BESIDE = "beside_networks.py"
U55, U85 = "ethos-u55-128", "ethos-u85-256"


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    made = Engine(tmp_path_factory.mktemp("corrections"))
    for name in ("corrected_networks.py", "delegate_networks.py", "unseen_networks.py", BESIDE):
        shutil.copy(FOLDER / name, made.folder)
    yield made
    made.close()


def network(name, config="a8w8", device=U55, data="", **options):
    source = DataSource(spec=f"corrected_networks.py:{data}") if data else None
    spec = name if ":" in name else f"corrected_networks.py:{name}"
    made = project(spec, config, device, calibration=source)
    return as_written(edits.set_target(made, TargetChoice(id=device, options=options)))


def worst(engine, *given, **options):
    return engine.verified(network(*given, **options)).max_lsb


def places(engine, made, correction, *stages):
    """Return where a correction was applied to a project that is lowered, or in these stages."""
    results = [engine.result(made, stage) for stage in stages or ("prepare", "lower")]
    rows = [row for result in results for row in result.corrections]
    return next(row.places for row in rows if row.id == correction)


def assert_right(engine, made):
    """Assert that the compiled program computes what its TOSA says."""
    told = engine.verified(made).compiled
    assert (told.equal, told.refused, told.findings) == (told.elements, "", ())


def is_wrong(engine, made):
    """Return whether the compiled program is refused or does not compute what its TOSA says."""
    told = engine.verified(made).compiled
    return told.refused or told.equal < told.elements


def test_that_a_relu_into_a_shared_range_keeps_its_clamp(engine):
    assert worst(engine, "joined_and_scaled") <= 1


@pytest.mark.slow
def test_that_a_relu_into_a_shared_range_loses_its_clamp_without_the_correction(engine):
    assert worst(engine, "joined") <= 1
    assert worst(engine, "joined", keep_relu_clamps=False) > 20


def test_that_the_result_names_what_was_corrected(engine):
    made = network("joined_and_scaled")
    found = (*engine.lowered(made).corrections, *engine.result(made, "prepare").corrections)
    assert engine.result(made, "lower").warnings == ()
    assert {row.id: len(row.places) for row in found if row.places} == {
        "keep_relu_clamps": 1,
        "fine_factors": 1,
    }
    assert {row.state for row in found} == {"on"}
    assert {row.id for row in found} == {row.id for row in CORRECTIONS}


@pytest.mark.slow
def test_that_the_result_names_what_was_switched_off(engine):
    made = network("joined_and_scaled", keep_relu_clamps=False, fine_factors=False)
    found = (*engine.lowered(made).corrections, *engine.result(made, "prepare").corrections)
    off = {(each.id, each.places) for each in found if each.state == "off"}
    assert off == {("keep_relu_clamps", ()), ("fine_factors", ())}


@pytest.mark.slow
def test_that_a_norm_over_many_elements_keeps_its_factor_in_16_bits(engine):
    assert decibel(engine, "group_norm_wide", "a16w8") > 40


@pytest.mark.slow
def test_that_a_norm_over_many_elements_loses_its_factor_without_the_corrections(engine):
    off = {"fine_factors": False, "fine_steps": False}
    assert decibel(engine, "group_norm_wide", "a16w8", **off) < 10


@pytest.mark.slow
def test_that_a_norm_over_many_elements_keeps_its_factor_in_8_bits(engine):
    assert decibel(engine, "group_norm", "a8w8", data="contrasts") > 20
    off = {"fine_factors": False, "fine_steps": False}
    assert decibel(engine, "group_norm", "a8w8", data="contrasts", **off) < 10


@pytest.mark.slow
@pytest.mark.parametrize("name", ["group_norm_small", "joined_linears", "stacked", "normed_and_grown"])
@pytest.mark.parametrize("device", [U55, U85])
def test_that_clamps_and_factors_are_kept_wherever_they_stand(engine, name, device):
    assert worst(engine, name, "a8w8", device) <= 3


def test_that_a_folded_factor_leaves_the_float_program_alone(engine):
    ranges = []
    for device in (U55, U85):
        made = network("multiplied", "a8w8", device)
        assert decibel(engine, "multiplied", "a8w8", device) > 30
        rows = engine.result(made, "calibrate").ranges
        ranges.append({row.node: (row.minimum, row.maximum) for row in rows})
    assert ranges[0] == ranges[1]


@pytest.mark.slow
def test_that_a_padding_in_float_is_written_with_an_operator_that_the_cpu_has(engine):
    made = edits.assign(network("padded"), "module_name", "pad", "float")
    assert engine.verified(made).max_lsb == 0
    assert "aten::constant_pad_nd.out" in engine.result(made, "lower").kernels


@pytest.mark.slow
def test_that_what_vela_refuses_in_16_bits_is_right_with_its_corrections(engine):
    name = f"{BESIDE}:corrected_in_16_bits"
    assert worst(engine, name, "a16w8") <= 32
    for correction in (
        "rounded_convolutions",
        "zeros_for_transposed",
        "sums_in_8_bits",
        "release_passthrough",
    ):
        assert places(engine, network(name, "a16w8"), correction)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["residual", "transposed", "cumulated", "passed_through", "softmax_of_convolution"]
)
def test_that_a_16_bit_program_that_vela_refuses_is_right_with_its_correction(engine, name):
    assert worst(engine, name, "a16w8") <= 32


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "correction", "code"),
    [
        ("residual", "rounded_convolutions", SWITCHED_OFF),
        ("softmax_of_convolution", "rounded_convolutions", SWITCHED_OFF),
        ("transposed", "zeros_for_transposed", SWITCHED_OFF),
        ("cumulated", "sums_in_8_bits", SWITCHED_OFF),
        ("passed_through", "release_passthrough", "passthrough-partition"),
    ],
)
def test_that_vela_refuses_a_16_bit_program_without_its_correction(engine, name, correction, code):
    made = network(name, "a16w8", **{correction: False})
    assert engine.run(made, "lower", "evaluate") == "failed"
    assert code in {info.code for info in engine.failures}


@pytest.mark.slow
def test_that_quantizing_fails_without_a_correction_with_its_switch_as_the_place(engine):
    assert engine.run(network("transposed", "a8w4", zeros_for_transposed=False), "convert") == "failed"
    assert engine.failure.code == SWITCHED_OFF
    assert engine.failure.where.id == "target.options.zeros_for_transposed"


@pytest.mark.slow
def test_that_a_value_that_is_left_out_of_a_delegate_says_why_it_is_on_the_cpu(engine):
    nodes = engine.lowered(network(f"{BESIDE}:corrected_in_16_bits", "a16w8")).cpu_nodes
    moved = [node for node in nodes if "permute" in node.op or "view" in node.op]
    assert moved
    assert {node.cause for node in moved} == {"empty"}


def test_that_check_foretells_nothing_that_a_correction_mends(engine):
    made = network(f"{BESIDE}:corrected_in_16_bits", "a16w8")
    assert engine.lowered(made).warnings == ()


@pytest.mark.slow
def test_that_a_norm_by_the_root_mean_square_is_the_quantized_model_in_16_bits(engine):
    right = worst(engine, "root_mean_square", "a16w8")
    assert right <= 32
    assert worst(engine, "root_mean_square", "a16w8", fine_tables=False) > 4 * right


@pytest.mark.slow
def test_that_a_mask_leaves_the_softmax_behind_it_right(engine):
    right = worst(engine, "attention_mask", "a16w8", U85)
    assert right <= 32
    assert worst(engine, "attention_mask", "a16w8", U85, fine_tables=False) > 4 * right


def test_that_small_activations_have_small_steps(engine):
    assert decibel(engine, "small_values", "a16w8") > 40


def test_that_grids_of_small_activations_have_head_room(engine):
    made = network("small_values", "a16w8")
    assert engine.run(made, "calibrate") == "done", engine.failure
    rows = [r for r in engine.result(made, "calibrate").ranges if r.kind == "activation"]
    parts = [max(-row.minimum, row.maximum) / (row.scale * row.qmax) for row in rows]
    # The output is a thousandth of what comes before it, whose grid is stock's.
    assert all(row.scale == 2**-12 or part < 0.126 for row, part in zip(rows, parts, strict=True))
    assert rows[-1].scale < 2**-18
    assert max(row.scale for row in rows) == 2**-12


def test_that_wide_16_bit_grids_cover_half_as_much_again_as_was_seen(engine):
    made = network("unseen_networks.py:pairwise_products", "a16w8", U85)
    assert engine.run(made, "calibrate") == "done", engine.failure
    rows = [r for r in engine.result(made, "calibrate").ranges if r.kind == "activation"]
    wide = [row for row in rows if row.scale > 2**-12]
    assert wide
    for row in wide:
        assert max(-row.minimum, row.maximum) / (row.scale * row.qmax) == pytest.approx(1 / 1.5, rel=0.01)


def test_that_weights_that_are_fractions_of_one_number_are_whole_steps(engine):
    name = "unseen_networks.py:grown_smoothly"
    stock = decibel(engine, name, "a16w8", steps_of_fractions=False)
    assert decibel(engine, name, "a16w8") > stock + 1.5
    assert len(places(engine, network(name, "a16w8"), "steps_of_fractions", "prepare")) == 4


def test_that_a_constant_factor_is_not_cut_off_in_16_bits(engine):
    name = "unseen_networks.py:chosen_leaves"
    assert decibel(engine, name, "a16w8") > decibel(engine, name, "a16w8", fine_factors=False) - 1


def test_that_a_sampled_image_keeps_its_values_beyond_one(engine):
    name = "unseen_networks.py:sampled"
    assert decibel(engine, name) > 25
    assert decibel(engine, name, images_sampled_in_float=False) < 10


def test_that_a_triangle_has_the_grid_of_its_matrix(engine):
    made = network("unseen_networks.py:pairs_below")
    assert engine.run(made, "calibrate") == "done", engine.failure
    rows = [r for r in engine.result(made, "calibrate").ranges if r.kind == "activation"]
    # Tensors that share a grid are one row.
    assert places(engine, made, "grids_of_triangles", "prepare") == ("mul_tensor_1",)
    assert [row.node for row in rows] == ["x", "relu", "mul_tensor"]


def test_that_a_logit_keeps_its_small_odds_in_8_bits(engine):
    name = "unseen_networks.py:odds"
    assert decibel(engine, name) > decibel(engine, name, logarithms_of_quotients=False) + 4


@pytest.mark.slow
def test_that_small_activations_have_coarse_steps_without_the_correction(engine):
    assert decibel(engine, "small_values", "a16w8", fine_steps=False) < 15


@pytest.mark.slow
def test_that_a_transposed_convolution_of_a_sequence_runs_on_the_npu(engine):
    name = "transposed_in_one_dimension"
    for config in ("a8w8", "a16w8"):
        assert worst(engine, name, config) <= 2
        assert on_cpu(engine, name, config) == set()
    assert "aten.convolution.default" in on_cpu(engine, name, "a8w8", zeros_for_transposed=False)


@pytest.mark.slow
def test_that_a_transposed_convolution_with_4_bits_is_right(engine):
    assert worst(engine, "transposed", "a8w4") <= 1
    assert decibel(engine, "transposed", "a8w4") > 15


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cells", "projected_lstm"])
def test_that_recurrent_cells_run_on_the_npu(engine, name):
    assert worst(engine, name) <= 1
    assert on_cpu(engine, name) == set()


@pytest.mark.parametrize(
    ("name", "correction"),
    [
        ("product_and_bias", "linears_from_addmm"),
        pytest.param("scaled_bias", "scalars_beside_parameters", marks=pytest.mark.slow),
    ],
)
def test_that_a_product_with_a_bias_is_quantized(engine, name, correction):
    assert worst(engine, name) <= 1
    assert on_cpu(engine, name) == set()
    assert places(engine, network(name), correction, "prepare")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["product_and_bias", "scaled_bias"])
def test_that_a_product_with_a_bias_is_refused_without_the_corrections(engine, name):
    switched = {"linears_from_addmm": False, "scalars_beside_parameters": False}
    assert engine.run(network(name, **switched), "prepare") == "failed"


def second_decibel(engine, *given, **options):
    decibel(engine, *given, **options)
    return engine.result(network(*given, **options), "evaluate").outputs[1].sqnr_db


@pytest.mark.slow
def test_that_weights_that_are_used_twice_are_wrong_without_the_correction(engine):
    assert engine.run(network("called_twice", own_weights=False), "evaluate") == "failed"
    assert engine.failure.code == "prepared-program-differs"


@pytest.mark.slow
def test_that_a_factor_behind_one_of_two_calls_is_kept(engine):
    assert decibel(engine, "scaled_second_call") > 30
    assert engine.run(network("scaled_second_call", own_weights=False), "evaluate") == "failed"
    assert engine.failure.code == "prepared-program-differs"


@pytest.mark.slow
def test_that_a_batch_norm_is_folded_into_weights_that_are_used_twice(engine):
    assert second_decibel(engine, "called_twice") > 30
    made = network("called_twice")
    assert engine.lowered(made).delegates == 1
    (row,) = [r for r in engine.result(made, "prepare").corrections if r.id == "own_weights"]
    assert len(row.places) == 3


def test_that_a_batch_norm_is_not_folded_into_what_others_read(engine):
    assert decibel(engine, "normed_beside") > 30
    assert places(engine, network("normed_beside"), "foldable_norms", "prepare")


@pytest.mark.slow
def test_that_a_batch_norm_is_folded_into_what_others_read_without_the_correction(engine):
    assert engine.run(network("normed_beside", foldable_norms=False), "evaluate") == "failed"
    assert engine.failure.code == "prepared-program-differs"


def test_that_batch_norms_are_folded_into_whatever_stands_before_them(engine):
    assert decibel(engine, "not_to_be_folded") > 20
    assert len(places(engine, network("not_to_be_folded"), "foldable_norms", "prepare")) == 5


@pytest.mark.slow
def test_that_batch_norms_before_a_mean_are_right_on_the_device(engine):
    for name in ("normed_beside", "not_to_be_folded"):
        assert worst(engine, name) <= 1
    assert engine.run(network("not_to_be_folded", foldable_norms=False), "prepare") == "failed"
    assert engine.failure.code == SWITCHED_OFF


def test_that_values_that_depend_on_no_input_are_constants(engine):
    assert decibel(engine, "positions", "a8w8") > 30
    assert worst(engine, "positions") <= 1


@pytest.mark.slow
def test_that_a_quantized_index_fails_without_the_correction(engine):
    # An index that was quantized is another one, or none of the table.
    made = network("positions", folded_constants=False)
    assert engine.run(made, "evaluate") == "failed"
    assert engine.failure.code == SWITCHED_OFF
    assert engine.failure.where.id == "target.options.folded_constants"


COMPILED_WRONGLY = [
    ("least", "a8w8", U55, "minima_from_maxima"),
    ("most_of_one", "a8w8", U55, "drop_reductions_of_one"),
    ("most_of_rows_of_one", "a8w8", U85, "drop_reductions_of_one"),
    ("least", "a16w8", U55, "minima_from_maxima"),
    ("two_tables", "a16w8", U85, "one_table_in_chain"),
    ("distances", "a8w8", U55, "waits_for_second_images"),
]


@pytest.mark.slow
def test_that_operators_on_images_are_right_with_their_corrections(engine):
    made = network(f"{BESIDE}:corrected_images")
    assert_right(engine, made)
    assert engine.result(made, "verify").max_lsb <= 1
    for correction, times in (
        ("minima_from_maxima", 1),
        ("drop_reductions_of_one", 1),
        ("clamps_before_transposes", 1),
        ("plain_operators", 2),
    ):
        assert len(places(engine, made, correction)) == times


@pytest.mark.slow
@pytest.mark.parametrize(("name", "config", "device", "correction"), COMPILED_WRONGLY)
def test_that_what_vela_compiles_wrongly_is_compiled_rightly(engine, name, config, device, correction):
    made = network(name, config, device)
    assert_right(engine, made)
    assert places(engine, made, correction)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "config", "device", "correction"), COMPILED_WRONGLY)
def test_that_vela_compiles_it_wrongly_without_the_correction(engine, name, config, device, correction):
    # Joined tensors are computed where they are joined, which mends the same fault.
    options = dict.fromkeys((correction, "joined_computed"), False)
    wrong = engine.verified(network(name, config, device, **options)).compiled
    assert wrong.equal < wrong.elements


@pytest.mark.slow
def test_that_constants_behind_a_change_of_layout_are_rearranged_before_they_are_compiled(engine):
    made = network("normed_image")
    assert_right(engine, made)
    assert worst(engine, "normed_image") <= 1
    assert len(places(engine, made, "constants_rearranged")) == 2


@pytest.mark.slow
def test_that_constants_behind_a_change_of_layout_are_refused_without_the_correction(engine):
    assert engine.verified(network("normed_image", constants_rearranged=False)).compiled.refused


SLICED = [
    ("correlated_halves", U55),
    ("summed_part", U85),
    ("grown_part", U55),
    ("grown_part", U85),
    ("widened_part", U55),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "device"), SLICED)
def test_that_an_operator_reads_a_slice_where_it_begins(engine, name, device):
    made = network(name, "a8w8", device)
    assert_right(engine, made)
    assert worst(engine, name, "a8w8", device) <= 1
    assert places(engine, made, "slices_computed")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "device"), SLICED)
def test_that_an_operator_reads_a_slice_elsewhere_without_the_correction(engine, name, device):
    assert is_wrong(engine, network(name, "a8w8", device, slices_computed=False))


# On U85 the clamp is computed before the change of layout, so nothing is left to turn.
CLAMPED = [(U55, "clamps_before_transposes"), (U85, "activations_before_layouts")]


@pytest.mark.slow
@pytest.mark.parametrize(("device", "correction"), CLAMPED)
def test_that_a_clamp_is_joined_in_its_place(engine, device, correction):
    made = network("clamped_and_joined", "a8w8", device)
    assert_right(engine, made)
    assert len(places(engine, made, correction)) == 1


@pytest.mark.slow
@pytest.mark.parametrize(("device", "correction"), CLAMPED)
def test_that_a_clamp_is_joined_elsewhere_without_the_correction(engine, device, correction):
    off = {"clamps_before_transposes": False, correction: False}
    assert is_wrong(engine, network("clamped_and_joined", "a8w8", device, **off))


@pytest.mark.slow
def test_that_attention_with_one_head_is_compiled_rightly(engine):
    assert_right(engine, network("single_head"))


def test_that_minima_are_left_alone_where_the_device_has_them(engine):
    made = network("least", "a8w8", U85)
    assert engine.run(made, "prepare") == "done", engine.failure
    found = engine.result(made, "prepare").corrections
    assert next(row.places for row in found if row.id == "minima_from_maxima") == ()


@pytest.mark.slow
def test_that_minima_that_are_left_alone_are_right(engine):
    assert worst(engine, "least", "a8w8", U85) <= 1


def on_cpu(engine, *given, **options):
    """Return the operators that stay on the CPU, but for conversions at the border."""
    nodes = engine.lowered(network(*given, **options)).cpu_nodes
    return {node.op for node in nodes if node.cause not in {"border", "conversion"}}


def decibel(engine, *given, **options):
    made = network(*given, **options)
    assert engine.run(made, "evaluate") == "done", engine.failure
    return engine.result(made, "evaluate").outputs[0].sqnr_db


@pytest.mark.slow
def test_that_operators_without_a_pattern_run_on_the_npu(engine):
    made = network("plain_operators")
    assert engine.verified(made).max_lsb <= 1
    assert {node.cause for node in engine.lowered(made).cpu_nodes} <= {"border"}
    assert decibel(engine, "plain_operators") > 20
    off = engine.lowered(network("plain_operators", plain_operators=False))
    assert sum(node.cause == "pattern" for node in off.cpu_nodes) > 10


@pytest.mark.parametrize(
    ("name", "config", "device"),
    [
        ("shifted", "a8w8", "ethos-u65-256"),
        *(
            pytest.param("time_shift", *case, marks=pytest.mark.slow)
            for case in (("a8w8", U55), ("a16w8", U55), ("a8w8", U85))
        ),
    ],
)
def test_that_paddings_by_less_than_nothing_are_slices(engine, name, config, device):
    assert worst(engine, name, config, device) <= (3 if config == "a16w8" else 1)


def test_that_places_of_extremes_and_divisions_by_counts_are_right(engine):
    found = engine.verified(network("places_and_counts"))
    assert [output.max_lsb for output in found.outputs if output.bits] == [0, 0]
    assert found.max_lsb == 0


@pytest.mark.slow
def test_that_places_of_extremes_are_not_prepared_without_the_correction(engine):
    assert engine.run(network("places_and_counts", plain_operators=False), "prepare") == "failed"


@pytest.mark.slow
def test_that_interpolations_run_on_the_npu(engine):
    made = network("interpolations")
    assert engine.verified(made).max_lsb <= 1
    assert {node.cause for node in engine.lowered(made).cpu_nodes} <= {"border"}
    assert decibel(engine, "interpolations") > 28


@pytest.mark.slow
def test_that_products_with_vectors_run_on_the_npu(engine):
    made = network("products_with_vectors")
    assert engine.verified(made).max_lsb <= 2
    assert {node.cause for node in engine.lowered(made).cpu_nodes} <= {"border"}


@pytest.mark.slow
def test_that_products_with_vectors_stay_on_the_cpu_without_the_corrections(engine):
    for correction in ("linears_from_addmm", "plain_operators"):
        left = engine.lowered(network("products_with_vectors", **{correction: False})).cpu_nodes
        assert "aten.bmm.default" in {node.op for node in left}


@pytest.mark.slow
def test_that_an_even_kernel_is_padded_before_it_is_quantized(engine):
    assert worst(engine, "even_kernel") <= 1


@pytest.mark.slow
def test_that_an_even_kernel_is_computed_by_the_cpu_without_the_correction(engine):
    made = network("even_kernel", plain_operators=False)
    assert engine.run(made, "lower") == "done"
    assert "aten.convolution.default" in [node.op for node in engine.result(made, "lower").cpu_nodes]


@pytest.mark.slow
def test_that_a_padding_by_nothing_is_left_out(engine):
    assert worst(engine, "padded_by_nothing") <= 1


@pytest.mark.slow
def test_that_pools_of_one_image_are_those_of_a_batch_of_one(engine):
    assert worst(engine, "pools_of_one_image") <= 1
    assert engine.run(network("pools_of_one_image", plain_operators=False), "prepare") == "failed"

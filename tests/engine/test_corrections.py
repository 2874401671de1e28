"""Corrections of the tools: with one a program is the quantized model, without it is not."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.engine.in_process import Engine, project
from workbench.engine.toolchain_patches.gate import correction_state
from workbench.engine.toolchain_patches.table import PATCHES_BY_ID
from workbench.project import edits
from workbench.project.model import DataSource, TargetChoice
from workbench.results import AppliedCorrection
from workbench.targets.ethos_u.corrections import CLAMPS, CORRECTIONS, FACTORS

pytestmark = pytest.mark.engine

NETWORKS = Path(__file__).with_name("corrected_networks.py")
U55, U85 = "ethos-u55-128", "ethos-u85-256"


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    made = Engine(tmp_path_factory.mktemp("corrections"))
    shutil.copy(NETWORKS, made.folder)
    yield made
    made.close()


def network(name, config="a8w8", device=U55, data="", **options):
    source = DataSource(spec=f"corrected_networks.py:{data}") if data else None
    made = project(f"corrected_networks.py:{name}", config, device, calibration=source)
    return edits.set_target(made, TargetChoice(id=device, options=options))


def verified(engine, made):
    assert engine.run(made, "verify", "evaluate") == "done", engine.failure
    return engine.result(made, "verify")


def worst(engine, *given, **options):
    return verified(engine, network(*given, **options)).max_lsb


def test_that_a_relu_into_a_shared_range_keeps_its_clamp(engine):
    assert worst(engine, "joined") <= 1
    assert worst(engine, "joined", **{CLAMPS: False}) > 20


def test_that_a_u_net_keeps_the_clamps_of_its_skips(engine):
    assert worst(engine, "unet_transposed") <= 3


def test_that_a_relu_with_a_grid_of_its_own_stays_fused(engine):
    (correction,) = lowered(engine, network("fire")).corrections
    assert correction == AppliedCorrection(id=CLAMPS, state="on")


def test_that_the_result_names_what_was_corrected(engine):
    made = network("joined_and_scaled")
    (clamps,) = lowered(engine, made).corrections
    assert (clamps.id, clamps.state, len(clamps.places)) == (CLAMPS, "on", 1)
    (factors,) = engine.result(made, "prepare").corrections
    assert (factors.id, factors.state, len(factors.places)) == (FACTORS, "on", 1)


def test_that_the_result_names_what_was_switched_off(engine):
    made = network("joined_and_scaled", **{CLAMPS: False, FACTORS: False})
    found = (*lowered(engine, made).corrections, *engine.result(made, "prepare").corrections)
    assert {(each.id, each.state, each.places) for each in found} == {
        (CLAMPS, "off", ()), (FACTORS, "off", ()),
    }  # fmt: skip


def test_that_a_correction_steps_aside_where_the_tools_have_another_source(monkeypatch, caplog):
    row = PATCHES_BY_ID[CLAMPS]
    other = replace(row, pins=((row.pins[0][0], "0" * 16),))
    monkeypatch.setitem(PATCHES_BY_ID, CLAMPS, other)
    assert correction_state(CLAMPS, {}) == "aside"
    assert row.title in caplog.text
    assert correction_state(CLAMPS, {CLAMPS: False}) == "off"


def test_that_the_pinned_sources_are_those_of_the_installed_tools():
    assert all(correction_state(row.id, {}) == "on" for row in CORRECTIONS)


def test_that_a_norm_over_many_elements_keeps_its_factor_in_16_bits(engine):
    assert decibel(engine, "group_norm_wide", "a16w8") > 40
    assert decibel(engine, "group_norm_wide", "a16w8", **{FACTORS: False}) < 10


@pytest.mark.slow
def test_that_a_norm_over_many_elements_keeps_its_factor_in_8_bits(engine):
    assert decibel(engine, "group_norm", "a8w8", data="contrasts") > 20
    assert decibel(engine, "group_norm", "a8w8", data="contrasts", **{FACTORS: False}) < 10


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["unet", "unet_bilinear", "dense", "inception", "shuffle", "fpn", "panet", "group_norm_small",
     "instance_norm", "layer_scale", "joined_linears", "cross_stage", "stacked",
     "normed_and_grown"],
)  # fmt: skip
@pytest.mark.parametrize(("config", "device"), [("a8w8", U55), ("a8w8", U85)])
def test_that_the_program_of_what_people_deploy_is_the_quantized_model(
    engine, name, config, device
):
    assert worst(engine, name, config, device) <= 3


def test_that_a_folded_factor_leaves_the_float_program_alone(engine):
    ranges = []
    for device in (U55, U85):
        made = network("multiplied", "a8w8", device)
        assert decibel(engine, "multiplied", "a8w8", device) > 30
        rows = engine.result(made, "calibrate").ranges
        ranges.append({row.node: (row.minimum, row.maximum) for row in rows})
    assert ranges[0] == ranges[1]


def test_that_a_padding_in_float_is_written_with_an_operator_that_the_cpu_has(engine):
    made = edits.assign(network("padded"), "module_name", "pad", "float")
    assert verified(engine, made).max_lsb == 0
    assert "aten::constant_pad_nd.out" in engine.result(made, "lower").kernels


def lowered(engine, made):
    assert engine.run(made, "lower", "evaluate") == "done", engine.failure
    return engine.result(made, "lower")


def decibel(engine, *given, **options):
    made = network(*given, **options)
    assert engine.run(made, "evaluate") == "done", engine.failure
    return engine.result(made, "evaluate").outputs[0].sqnr_db

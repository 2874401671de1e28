"""What suggestions expect is what the compiler then does."""

import pytest

from tests.engine.in_process import CALIBRATED, project, without
from workbench.graph.snapshot import GraphSnapshot
from workbench.project import edits
from workbench.results import GRAPH_FILE
from workbench.suggestions import Gain, Measurements, suggest
from workbench.suggestions.granularity import savings

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]


def lowered(engine, made):
    assert engine.run(made, "lower", "evaluate") == "done", engine.failure
    return engine.result(made, "lower")


def suggested(engine, made):
    result = lowered(engine, made)
    program, edge = (
        GraphSnapshot.load(engine.path(made, stage) / GRAPH_FILE) for stage in ("export", "lower")
    )
    found = suggest(made, result, program, edge, Measurements(prepared=engine.result(made, "prepare")))
    return {each.id: each for each in found}


def small(*rules):
    made = project("small", **CALIBRATED)
    for kind, match, config in rules:
        made = edits.assign(made, kind, match, config)
    return made


@pytest.mark.parametrize(
    ("made", "identity", "title"),
    [
        (small(), "integer_io", "Use integer inputs and outputs"),
        pytest.param(
            small(("module_name", "fc", "float")), "float:r2", "Assign a8w8 to fc", marks=pytest.mark.slow
        ),
        pytest.param(
            small(("module_name", "conv", "cpu")), "off:r2", "Run conv on the NPU", marks=pytest.mark.slow
        ),
        pytest.param(
            edits.remove_rule(small(("module_name", "conv", "a8w8")), "r1"),
            "float:",
            "Assign a8w8 to what no rule covers",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            project("spectral"),
            "magnitudes",
            "Assign a16w8 to fft_rfft, with what is computed from them",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            project("filtering"),
            "magnitudes",
            "Assign a16w8 to fft_rfft, fft_irfft, with what is computed from them",
            marks=pytest.mark.slow,
        ),
        pytest.param(project("attending", "a16w8"), "int16:1", "Assign a8w8 to 1", marks=pytest.mark.slow),
    ],
)
def test_that_an_applied_suggestion_brings_what_it_said(engine, made, identity, title):
    found = suggested(engine, made)[identity]
    assert found.title == title
    before, after = lowered(engine, made), lowered(engine, found.edit(made))
    fewer = len(before.cpu_nodes) - len(after.cpu_nodes)
    assert fewer > 0
    # All of two are "both".
    told = "both" if fewer == len(before.cpu_nodes) == 2 else str(fewer)
    assert told in found.expected.split(" of ")[0].split()
    assert identity not in suggested(engine, found.edit(made))
    counted = f"on the CPU {len(before.cpu_nodes)} → {len(after.cpu_nodes)}, counted"
    assert counted in Gain(before, after).sentence
    assert "estimated (Vela" in Gain(before, after).sentence


@pytest.mark.slow
def test_that_channels_last_is_suggested_where_it_saves_transposes(engine):
    before, after = project("module6"), project("channels_last")
    found = suggested(engine, before)["channels_last"]
    assert found.written[0].place == "networks.py, module6()"
    assert "estimated (Vela" in found.expected
    assert "channels_last" not in suggested(engine, after)
    cycles = [sum(r.cycles_total for r in lowered(engine, m).vela) for m in (before, after)]
    assert cycles[1] < cycles[0]


@pytest.mark.slow
def test_that_a_nearly_empty_block_of_channels_costs_what_the_card_says(engine):
    wide, fitting = (
        project(f"wide_networks.py:{name}") for name in ("seventeen_channels", "sixteen_channels")
    )
    card = suggested(engine, wide)["channels:conv2d"]
    said = int(card.expected.removeprefix("Up to ").split()[0].replace(",", ""))
    cycles = [
        next(
            row.cycles
            for row in lowered(engine, made).vela[0].operations
            if (row.operator, row.root) == ("Conv2D", "conv2d")
        )
        for made in (wide, fitting)
    ]
    assert said / 2 < cycles[0] - cycles[1] <= said
    assert not any(identity.startswith("channels:") for identity in suggested(engine, fitting))


@pytest.mark.slow
def test_that_a_cell_without_its_correction_gets_the_reason_and_the_card_that_help(engine):
    made = without(project("wide_networks.py:gru_cell"), "written_out_cells")
    nodes = lowered(engine, made).cpu_nodes
    assert {node.cause for node in nodes} <= {"pattern", "border", "conversion"}
    assert any("gru_cell" in node.reason for node in nodes)
    card = suggested(engine, made)["correction:written_out_cells"]
    assert {node.cause for node in lowered(engine, card.edit(made)).cpu_nodes} <= {"border"}


def test_that_without_a_rule_the_reason_is_that_there_is_none(engine):
    made = edits.remove_rule(small(("module_name", "conv", "a8w8")), "r1")
    reasons = {node.reason for node in lowered(engine, made).cpu_nodes if node.cause == "float"}
    assert reasons == {"No rule covers it, so it stays in float."}


@pytest.mark.slow
def test_that_a_relu_is_not_quantized_again_where_it_would_lose_its_clamp(engine):
    made = edits.assign(project("clamped"), "module_name", "layers.1", "float")
    off = without(made, "keep_relu_clamps")
    assert not any(identity.startswith("float:") for identity in suggested(engine, off))


@pytest.mark.slow
def test_that_a_relu_is_quantized_again_where_it_keeps_its_clamp(engine):
    made = edits.assign(project("clamped"), "module_name", "layers.1", "float")
    assert any(identity.startswith("float:") for identity in suggested(engine, made))


@pytest.mark.slow
def test_that_modules_save_together_what_the_program_saves_with_one_scale_for_each_weight(engine):
    before = project("uneven", **CALIBRATED)
    after = edits.assign(before, "global", "", "a8w8-per-tensor")
    programs = [lowered(engine, made) for made in (before, after)]
    rows = savings(*programs, ())
    assert rows
    stored = [sum(row.weight_bytes for report in p.vela for row in report.operations) for p in programs]
    assert sum(row.bytes for row in rows) == stored[0] - stored[1]
    assert abs(sum(row.bytes for row in rows) - (programs[0].pte_bytes - programs[1].pte_bytes)) < 256

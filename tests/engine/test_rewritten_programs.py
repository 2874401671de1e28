"""Programs of rewritten networks: few cycles, right, accurate as without, named as before."""

from pathlib import Path
from statistics import mean

import pytest

from tests.engine.in_process import Engine, project, without
from workbench.project import edits
from workbench.project.model import DataSource
from workbench.targets.ethos_u.rewrites import NORMS_AS_ONE, NORMS_FORWARD, REWRITES, STRIDES, TRANSPOSED

pytestmark = [pytest.mark.engine, pytest.mark.slow]
NETWORKS = Path(__file__).with_name("rewritten_networks.py")
U55, U65, U85 = "ethos-u55-128", "ethos-u65-256", "ethos-u85-256"
IDS = [row.id for row in REWRITES]
# Seeds of the weights and samples over which the quality of a network is averaged.
DRAWS = 0, 1, 2
# Cycles by Vela 5.1.0 as the networks are written are 17.2, 9.8, 2.0, 0.36 and 38.8 million on U55,
# and 14.7 million for the stem on U85.
LIMITS = [
    ("audio", "audio_data", U55, 400_000),
    ("padded_audio", "audio_data", U55, 450_000),
    ("encoder", "audio_data", U55, 400_000),
    ("long_kernel", "long_data", U55, 600_000),
    ("computed_kernel", "long_data", U55, 600_000),
    ("leads", "lead_data", U55, 150_000),
    ("padded_leads", "lead_data", U55, 200_000),
    ("patches", "picture_data", U55, 800_000),
    ("stem", "picture_data", U85, 2_000_000),
    ("grouped", "small_picture_data", U55, 250_000),
    ("audio", "audio_data", U85, 800_000),
    ("patches", "picture_data", U65, 900_000),
    ("patches", "picture_data", U85, 900_000),
    ("transposed", "decoder_data", U85, 100_000),
    ("transposed", "decoder_data", U65, 180_000),
    ("normed_encoder", "audio_data", U55, 600_000),
    ("normed_encoder", "audio_data", U85, 300_000),
    ("normed_audio", "audio_data", U55, 1_000_000),
    ("normed_audio", "audio_data", U85, 800_000),
    ("normed_leads", "lead_data", U55, 330_000),
    ("normed_leads", "lead_data", U85, 150_000),
    ("causal", "causal_data", U55, 80_000),
    ("causal", "causal_data", U85, 50_000),
    ("depthwise_audio", "depthwise_data", U55, 110_000),
    ("attention", "token_data", U55, 1_150_000),
    ("attention", "token_data", U85, 110_000),
]


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    made = Engine(tmp_path_factory.mktemp("rewrites"))
    for draw in DRAWS:
        text = NETWORKS.read_text(encoding="utf-8").replace("manual_seed(0)", f"manual_seed({draw})")
        (made.folder / file_of(draw)).write_text(text, encoding="utf-8")
    yield made
    made.close()


def file_of(draw):
    """Return the file of the networks with other random weights; the first draw is the file itself."""
    return f"{NETWORKS.stem}_{draw}.py" if draw else NETWORKS.name


def network(name, data, device=U55, config="a8w8", draw=0):
    source = DataSource(spec=f"{file_of(draw)}:{data}")
    return project(f"{file_of(draw)}:{name}", config, device, calibration=source)


def cycles(result):
    return sum(report.cycles_total for report in result.vela)


def quality(engine, made):
    assert engine.run(made, "evaluate") == "done", engine.failure
    return engine.result(made, "evaluate").sqnr_db


@pytest.mark.parametrize(("name", "data", "device", "most"), LIMITS)
def test_that_a_network_takes_few_cycles_and_is_right(engine, name, data, device, most):
    made = network(name, data, device)
    verified = engine.verified(made)
    assert verified.max_lsb <= 1
    assert verified.compiled.equal == verified.compiled.elements > 0
    assert cycles(engine.result(made, "lower")) <= most
    # Of one draw of weights alone, the roundings of both forms differ by up to 7 dB, either way.
    draws = [network(name, data, device, draw=draw) for draw in DRAWS]
    rewritten = [quality(engine, draw) for draw in draws]
    as_written = [quality(engine, without(draw, *IDS)) for draw in draws]
    assert rewritten[0] >= 24
    # Norms over groups have 21 dB in 8 bits as they are written with some weights.
    assert all(new >= min(24, old) for new, old in zip(rewritten, as_written, strict=True))
    assert mean(rewritten) >= mean(as_written) - 1


def test_that_a_transposed_convolution_with_a_stride_of_4_runs_on_the_npu(engine):
    made = network("transposed", "decoder_data")
    lowered = engine.lowered(made)
    assert {node.cause for node in lowered.cpu_nodes} <= {"border", "conversion"}
    rows = {row.id: row for row in lowered.rewrites}
    assert rows[TRANSPOSED].modules == ("2",)


def test_that_cycles_before_and_after_are_those_of_the_estimate(engine):
    made = network("stem", "picture_data")
    rows = {row.id: row for row in engine.lowered(made).rewrites}
    assert rows.keys() == set(IDS)
    row = rows[STRIDES]
    assert (row.state, row.places, row.modules) == ("on", ("conv2d",), ("0",))
    slow = without(made, *IDS)
    as_written = sum(
        operation.cycles
        for report in engine.lowered(slow).vela
        for operation in report.operations
        if operation.module == "0" and operation.operator == "Conv2D"
    )
    assert row.cycles_before == pytest.approx(as_written, rel=0.05)
    assert row.cycles_after < row.cycles_before / 9
    assert {row.state for row in engine.result(slow, "lower").rewrites} == {"off"}
    assert engine.result(slow, "lower").vela[0].cause == "stride"


def test_that_norms_go_into_the_next_layer_or_become_one_operation(engine):
    rows = {row.id: row for row in engine.lowered(network("leads", "lead_data")).rewrites}
    assert rows[NORMS_FORWARD].modules == ("2", "5", "8", "11")
    assert rows[NORMS_FORWARD].cycles_after == 0 < rows[NORMS_FORWARD].cycles_before
    rows = {row.id: row for row in engine.lowered(network("padded_leads", "lead_data")).rewrites}
    assert rows[NORMS_FORWARD].modules == ("11",)
    assert rows[NORMS_AS_ONE].modules == ("2", "5", "8")
    assert rows[NORMS_AS_ONE].cycles_after < rows[NORMS_AS_ONE].cycles_before


def test_that_rules_still_reach_what_a_module_became(engine):
    made = network("stem", "picture_data")
    wide = edits.assign(made, "module_name", "0", "a16w8")
    assert engine.run(wide, "prepare") == "done", engine.failure
    prepared = engine.result(wide, "prepare")
    rewritten = [note for note in prepared.annotations if note.module == "0"]
    assert {note.config for note in rewritten if "linear" in note.op} == {"a16w8"}
    left = edits.assign(made, "module_name", "0", "float")
    assert engine.run(left, "prepare") == "done", engine.failure
    rows = {row.id: row for row in engine.result(left, "prepare").rewrites}
    assert rows[STRIDES].places == ()


def test_that_biases_are_corrected_by_the_layers_as_they_are_written(engine):
    made = network("padded_leads", "lead_data").model_copy(update={"improvers": ("bias",)})
    assert quality(engine, made) >= quality(engine, without(made, *IDS)) - 1
    (done,) = engine.result(made, "prepare").improvements
    # Of the five layers one gains nothing on samples held back.
    assert done.places >= 4


@pytest.mark.slow
@pytest.mark.parametrize(("name", "data"), [("stem", "picture_data"), ("leads", "lead_data")])
def test_that_rounding_chosen_for_layers_as_they_are_written_is_kept(engine, name, data):
    plain = network(name, data, config="a8w4")
    made = plain.model_copy(update={"improvers": ("gptq",)})
    assert quality(engine, made) >= quality(engine, without(made, *IDS)) - 1
    assert quality(engine, made) > quality(engine, plain) + 1


@pytest.mark.parametrize("config", ["a16w8", "a8w4"])
def test_that_other_precisions_are_right_too(engine, config):
    for name, data in (("audio", "audio_data"), ("leads", "lead_data")):
        made = network(name, data, config=config)
        assert engine.verified(made).max_lsb <= (1 if config == "a8w4" else 40)
        assert quality(engine, made) >= quality(engine, without(made, *IDS)) - 1

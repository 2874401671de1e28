"""Layers stay as they are written where Vela takes more cycles for what a rewrite would write."""

import shutil
from pathlib import Path

import pytest

from tests.engine.in_process import project, without
from workbench.engine.ethos_u import rewrite_trials
from workbench.project import edits
from workbench.project.model import TargetChoice
from workbench.targets.ethos_u.rewrites import GROUPS, PATCHES, REWRITES, SHUFFLES, STRIDES

pytestmark = pytest.mark.engine
U65 = "ethos-u65-256"
NETWORKS = Path(__file__).parents[2] / "rewritten_networks.py"


def rows(engine, made):
    assert engine.run(made, "prepare") == "done", engine.failure
    return {row.id: row for row in engine.result(made, "prepare").rewrites}


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch):
    monkeypatch.setattr(rewrite_trials, "_KNOWN", {})


def test_that_a_layer_stays_on_the_devices_where_what_would_be_written_is_slower(engine):
    shutil.copy(NETWORKS, engine.folder)
    made = project(f"{NETWORKS.name}:small_shuffle", target=U65)
    row = rows(engine, made)[SHUFFLES]
    assert (row.state, row.places, row.as_written) == ("on", (), ("pixel_shuffle",))
    plain = without(made, SHUFFLES)
    assert engine.lowered(made).cycles == engine.lowered(plain).cycles
    assert rows(engine, plain)[SHUFFLES].as_written == ()
    row = rows(engine, project(f"{NETWORKS.name}:small_shuffle", target="ethos-u55-128"))[SHUFFLES]
    assert (row.places, row.as_written) == (("pixel_shuffle",), ())


@pytest.mark.slow
def test_that_patches_stay_where_their_layouts_cost_less_than_the_convolution(engine):
    shutil.copy(NETWORKS, engine.folder)
    made = project(f"{NETWORKS.name}:few_patches", "a16w8", U65)
    row = rows(engine, made)[PATCHES]
    assert (row.places, row.as_written) == ((), ("linear",))


def test_that_what_is_clearly_faster_is_not_compiled_first(engine, monkeypatch):
    def compiled(_opened, _module):
        raise AssertionError("compiled")

    monkeypatch.setattr(rewrite_trials, "_cycles", compiled)
    shutil.copy(NETWORKS, engine.folder)
    for name in ("audio", "patches"):
        made = project(f"{NETWORKS.name}:{name}")
        assert rows(engine, made)[STRIDES].places


@pytest.mark.slow
def test_that_a_layer_is_compiled_once(engine, monkeypatch):
    shutil.copy(NETWORKS, engine.folder)
    compiled = []
    cycles = rewrite_trials._cycles
    monkeypatch.setattr(rewrite_trials, "_cycles", lambda *given: compiled.append(1) or cycles(*given))
    made = project(f"{NETWORKS.name}:small_shuffle", target=U65)
    for one in (made, without(made, "strides_to_channels")):
        assert rows(engine, one)[SHUFFLES].as_written
    assert len(compiled) == 2


@pytest.mark.slow
def test_that_a_layer_that_vela_refuses_as_it_is_written_is_rewritten(engine):
    shutil.copy(NETWORKS, engine.folder)
    made = project(f"{NETWORKS.name}:refused_depthwise", target=U65)
    row = rows(engine, made)[STRIDES]
    assert (row.places, row.as_written) == (("conv2d_1",), ())


@pytest.mark.slow
def test_that_a_layer_is_tried_with_the_memory_of_the_project(engine, monkeypatch):
    shutil.copy(NETWORKS, engine.folder)
    asked = []
    estimate = rewrite_trials.estimate

    def noted(programs, device, options, files):
        asked.append((device, options["memory_mode"]))
        return estimate(programs, device, options, files)

    monkeypatch.setattr(rewrite_trials, "estimate", noted)
    made = project(f"{NETWORKS.name}:small_shuffle", target="ethos-u65-512")
    rows(engine, made)
    options = {"memory_mode": "Sram_Only"}
    rows(engine, edits.set_target(made, TargetChoice(id=made.target.id, options=options)))
    usual = ("ethos-u65-256", "Dedicated_Sram_384KB")
    assert asked == [usual, usual, *[("ethos-u65-512", "Sram_Only")] * 2]


@pytest.mark.slow
def test_that_equal_norms_are_compiled_once(engine, monkeypatch):
    shutil.copy(NETWORKS, engine.folder)
    compiled = []
    cycles = rewrite_trials._cycles
    monkeypatch.setattr(rewrite_trials, "_cycles", lambda *given: compiled.append(1) or cycles(*given))
    row = rows(engine, project(f"{NETWORKS.name}:grouped_norms"))[GROUPS]
    assert len(row.places) == 3
    assert len(compiled) == 2


@pytest.mark.slow
def test_that_a_convolution_in_groups_over_an_input_is_rewritten_where_vela_is_faster(engine):
    shutil.copy(NETWORKS, engine.folder)
    for target, places in (("ethos-u55-128", ()), ("ethos-u85-256", ("conv2d",))):
        made = project(f"{NETWORKS.name}:grouped_input", target=target)
        assert rows(engine, made)[STRIDES].places == places
        every = [row.id for row in REWRITES]
        assert engine.lowered(made).cycles <= engine.lowered(without(made, *every)).cycles

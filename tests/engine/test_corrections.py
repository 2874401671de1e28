"""Corrections of the tools: with one a program is the quantized model, without it is not."""

import shutil
from pathlib import Path

import pytest

from tests.engine.in_process import Engine, project
from workbench.project import edits
from workbench.project.model import TargetChoice
from workbench.targets.ethos_u.corrections import CLAMPS, FACTORS

pytestmark = pytest.mark.engine

NETWORKS = Path(__file__).with_name("corrected_networks.py")
U55, U85 = "ethos-u55-128", "ethos-u85-256"


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    made = Engine(tmp_path_factory.mktemp("corrections"))
    shutil.copy(NETWORKS, made.folder)
    yield made
    made.close()


def network(name, config="a8w8", device=U55, **options):
    made = project(f"corrected_networks.py:{name}", config, device)
    return edits.set_target(made, TargetChoice(id=device, options=options))


def verified(engine, made):
    assert engine.run(made, "verify", "evaluate") == "done", engine.failure
    return engine.result(made, "verify")


def worst(engine, *given, **options):
    return verified(engine, network(*given, **options)).max_lsb


def test_that_a_relu_into_a_shared_range_keeps_its_clamp(engine):
    assert worst(engine, "joined") <= 1
    assert worst(engine, "joined", **{CLAMPS: False}) > 20


def test_that_the_result_names_the_relus_that_were_kept(engine):
    made = network("joined")
    engine.run(made, "lower", "evaluate")
    (correction,) = engine.result(made, "lower").corrections
    assert (correction.id, correction.state, len(correction.places)) == (CLAMPS, "on", 1)
    made = network("joined", **{CLAMPS: False})
    engine.run(made, "lower", "evaluate")
    (correction,) = engine.result(made, "lower").corrections
    assert (correction.state, correction.places) == ("off", ())


def test_that_a_group_norm_over_many_elements_keeps_its_factor(engine):
    for config, least in (("a8w8", 20.0), ("a16w8", 40.0)):
        decibel = [
            sqnr(engine, network("group_norm", config, **options))
            for options in ({}, {FACTORS: False})
        ]
        print(config, decibel)
        assert decibel[0] > least
        assert decibel[0] > decibel[1] + 6


def sqnr(engine, made):
    assert engine.run(made, "evaluate") == "done", engine.failure
    return engine.result(made, "evaluate").outputs[0].sqnr_db

"""Relatives of networks that people deploy: their programs are the quantized models."""

import shutil
from pathlib import Path

import pytest

from tests.engine.in_process import Engine, project
from workbench.results import AppliedCorrection

pytestmark = pytest.mark.engine
NETWORKS = Path(__file__).with_name("deployed_networks.py")
U55, U85 = "ethos-u55-128", "ethos-u85-256"


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    made = Engine(tmp_path_factory.mktemp("deployed"))
    shutil.copy(NETWORKS, made.folder)
    yield made
    made.close()


def network(name, device=U55):
    return project(f"{NETWORKS.name}:{name}", "a8w8", device)


@pytest.mark.slow
def test_that_a_relu_with_a_grid_of_its_own_stays_fused(engine):
    found = engine.lowered(network("fire")).corrections
    assert AppliedCorrection(id="keep_relu_clamps", state="on") in found


@pytest.mark.slow
def test_that_a_u_net_keeps_the_clamps_of_its_skips(engine):
    assert engine.verified(network("unet_transposed")).max_lsb <= 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "unet",
        "unet_bilinear",
        "dense",
        "inception",
        "shuffle",
        "fpn",
        "panet",
        "instance_norm",
        "layer_scale",
        "cross_stage",
    ],
)
@pytest.mark.parametrize("device", [U55, U85])
def test_that_the_program_of_what_people_deploy_is_the_quantized_model(engine, name, device):
    assert engine.verified(network(name, device)).max_lsb <= 3

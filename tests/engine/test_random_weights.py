"""Models that were never trained are told from those that were."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from workbench.engine.stages.import_model import has_random_weights

SAMPLES = Path(__file__).parents[2] / "resources" / "samples"


def network():
    layers = [nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3)]
    return nn.Sequential(
        *layers, nn.BatchNorm2d(64), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)
    ).eval()


def test_that_a_new_network_has_random_weights_with_norms_and_without():
    assert has_random_weights(network())
    plain = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
    assert has_random_weights(plain)
    program = torch.export.export(network(), (torch.zeros(1, 3, 16, 16),))
    assert has_random_weights(program)


def test_that_a_network_has_none_after_a_step_of_training():
    net = network().train()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(torch.randn(8, 3, 16, 16)).square().mean().backward()
    optimizer.step()
    assert not has_random_weights(net)


def test_that_channels_that_differ_are_not_those_of_random_weights():
    plain = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
    with torch.no_grad():
        for layer in (plain[0], plain[2]):
            layer.weight *= torch.exp(0.5 * torch.randn(layer.weight.shape[0], 1))
    assert not has_random_weights(plain)


@pytest.mark.parametrize(
    "weights", ["digits/weights", "time_series/motions_weights", "time_series/vowels_weights"]
)
def test_that_the_trained_samples_are_not_taken_as_random(weights):
    holder = nn.Module()
    for number, (name, value) in enumerate(load_file(SAMPLES / f"{weights}.safetensors").items()):
        part, own = nn.Module(), name.rpartition(".")[2]
        part.register_buffer(own, value)
        if value.is_floating_point() and value.dim() > 1:
            part = nn.ParameterDict({own: nn.Parameter(value)})
        holder.add_module(f"part{number}", part)
    assert not has_random_weights(holder)


def test_that_models_without_weights_or_of_few_have_none_that_are_random():
    assert not has_random_weights(nn.ReLU())
    assert not has_random_weights(nn.Linear(16, 16))
    assert not has_random_weights(nn.Sequential(nn.BatchNorm2d(4)))

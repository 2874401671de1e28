"""Layers over gathered patches become convolutions over the picture, and stay the same function."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.engine.ethos_u.rewrites.test_rewrites_are_exact import operators, rewritten
from workbench.engine.ethos_u.corrections.unsupported_operators import plain_operators
from workbench.engine.ethos_u.rewrites.patches import write_patches

pytestmark = pytest.mark.engine
ATEN = torch.ops.aten


class Gathered(nn.Module):
    """A layer over what a function gathers of a picture."""

    def __init__(self, gather, layer):
        super().__init__()
        self.gather, self.layer = gather, layer

    def forward(self, x):
        return functional.gelu(self.layer(self.gather(x)))


def viewed(x, size=4):
    _, channels, height, width = x.shape
    x = x.view(1, channels, height // size, size, width // size, size).permute(0, 2, 4, 3, 5, 1)
    return x.reshape(1, -1, size * size * channels)


def viewed_last(x, size=4):
    _, height, width, channels = x.shape
    x = x.view(1, height // size, size, width // size, size, channels).transpose(2, 3)
    return x.reshape(-1, size * size * channels)


def unfolded(x):
    return x.unfold(2, 4, 4).unfold(3, 4, 4).permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)


def as_images(module, _quantizer):
    return plain_operators(module, None) or []


LINEAR, POINTWISE = nn.Linear(48, 8), nn.Conv2d(48, 8, 1)
PICTURE, LAST = (1, 3, 16, 12), (1, 16, 12, 3)


@pytest.mark.parametrize(
    ("gather", "layer", "shape"),
    [
        (viewed, LINEAR, PICTURE),
        (viewed_last, LINEAR, LAST),
        (unfolded, LINEAR, PICTURE),
        (lambda x: functional.unfold(x, 4, stride=4).transpose(1, 2), LINEAR, (1, 3, 16, 16)),
        (lambda x: functional.pixel_unshuffle(x, 4), POINTWISE, PICTURE),
        (lambda x: viewed(x.permute(0, 3, 1, 2)), LINEAR, LAST),
    ],
    ids=("views", "channels last", "unfolded tensor", "unfold", "pixel unshuffle", "permuted"),
)
def test_that_a_layer_over_patches_is_a_convolution_over_the_picture(gather, layer, shape):
    net = Gathered(gather, layer)
    module, (*_, count) = rewritten(net, torch.randn(shape), (as_images, write_patches))
    assert count == 1
    (conv,) = [node for node in module.graph.nodes if node.target is ATEN.conv2d.default]
    assert list(conv.args[3]) == [4, 4]
    assert ATEN.linear.default not in operators(module)


def columns_first(x):
    patches = viewed(x)
    return patches.view(1, 4, 3, 48).transpose(1, 2).reshape(1, 12, 48)


class Twice(nn.Module):
    """Patches that are read twice."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(48, 48)

    def forward(self, x):
        x = viewed(x)
        return self.layer(x) + x


@pytest.mark.parametrize(
    ("net", "shape"),
    [
        (Gathered(columns_first, LINEAR), PICTURE),
        (Gathered(lambda x: x.permute(0, 2, 3, 1), nn.Linear(3, 4)), PICTURE),
        (Gathered(lambda x: x.transpose(1, 2).flatten(2), nn.Linear(36, 4)), PICTURE),
        (Gathered(lambda x: x.flatten(1), nn.Linear(48, 4)), (1, 3, 4, 4)),
        (Gathered(lambda x: viewed(x)[..., ::2], nn.Linear(24, 4)), PICTURE),
        (Gathered(lambda x: functional.pixel_unshuffle(x, 4), nn.Conv2d(48, 8, 3, padding=1)), PICTURE),
        (Gathered(lambda x: functional.pixel_unshuffle(x, 4), POINTWISE), (2, *PICTURE[1:])),
        (Twice(), PICTURE),
    ],
    ids=(
        "other order",
        "places",
        "heads",
        "one patch",
        "a part",
        "larger kernel",
        "several pictures",
        "read twice",
    ),
)
def test_that_other_layers_behind_changes_of_layout_stay(net, shape):
    assert rewritten(net, torch.randn(shape), (write_patches,))[1] == [0]

"""Norms of every kind after a convolution or a linear, before one, and after each other."""

import torch
from torch import nn


class _First(nn.Module):
    """A norm of the input, before a convolution."""

    def __init__(self, norm):
        super().__init__()
        self.norm, self.conv, self.last = norm, nn.Conv2d(3, 8, 3), nn.Linear(8 * 36, 4)

    def forward(self, x):
        return self.last(torch.relu(self.conv(self.norm(x))).flatten(1))


def _random(module):
    """Give norms statistics and weights that differ from zeros and ones."""
    for norm in module.modules():
        if getattr(norm, "running_mean", None) is not None:
            norm.running_mean.uniform_(-0.5, 0.5)
            norm.running_var.uniform_(0.5, 2)
        if isinstance(norm, nn.modules.batchnorm._NormBase | nn.GroupNorm):
            for value, least, most in ((norm.weight, 0.5, 1.5), (norm.bias, -0.3, 0.3)):
                if value is not None:
                    value.data.uniform_(least, most)
    return module.eval()


def _images(*norms, bias=False):
    layers = nn.Conv2d(3, 8, 3, bias=bias), *norms, nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4)
    return nn.Sequential(*layers), (1, 3, 8, 8)


def _sequences(norm):
    layers = nn.Conv1d(3, 8, 3, bias=False), norm, nn.ReLU(), nn.Flatten(), nn.Linear(80, 4)
    return nn.Sequential(*layers), (1, 3, 12)


def _volumes(norm):
    layers = nn.Conv3d(2, 4, 3, bias=False), norm, nn.ReLU(), nn.Flatten(), nn.Linear(4 * 64, 4)
    return nn.Sequential(*layers), (1, 2, 6, 6, 6)


def _linears(norm, *, bias=True):
    return nn.Sequential(nn.Linear(6, 8, bias=bias), norm, nn.ReLU(), nn.Linear(8, 4)), (2, 6)


def _without(name):
    norm = nn.BatchNorm2d(8)
    setattr(norm, name, None)
    return norm


class _Present(nn.BatchNorm2d):
    def forward(self, x):
        return nn.functional.batch_norm(x, self.running_mean, self.running_var, training=True)


def _transposed(groups=1):
    up = nn.ConvTranspose2d(4, 8, 3, stride=2, groups=groups, bias=False)
    return nn.Sequential(nn.Conv2d(3, 4, 1), up, nn.BatchNorm2d(8, affine=False), nn.ReLU())


_PLAIN = {"affine": False}
_BATCH = {"track_running_stats": False}
# Norms whose values do not depend on the batch: they are trained.
TRAINED = {
    "images": lambda: _images(nn.BatchNorm2d(8, **_PLAIN)),
    "images_with_bias": lambda: _images(nn.BatchNorm2d(8, eps=0.1, **_PLAIN), bias=True),
    "without_shift": lambda: _images(_without("bias")),
    "without_scale": lambda: _images(_without("weight")),
    "two": lambda: _images(nn.BatchNorm2d(8, **_PLAIN), nn.BatchNorm2d(8, **_PLAIN)),
    "two_with_weights": lambda: _images(nn.BatchNorm2d(8), nn.BatchNorm2d(8)),
    "first": lambda: (_First(nn.BatchNorm2d(3)), (1, 3, 8, 8)),
    "sequences": lambda: _sequences(nn.BatchNorm1d(8, **_PLAIN)),
    "volumes": lambda: _volumes(nn.BatchNorm3d(4, **_PLAIN)),
    "linears": lambda: _linears(nn.BatchNorm1d(8, **_PLAIN)),
    "linears_without_bias": lambda: _linears(nn.BatchNorm1d(8, **_PLAIN), bias=False),
    "transposed": lambda: (_transposed(), (1, 3, 6, 6)),
    "transposed_in_groups": lambda: (_transposed(2), (1, 3, 6, 6)),
    "instances": lambda: _images(nn.InstanceNorm2d(8)),
    "instances_with_statistics": lambda: _images(nn.InstanceNorm2d(8, track_running_stats=True)),
    "instances_of_sequences": lambda: _sequences(nn.InstanceNorm1d(8, affine=True)),
    "instances_of_volumes": lambda: _volumes(nn.InstanceNorm3d(4)),
    "groups": lambda: _images(nn.GroupNorm(2, 8, affine=False)),
    "groups_of_volumes": lambda: _volumes(nn.GroupNorm(2, 4, affine=False)),
    "images_of_the_batch": lambda: _images(nn.BatchNorm2d(8, **_BATCH)),
    "plain_images_of_the_batch": lambda: _images(nn.BatchNorm2d(8, **_PLAIN, **_BATCH)),
    "sequences_of_the_batch": lambda: _sequences(nn.BatchNorm1d(8, **_BATCH)),
    "volumes_of_the_batch": lambda: _volumes(nn.BatchNorm3d(4, **_PLAIN, **_BATCH)),
}
# Norms of the present batch in spite of running ones, which are refused after a convolution or a linear.
REFUSED = {"present_images": lambda: _images(_Present(8))}
_ALL = {**TRAINED, **REFUSED}


def made(name):
    """Return a network of the tables, and an input."""
    torch.manual_seed(0)
    module, shape = _ALL[name]()
    return _random(module), (torch.randn(shape),)


def __getattr__(name):
    """Return the functions that a project names: a network, or ``samples_of_`` it."""
    network = name.removeprefix("samples_of_")
    if network not in _ALL:
        raise AttributeError(name)

    def samples():
        shape = made(network)[1][0].shape
        torch.manual_seed(1)
        for _ in range(16):
            yield torch.randn(shape)

    return (lambda: made(network)) if network == name else samples

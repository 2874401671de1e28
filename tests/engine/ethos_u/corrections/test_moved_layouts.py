"""ExecuTorch's passes move views, permutations and joins: with the corrections no value changes."""

import random
from contextlib import ExitStack

import pytest
import torch
from executorch.backends.arm._passes import PropagateViewCopyPermuteDownPass, PropagateViewCopyPermuteUpPass
from executorch.exir.dialects._ops import ops
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

from workbench.engine.ethos_u.corrections import lowering_patches

pytestmark = pytest.mark.engine
ATEN = ops.edge.aten
PATCHES = (
    lowering_patches.layouts_moved_to_values,
    lowering_patches.views_behind_slices,
    lowering_patches.joins_of_one_value,
)


class Drawn:
    """A random graph of operators that move values, and some that compute."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.mode, self.graph = FakeTensorMode(), fx.Graph()
        x = self.graph.placeholder("x")
        self.shape = [self.random.choice((1, 2, 3, 4, 6)) for _ in range(self.random.randint(2, 5))]
        with self.mode:
            x.meta["val"] = torch.empty(self.shape)
        self.values = [self.call(ATEN.neg.default, x)]
        for _ in range(self.random.randint(3, 9)):
            self.step()
        self.graph.output((self.values[-1], self.random.choice(self.values)))
        self.graph.eliminate_dead_code()

    def call(self, operator, *args):
        node = self.graph.call_function(operator, args)
        with self.mode:
            node.meta["val"] = operator(*fx.map_arg(args, lambda value: value.meta["val"]))
        return node

    def step(self):
        value = self.values[-1] if self.random.random() < 0.75 else self.random.choice(self.values)
        made = self.random.choice((self.view, self.permuted, self.part, self.computed, self.joined))(value)
        if made.meta["val"].numel() < 5000:
            self.values.append(made)

    def view(self, value):
        left, sizes = value.meta["val"].numel(), [1] * self.random.randint(1, 5)
        for factor in (2, 3):
            while left % factor == 0:
                left //= factor
                sizes[self.random.randrange(len(sizes))] *= factor
        return self.call(ATEN.view_copy.default, value, sizes)

    def permuted(self, value):
        dims = list(range(value.meta["val"].dim()))
        return self.call(ATEN.permute_copy.default, value, self.random.sample(dims, len(dims)))

    def part(self, value):
        shape = value.meta["val"].shape
        dim = self.random.randrange(len(shape))
        start = self.random.randrange(shape[dim])
        end = start + 1 if self.random.random() < 0.6 else self.random.randint(start + 1, shape[dim])
        return self.call(ATEN.slice_copy.Tensor, value, dim, start, end)

    def computed(self, value):
        dims = sorted(self.random.sample(range(value.meta["val"].dim()), 1))
        alike = [other for other in self.values if other.meta["val"].shape == value.meta["val"].shape]
        number = self.call(ATEN.full.default, [1] * value.meta["val"].dim(), 0.5)
        return self.random.choice(
            (
                lambda: self.call(ATEN.relu.default, value),
                lambda: self.call(ATEN.mean.dim, value, dims, True),
                lambda: self.call(ATEN.mul.Tensor, value, self.random.choice(alike)),
                lambda: self.call(ATEN.sub.Tensor, number, value),
            )
        )()

    def joined(self, value):
        dim = self.random.randrange(value.meta["val"].dim())
        alike = [other for other in self.values if other.meta["val"].shape == value.meta["val"].shape]
        return self.call(ATEN.cat.default, [value, self.random.choice(alike)], dim)


def is_kept(seed):
    drawn = Drawn(seed)
    before = fx.GraphModule({}, drawn.graph)
    x = torch.randn(drawn.shape, generator=torch.Generator().manual_seed(seed))
    expected = before(x)
    passes = PropagateViewCopyPermuteDownPass, PropagateViewCopyPermuteUpPass
    after = before
    with ExitStack() as stack:
        for patch in PATCHES:
            stack.enter_context(patch())
        for kind in (*passes, passes[0]):
            after = kind(None)(after).graph_module
    pairs = zip(expected, after(x), strict=True)
    return all(a.shape == b.shape and torch.allclose(a, b, atol=1e-5) for a, b in pairs)


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, pytest.param(1000, marks=pytest.mark.slow)])
def test_that_moved_layouts_change_no_value(first):
    count = 40 if first == 0 else 2000
    assert [seed for seed in range(first, first + count) if not is_kept(seed)] == []

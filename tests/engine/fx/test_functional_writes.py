"""Writes into tensors: the program that is quantized computes what the model does."""

import copy
import random

import pytest
import torch
from torch import nn

from tests.engine.written_networks import WRITES, network
from tests.for_each import for_each
from workbench.engine.fx import aliases
from workbench.engine.fx.functional_writes import WriteNotSupportedError, with_functional_writes
from workbench.engine.fx.programs import is_write


def exported(module, inputs):
    with torch.no_grad():
        return torch.export.export(module, inputs)


def results(module, inputs):
    with torch.no_grad():
        given = module(*(value.clone() for value in inputs))
    return given if isinstance(given, tuple) else (given,)


def assert_same(make, inputs, program):
    """Compare a program with fresh instances of a model, on fresh inputs, twice."""
    executed = program.module(check_guards=False)
    for _ in range(2):
        for expected, given in zip(results(make(), inputs), results(executed, inputs), strict=True):
            torch.testing.assert_close(given, expected, rtol=1e-5, atol=1e-5)


SOME = (
    "scaled_slice",
    "shifted_in_time",
    "dropped_and_activated",
    "dropped_in_place",
    "normalized_input",
    "in_a_branch",
    "into_a_given_tensor",
    "turned_in_place",
    "with_gradients",
)


@pytest.mark.slow
@for_each("write", SOME)
def test_that_what_is_written_is_computed(write):
    assert_computed(write)


@pytest.mark.slow
@for_each("write", [write for write in WRITES if write not in SOME])
def test_that_whatever_is_written_is_computed(write):
    assert_computed(write)


def assert_computed(write):
    module, inputs = network(write)
    program = with_functional_writes(exported(module, inputs))
    assert_same(lambda: network(write)[0], (torch.randn(1, 3, 8, 8),), program)
    graphs = [m for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    assert not any(list(aliases.writes_seen_elsewhere(graph, set())) for graph in graphs)


@for_each("write", ["channels_of_the_input", "normalized_input", "activated_input"])
def test_that_no_sample_is_written(write):
    module, inputs = network(write)
    program = with_functional_writes(exported(module, inputs))
    before = [value.clone() for value in inputs]
    program.module(check_guards=False)(*inputs)
    assert all(a.equal(b) for a, b in zip(before, inputs, strict=True))


class Usual(nn.Module):
    """In-place activations whose result alone is read, and a batch norm."""

    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(3, 4, 3),
            nn.BatchNorm2d(4),
            nn.ReLU(inplace=True),
            nn.Dropout(0.1),
            nn.Conv2d(4, 4, 3),
            nn.Hardswish(inplace=True),
        )

    def forward(self, x):
        y = self.block(x)
        a, b = y.split(2, 1)
        y = torch.cat([a.relu_(), b], 1)
        y += 1
        return y


def test_that_a_program_whose_writes_are_read_as_results_stays_as_it_is():
    program = exported(Usual().eval(), (torch.randn(1, 3, 8, 8),))
    assert with_functional_writes(program) is program


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)

    def forward(self, x):
        y = self.norm(self.conv(x))
        y[:, :2] = 0
        return y


class Copied(torch.nn.Module):
    def forward(self, x):
        y = x.sigmoid()
        y.copy_(torch.where(x < 0, x * 0.1, x))
        return y.relu()


def test_that_a_copy_into_a_value_is_what_was_copied():
    x = torch.randn(2, 8)
    program = with_functional_writes(torch.export.export(Copied(), (x,)))
    assert torch.ops.aten.copy_.default not in {node.target for node in program.graph.nodes}
    assert torch.equal(program.module()(x), Copied()(x))


def test_that_other_operators_keep_their_names_modules_and_kinds():
    before = exported(Normed().eval(), (torch.randn(1, 3, 8, 8),))
    after = with_functional_writes(before)
    kept = {node.name: node for node in after.graph.nodes}
    for node in before.graph.nodes:
        if str(node.target) in {"aten.conv2d.default", "aten.batch_norm.default"}:
            assert kept[node.name].target == node.target
            assert kept[node.name].meta["nn_module_stack"] == node.meta["nn_module_stack"]
    made = [node for node in after.graph.nodes if "cat" in node.name or "pad" in node.name]
    assert made
    assert all("stack_trace" in node.meta for node in made)


class Ring(nn.Module):
    """The last steps of a signal, kept from run to run."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2, 3, 5)
        self.register_buffer("past", torch.zeros(1, 2, 12))

    def forward(self, x):
        self.past[:, :, :-4] = self.past[:, :, 4:].clone()
        self.past[:, :, -4:] = x
        return self.conv(self.past)


def test_that_parts_of_a_buffer_are_written_from_run_to_run():
    torch.manual_seed(0)
    module, x = Ring().eval(), torch.randn(1, 2, 4)
    program = with_functional_writes(exported(module, (x,)))
    assert list(program.graph_signature.buffers_to_mutate.values()) == ["past"]
    assert not any(node.target is torch.ops.aten.copy.default for node in program.graph.nodes)
    # A program has the buffers of the module that it was made of.
    module, executed = copy.deepcopy(module), program.module(check_guards=False)
    for _ in range(4):
        x = torch.randn(1, 2, 4)
        torch.testing.assert_close(results(executed, (x,)), results(module, (x,)))


class Random(nn.Module):
    def forward(self, x):
        y = x * 2
        y[:, :2].uniform_(0, 1)
        return y


def resized(y):
    return y.resize_(1, 2)


def of_other_memory(y):
    return torch.zeros(1, 4).set_(y) * 2


def of_a_list(y):
    torch._foreach_mul_(list(y.chunk(2, 1)), 2.0)
    return y


def of_other_bits(y):
    y.view(torch.int32)[0, 0].zero_()
    return y * 2


def wrapped_diagonal(y):
    return y.repeat(9, 1).fill_diagonal_(0.5, wrap=True)


class After(nn.Module):
    def __init__(self, write):
        super().__init__()
        self.write = write

    def forward(self, x):
        return self.write(x * 2)


NOT_SUPPORTED = [
    (Random(), "uniform_"),
    (After(resized), "resize_"),
    (After(of_other_memory), "set_"),
    (After(of_a_list), "_foreach_mul_"),
    (After(of_other_bits), "view"),
    (After(wrapped_diagonal), "fill_diagonal_"),
]


@for_each(("module", "name"), NOT_SUPPORTED)
def test_that_a_write_without_a_functional_form_is_refused_by_name(module, name):
    with pytest.raises(WriteNotSupportedError) as raised:
        with_functional_writes(exported(module, (torch.randn(1, 4),)))
    assert aliases.name_of(raised.value.args[0]) == name


def test_that_what_a_mode_surrounds_is_in_the_graph_of_the_program():
    module, inputs = network("with_gradients")
    program = torch.export.export(module, inputs)
    assert any(isinstance(part, torch.fx.GraphModule) for part in program.graph_module.children())
    plain = with_functional_writes(program)
    assert not list(plain.graph_module.children())
    names = {node.name: node.meta["nn_module_stack"] for node in plain.graph.nodes if "conv2d" in node.name}
    assert [list(stack.values())[-1][0].rpartition(".")[2] for stack in names.values()] == ["c", "d"]


class Drawn(nn.Module):
    """Views and writes drawn at random, over two values that share memory or not."""

    def __init__(self, seed):
        super().__init__()
        self.seed = seed

    def forward(self, x):
        draw = random.Random(self.seed)
        base = draw.choice([lambda: x * 2, lambda: torch.zeros(2, 6, 8), lambda: x])()
        known = [base, x + 1, base]
        for _ in range(draw.randint(2, 7)):
            value = draw.choice(known)
            for _ in range(draw.randint(0, 3)):
                value = draw.choice(_VIEWS)(value, draw)
                known.append(value)
            if value.dim() and draw.random() < 0.8:
                draw.choice(_CHANGES)(value, draw, known)
        return (*known[-3:], base)


def _slice(value, draw):
    dim = draw.randrange(value.dim())
    start = draw.randrange(value.shape[dim])
    end = draw.randint(start + 1, value.shape[dim])
    cut = [slice(None)] * value.dim()
    cut[dim] = slice(start, end, draw.choice([1, 1, 2, 3]))
    return value[tuple(cut)]


def _selected(value, draw):
    if value.dim() < 2:
        return value
    dim = draw.randrange(value.dim())
    return value.select(dim, draw.randrange(value.shape[dim]))


def _turned(value, draw):
    dims = list(range(value.dim()))
    draw.shuffle(dims)
    return value.permute(dims)


def _piece(value, draw):
    dim = draw.randrange(value.dim())
    parts = draw.choice([lambda: value.chunk(2, dim), lambda: value.split(1, dim)])()
    return draw.choice(parts)


_VIEWS = (
    _slice,
    _slice,
    _selected,
    _turned,
    _piece,
    lambda value, draw: value.flatten() if draw.random() < 0.3 else value.unsqueeze(0),
    lambda value, draw: value.contiguous(),
    # torch.export traces dropout of a value with gaps as a copy without gaps.
    lambda value, draw: torch.dropout(value, 0.1, False) if value.is_contiguous() else value,
    lambda value, draw: value.squeeze(),
)


def _add(value, draw, known):
    value += draw.choice([1.5, known[1].sum()])


def _assign(value, draw, known):
    value[...] = draw.choice([0, 0.5, known[1].mean()])


def _fill(value, draw, known):
    value.fill_(draw.choice([0.0, 2.0]))


def _activate(value, draw, known):
    draw.choice([torch.relu_, torch.sigmoid_, torch.neg_])(value)


def _choose(value, draw, known):
    value[value > 0.5] = 0.5


_CHANGES = (_add, _assign, _fill, _activate, _choose)


@for_each("seed", range(6))
def test_that_writes_through_views_are_computed(seed):
    assert_drawn(seed)


@pytest.mark.slow
@for_each("seed", range(6, 200))
def test_that_writes_through_any_views_are_computed(seed):
    assert_drawn(seed)


def assert_drawn(seed):
    torch.manual_seed(seed)
    inputs = (torch.randn(2, 6, 8),)
    program = with_functional_writes(exported(Drawn(seed), inputs))
    assert_same(lambda: Drawn(seed), (torch.randn(2, 6, 8),), program)


def test_that_a_long_chain_of_writes_takes_steps_in_proportion_to_its_pairs(monkeypatch):
    """Programs of somebody else may have thousands of writes; each pair is looked at once."""

    class Chain(torch.nn.Module):
        def forward(self, x):
            made = x.clone()
            last = made
            for _ in range(60):
                last = last.add_(1)
            return made

    asked = []
    stock = aliases.Memory.parent
    monkeypatch.setattr(
        aliases.Memory, "parent", lambda memory, node: asked.append(node) or stock(memory, node)
    )
    program = torch.export.export(Chain(), (torch.zeros(4),))
    made = with_functional_writes(program).module()
    assert made(torch.zeros(4)).equal(torch.full((4,), 60.0))
    assert len(asked) < 4 * 60 * 60


def test_that_columns_of_a_matrix_are_told_apart_without_a_look_at_their_elements(monkeypatch):
    monkeypatch.setattr(aliases, "_COMPARED", 0)
    made = torch.zeros(8, 8)
    assert not aliases.overlap(made[:, 1], made[:, 2])
    assert aliases.overlap(made[:, 1], made[2])


class QuantizedCache(nn.Module):
    """A cache of int8 that is read as floats, into which the new value is written as it is."""

    def __init__(self, there_and_back=(1, 2)):
        super().__init__()
        self.register_buffer("cache", torch.zeros(1, 4, 2, 3, dtype=torch.int8))
        self.axes = there_and_back

    def forward(self, value, place):
        # The caller transposes for an attention, and the cache transposes back.
        value = (value * 2).transpose(1, 2).transpose(*self.axes)
        self.cache[:, place] = (value * 10).round().clamp(-127, 127).to(torch.int8)
        floats = self.cache.float() / 10
        floats[:, place] = value
        return floats


def transposes(program):
    return len(list(program.graph.find_nodes(op="call_function", target=torch.ops.aten.transpose.int)))


@pytest.mark.slow
@pytest.mark.parametrize(("axes", "left"), [((1, 2), 0), ((-3, -2), 0), ((2, 1), 0), ((1, 3), 2)])
def test_that_a_cache_is_written_beside_its_floats_without_transposes_that_undo_each_other(axes, left):
    size = (1, 1, 2, 3) if left == 0 else (1, 2, 3, 1)
    inputs = torch.randn(size), torch.tensor([1])
    module = QuantizedCache(axes)
    program = with_functional_writes(exported(module, inputs))
    assert transposes(program) == left
    assert not any(is_write(node) for node in program.graph.nodes)
    assert list(program.graph_signature.buffers_to_mutate.values()) == ["cache"]
    given, executed = QuantizedCache(axes), program.module(check_guards=False)
    for place in (1, 3, 1):
        step = torch.randn(size), torch.tensor([place])
        for expected, result in zip(results(given, step), results(executed, step), strict=True):
            torch.testing.assert_close(result, expected)


def test_that_a_transpose_that_others_read_too_stays():
    class Both(QuantizedCache):
        def forward(self, value, place):
            turned = value.transpose(1, 2)
            return super().forward(value, place), turned + 1

    inputs = torch.randn(1, 1, 2, 3), torch.tensor([1])
    program = with_functional_writes(exported(Both(), inputs))
    assert transposes(program) == 1
    assert_same(Both, inputs, program)

"""Every rewrite of the float graph computes the same function, over random networks."""

import random
from types import SimpleNamespace

import pytest
import torch
from torch import fx, nn

from workbench.engine.ethos_u.corrections.unsupported_operators import plain_operators
from workbench.engine.ethos_u.rewrites.norms import fold_norms_forward, write_norms_as_one
from workbench.engine.ethos_u.rewrites.strides import write_large_kernels, write_strides
from workbench.engine.ethos_u.rewrites.tails import cut_unread_tails

pytestmark = pytest.mark.engine
U55, U85 = "TOSA-1.0+INT+int16+int4+u55", "TOSA-1.0+INT+int16+int4+cf"
ALL = (cut_unread_tails, fold_norms_forward, write_norms_as_one, write_strides, write_large_kernels)
CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d}
POOLS = {1: nn.MaxPool1d, 2: nn.MaxPool2d}
NORMS = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d}


def quantizer(device=U55, finds=lambda module: module.graph.nodes):
    """Return what the rewrites ask of a quantizer: one rule of 8 bits, over the nodes it finds."""
    byte = SimpleNamespace(quant_min=-128, quant_max=127)
    rule = SimpleNamespace(
        node_finder=SimpleNamespace(find_nodes=finds),
        quantization_config=SimpleNamespace(input_activation=byte, weight=byte),
    )
    inner = SimpleNamespace(quantizers=[rule])
    return SimpleNamespace(tosa_spec=device, quantizer=inner, global_config=None)


def exported(net, x):
    return torch.export.export(net.eval(), (x,)).module(check_guards=False)


class Checked(fx.Interpreter):
    """Runs a graph, and compares the shapes that it notes with those that there are."""

    def run_node(self, n):
        value = super().run_node(n)
        if isinstance(value, torch.Tensor) and "val" in n.meta:
            assert n.meta["val"].shape == value.shape, n
        return value


def rewritten(net, x, functions, made=None):
    """Return the graph after some rewrites, and the number of places of each."""
    module = exported(net, x)
    reference = net(x)
    counts = [len(function(module, made or quantizer())) for function in functions]
    module.graph.lint()
    torch.testing.assert_close(Checked(module).run(x), reference, atol=1e-4, rtol=1e-4)
    return module, counts


def operators(module):
    return [node.target for node in module.graph.nodes if node.op == "call_function"]


def strides_of(module):
    calls = [n for n in module.graph.nodes if "conv" in str(n.target)]
    return [stride for call in calls for stride in (call.args[3] if len(call.args) > 3 else [1])]


def test_that_convolutions_of_any_shape_stay_the_same_function():
    chosen, count = random.Random(1), 0
    torch.manual_seed(1)
    for index in range(24):
        dims, groups = chosen.choice((1, 2)), chosen.choice((1, 1, 2))
        draw = lambda low, high, n=dims: [chosen.randint(low, high) for _ in range(n)]  # noqa: E731
        kernel, stride, dilation = draw(1, 20), draw(1, 9), draw(1, 3)
        padding = [chosen.choice((0, chosen.randint(0, 12))) for _ in kernel]
        least = [d * (k - 1) + 1 - 2 * p for d, k, p in zip(dilation, kernel, padding, strict=True)]
        shape = [max(1, size) + chosen.randint(0, 40) for size in least]
        channels = groups * chosen.choice((1, 2, 3, 8))
        conv = CONVOLUTIONS[dims](
            channels, 4 * groups, kernel, stride, padding, dilation, groups, bias=index % 3 > 0
        )
        net = nn.Sequential(conv, chosen.choice((nn.ReLU(), nn.Identity(), nn.Hardtanh(-0.3, 0.4))))
        x = torch.randn(1 + index % 2, channels, *shape)
        made = quantizer(U85 if index % 2 else U55)
        _, counts = rewritten(net, x, (write_strides, write_large_kernels), made)
        count += sum(counts)
    assert count > 12


@pytest.mark.slow
def test_that_networks_of_layers_pools_and_norms_stay_the_same_function():
    chosen, counts = random.Random(2), [0] * len(ALL)
    torch.manual_seed(2)
    for index in range(16):
        net, x = random_network(chosen, 1 + index % 2)
        functions = [(lambda module, made, _f=function: _f(module, made) or []) for function in ALL]
        _, done = rewritten(net, x, [plain_operators, *functions] if index % 3 else functions)
        counts = [a + b for a, b in zip(counts, done[-len(ALL) :], strict=True)]
    assert all(counts[:-1]), counts


def random_network(chosen, dims):
    channels = chosen.choice((1, 3, 6))
    size = 400 if dims == 1 else 110
    layers, inputs = [], channels
    for stride in (chosen.randint(1, 6), chosen.randint(1, 2)):
        padding = chosen.choice((0, 0, 1, "valid"))
        layers.append(CONVOLUTIONS[dims](inputs, 6, chosen.randint(2, 6), stride, padding))
        inputs = 6
        norm = NORMS[dims](inputs)
        norm.running_mean.normal_(0, 0.5)
        norm.running_var.uniform_(0.5, 1.5)
        nn.init.uniform_(norm.weight, -0.2 if chosen.random() < 0.3 else 0.5, 1.5)
        nn.init.normal_(norm.bias)
        after = [nn.ReLU(), norm, POOLS[dims](2), nn.GELU(), POOLS[dims](3, 2, 1)]
        layers += chosen.sample(after, chosen.randint(1, 4))
    x = torch.randn(2, channels, *[size] * dims)
    net = nn.Sequential(*layers, nn.Flatten()).eval()
    return nn.Sequential(net, nn.Linear(net(x).shape[1], 3)).eval(), x


def test_that_a_patch_embedding_is_a_linear_over_gathered_rows():
    net, x = nn.Conv2d(3, 8, 4, 4), torch.randn(1, 3, 16, 16)
    for device, slices in ((U55, 4), (U85, 3 + 4)):
        module, (count,) = rewritten(net, x, (write_strides,), quantizer(device))
        assert count == 1
        assert operators(module).count(torch.ops.aten.linear.default) == 1
        assert operators(module).count(torch.ops.aten.slice.Tensor) == slices


def test_that_the_weights_of_an_output_are_the_same_numbers():
    net, x = nn.Conv1d(1, 6, 80, 4, bias=False).requires_grad_(False), torch.randn(1, 1, 800)
    module, _ = rewritten(net, x, (write_strides,))
    (weight,) = [value for name, value in module.named_parameters() if "folded" in name]
    known = {round(float(value), 6) for value in net.weight[2, 0]} | {0.0}
    # Each position gives two results: output 2 and the one 6 later have its weights.
    for row in (weight[2], weight[2 + 6]):
        assert {round(float(value), 6) for value in row.flatten()} == known
        assert row.abs().max() == net.weight[2].abs().max()


def test_that_strides_up_to_three_and_single_results_are_left_alone():
    for net, x in (
        (nn.Conv2d(3, 8, 3, 3), torch.randn(1, 3, 32, 32)),
        (nn.Conv1d(3, 8, 20, 20), torch.randn(1, 3, 39)),
        (nn.Conv1d(16, 8, 31), torch.randn(1, 16, 100)),
    ):
        assert rewritten(net, x, (write_strides, write_large_kernels))[1] == [0, 0]


def test_that_inputs_of_many_channels_in_groups_stay_the_same_function():
    x = torch.randn(1, 32, 30, 30)
    for padding, device, groups in ((0, U55, 2), (0, U85, 2), (1, U55, 2), (1, U85, 2), (0, U85, 32)):
        net = nn.Conv2d(32, 32, 6, 4, padding, groups=groups)
        assert rewritten(net, x, (write_strides,), quantizer(device))[1] == [1]


def test_that_a_large_kernel_over_the_input_alone_stays_where_weights_are_read_again():
    for device, stride, expected in ((U55, 1, 1), (U85, 1, 0), (U85, 2, 1)):
        net, x = nn.Conv1d(1, 32, 101, stride), torch.randn(1, 1, 1000)
        assert rewritten(net, x, (write_large_kernels,), quantizer(device))[1] == [expected]


def test_that_what_no_rule_quantizes_is_left_alone():
    net, x = nn.Conv2d(3, 8, 8, 8), torch.randn(1, 3, 32, 32)
    nothing = quantizer(finds=lambda module: [])
    assert rewritten(net, x, ALL, nothing)[1] == [0] * len(ALL)
    made = quantizer()
    made.quantizer.quantizers.insert(0, SimpleNamespace(own=object()))
    assert rewritten(net, x, ALL, made)[1] == [0] * len(ALL)


def test_that_an_activation_stays_with_its_convolution():
    net = nn.Sequential(nn.Conv1d(1, 8, 80, 4), nn.ReLU6())
    module, _ = rewritten(net, torch.randn(1, 1, 800), (write_strides,))
    (relu,) = [n for n in module.graph.nodes if "hardtanh" in str(n.target)]
    assert "conv" in str(relu.args[0].target)


def test_that_unread_places_are_cut_where_the_fewest_are_copied():
    net = nn.Sequential(nn.Conv1d(1, 32, 8, 3), nn.ReLU(), nn.MaxPool1d(4))
    x = torch.randn(1, 1, 400)
    module, (count,) = rewritten(net, x, (cut_unread_tails,))
    assert count == 1
    (cut,) = [n for n in module.graph.nodes if n.target is torch.ops.aten.slice.Tensor]
    assert cut.args[0].op == "placeholder"
    padded = nn.Sequential(nn.Conv1d(1, 32, 8, 3, 1), nn.ReLU(), nn.MaxPool1d(4))
    assert rewritten(padded, x, (cut_unread_tails,))[1] == [0]


def test_that_a_norm_goes_into_layers_without_padding_only():
    def net(padding):
        norm = nn.BatchNorm1d(8)
        norm.running_mean.normal_()
        layers = nn.Conv1d(4, 8, 3), nn.ReLU(), norm, nn.Conv1d(8, 8, 3, padding=padding)
        return nn.Sequential(*layers).eval()

    x = torch.randn(1, 4, 40)
    module, counts = rewritten(net(0), x, (fold_norms_forward, write_norms_as_one))
    assert counts == [1, 0]
    assert len([n for n in operators(module) if "conv" in str(n)]) == 2
    module, counts = rewritten(net(1), x, (fold_norms_forward, write_norms_as_one))
    assert counts == [0, 1]
    assert [n.args[6] for n in module.graph.nodes if len(n.args) > 6] == [8]


def test_that_a_norm_stays_where_the_weights_of_the_next_layer_would_lose_their_grid():
    norm = nn.BatchNorm1d(8)
    norm.running_var.copy_(torch.logspace(-4, 4, 8))
    net = nn.Sequential(nn.Conv1d(4, 8, 3), nn.ReLU(), norm, nn.Conv1d(8, 8, 3)).eval()
    x = torch.randn(1, 4, 40)
    assert rewritten(net, x, (fold_norms_forward,))[1] == [0]


class Normalized(nn.Module):
    """Operations with constants before a layer, over channels that are second or last."""

    def __init__(self, steps, layer, is_turned=False):
        super().__init__()
        self.steps, self.layer, self.is_turned = [step for step, _ in steps], layer, is_turned
        for index, (_, value) in enumerate(steps):
            self.register_buffer(f"value_{index}", torch.as_tensor(value))

    def forward(self, x):
        for index, step in enumerate(self.steps):
            x = step(x, getattr(self, f"value_{index}"))
        return self.layer(x.permute(0, 3, 1, 2) if self.is_turned else x)


class Stepped(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.register_buffer("least", torch.tensor(0.5))

    def forward(self, x):
        return torch.heaviside(self.layer(x) * 4, self.least)


def test_that_an_operator_with_a_constant_that_is_no_layer_takes_no_factor():
    assert rewritten(Stepped(), torch.randn(2, 8), (fold_norms_forward,))[1] == [0]


def test_that_operations_with_constants_stay_the_same_function_in_the_next_layer():
    chosen, counts = random.Random(6), [0, 0]
    torch.manual_seed(6)
    for index in range(16):
        is_turned = index % 2 == 1
        values = [0.7, -1.3, torch.rand(1) + 0.2, torch.rand(1, 3, 1, 1) + 0.5]
        values[3] = values[3].flatten() if is_turned else values[3]
        steps = [
            (chosen.choice((torch.add, torch.sub, torch.mul, torch.div)), chosen.choice(values))
            for _ in range(chosen.randint(1, 4))
        ]
        layer = chosen.choice(
            (
                nn.Conv2d(3, 4, 3, 2, chosen.choice((0, 0, 1))),
                nn.Conv2d(3, 6, 2, groups=3),
                nn.Sequential(nn.Flatten(), nn.Linear(192, 3)),
                nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2)),
                nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(3, 2, 3)),
            )
        )
        net = Normalized(steps, layer, is_turned)
        x = torch.randn(2, 8, 8, 3) if is_turned else torch.randn(2, 3, 8, 8)
        _, done = rewritten(net, x, (fold_norms_forward, write_norms_as_one))
        counts = [a + b for a, b in zip(counts, done, strict=True)]
    assert all(counts), counts


def test_that_a_normalized_picture_is_the_picture_behind_another_layer():
    mean, spread = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    steps = (torch.sub, mean[:, None, None]), (torch.div, spread[:, None, None])
    x = torch.randn(1, 3, 16, 16)
    module, counts = rewritten(Normalized(steps, nn.Conv2d(3, 8, 4, 4)), x, (fold_norms_forward,))
    assert counts == [2]
    assert operators(module) == [torch.ops.aten.conv2d.default]
    padded = Normalized(steps, nn.Conv2d(3, 8, 3, 2, 1))
    functions = (fold_norms_forward, write_norms_as_one)
    assert rewritten(padded, x, functions)[1] == [0, 2]
    assert rewritten(padded, x, functions, quantizer(U85))[1] == [0, 0]
    far = Normalized(((torch.sub, 5.0), (torch.div, 1.0)), nn.Conv2d(3, 8, 4, 4))
    assert rewritten(far, x, (fold_norms_forward,))[1] == [0]


def weighted(norm):
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.normal_(norm.bias)
    return norm


class Branched(nn.Module):
    """A norm that a layer and a sum read, as behind the blocks of BERT."""

    def __init__(self, norm, layer):
        super().__init__()
        self.norm, self.layer = norm, layer

    def forward(self, x):
        x = self.norm(x)
        return x + self.layer(x)


@pytest.mark.parametrize(
    ("norm", "layer", "shape"),
    [
        (nn.LayerNorm(6), nn.Linear(6, 4), (1, 9, 6)),
        (nn.LayerNorm(6), nn.Linear(6, 4), (2, 3, 3, 6)),
        (nn.GroupNorm(2, 6), nn.Conv2d(6, 4, 3), (1, 6, 8, 8)),
        (nn.GroupNorm(6, 6), nn.Conv1d(6, 4, 3), (2, 6, 8)),
    ],
)
def test_that_the_weights_of_a_norm_over_values_are_those_of_the_next_layer(norm, layer, shape):
    net = nn.Sequential(weighted(norm), layer)
    module, counts = rewritten(net, torch.randn(shape), (fold_norms_forward, write_norms_as_one))
    assert counts == [1, 0]
    (call,) = [n for n in module.graph.nodes if n.op == "call_function" and "norm" in str(n.target)]
    assert call.args[2:4] == (None, None)


@pytest.mark.parametrize(
    ("norm", "layer", "shape"),
    [
        (nn.LayerNorm(6), nn.Linear(6, 6), (1, 9, 6)),
        (nn.LayerNorm(6), nn.Linear(6, 6), (2, 3, 3, 6)),
        (nn.GroupNorm(3, 6), nn.Conv2d(6, 6, 3, padding=1), (1, 6, 8, 8)),
    ],
)
def test_that_the_weights_of_a_norm_over_values_are_one_convolution_where_layouts_are_fast(
    norm, layer, shape
):
    net, functions = Branched(weighted(norm), layer), (fold_norms_forward, write_norms_as_one)
    module, counts = rewritten(net, torch.randn(shape), functions)
    assert counts == [0, 1]
    assert [node.args[6] for node in module.graph.nodes if len(node.args) > 6] == [6]
    assert rewritten(net, torch.randn(shape), functions, quantizer(U85))[1] == [0, 0]


def test_that_norms_over_several_axes_and_without_weights_stay():
    for norm in (weighted(nn.LayerNorm((4, 6))), nn.LayerNorm(6, elementwise_affine=False)):
        net = nn.Sequential(norm, nn.Linear(6, 3))
        assert rewritten(net, torch.randn(1, 4, 6), (fold_norms_forward, write_norms_as_one))[1] == [0, 0]

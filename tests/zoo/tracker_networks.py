"""The smallest networks of failures that were reported to the projects of the toolchain."""

import torch
from torch import nn
from torch.nn import functional


class _Made(nn.Module):
    """Named parts, and a function of them and the inputs."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *x):
        return self.function(self, *x)


def _of(function, *shapes, **builds):
    torch.manual_seed(0)
    parts = {name: build() for name, build in builds.items()}
    return _Made(function, **parts).eval(), tuple(torch.randn(shape) for shape in shapes)


def _conv(*sizes, **rest):
    return lambda: nn.Conv2d(*sizes, **rest)


def _linear(*sizes, **rest):
    return lambda: nn.Linear(*sizes, **rest)


_IMAGE, _ROWS = (1, 3, 8, 8), (1, 4, 8)


def hardtanh_and_cat():
    def run(m, x):
        return torch.cat([x, functional.hardtanh(m.a(x), 0.0, 6.0)], 3)

    return _of(run, (1, 2, 4, 4), a=_conv(2, 2, 1, bias=False))


def relu_in_place():
    return _of(
        lambda m, x: m.act(m.a(x)),
        _IMAGE,
        a=_conv(3, 8, 7, 2, 3, bias=False),
        act=lambda: nn.ReLU(inplace=True),
    )


def permute_and_reshape_to_five():
    def run(m, x):
        x = functional.relu(m.a(x)).permute(0, 2, 3, 1)
        return x.reshape(1, 1, 4, 4, 8).permute(0, 1, 3, 2, 4)

    return _of(run, _IMAGE, a=_conv(3, 8, 3, 2, 1))


def nearest_upsample():
    return _of(lambda m, x: functional.interpolate(m.a(x), scale_factor=2.0), _IMAGE, a=_conv(3, 8, 3))


def transposed_with_stride_three():
    return _of(lambda m, x: m.a(x), _IMAGE, a=lambda: nn.ConvTranspose2d(3, 4, 3, 3))


def transposed_with_dilation():
    return _of(lambda m, x: m.a(x), _IMAGE, a=lambda: nn.ConvTranspose2d(3, 4, 3, dilation=2))


def transposed_in_groups():
    return _of(lambda m, x: m.a(x), (1, 4, 6, 6), a=lambda: nn.ConvTranspose2d(4, 4, 2, 2, groups=4))


def weights_used_twice():
    return _of(lambda m, x: m.a(functional.relu(m.a(x))), _ROWS, a=_linear(8, 8))


def borders_in_float():
    return _of(lambda m, x: functional.relu6(m.a(x)), _IMAGE, a=_conv(3, 8, 3))


def border_between_integers_and_float():
    def run(m, x):
        x = m.a(x).view(1, 8, 4).permute(0, 2, 1)
        return m.b(torch.erfc(x))

    return _of(run, _ROWS, a=_linear(8, 8), b=_linear(8, 4))


def addition():
    return _of(lambda m, x, y: x + y, _ROWS, _ROWS)


def view_and_transpose():
    return _of(lambda m, x: m.a(x).view(1, 8, 4).transpose(1, 2) * 2.0, _ROWS, a=_linear(8, 8))


def fully_connected():
    return _of(lambda m, x: m.b(torch.tanh(m.a(x))), (1, 8), a=_linear(8, 16), b=_linear(16, 4))


def rescaled_product():
    return _of(lambda m, x: m.a(x) * m.b(x), _ROWS, a=_linear(8, 8), b=_linear(8, 8))


def leaky_relu():
    return _of(lambda m, x: functional.leaky_relu(m.a(x), 0.2), _IMAGE, a=_conv(3, 8, 3))


def prelu():
    return _of(lambda m, x: m.p(m.a(x)), _IMAGE, a=_conv(3, 8, 3), p=lambda: nn.PReLU(8))


def mean_over_many():
    return _of(lambda m, x: x.mean((1, 2), keepdim=True), (1, 256, 400))


def norm_alone():
    return _of(lambda m, x: functional.relu(m.n(x)), _IMAGE, n=lambda: nn.BatchNorm2d(3))


def norm_behind_a_pool():
    def run(m, x):
        return m.n(functional.max_pool2d(m.a(x), 2))

    return _of(run, _IMAGE, a=_conv(3, 8, 3), n=lambda: nn.BatchNorm2d(8))


def linear_behind_recurrence():
    def run(m, x):
        return m.a(m.rnn(x)[0])

    return _of(
        run, (1, 3, 8), a=_linear(12, 5), rnn=lambda: nn.LSTM(8, 6, bidirectional=True, batch_first=True)
    )


def boxes_of_yolo():
    def run(m, x):
        x = m.a(x).flatten(2)
        near, far = x[:, :2].sigmoid(), x[:, 2:4].sigmoid()
        return torch.cat([(far + near) / 2, far - near, x[:, 4:].sigmoid()], 1)

    return _of(run, _IMAGE, a=_conv(3, 7, 1))


def sigmoid_of_convolution():
    return _of(lambda m, x: torch.sigmoid(m.a(x)), _IMAGE, a=_conv(3, 8, 3))


def softmax_alone():
    return _of(lambda m, x: torch.softmax(x, -1), _ROWS)


def attention_in_one():
    def run(m, x):
        parts = [each(x).view(1, 4, 2, 4).transpose(1, 2) for each in (m.q, m.k, m.v)]
        return functional.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2)

    return _of(run, _ROWS, q=_linear(8, 8), k=_linear(8, 8), v=_linear(8, 8))


def largest_of_a_row():
    return _of(lambda m, x: torch.amax(m.a(x), -1, keepdim=True), _ROWS, a=_linear(8, 8))


def smallest_of_a_row():
    return _of(lambda m, x: torch.amin(m.a(x), -1, keepdim=True), _ROWS, a=_linear(8, 8))


def linear_over_rows():
    return _of(lambda m, x: m.a(x), (1, 7, 12), a=_linear(12, 9))


def choice_and_comparison():
    def run(m, x):
        x = m.a(x)
        return m.b(torch.where(x > 0.1, x, -x).clamp(-1, 1))

    return _of(run, _ROWS, a=_linear(8, 8), b=_linear(8, 8))


def rows_by_number():
    def run(m, x):
        return m.a(x).index_select(1, m.rows)

    made = _of(run, _ROWS, a=_linear(8, 8))
    made[0].register_buffer("rows", torch.tensor([2, 0]))
    return made


def remainder_and_floor():
    return _of(lambda m, x: torch.floor(m.a(x)) + torch.remainder(m.a(x), 0.5), _ROWS, a=_linear(8, 8))


def modulo_of_the_rank():
    return _of(lambda m, x: torch.softmax(m.a(x).transpose(-1, -2), -2), _ROWS, a=_linear(8, 8))


def convolution_with_two_norms():
    def run(m, x, y):
        return m.n(m.a(x)) + m.o(m.a(y))

    return _of(
        run,
        _IMAGE,
        _IMAGE,
        a=_conv(3, 4, 3, bias=False),
        n=lambda: nn.BatchNorm2d(4),
        o=lambda: nn.BatchNorm2d(4),
    )


def linear_with_norm():
    return _of(
        lambda m, x: functional.relu(m.n(m.a(x))), (1, 8), a=_linear(8, 12), n=lambda: nn.BatchNorm1d(12)
    )


def gated_by_attention_of_convolutions():
    def run(m, x):
        x = functional.gelu(m.n(m.a(x)))
        return x * m.c(m.b(x))

    return _of(
        run,
        _IMAGE,
        a=_conv(3, 8, 1),
        n=lambda: nn.BatchNorm2d(8),
        b=_conv(8, 8, 5, padding=2, groups=8),
        c=_conv(8, 8, 1),
    )


def padding_by_name():
    return _of(
        lambda m, x: functional.relu(m.n(m.a(x))),
        _IMAGE,
        a=_conv(3, 8, 3, padding="same", bias=False),
        n=lambda: nn.BatchNorm2d(8),
    )


def mask_of_the_least_float():
    def run(m, x):
        x = m.a(x)
        return torch.softmax(x + m.mask, -1)

    made = _of(run, (1, 8, 8), a=_linear(8, 8))
    mask = torch.triu(torch.full((8, 8), torch.finfo(torch.float32).min), 1)
    made[0].register_buffer("mask", mask)
    return made


def values_that_are_all_zero():
    return _of(lambda m, x: m.a(x) * 0.0 + m.b(x), _ROWS, a=_linear(8, 8), b=_linear(8, 8))


def values_that_hardly_differ():
    return _of(lambda m, x: m.a(x) * 1e-6 + 3.0, _ROWS, a=_linear(8, 8))


def stacked_parts_and_factors():
    def run(m, x):
        x = m.a(x)
        parts = torch.stack([x[:, i * 2 : (i + 1) * 2] for i in range(3)], -1)
        return (parts[..., 0] - 0.5 * parts[..., 1]) + parts[..., 2] * -0.866

    return _of(run, _IMAGE, a=_conv(3, 6, 1))


def class_numbers():
    return _of(lambda m, x: torch.argmax(m.a(x), -1), _ROWS, a=_linear(8, 8))


def whole_image_pool():
    return _of(
        lambda m, x: m.b(functional.adaptive_avg_pool2d(m.a(x), 1).flatten(1)),
        _IMAGE,
        a=_conv(3, 8, 3),
        b=_linear(8, 4),
    )


def many_strides():
    def run(m, x):
        return functional.max_pool2d(m.a(x), 4, 4)

    return _of(run, (1, 3, 16, 16), a=_conv(3, 8, 3, 1, 1))


def both_logic_operators():
    def run(m, x):
        x = m.a(x)
        inside = (x > -0.3) & (x < 0.3)
        return torch.where(inside | (x > 0.6), x, torch.zeros_like(x))

    return _of(run, _ROWS, a=_linear(8, 8))


def attention_written_out():
    def run(m, x):
        scores = (m.q(x) @ m.k(x).transpose(-1, -2)) * 0.35
        return torch.softmax(scores, -1) @ m.v(x)

    return _of(run, _ROWS, q=_linear(8, 8), k=_linear(8, 8), v=_linear(8, 8))


def mnist():
    def run(m, x):
        x = functional.max_pool2d(functional.relu(m.b(functional.relu(m.a(x)))), 2)
        return functional.log_softmax(m.c(torch.flatten(x, 1)), 1)

    return _of(run, (1, 1, 12, 12), a=_conv(1, 4, 3), b=_conv(4, 8, 3), c=_linear(128, 10))


def faces():
    def run(m, x):
        x = m.a(x)
        parts = x.chunk(2, 1)
        x = torch.cat([m.b(parts[0]), parts[1]], 1).flatten(2).transpose(1, 2)
        x = functional.normalize(x, dim=-1)
        return x.transpose(1, 2) @ x

    return _of(run, _IMAGE, a=_conv(3, 8, 2, 2), b=_conv(4, 4, 3, padding=1, groups=4))


def expression_of_a_parameter():
    return _of(
        lambda m, x: m.a(x) * (1.0 + m.w), _ROWS, a=_linear(8, 8), w=lambda: nn.Parameter(torch.randn(8))
    )


def group_norm_without_factors():
    return _of(lambda m, x: m.n(x), (1, 8, 6, 6), n=lambda: nn.GroupNorm(2, 8, affine=False))


def group_norm_behind_convolution():
    return _of(
        lambda m, x: functional.silu(m.n(m.a(x))), _IMAGE, a=_conv(3, 8, 3), n=lambda: nn.GroupNorm(4, 8)
    )


def norm_of_the_present_batch():
    return _of(
        lambda m, x: functional.relu(m.n(m.a(x))),
        _IMAGE,
        a=_conv(3, 8, 3),
        n=lambda: nn.BatchNorm2d(8, track_running_stats=False),
    )


def joined_with_itself():
    def run(m, x):
        x = m.a(x)
        return torch.cat([x, x], 1)

    return _of(run, _IMAGE, a=_conv(3, 3, 3))


def joined_by_another_name():
    return _of(lambda m, x: torch.concat([m.a(x), m.b(x)], 1), _IMAGE, a=_conv(3, 4, 3), b=_conv(3, 4, 3))


def recurrence_alone():
    return _of(lambda m, x: m.rnn(x)[0], (1, 4, 6), rnn=lambda: nn.GRU(6, 8, batch_first=True))


def even_kernel_and_same_size():
    return _of(
        lambda m, x: functional.relu(m.a(x.reshape(1, 1, 64, 1))),
        (1, 64),
        a=_conv(1, 8, (32, 1), padding="same"),
    )


def block_of_a_vision_transformer():
    def run(m, x):
        x = x + m.o(m.h(m.n(x), m.n(x), m.n(x), need_weights=False)[0])
        return x + m.b(functional.gelu(m.a(m.p(x))))

    return _of(
        run,
        (1, 5, 16),
        n=lambda: nn.LayerNorm(16),
        p=lambda: nn.LayerNorm(16),
        h=lambda: nn.MultiheadAttention(16, 2, batch_first=True),
        o=_linear(16, 16),
        a=_linear(16, 32),
        b=_linear(32, 16),
    )


def attention_with_guards():
    return _of(
        lambda m, x: m.h(x, x, x, need_weights=False)[0].mean(1),
        (1, 5, 16),
        h=lambda: nn.MultiheadAttention(16, 2, batch_first=True),
    )


def cumulative_sum():
    return _of(lambda m, x: torch.cumsum(m.a(x), 1), _ROWS, a=_linear(8, 8))


def pixels_shuffled_and_back():
    def run(m, x):
        return functional.pixel_unshuffle(functional.relu(functional.pixel_shuffle(m.a(x), 2)), 2)

    return _of(run, _IMAGE, a=_conv(3, 8, 3))


def filled_in_place():
    def run(m, x):
        scores = m.a(x)
        scores.masked_fill_(m.mask, -1e4)
        return torch.softmax(scores, -1)

    made = _of(run, (1, 8, 8), a=_linear(8, 8))
    made[0].register_buffer("mask", torch.triu(torch.ones(8, 8, dtype=torch.bool), 1))
    return made


def bilinear_upsample():
    def run(m, x):
        return functional.interpolate(m.a(x), scale_factor=2, mode="bilinear")

    return _of(run, _IMAGE, a=_conv(3, 8, 3))


def written_by_number():
    def run(m, x):
        x = m.a(x)
        return torch.index_put(x, (m.rows,), m.b(x[:2]))

    made = _of(run, (4, 8, 8), a=_linear(8, 8), b=_linear(8, 8))
    made[0].register_buffer("rows", torch.tensor([2, 0]))
    return made


def pool_that_leaves_rows_over():
    return _of(lambda m, x: functional.avg_pool2d(m.a(x), 3, 2), (1, 3, 10, 10), a=_conv(3, 8, 3))


def pool_that_rounds_up():
    def run(m, x):
        return functional.avg_pool2d(m.a(x), 3, 2, 1, ceil_mode=True, count_include_pad=True)

    return _of(run, (1, 3, 10, 10), a=_conv(3, 8, 3))


def mean_over_a_wide_image():
    return _of(lambda m, x: m.a(x).mean((2, 3)), (1, 3, 20, 18), a=_conv(3, 8, 3))


def pool_that_becomes_a_mean():
    return _of(
        lambda m, x: m.b(functional.avg_pool2d(m.a(x), 6).flatten(1)),
        _IMAGE,
        a=_conv(3, 8, 3),
        b=_linear(8, 4),
    )


def softmax_in_sixteen_bits():
    return _of(lambda m, x: torch.softmax(m.a(x), -1), _ROWS, a=_linear(8, 8))


def norm_over_three_dimensions():
    return _of(lambda m, x: m.n(m.a(x)), _IMAGE, a=_conv(3, 8, 3), n=lambda: nn.LayerNorm((8, 6, 6)))


def positions_with_logarithms():
    def run(m, x):
        apart = torch.arange(4)[None] - torch.arange(4)[:, None]
        near = apart.abs()
        far = 2 + (torch.log(near.float() / 2) / 0.7).long()
        rows = torch.where(near < 2, near, torch.minimum(far, torch.full_like(far, 3)))
        return m.a(x) + m.e(rows).mean(1)

    return _of(run, _ROWS, a=_linear(8, 8), e=lambda: nn.Embedding(4, 8))


def random_slope():
    return _of(lambda m, x: functional.rrelu(m.a(x)), _IMAGE, a=_conv(3, 8, 3))


def mean_over_steps():
    return _of(
        lambda m, x: m.b(m.p(m.a(x)).flatten(1)),
        (1, 3, 20),
        a=lambda: nn.Conv1d(3, 8, 3),
        p=lambda: nn.AdaptiveAvgPool1d(1),
        b=_linear(8, 4),
    )


def norm_of_each_channel():
    return _of(
        lambda m, x: m.n(m.a(x)), _IMAGE, a=_conv(3, 8, 3), n=lambda: nn.InstanceNorm2d(8, affine=True)
    )


def logarithms_of_sums():
    def run(m, x):
        return torch.logsumexp(functional.mish(m.a(x)), -1)

    return _of(run, _ROWS, a=_linear(8, 8))


def rolled_windows():
    return _of(
        lambda m, x: m.b(torch.roll(m.a(x), (1, -1), (2, 3))), _IMAGE, a=_conv(3, 8, 3), b=_conv(8, 4, 3)
    )

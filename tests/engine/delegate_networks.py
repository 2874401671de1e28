"""Small networks whose delegates Vela or ExecuTorch's last passes get wrong."""

import torch
from torch import nn
from torch.nn import functional


class _Network(nn.Module):
    def __init__(self, run, *layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.run = run

    def forward(self, *inputs):
        return self.run(*inputs, *self.layers)


def _made(run, shape, *layers, second=None):
    torch.manual_seed(0)
    for layer in layers:
        layer.reset_parameters()
    shapes = [shape] if second is None else [shape, second]
    return _Network(run, *layers).eval(), tuple(torch.randn(*each) for each in shapes)


_IMAGE = (1, 4, 8, 8)


def _conv(after=6, **rest):
    return nn.Conv2d(4, after, 3, padding=1, **rest)


def largest_of_part():
    """The largest values of the lower rows."""
    return _made(lambda x, conv: conv(x)[:, :, 2:].amax(3), _IMAGE, _conv())


def least_of_part():
    """The least values of the lower rows."""
    return _made(lambda x, conv: conv(x)[:, :, 2:].amin(3), _IMAGE, _conv())


def mean_of_part():
    """The means of the lower rows."""
    return _made(lambda x, conv: conv(x)[:, :, 2:].mean(3), _IMAGE, _conv())


def grown_part_of_input():
    """A part of the input, grown."""
    grow = nn.ConvTranspose2d(4, 4, 2, stride=2)
    return _made(lambda x, grow: grow(x[:, :, 2:]), _IMAGE, grow)


def multiplied_and_joined():
    """Two outputs for each channel, beside a convolution."""

    def run(x, multiply, conv):
        return torch.cat([multiply(x), conv(x)], 1)

    return _made(run, _IMAGE, _conv(8, groups=4), _conv(4))


def resized_and_joined():
    """A resized convolution beside a convolution of the resized image."""

    def run(x, conv, other):
        grown = functional.interpolate(conv(x), scale_factor=4)
        return torch.cat([grown, other(functional.interpolate(x, scale_factor=4))], 1)

    return _made(run, _IMAGE, _conv(), _conv())


def flipped_product():
    """A matrix product from right to left."""

    def run(x, query, key):
        return torch.flip(query(x) @ key(x).transpose(1, 2), [2])

    return _made(run, (1, 8, 12), nn.Linear(12, 6), nn.Linear(12, 6))


def products_of_parts():
    """Two products in a row of the parts of a linear, as attention has them."""

    def run(x, linear):
        query, key, value = linear(x).chunk(3, -1)
        return torch.tanh(query @ key.transpose(1, 2)) @ value

    return _made(run, (1, 8, 12), nn.Linear(12, 18))


def computed_kernel():
    """A correlation with a template."""

    def run(x, conv):
        features = conv(x)
        return torch.conv2d(features, features[:, :, 2:5, 2:5] * 0.1)

    return _made(run, _IMAGE, _conv())


def permuted_back_and_forth():
    """Products of 16 bits on the CPU, with changes of layout between that undo each other."""

    def run(x, first, second):
        keys = torch.einsum("bnd,bne->bde", first(x), second(x))
        return torch.einsum("bnd,bde,bn->bne", first(x), keys, second(x).sum(-1))

    return _made(run, (1, 6, 8), nn.Linear(8, 8), nn.Linear(8, 8))


def number_minus_value():
    """A convolution subtracted from one."""
    return _made(lambda x, conv: 1 - conv(x), _IMAGE, _conv())


def function_of_flipped():
    """A function of a flipped function."""
    return _made(lambda x: torch.sigmoid(torch.flip(torch.tanh(x), [3])), (1, 4, 6, 8))


def function_of_flipped_clamp():
    """A function of a flipped clamp."""
    return _made(lambda x: torch.sigmoid(torch.flip(functional.hardtanh(x, -0.5, 0.7), [2])), (1, 4, 6, 8))


def negated_largest():
    """The least values, by way of the largest negated ones."""
    return _made(lambda x, conv: -torch.amax(-conv(x), 3), _IMAGE, _conv())


def rows_compared():
    """The larger of rows above and below, of a convolution that is called for each."""

    def run(x, conv):
        return torch.maximum(conv(x)[:, :, 2:], conv(x)[:, :, :-2])

    return _made(run, _IMAGE, _conv())


def mean_spread():
    """The mean of each channel, at every pixel."""

    def run(x, conv):
        mean = conv(x).mean((2, 3), keepdim=True)
        return functional.interpolate(mean, size=(8, 8), mode="bilinear")

    return _made(run, _IMAGE, _conv())


def single_mean_spread():
    """The same with one channel and the nearest pixel, which ends Vela in 16 bits."""

    def run(x, conv):
        return functional.interpolate(conv(x).mean((2, 3), keepdim=True), size=(8, 8))

    return _made(run, _IMAGE, _conv(1))


def wide_padded_pool():
    """A pool with a stride of four and a padding."""
    return _made(lambda x: functional.max_pool2d(x, 3, stride=4, padding=1), (1, 3, 33, 33))


def clamped_rows():
    """Two linears over rows with a ReLU between them, as in a transformer."""

    def run(x, first, second):
        return second(torch.relu(first(x)))

    return _made(run, (1, 6, 16), nn.Linear(16, 32), nn.Linear(32, 16))


def summed_rows():
    """A residual sum of rows with a ReLU, which a linear reads, as in networks of linears."""

    def run(x, first, second):
        return second(torch.relu(first(x) + x))

    return _made(run, (1, 6, 8), nn.Linear(8, 8), nn.Linear(8, 8))


def squares_of_repeated():
    """The mean of squares of rows that are repeated, whose dimensions are joined."""

    def run(x, conv):
        return functional.interpolate(conv(x), scale_factor=2).square().mean(-1)

    return _made(run, (1, 3, 16), nn.Conv1d(3, 8, 3, padding=1))


def functions_of_anchors():
    """A function of a convolution in the shape of rows, columns and anchors, as in detectors."""

    def run(x, head):
        return torch.sigmoid(head(x).permute(0, 2, 3, 1).reshape(1, 12, 12, 2, 8))

    return _made(run, (1, 3, 12, 12), nn.Conv2d(3, 16, 1))


def anchors_joined_again():
    """Boxes and scores of rows, columns and anchors, computed and joined as YOLOv5 does."""

    def run(x, head):
        y = head(x).view(1, 2, 8, 12, 12).permute(0, 1, 3, 4, 2).sigmoid()
        return torch.cat((y[..., :2] * 2 - 0.5, (y[..., 2:4] * 2) ** 2, y[..., 4:]), -1)

    return _made(run, (1, 3, 12, 12), nn.Conv2d(3, 16, 1))


def functions_of_gated_anchors():
    """The same of a sum, which Vela computes beyond its memory."""

    def run(x, head):
        y = head(x)
        y = y + y.mean((2, 3), keepdim=True)
        return torch.sigmoid(y.permute(0, 2, 3, 1).reshape(1, 12, 12, 2, 8))

    return _made(run, (1, 3, 12, 12), nn.Conv2d(3, 16, 1))


def functions_of_grouped_means():
    """A function of means that are shown as several images, whose steps differ."""

    def run(x, conv):
        return torch.sigmoid(conv(x).mean((2, 3)).view(2, 2, 2, 2))

    return _made(run, (1, 4, 12, 12), nn.Conv2d(4, 16, 3, padding=1))


def function_of_sums():
    """A function of sums over a batch of images."""
    return _made(lambda x: torch.tanh(x.sum(1, keepdim=True)), (3, 6, 6, 12))


def softmax_of_groups():
    """A softmax over a dimension of five, as kernels that are computed for each place have it."""

    def run(x, conv):
        return conv(x).view(1, 2, 4, 8, 8).softmax(2)

    return _made(run, _IMAGE, _conv(8))


def function_of_grouped_sums():
    """A function of sums of five dimensions, whose dimension is left out."""

    def run(x, conv):
        return torch.tanh(conv(x).view(2, 2, 2, 8, 8).sum(3))

    return _made(run, _IMAGE, _conv(8))


def function_of_largest():
    """A function of the largest values over a batch of images."""
    return _made(lambda x: torch.sigmoid(x.amax(1, keepdim=True)), (3, 6, 6, 12))


def summed_columns():
    """A ReLU of a sum over a batch of sequences, whose columns a linear reads."""

    def run(x, linear):
        return linear(torch.relu(x + torch.tanh(x)).transpose(1, 2))

    return _made(run, (2, 8, 6), nn.Linear(8, 8))


def clamped_columns():
    """A convolution over all rows and a ReLU, whose columns a linear reads, as in text readers."""

    def run(x, conv, linear):
        return linear(torch.relu(conv(x)).squeeze(2).permute(2, 0, 1))

    return _made(run, (1, 4, 4, 6), nn.Conv2d(4, 8, (4, 1)), nn.Linear(8, 5))


def clamped_batch():
    """Two pointwise convolutions over a batch with a clamp between them."""

    def run(x, first, second):
        return second(functional.hardtanh(first(x), -0.3, 0.2))

    return _made(run, (2, 4, 6, 6), nn.Conv2d(4, 8, 1), nn.Conv2d(8, 4, 1))


def detected_and_joined():
    """Whether an object is there and which, side by side, as detection heads have them."""

    def run(x, presence, kind):
        return torch.cat([torch.sigmoid(presence(x)), torch.sigmoid(kind(x))], 1)

    return _made(run, (1, 64, 2, 2), nn.Conv2d(64, 1, 1), nn.Conv2d(64, 4, 1))


def windows_in_parts():
    """Queries and keys of windows, parts of one tensor, which are scaled, as in Swin."""

    def run(x, linear):
        queries, keys = linear(x).view(4, 6, 2, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        return torch.tanh(queries * 0.5) + keys

    return _made(run, (4, 6, 8), nn.Linear(8, 16))


def rotary_keys():
    """Keys, a part of one tensor, with their rotary positions and transposed, as in LLaMA."""

    def run(x):
        keys = x.view(1, 16, 3, 4, 8).permute(2, 0, 3, 1, 4)[1]
        first, second = keys.chunk(2, -1)
        return (keys * 0.5 + torch.cat((-second, first), -1)).transpose(-1, -2)

    return _made(run, (1, 16, 96))


def chosen_beside_function():
    """Values of a function, or a number in their place, as where peaks are kept."""

    def run(x, conv):
        y = conv(x).sigmoid()
        return torch.where(y > y.flip(3), y, torch.tensor(0.5))

    return _made(run, _IMAGE, _conv())


def filled_choice():
    """A number that fills a tensor, or values of a convolution."""

    def run(x, conv):
        y = conv(x)
        return torch.where(y < 0.3, torch.full_like(y, -1.0), y)

    return _made(run, _IMAGE, _conv())


def pooled_and_turned():
    """The maxima of one channel, and what a linear makes of their columns."""

    def run(x, linear):
        pooled = functional.max_pool2d(x, 3)
        return linear(pooled.transpose(2, 3)), pooled

    return _made(run, (1, 1, 8, 12), nn.Linear(2, 4))


def padded_product():
    """A product of queries and positions with a column before it, as relative attention has it."""
    return _made(lambda x: functional.pad(x @ x.transpose(2, 3), (1, 0)), (1, 2, 5, 9))


def batch_in_groups():
    """A convolution in groups over a batch; each group reads a part of the channels."""
    return _made(lambda x, conv: conv(x), (2, 6, 6, 6), nn.Conv2d(6, 6, 3, padding=1, groups=3))


def padded_batch():
    """Convolutions over a batch in one dimension with zeros before the second, as causal ones."""

    def run(x, first, second):
        return second(functional.pad(first(x), (2, 0)))

    return _made(run, (2, 3, 9), nn.Conv1d(3, 4, 3, padding=1), nn.Conv1d(4, 4, 3))


def grown_batch():
    """A convolution and a transposed one over a batch in one dimension."""

    def run(x, first, second):
        return second(first(x))

    layers = nn.Conv1d(3, 4, 3, padding=1), nn.ConvTranspose1d(4, 4, 3, padding=1)
    return _made(run, (2, 3, 9), *layers)


def modulated_rows():
    """Rows scaled and shifted by parts of one vector, as a diffusion transformer has them."""

    def run(rows, vector):
        shift, scale = vector[..., 96:128], vector[..., 128:160]
        return rows * scale + shift

    return _made(run, (1, 6, 32), second=(1, 1, 192))


def pooled_functions():
    """Average pools of a sigmoid, and of a tangent that is padded."""

    def run(x, conv):
        made = conv(x)
        pooled = functional.avg_pool2d(made.sigmoid(), 2)
        return pooled + functional.avg_pool2d(made.tanh(), 3, 2, 1)

    return _made(run, (1, 3, 8, 8), nn.Conv2d(3, 8, 3, padding=1))


def detector_rows():
    """Rows of eight values for each of three anchors, as YOLOv5 has them."""

    def run(x, conv):
        rows = conv(x).view(1, 3, 8, 4, 4).permute(0, 1, 3, 4, 2)
        return rows.sigmoid()

    return _made(run, (1, 3, 4, 4), nn.Conv2d(3, 24, 1))


def functions_of_rows_of_images():
    """A function of rows of several images in another order."""

    def run(x, conv):
        rows = conv(x).permute(0, 2, 3, 1).reshape(4, 4, 3, 8)
        return rows.permute(2, 0, 1, 3).sigmoid()

    return _made(run, (1, 3, 4, 4), nn.Conv2d(3, 24, 1))


def _heads(x, linear):
    """Return queries and keys of a batch [2, 3, 10, 8] as most attentions write them."""
    return linear(x).view(2, 10, 2, 3, 8).permute(2, 0, 3, 1, 4)


def functions_of_heads():
    """Functions of the queries and keys of a batch."""

    def run(x, linear):
        queries, keys = _heads(x, linear)
        return torch.relu(queries), functional.elu(keys)

    return _made(run, (2, 10, 24), nn.Linear(24, 48))


def products_of_heads():
    """Queries by a function of keys, which a linear attention over a batch has."""

    def run(x, linear):
        queries, keys = _heads(x, linear)
        return queries @ functional.elu(keys).transpose(-1, -2)

    return _made(run, (2, 10, 24), nn.Linear(24, 48))


def grey_as_colours():
    """A grey image as the three channels that a convolution reads."""

    def run(x, conv):
        return conv(torch.cat([x, x, x], 1))

    return _made(run, (1, 1, 8, 8), nn.Conv2d(3, 8, 3))


def columns_as_rows():
    """A column beside itself, as rows."""

    def run(x, linear):
        column = linear(x)
        return torch.cat([column, column], 1).t()

    return _made(run, (4, 8), nn.Linear(8, 1))


def pooled_both_ways():
    """Means and maxima of an image side by side, as heads of classifiers have them."""

    def run(x, conv):
        made = conv(x)
        return torch.cat([made.mean((2, 3)), made.amax((2, 3))], 1)

    return _made(run, _IMAGE, _conv())


def channel_statistics():
    """Means and maxima of the channels side by side."""

    def run(x, conv):
        made = conv(x)
        return torch.cat([made.mean(1, keepdim=True), made.amax(1, keepdim=True)], 1)

    return _made(run, _IMAGE, _conv())


def padded_largest():
    """The largest value of each row, padded."""
    return _made(lambda x: functional.pad(x.amax(1, keepdim=True), (0, 0, 1, 1)), (4, 24))


def largest_before_rows():
    """The largest values of rows in front of others, over a batch."""
    return _made(lambda x: torch.cat([x.amax(-1), x[..., 0]], 1), (2, 6, 8))


def function_twice():
    """A gate and what it leaves, each written with a sigmoid of its own."""
    return _made(lambda x: torch.cat([(1 - x.sigmoid()) * x, x.sigmoid()], 1), (2, 8))


def elus():
    """Exponential units of one value, whose numbers differ, side by side."""
    return _made(
        lambda x: torch.cat([functional.celu(x, 0.7), functional.selu(x), functional.elu(x)], 1), (2, 8)
    )


def least_with_place():
    """The least values of rows, from the minimum that gives places too."""
    return _made(lambda x: x.min(-1).values, (1, 6, 8))


def turned_batch():
    """A clamp of rows in another order, as several images."""
    return _made(lambda x, linear: torch.relu(linear(x).permute(2, 1, 0, 3)), (1, 4, 6, 8), nn.Linear(8, 8))


def function_of_part_of_batch():
    """A function of a part of a batch in five dimensions."""

    def run(x, linear):
        return torch.tanh(linear(x).unsqueeze(1)[:, :, 1:])

    return _made(run, (2, 3, 6, 6), nn.Linear(6, 12))


def function_of_turned_rows():
    """A function of rows in another order, each value an image."""

    def run(x):
        return functional.gelu(torch.relu(x).unsqueeze(2).permute(3, 1, 2, 0))

    return _made(run, (1, 4, 4))


def turned_function_in_images():
    """A function of columns that become several images, beside another."""

    def run(x, linear):
        made = torch.tanh(linear(x)).transpose(1, 2).reshape(3, 4, 2, 3)
        return torch.cat([made, torch.relu(made)], 1)

    return _made(run, (1, 6, 8), nn.Linear(8, 12))


def function_of_batch():
    """A function of a pointwise convolution over a batch, with several readers."""

    def run(x, conv):
        made = torch.sigmoid(conv(x))
        return made * 2 + made

    return _made(run, (2, 6, 4, 4), nn.Conv2d(6, 14, 1))


def anchors_of_batch():
    """Boxes and scores of a batch, computed and joined as YOLOv5 does."""

    def run(x, head):
        rows = head(x).view(2, 2, 7, 4, 4).permute(0, 1, 3, 4, 2).sigmoid()
        return torch.cat([rows[..., :2] * 2, rows[..., 2:]], 4)

    return _made(run, (2, 6, 4, 4), nn.Conv2d(6, 14, 1))


def function_of_batch_turned_around():
    """A function of a linear over a batch in reverse order."""

    def run(x, linear):
        return functional.silu(linear(x).flip(0))

    return _made(run, (2, 8, 6, 6), nn.Linear(6, 12))


def rows_turned_around():
    """Rows in reverse order, as columns."""
    return _made(lambda x, linear: linear(x).flip(0).t(), (2, 24), nn.Linear(24, 12))


def padded_function_of_turned():
    """A function of an image whose rows and columns change places, in front of a padding."""

    def run(x, conv):
        return functional.pad(conv(x).tanh().permute(0, 1, 3, 2), (1, 1, 1, 1))

    return _made(run, (1, 3, 8, 8), nn.Conv2d(3, 24, 1))


def padded_and_folded():
    """A padded row of values, read as an image."""

    def run(x, first, second):
        return second(functional.pad(first(x), (1, 1)).view(1, 1, 4, 4))

    return _made(run, (1, 3, 14), nn.Conv1d(3, 1, 3, padding=1), nn.Conv2d(1, 4, 3))


def dilated_parts():
    """A dilated convolution of a part of the channels, as ECAPA-TDNN has it, and one in groups."""

    def run(x, whole, part, groups):
        x = whole(x)
        return groups(torch.cat([x[:, :4], torch.relu(part(x[:, 4:]))], 1))

    dilated = {"padding": 3, "dilation": 3}
    layers = (nn.Conv1d(8, 8, 1), nn.Conv1d(4, 4, 3, **dilated), nn.Conv1d(8, 8, 3, **dilated, groups=2))
    return _made(run, (1, 8, 20), *layers)


def factorized():
    """Products of pairs of factors, as factorization machines sum them."""
    return _made(lambda x: x.sum(1).pow(2) - x.pow(2).sum(1), (2, 5, 4))

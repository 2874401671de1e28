"""Networks that write into tensors, as people write them."""

import functools

import torch
from torch import nn
from torch.nn import functional


class Written(nn.Module):
    """Two convolutions and whatever is written between them."""

    def __init__(self, write, before=3, after=6):
        super().__init__()
        self.write = write
        self.c = nn.Conv2d(before, after, 3, padding=1)
        self.d = nn.Conv2d(after, 4, 3, padding=1)
        self.inside = nn.Conv2d(6, 4, 3, padding=1)
        self.drop, self.relu = nn.Dropout(0.1), nn.ReLU(inplace=True)
        self.register_buffer("canvas", torch.randn(1, 6, 10, 10))

    def forward(self, x):
        return self.write(self, x)


def scaled_slice(m, x):
    y = m.c(x)
    y[:, :2] *= 3
    return m.d(y)


def filled_slice(m, x):
    y = m.c(x)
    y[:, :, :2] = 0.5
    return m.d(y)


def copied_slice(m, x):
    y = m.c(x)
    y[:, :2] = y[:, 2:4] * 2.0
    return y


def column(m, x):
    y = m.c(x)
    y[:, 3] = y[:, 3] + 1.5
    return torch.relu(y)


def border(m, x):
    y = m.c(x)
    y[:, :, 0] = 0
    y[:, :, -1] = 0
    y[..., 0] = 0
    y[..., -1] = 0
    return m.d(y)


def added_to_a_view(m, x):
    y = m.c(x)
    view = y.view(1, 2, 3, 8, 8)
    view += torch.arange(3.0).view(1, 1, 3, 1, 1)
    return m.d(y)


def seen_by_an_older_view(m, x):
    y = m.c(x)
    view = y.flatten(2)
    y.mul_(3.0)
    return view


def turned(m, x):
    y = m.c(x)
    y.permute(0, 2, 3, 1).add_(torch.arange(6.0))
    return y


def half_activated(m, x):
    y = m.c(x)
    a, b = y.chunk(2, 1)
    a.relu_()
    return torch.cat([b, y], 1)


def unbound(m, x):
    y = m.c(x)
    for number, channel in enumerate(y.unbind(1)):
        channel.mul_(number * 0.5 + 0.5)
    return y


def gated(m, x):
    y = m.c(x)
    a, b = y.split(3, 1)
    a.mul_(torch.sigmoid(b))
    return m.d(y)


def filled_in_a_loop(m, x):
    y = m.c(x)
    result = torch.zeros_like(y)
    for channel in range(6):
        result[:, channel] = y[:, channel] * (channel + 1)
    return m.d(result)


def shifted_in_time(m, x):
    y = m.c(x)
    result = torch.zeros_like(y)
    result[:, :2, :-1] = y[:, :2, 1:]
    result[:, 2:4, 1:] = y[:, 2:4, :-1]
    result[:, 4:] = y[:, 4:]
    return m.d(result)


def boxes(m, x):
    y = m.c(x).view(1, 1, 6, 8, 8).permute(0, 1, 3, 4, 2).contiguous().sigmoid()
    rows, columns = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
    cells = torch.stack([columns, rows], -1)[None, None]
    y[..., 0:2] = (y[..., 0:2] * 2 - 0.5 + cells) / 8
    y[..., 2:4] = (y[..., 2:4] * 2) ** 2
    return y.view(1, -1, 6)


def channels_of_the_input(m, x):
    x[:, 0] *= 2
    return m.c(x)


def normalized_input(m, x):
    x.sub_(0.4).div_(0.3)
    return m.c(x)


def activated_input(m, x):
    return m.c(functional.relu_(x)) + m.c(x)


def pasted(m, x):
    canvas = m.canvas.clone()
    canvas[:, :, 1:9, 1:9] += m.c(x)
    return m.d(canvas)


def pasted_into_zeros(m, x):
    canvas = torch.zeros(1, 6, 10, 10)
    canvas[:, :, 1:-1, 1:-1] = m.c(x)
    return m.d(canvas)


def written_ramp(m, x):
    ramp = torch.linspace(0, 1, 8)
    ramp[2:5] += m.c(x)[0, 0, 0, 2:5]
    return torch.tanh(m.c(x)) * ramp


def interleaved(m, x):
    y = m.c(x)
    result = torch.empty_like(y)
    result[:, 0::2] = y[:, :3]
    result[:, 1::2] = y[:, 3:]
    return m.d(result)


def spread(m, x):
    result = x.new_zeros(1, 6, 80, 8)
    result[:, :, ::2] = m.c(x).repeat(1, 1, 5, 1)
    result[:, :, 1::3] -= 0.5
    return m.d(result)


def chequered(m, x):
    y = m.c(x)
    y[:, :, ::2, ::2] = 0
    y[:, :, 1::2, 1::2] *= 2
    return m.d(y)


def dropped_and_activated(m, x):
    y = m.c(x)
    z = m.relu(m.drop(y))
    return m.d(z + y)


def dropped_in_place(m, x):
    y = m.c(x)
    z = functional.dropout(y, 0.1, m.training, inplace=True)
    z[:, :2] *= 3
    return m.d(y)


def by_mask(m, x):
    y = m.c(x)
    y[y < 0] = 0.25
    y.masked_fill_(y > 0.8, 0.8)
    return m.d(y)


def by_list(m, x):
    y = m.c(x)
    y[:, [1, 5]] = 0.5
    y[:, [0, 2]] = y[:, [2, 3]]
    return y


def on_the_diagonal(m, x):
    y = m.c(x)
    y.diagonal(dim1=2, dim2=3).zero_()
    return m.d(y)


def from_itself(m, x):
    y = m.c(x)
    y[:, :, 1:] += y[:, :, :-1].clone()
    y[:, 1:3, 2:5, 1:] -= 0.5
    return m.d(y)


def largest_of_rows(m, x):
    y = m.c(x)
    result = y.new_zeros(1, 6, 8)
    for channel in range(6):
        result[:, channel] = y[:, channel].amax(1)
    return result


def every_third_channel(m, x):
    y = m.c(x).flatten(2).clone()
    y[:, 2::3] = y[:, 2::3].sigmoid()
    y[:, 0::3] = y[:, 0::3] * 2.0 + torch.arange(y.shape[2]) / 64
    return y


def added_to_an_alias(m, x):
    y = m.c(x)
    same = y
    same += x.mean(1, keepdim=True)
    return y * 2


def part_of_a_copy(m, x):
    x = x.clone()
    x[:, 0] *= 0.5
    x[:, 1] -= 0.3
    return m.c(x)


def in_a_branch(m, x):
    def first(y):
        y = y.clone()
        y[:, :2] *= 2
        return y

    def second(y):
        y = y * 1.0
        y[:, 2:] = 0.5
        return y

    return m.d(torch.cond(x.sum() > 0, first, second, (m.c(x),)))


def at_places(m, x):
    y = m.c(x)
    y.put_(torch.tensor([0, 5, 100]), y[0, 0, 0, :3] * 2)
    return m.d(y)


def added_at_places(m, x):
    return m.d(torch.put(m.c(x), torch.tensor([[0, 5], [5, 9]]), torch.ones(2, 2), accumulate=True))


def into_a_given_tensor(m, x):
    y = m.c(x)
    result = torch.empty_like(y)
    torch.mul(y, 2, out=result)
    torch.add(y[:, :2], 1, out=result[:, 2:4])
    return m.d(result)


def turned_in_place(m, x):
    y = m.c(x)
    y.transpose_(2, 3)
    y[:, :, 0] = 0
    return m.d(y)


def diagonal_of_a_result(m, x):
    y = m.c(x)
    return m.d(y * y[0, 0].clone().fill_diagonal_(0.5))


def scattered(m, x):
    y = m.c(x)
    y.scatter_add_(1, torch.zeros(1, 1, 8, 8, dtype=torch.long), y[:, 2:3] * 1.5)
    return m.d(y)


def with_gradients(m, x):
    with torch.enable_grad():
        y = m.c(x)
        y[:, :2] *= 3
    with torch.autocast("cpu", enabled=False):
        y = m.relu(y + 1)
    return m.d(y)


def in_half_precision(m, x):
    y = m.c(x).half()
    y[:, :2] *= torch.full((1, 2, 1, 1), 1.5)
    return m.d(y.float())


WRITES = {
    write.__name__: write
    for write in (
        scaled_slice,
        filled_slice,
        copied_slice,
        column,
        border,
        added_to_a_view,
        seen_by_an_older_view,
        turned,
        half_activated,
        unbound,
        gated,
        filled_in_a_loop,
        shifted_in_time,
        boxes,
        channels_of_the_input,
        normalized_input,
        activated_input,
        pasted,
        pasted_into_zeros,
        written_ramp,
        interleaved,
        spread,
        chequered,
        dropped_and_activated,
        dropped_in_place,
        largest_of_rows,
        every_third_channel,
        added_to_an_alias,
        part_of_a_copy,
        by_mask,
        by_list,
        on_the_diagonal,
        from_itself,
        in_a_branch,
        at_places,
        added_at_places,
        into_a_given_tensor,
        turned_in_place,
        diagonal_of_a_result,
        scattered,
        with_gradients,
        in_half_precision,
    )
}


def network(write):
    torch.manual_seed(0)
    return Written(WRITES[write]).eval(), (torch.randn(1, 3, 8, 8),)


made = network
globals().update({name: functools.partial(network, name) for name in WRITES})


def samples():
    torch.manual_seed(1)
    for _ in range(16):
        yield torch.randn(1, 3, 8, 8)


def unseen_samples(_):
    """Return samples that calibration does not see."""
    generator = torch.Generator().manual_seed(777)
    return [(torch.randn(1, 3, 8, 8, generator=generator),) for _ in range(6)]

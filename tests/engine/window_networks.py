"""Networks with sliding windows and spectra, as people write them."""

import torch
from torch import nn
from torch.nn import functional


class _Network(nn.Module):
    def __init__(self, run, *layers):
        super().__init__()
        self.run, self.layers = run, nn.ModuleList(layers)
        self.register_buffer("window", torch.hann_window(32))

    def forward(self, x):
        return self.run(self, x)


def _made(run, shape, *layers):
    torch.manual_seed(0)
    for layer in layers:
        layer.reset_parameters()
    return _Network(run, *layers).eval(), (torch.randn(*shape),)


def columns():
    return _made(
        lambda m, x: functional.unfold(m.layers[0](x), 3, dilation=2, padding=2),
        (1, 3, 8, 8),
        nn.Conv2d(3, 3, 3, padding=1),
    )


def strided_columns():
    return _made(lambda m, x: functional.unfold(x, (4, 3), stride=(2, 3)), (1, 3, 10, 9))


def tiles_and_back():
    def run(m, x):
        tiles = functional.unfold(x, 2, stride=2) * 0.5
        return functional.fold(tiles, (8, 8), 2, stride=2)

    return _made(run, (1, 3, 8, 8))


def folds():
    def run(m, x):
        return functional.fold(m.layers[0](x), (9, 10), 3, padding=1, stride=2)

    return _made(run, (1, 18, 25), nn.Conv1d(18, 18, 1))


def folded_rows():
    def run(m, x):
        return functional.fold(m.layers[0](x), (1, 103), (1, 24), stride=(1, 8))

    return _made(run, (2, 24, 10), nn.Conv1d(24, 24, 1))


def frames():
    return _made(lambda m, x: m.layers[0](x.unfold(-1, 25, 10)), (1, 1, 256), nn.Linear(25, 8))


def rows():
    return _made(lambda m, x: x.unfold(1, 4, 2).mean(-1), (1, 16, 12))


def frames_apart():
    return _made(lambda m, x: x.unfold(-1, 8, 10), (1, 1, 256))


def pairs():
    def run(m, x):
        made = torch.stft(x, 32, 10, 24, torch.hann_window(24), normalized=True, return_complex=True)
        return torch.view_as_real(made)

    return _made(run, (1, 250))


def power():
    def run(m, x):
        made = torch.stft(x, 32, 16, window=m.window, return_complex=True)
        return made.real**2 + made.imag**2

    return _made(run, (1, 256))


def magnitude():
    def run(m, x):
        return torch.fft.rfft(x * m.window, norm="ortho").abs()

    return _made(run, (1, 4, 32))


def inverse():
    def run(m, x):
        spectrum = torch.stft(x, 32, 16, window=m.window, return_complex=True)
        gains = m.layers[0](spectrum.abs()).sigmoid()
        return torch.istft(spectrum * gains, 32, 16, window=m.window, length=256)

    return _made(run, (1, 256), nn.Conv1d(17, 17, 1))


def long_mean():
    return _made(lambda m, x: functional.relu(x).mean(-1), (1, 4, 70001))


def mean_of_a_picture():
    def run(m, x):
        return nn.functional.adaptive_avg_pool2d(m.layers[0](x).relu(), 1)

    return _made(run, (1, 3, 300, 300), nn.Conv2d(3, 4, 3))


class _WithWeight(_Network):
    """Has a complex weight beside its layers."""

    def __init__(self, run, weight, *layers):
        super().__init__(run, *layers)
        self.weight = nn.Parameter(weight)


def _with_weight(run, shape, weight, *layers):
    torch.manual_seed(0)
    return _WithWeight(run, torch.randn(*weight, 2) / weight[0], *layers).eval(), (torch.randn(*shape),)


def spectral_layer():
    """Return a layer of a Fourier neural operator."""

    def run(m, x):
        spectrum = torch.fft.rfft(m.layers[0](x))
        made = torch.zeros(1, 4, 17, dtype=torch.cfloat)
        weight = torch.view_as_complex(m.weight)
        made[:, :, :5] = torch.einsum("bix,iox->box", spectrum[:, :, :5], weight)
        return torch.fft.irfft(made, n=32)

    return _with_weight(run, (1, 2, 32), (4, 4, 5), nn.Conv1d(2, 4, 1))


def global_filter():
    """Return the filter of a GFNet."""

    def run(m, x):
        spectrum = torch.fft.rfft2(m.layers[0](x), norm="ortho")
        return torch.fft.irfft2(spectrum * torch.view_as_complex(m.weight), s=(8, 8), norm="ortho")

    return _with_weight(run, (1, 2, 8, 8), (4, 8, 5), nn.Conv2d(2, 4, 1))


def rotary():
    """Return rotary positions as complex numbers."""

    def run(m, x):
        pairs = torch.view_as_complex(m.layers[0](x).reshape(1, 6, 4, 2))
        return torch.view_as_real(pairs * m.turns).flatten(2)

    model, inputs = _made(run, (1, 6, 8), nn.Linear(8, 8))
    angles = torch.outer(torch.arange(6.0), torch.rand(4))
    model.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))
    return model, inputs


def correlated():
    def run(m, x):
        spectrum = torch.fft.rfft(m.layers[0](x), norm="forward")
        other = torch.fft.rfft(x, norm="ortho").conj()
        return torch.fft.irfft(
            torch.cat((spectrum[..., :4] * 2, -spectrum[..., 4:]), -1) * other - other, n=31
        )

    return _made(run, (1, 3, 31), nn.Conv1d(3, 3, 1))


def whole_transforms():
    def run(m, x):
        spectrum = torch.fft.fftn(m.layers[0](x), dim=(1, 2)) + torch.fft.fft(x, dim=1, norm="ortho")
        return torch.fft.ifft2(spectrum).real + torch.fft.ifft(spectrum, dim=1).imag

    return _made(run, (1, 8, 6), nn.Linear(6, 6))


def _filtered(change):
    """Return a network that changes the spectrum of its layer's result, and transforms it back."""

    def run(m, x):
        spectrum = torch.fft.rfft(m.layers[0](x))
        changed = change(spectrum)
        return torch.fft.irfft(spectrum if changed is None else changed)

    return _made(run, (1, 3, 32), nn.Conv1d(3, 3, 1))


def frequencies_set_to_zero():
    def change(spectrum):
        spectrum[..., 5:] = 0

    return _filtered(change)


def frequencies_set():
    def change(spectrum):
        spectrum[..., 3] = 1 - 2j
        spectrum[..., [5, 7]] = 0.5
        spectrum[..., 0] *= 2

    return _filtered(change)


def frequencies_masked():
    def change(spectrum):
        low = torch.arange(17) < 9
        spectrum[..., torch.arange(17) == 2] = 0
        chosen = torch.where(low, spectrum, torch.zeros_like(spectrum))
        return chosen + spectrum.masked_fill(low, 0.25j) + torch.where(low, spectrum.real, spectrum)

    return _filtered(change)


# What is done to a spectrum of three channels and 17 frequencies, by name.
CHANGES = {
    "where_number": lambda z: torch.where(torch.arange(17) < 9, z, 0.5 + 0.25j),
    "where_number_first": lambda z: torch.where(torch.arange(17) < 9, 1j, z),
    "where_computed": lambda z: torch.where(z.abs() > 0.5, z, torch.zeros_like(z)),
    "masked_by_magnitude": lambda z: z * (z.abs() > 0.5),
    "limited_magnitude": lambda z: z / (z.abs() + 1e-3) * z.abs().clamp(max=1.0),
    "polar": lambda z: torch.polar(z.abs(), z.real.tanh()),
    "phase_kept": lambda z: torch.polar(z.abs() * 0.5, z.angle()),
    "phase_shifted": lambda z: z * torch.exp(1j * z.real.tanh()),
    "exponential": lambda z: torch.exp(z * 0.2),
    "square": lambda z: z**2,
    "conjugate": lambda z: z.conj() * z + z.conj().resolve_conj(),
    "rolled": lambda z: z.roll(2, -1),
    "flipped": lambda z: z.flip(-1),
    "stacked": lambda z: torch.stack((z, z * 2), 1).sum(1),
    "repeated": lambda z: z.repeat(1, 1, 2)[..., :17],
    "turned": lambda z: z.movedim(1, -1).mT,
    "split": lambda z: torch.cat(z.split([5, 5, 7], -1)[::-1], -1),
    "chunks": lambda z: functional.pad(torch.cat(z[..., :16].chunk(2, -1)[::-1], -1), (0, 1)),
    "unbound": lambda z: torch.stack(z.unbind(1)[::-1], 1),
    "padded": lambda z: functional.pad(torch.cat((z[..., :4], z[..., 6:10]), -1), (0, 9)),
    "padded_with_ones": lambda z: functional.pad(z[..., :9], (0, 8), value=1.0),
    "shifted": lambda z: torch.fft.ifftshift(torch.fft.fftshift(z, dim=-1) * 2j, dim=-1),
    "selected": lambda z: z[..., torch.arange(16, -1, -1)],
    "gathered": lambda z: z.gather(-1, z.abs().topk(17).indices),
    "scattered": lambda z: torch.zeros_like(z).scatter(-1, torch.arange(16, -1, -1).expand(1, 3, 17), z),
    "copied": lambda z: z.index_copy(-1, torch.tensor([1, 4]), z[..., :2]),
    "filled": lambda z: z.index_fill(-1, torch.tensor([1, 4]), 1),
    "added_up": lambda z: z.cumsum(-1) / 10,
    "plus_number": lambda z: z + (1 - 0.5j),
    "number_less": lambda z: 1 - z,
    "plus_real": lambda z: z + z.real,
    "real_less": lambda z: z.real - z,
    "plus_scaled": lambda z: torch.add(z, z.flip(-1), alpha=0.5),
    "by_complex_number": lambda z: z / (1 + 1j),
    "by_complex": lambda z: z / (z * 0.1 + 2),
    "inverse": lambda z: (z * 0.1 + 2).reciprocal(),
    "product_added": lambda z: torch.addcmul(z, z, z * 0.5j),
    "between": lambda z: torch.lerp(z, z * 1j, 0.3),
    "matrix_product": lambda z: torch.bmm(z @ z.mH, z) / 10,
    "real_as_complex": lambda z: z * z.real.to(torch.cfloat),
    "ones": lambda z: z + torch.ones_like(z),
    "transformed_again": lambda z: torch.fft.fft(z, n=32)[..., :17] * 0.2,
    "turned_back": lambda z: torch.fft.ifft(torch.fft.fft(z.real) * 1j),
    "to_other_reals": lambda z: torch.fft.rfft(torch.fft.hfft(z, n=32) * 0.1),
    "of_other_length": lambda z: torch.fft.rfft(torch.fft.irfft(z, n=48))[..., :17],
}


def spectrum_changed(name):
    """Return a network with one of the changes."""
    return _filtered(CHANGES[name])


def complex_layers():
    def run(m, x):
        spectrum = torch.fft.rfft(m.layers[0](x), norm="ortho")
        layered = m.layers[2](m.layers[1](spectrum))
        return torch.fft.irfft(layered, n=32, norm="ortho")

    layers = nn.Conv1d(3, 3, 1), nn.Conv1d(3, 3, 3, padding=1, dtype=torch.cfloat)
    return _made(run, (1, 3, 32), *layers, nn.Linear(17, 17, dtype=torch.cfloat))


def shifted_plane():
    def run(m, x):
        spectrum = torch.fft.fftshift(torch.fft.fft2(m.layers[0](x), norm="ortho"), dim=(-2, -1))
        spectrum[..., 3:5, 3:5] = 0
        return torch.fft.ifft2(torch.fft.ifftshift(spectrum, dim=(-2, -1)), norm="ortho").real

    return _made(run, (1, 3, 8, 8), nn.Conv2d(3, 3, 1))


def frequencies_pasted():
    def change(spectrum):
        copied = spectrum.new_zeros(1, 3, 17)
        copied[..., 2:9:2] = spectrum[..., 2:9:2]
        whole = torch.full_like(spectrum, 1j)
        whole[..., :4] = torch.ones(4, dtype=torch.cfloat)
        return copied + whole

    return _filtered(change)


def parts_written():
    def change(spectrum):
        spectrum.real.mul_(2)
        spectrum.imag[..., 3:] = 0
        torch.view_as_real(spectrum)[..., 1, 0] = 0.5

    return _filtered(change)

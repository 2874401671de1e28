"""Networks that are refused, and beside each the same after its remedy was followed.

``NAME()`` is refused; ``NAME_remedied()``, or ``NAME_REMEDY()``, is what its message proposes.
"""

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention.flex_attention import flex_attention

_IMAGE = (1, 2, 8, 8)


class Computed(nn.Module):
    """A convolution, and what a function makes of its output."""

    def __init__(self, compute, *parts):
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.parts = nn.ModuleList(parts)
        self.compute = compute

    def forward(self, x):
        return self.compute(self, self.conv(x))


def computed(compute, *parts):
    return Computed(compute, *parts).eval(), (torch.randn(_IMAGE),)


def layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Conv2d(4, 3, 1)).eval()


def scripted():
    return torch.jit.script(layers()), (torch.randn(_IMAGE),)


def scripted_remedied():
    model = layers()
    model.load_state_dict(torch.jit.script(layers()).state_dict())
    return model, (torch.randn(_IMAGE),)


def quantized():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    return torch.ao.quantization.quantize_dynamic(model, {nn.Linear}), (torch.randn(1, 8),)


def quantized_remedied():
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU()), (torch.randn(1, 8),)


def lazy():
    return nn.Sequential(nn.LazyConv2d(4, 3), nn.ReLU()).eval(), (torch.randn(_IMAGE),)


def lazy_remedied():
    model, inputs = lazy()
    model(*inputs)
    return model, inputs


def mapped():
    return computed(lambda _, y: torch.vmap(lambda v: v.relu() * 2, in_dims=1, out_dims=1)(y))


def mapped_remedied():
    return computed(lambda _, y: y.relu() * 2)


def on_meta():
    return layers().to("meta"), (torch.randn(_IMAGE),)


def on_meta_remedied():
    model, inputs = on_meta()
    model = model.to_empty(device="cpu")
    model.load_state_dict(layers().state_dict())
    return model, inputs


def _sparse(weight):
    model, inputs = computed(lambda model, y: torch.mm(model.weight, y.flatten(2)[0]).unsqueeze(0))
    model.weight = nn.Parameter(weight, requires_grad=False)
    return model, inputs


def sparse():
    return _sparse(torch.eye(4).to_sparse())


def sparse_remedied():
    return _sparse(torch.eye(4).to_sparse().to_dense())


def exported():
    return torch.export.export(layers(), (torch.randn(_IMAGE),)).module(), (torch.randn(_IMAGE),)


def layers_in_eval():
    return layers(), (torch.randn(_IMAGE),)


def observed():
    model = nn.Sequential(torch.ao.quantization.QuantStub(), layers(), torch.ao.quantization.DeQuantStub())
    model.qconfig = torch.ao.quantization.get_default_qconfig("fbgemm")
    return torch.ao.quantization.prepare(model.eval()), (torch.randn(_IMAGE),)


def trained_for_integers():
    model = nn.Sequential(torch.ao.quantization.QuantStub(), layers(), torch.ao.quantization.DeQuantStub())
    model.qconfig = torch.ao.quantization.get_default_qat_qconfig("fbgemm")
    return torch.ao.quantization.prepare_qat(model.train()).eval(), (torch.randn(_IMAGE),)


def observed_remedied():
    model = nn.Sequential(torch.ao.quantization.QuantStub(), layers(), torch.ao.quantization.DeQuantStub())
    model.load_state_dict(trained_for_integers()[0].state_dict(), strict=False)
    return model.eval(), (torch.randn(_IMAGE),)


class OfSet(nn.Module):
    """Takes its tensors in a set."""

    def __init__(self):
        super().__init__()
        self.layers = layers()

    def forward(self, images):
        return sum(self.layers(image) for image in images)


class MakingSet(nn.Module):
    """Makes the set of tensors."""

    def __init__(self):
        super().__init__()
        self.model = OfSet()

    def forward(self, image):
        return self.model({image})


def named_picture():
    return layers(), "picture.png"


def set_input():
    return OfSet().eval(), ({torch.randn(_IMAGE)}, torch.randn(_IMAGE))


def set_input_remedied():
    return MakingSet().eval(), (torch.randn(_IMAGE),)


def empty_input():
    return layers(), (torch.randn(0, 2, 8, 8),)


def empty_output():
    return computed(lambda _, y: (y, y[:, :0]))


def empty_output_remedied():
    return computed(lambda _, y: y)


def complex_output():
    return computed(lambda _, y: torch.fft.rfft(y))


def complex_output_remedied():
    return computed(lambda _, y: torch.view_as_real(torch.fft.rfft(y)))


class OfSpectrum(nn.Module):
    """Takes a spectrum."""

    def __init__(self):
        super().__init__()
        self.layers = layers()

    def forward(self, spectrum):
        return self.layers(spectrum.abs())


class OfParts(nn.Module):
    """Takes the real and imaginary parts of a spectrum."""

    def __init__(self):
        super().__init__()
        self.model = OfSpectrum()

    def forward(self, parts):
        return self.model(torch.view_as_complex(parts))


def complex_input():
    return OfSpectrum().eval(), (torch.randn(_IMAGE, dtype=torch.cfloat),)


class OfFilter(nn.Module):
    """Changes a spectrum, and transforms it back."""

    def __init__(self, change):
        super().__init__()
        self.layers, self.change = layers().eval(), change

    def forward(self, x):
        return torch.fft.irfft(self.change(torch.fft.rfft(self.layers(x))))


def complex_sign():
    return OfFilter(torch.sgn).eval(), (torch.randn(_IMAGE),)


def complex_sign_remedied():
    return OfFilter(lambda z: z / z.abs().clamp(min=1e-6)).eval(), (torch.randn(_IMAGE),)


def complex_input_remedied():
    return OfParts().eval(), (torch.randn(*_IMAGE, 2),)


def quantized_value():
    return computed(lambda _, y: torch.quantize_per_tensor(y, 0.1, 0, torch.qint8).dequantize() * y)


def infinite_weight():
    model = layers()
    with torch.no_grad():
        model[0].bias[0] = torch.inf
    return model, (torch.randn(_IMAGE),)


def own_gradient():
    return computed(lambda model, y: torch.func.grad(lambda v: model.conv(v[:, :2]).square().sum())(y))


class Encoder(nn.Module):
    """An encoder of padded sequences."""

    def __init__(self, **settings):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, **settings)
        self.register_buffer("padded", torch.tensor([[False] * 5, [False] * 3 + [True] * 2]))

    def forward(self, x):
        return self.encoder(x, src_key_padding_mask=self.padded)


def _encoder(**settings):
    torch.manual_seed(0)
    return Encoder(**settings).eval(), (torch.randn(2, 5, 8),)


def packed_encoder():
    return _encoder()


def packed_encoder_remedied():
    return _encoder(enable_nested_tensor=False)


class Attending(nn.Module):
    """Attends to near places more."""

    def __init__(self, attend):
        super().__init__()
        self.linear, self.attend = nn.Linear(32, 32), attend

    def forward(self, x):
        heads = self.linear(x).view(1, 16, 2, 16).transpose(1, 2)
        return self.attend(heads)


def _attending(attend):
    torch.manual_seed(0)
    return Attending(attend).eval(), (torch.randn(1, 16, 32),)


def _nearer(score, batch, head, query, key):
    return score - (query - key).abs()


def flexible_attention():
    return _attending(lambda x: flex_attention(x, x, x, score_mod=_nearer))


def _biased(x):
    places = torch.arange(16.0)
    bias = -(places[:, None] - places).abs()
    return functional.scaled_dot_product_attention(x, x, x, attn_mask=bias)


def flexible_attention_remedied():
    return _attending(_biased)


def inverted():
    return computed(lambda _, y: torch.linalg.inv(y + 9 * torch.eye(8)))


def inverted_remedied():
    return computed(lambda _, y: torch.linalg.inv_ex(y + 9 * torch.eye(8)).inverse)


def half():
    return layers().half(), (torch.randn(_IMAGE).half(),)


def half_remedied():
    model, inputs = half()
    return model.float(), tuple(tensor.float() for tensor in inputs)


def bfloat16_input():
    return layers(), (torch.randn(_IMAGE).bfloat16(),)


def bfloat16_input_remedied():
    return layers(), (torch.randn(_IMAGE).bfloat16().float(),)


def _halved(model, y):
    with torch.no_grad():
        model.conv.weight.div_(2)
    return y


def written_parameter():
    return computed(_halved)


def written_parameter_remedied():
    model, inputs = computed(lambda _, y: y)
    with torch.no_grad():
        model.conv.weight.div_(2)
    return model, inputs


def random_outputs():
    return computed(lambda _, y: functional.dropout(y, 0.5, training=True))


def random_outputs_remedied():
    model, inputs = computed(lambda model, y: model.parts[0](y), nn.Dropout(0.5))
    return model.eval(), inputs


def random_noise():
    return computed(lambda _, y: y + torch.randn_like(y))


def random_noise_buffer():
    model, inputs = computed(lambda model, y: y + model.noise)
    model.register_buffer("noise", torch.randn(1, 4, 8, 8))
    return model, inputs


def looked_into():
    return computed(lambda _, y: y * 2 if y.sum() > 0 else y)


def looked_into_remedied():
    return computed(lambda _, y: torch.where(y.sum() > 0, y * 2, y))


def misfit():
    return computed(lambda _, y: y + torch.ones(3))


def misfit_remedied():
    return computed(lambda _, y: y + torch.ones(8))


def chosen_by_size():
    return computed(lambda _, y: y[y > 0])


def chosen_by_size_mask():
    return computed(lambda _, y: y * (y > 0))


def chosen_by_size_topk():
    return computed(lambda _, y: y.flatten(1).topk(4).values)


def number_of_data():
    return computed(lambda _, y: y * y.max().item())


def number_of_data_remedied():
    return computed(lambda _, y: y * y.max())


class Converted(nn.Module):
    """Computes in float32, whatever it gets."""

    def __init__(self, layers):
        super().__init__()
        self.layers = layers

    def forward(self, x):
        return self.layers(x.float())


def double_input():
    model, (x,) = layers_in_eval()
    return Converted(model), (x.double(),)


def doubled_value():
    return computed(lambda _, y: y * y)


def both_signs():
    for sign in (-9.0, 9.0):
        yield torch.full(_IMAGE, sign)


def branch():
    return computed(lambda _, y: torch.cond(y.sum() > 0, lambda v: v * 2, lambda v: v * 3, (y,)))


def branch_remedied():
    return computed(lambda _, y: torch.where(y.sum() > 0, y * 2, y * 3))


def _present(training):
    def normed(model, y):
        norm = model.parts[0]
        return nn.functional.batch_norm(y, norm.running_mean, norm.running_var, training=training)

    return computed(normed, nn.BatchNorm2d(4, affine=False))


def present_statistics():
    return _present(training=True)


def present_statistics_running():
    return _present(training=False)


def present_statistics_instance():
    norm = nn.InstanceNorm2d(4, track_running_stats=False)
    return computed(lambda model, y: model.parts[0](y), norm)


def divided_by_zero():
    return computed(lambda _, y: torch.zeros_like(y) / (y - y) * y)


def divided_by_zero_remedied():
    return computed(lambda _, y: torch.zeros_like(y) / (y - y + 1) * y)


def margin_loss():
    return computed(lambda _, y: functional.multi_margin_loss(y.mean((2, 3)), torch.tensor([1])))


def margin_loss_remedied():
    return computed(lambda _, y: y.mean((2, 3)))


@torch.library.custom_op("refused::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    """An operator of another library."""
    return x * 2


@twice.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def foreign():
    return computed(lambda _, y: twice(y))


def foreign_remedied():
    return computed(lambda _, y: y * 2)


def _added_to_windows(_, y):
    y = y * 1
    y.unfold(3, 2, 2).add_(1)
    return y


def written_windows():
    return computed(_added_to_windows)


def written_windows_remedied():
    return computed(lambda _, y: torch.stack((y[..., ::2] + 1, y[..., 1::2] + 1), -1).flatten(3))


def no_module():
    return layers, (torch.randn(_IMAGE),)


def no_module_remedied():
    return layers(), (torch.randn(_IMAGE),)


class _PlacesFromData(nn.Module):
    def __init__(self, write):
        super().__init__()
        self.places = nn.Conv2d(2, 4, 3, padding=1)
        self.write = write

    def forward(self, x):
        found = self.places(x)[0]
        rows, columns = (found[:2].flatten(1) * 2 + 4).clamp(0, 7).long()
        return self.write(rows, columns, found.flatten(1))


def _in_a_grid(rows, columns, values):
    grid = torch.zeros(4, 8, 8)
    grid[:, rows, columns] = values
    return grid


def places_written_twice():
    torch.manual_seed(0)
    return _PlacesFromData(_in_a_grid), (torch.randn(1, 2, 8, 8),)


def rows_written_twice():
    torch.manual_seed(0)
    copied = _PlacesFromData(lambda rows, _, values: torch.zeros(8, 4).index_copy(0, rows, values.t()))
    return copied, (torch.randn(1, 2, 8, 8),)

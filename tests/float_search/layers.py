"""Layers and functions: what a network computes, drawn for a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.float_search.drafts import Unfit

if TYPE_CHECKING:
    from tests.float_search.drafts import Draft

Texts = str | list[str]
ACTIVATIONS = (
    "nn.ReLU()",
    "nn.ReLU(inplace=True)",
    "nn.ReLU(inplace=True)",
    "nn.ReLU6()",
    "nn.Hardswish()",
    "nn.Hardswish(inplace=True)",
    "nn.SiLU()",
    "nn.SiLU(inplace=True)",
    "nn.GELU()",
    'nn.GELU(approximate="tanh")',
    "nn.ELU(0.7)",
    "nn.LeakyReLU(0.1)",
    "nn.LeakyReLU(0.2, inplace=True)",
    "nn.PReLU()",
    "nn.Sigmoid()",
    "nn.Tanh()",
    "nn.Softplus()",
    "nn.Mish()",
    "nn.Hardsigmoid()",
    "nn.Hardtanh(-0.8, 1.2)",
    "nn.LogSigmoid()",
    "nn.Softsign()",
    "nn.CELU()",
    "nn.SELU()",
    "nn.Hardtanh(0, 1)",
    "nn.Threshold(0.1, -0.2)",
    "nn.Tanhshrink()",
    "nn.Softshrink(0.2)",
)
FUNCTIONS = (
    "F.relu({x})",
    "torch.relu({x})",
    "F.relu6({x})",
    "F.leaky_relu({x}, 0.1)",
    "F.silu({x})",
    "F.gelu({x})",
    "torch.sigmoid({x})",
    "torch.tanh({x})",
    "F.softplus({x})",
    "F.hardswish({x})",
    "{x}.sigmoid() * {x}",
    "torch.exp(-{x}.abs())",
    "torch.log(1 + {x}.abs())",
    "torch.sqrt({x} ** 2 + 1e-3)",
    "torch.rsqrt({x} ** 2 + 0.5)",
    "{x}.square()",
    "{x} ** 2",
    "{x} ** 3 * 0.1",
    "torch.sin({x})",
    "{x}.cos()",
    "{x}.abs()",
    "-{x}",
    "1 - {x}",
    "{x}.clamp(-0.5, 1)",
    "{x}.clamp(min=0)",
    "{x}.clamp_min(-0.3)",
    "{x}.clamp(max=0.7)",
    "1 / (1 + {x} ** 2)",
    "torch.reciprocal(1.5 + {x}.abs())",
    "{x} * 2 - 1",
    "{x} / 3",
    "3 - {x} * 0.5",
    "({x} + 1) * 0.5",
    "torch.erf({x})",
    "torch.atan({x})",
    "{x}.expm1() * 0.2",
    "F.elu({x})",
    "torch.log1p({x}.abs())",
    "torch.pow({x}.abs() + 0.1, 0.5)",
    "F.glu({x}, -1)",
    "F.normalize({x}, dim=-1)",
    "F.normalize({x}, dim=1)",
    "{x} * {x}.shape[-1] ** -0.5",
    "torch.logit({x}.sigmoid(), 1e-3)",
    "F.hardsigmoid({x})",
    "torch.sinh({x} * 0.5)",
    "F.threshold({x}, 0.1, 0)",
    "F.celu({x})",
    "torch.where({x} > 0, {x}, 0.1 * {x})",
    "torch.where({x} > 0.2, {x}, torch.zeros_like({x}))",
    "{x} * ({x} > 0)",
    "torch.round({x} * 4) / 4",
    "torch.floor({x} * 2) * 0.5",
    "torch.sign({x}) * {x} ** 2",
    "torch.atan2({x}, 1 + {x} ** 2)",
    "torch.nan_to_num({x})",
    "torch.cosh({x} * 0.3)",
    "{x}.masked_fill({x} < -1, 0.5)",
    "torch.asinh({x})",
    "torch.exp2({x}) * 0.3",
    "torch.maximum({x}, {x}.new_zeros(()))",
    "torch.minimum({x}, torch.tensor(0.7))",
    "torch.fmod({x}, 1.5)",
    "torch.remainder({x}, 2)",
    "{x}.trunc() + {x}",
)


def _channels(d: Draft, channels: int) -> int:
    return int(d.one(channels, channels, 1, 3, 4, 6, 8, 12))


def _options(**given: object) -> str:
    plain = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "bias": True}
    quoted = {k: f'"{v}"' if isinstance(v, str) else v for k, v in given.items()}
    return "".join(f", {key}={v}" for key, v in quoted.items() if plain.get(key) != v)


def _space(d: Draft, x: str) -> int:
    """Return over how many dimensions a layer works: the value has one or two more."""
    rank = len(d.shape(x))
    spaces = {2: [1], 3: [1, 1, 1, 2], 4: [2, 2, 2, 2, 2, 3], 5: [3]}.get(rank)
    if not spaces:
        raise Unfit
    return int(d.one(*spaces))


def _kernel(d: Draft, space: int) -> int | tuple[int, ...]:
    if space > 1 and d.chance(0.2):
        return tuple(d.one(1, 2, 3, 5) for _ in range(space))
    return int(d.one(1, 1, 3, 3, 3, 2, 4, 5))


def convolution(d: Draft, x: str) -> Texts:
    """Draw a convolution."""
    space = _space(d, x)
    channels = d.shape(x)[-space - 1]
    out, groups = _channels(d, channels), 1
    if d.chance(0.25):
        groups = d.one(*(n for n in range(1, channels + 1) if channels % n == 0))
        out = groups * d.one(1, 1, 2)
    padding = d.one(0, 1, 1, 1, 2, "same", (1,) * space)
    stride = 1 if padding == "same" else d.one(1, 1, 1, 2, 2, 3)
    given = {
        "stride": stride,
        "padding": padding,
        "dilation": d.one(1, 1, 1, 1, 1, 2, 3),
        "groups": groups,
        "bias": not d.chance(0.25),
    }
    if padding and d.chance(0.08):
        given["padding_mode"] = d.one("reflect", "replicate", "circular")
    kernel = _kernel(d, space)
    layer = f"nn.Conv{space}d({channels}, {out}, {kernel}{_options(**given)})"
    return f"{d.fresh()} = {d.part('c', layer)}({x})"


def transposed(d: Draft, x: str) -> Texts:
    """Draw a transposed convolution."""
    space = min(_space(d, x), 2)
    channels = d.shape(x)[-space - 1]
    groups = d.one(1, 1, 1, 1, *(n for n in (2, 3, channels) if channels % n == 0))
    out, stride = groups * d.one(1, 2, 3), d.one(1, 2, 2, 2, 3)
    given = {
        "stride": stride,
        "padding": d.one(0, 0, 1, 1),
        "groups": groups,
        "bias": not d.chance(0.2),
        "dilation": d.one(1, 1, 1, 1, 1, 2),
        "output_padding": d.one(0, 0, 1) if stride > 1 else 0,
    }
    layer = f"nn.ConvTranspose{space}d({channels}, {out}, {_kernel(d, space)}{_options(**given)})"
    return f"{d.fresh()} = {d.part('t', layer)}({x})"


def linear(d: Draft, x: str) -> Texts:
    """Draw a linear layer."""
    features = d.shape(x)[-1]
    bias = _options(bias=not d.chance(0.2))
    layer = f"nn.Linear({features}, {d.one(features, 4, 6, 8, 12, 5)}{bias})"
    return f"{d.fresh()} = {d.part('l', layer)}({x})"


def _norms(d: Draft, x: str) -> str:
    shape = d.shape(x)
    rank = len(shape)
    if rank < 2:
        return f"nn.LayerNorm({shape[-1]})"
    channels, space = shape[1], {2: 1, 3: 1, 4: 2, 5: 3}[rank]
    groups = d.one(*(n for n in range(1, channels + 1) if channels % n == 0))
    affine = d.one("", "", ", affine=False")
    last = list(shape[-d.one(1, 1, 1, 2) :])
    eps = d.one("", "", "", ", eps=1e-3")
    batch = f"nn.BatchNorm{space}d({channels}{affine}{eps})"
    return str(
        d.one(
            batch,
            batch,
            batch,
            f"nn.GroupNorm({groups}, {channels}{affine})",
            f"nn.LayerNorm({last}{d.one('', '', ', elementwise_affine=False', ', bias=False')})",
            f"nn.InstanceNorm{space}d({channels}{d.one('', ', affine=True')})",
            f"nn.RMSNorm({last[-1]})",
            "nn.LocalResponseNorm(3)",
        )
    )


def norm(d: Draft, x: str) -> Texts:
    """Draw a norm."""
    return f"{d.fresh()} = {d.part('n', _norms(d, x))}({x})"


def activation(d: Draft, x: str) -> Texts:
    """Draw an activation as a layer."""
    return f"{d.fresh()} = {d.part('a', d.one(*ACTIVATIONS), shared=0.5)}({x})"


def function(d: Draft, x: str) -> Texts:
    """Draw an elementwise function."""
    return f"{d.fresh()} = {d.one(*FUNCTIONS).format(x=x)}"


def block(d: Draft, x: str) -> Texts:
    """Draw a convolution with what usually follows it."""
    (first,) = [convolution(d, x)]
    assert isinstance(first, str)
    name = first.split(" = ")[0]
    d.add([first])
    texts = []
    for _ in range(d.one(1, 1, 1, 2)):
        after = d.fresh()
        texts.append(f"{after} = {d.part('n', _norms(d, name), shared=0)}({name})")
        if len(texts) == 1 and d.chance(0.2):
            break
        d.add(texts[-1:])
        name = after
        texts = []
    return [*texts, f"{d.fresh()} = {d.part('a', d.one(*ACTIVATIONS[:8]), shared=0.5)}({name})"]


def residual(d: Draft, x: str) -> Texts:
    """Draw a layer beside a shortcut."""
    shape, y = d.shape(x), d.fresh()
    if len(shape) == 4:
        layer = f"nn.Conv2d({shape[1]}, {shape[1]}, 3, padding=1)"
    else:
        layer = f"nn.Linear({shape[-1]}, {shape[-1]})"
    forms = [
        f"{y} = {x} + {{}}({x})",
        f"{y} = {{}}({x}) + {x}",
        f"{y} = {{}}({x}).add_({x})",
        f"{y} = {{}}({x})\n{y} += {x}",
        f"{y} = {{}}(F.relu({x})) + {x}",
        f"{y} = torch.relu({{}}({x}) + {x})",
        f"{y} = {x} * torch.sigmoid({{}}({x}))",
        f"{y} = {x} - 0.5 * {{}}({{}}({x}))",
        f"{y} = {x}\nfor _ in range(2):\n    {y} = {y} + 0.5 * {{}}({y})",
    ]
    made = d.one(*forms).replace("{}", d.part("r", layer))
    return made if "for " in made else made.split("\n")


def dropped(d: Draft, x: str) -> Texts:
    """Draw a dropout, and what changes its result in place."""
    y, z = d.fresh(), d.fresh()
    kind = d.one("nn.Dropout(0.1)", "nn.Dropout(0.3)", "nn.Dropout2d(0.1)", "nn.Dropout(inplace=True)")
    after = d.part("a", d.one("nn.ReLU(inplace=True)", "nn.SiLU(inplace=True)", "nn.ReLU()"))
    texts = [f"{y} = {d.part('d', kind, shared=0.5)}({x})", f"{z} = {after}({y})"]
    return [*texts, f"{d.fresh()} = {z} + {x}"] if d.chance(0.6) else texts


def pool(d: Draft, x: str) -> Texts:
    """Draw a pool."""
    space = min(_space(d, x), 2)
    kernel = d.one(2, 2, 3, 3, (3, 2) if space > 1 else 4, 1)
    stride = d.one("", "", ", stride=1", ", stride=2", ", stride=3")
    ceil = d.one("", "", "", ", ceil_mode=True")
    padding = d.one("", "", ", padding=1")
    least = kernel if isinstance(kernel, int) else min(kernel)
    padding = padding if least > 1 else ""
    size = d.one(1, 1, 2, 3, 5)
    count = d.one("", ", count_include_pad=False") if padding else ""
    dilation = d.one("", "", "", ", dilation=2")
    layer = d.one(
        f"nn.MaxPool{space}d({kernel}{stride}{padding}{dilation}{ceil})",
        f"nn.MaxPool{space}d({kernel}{stride}{padding}{ceil})",
        f"nn.AvgPool{space}d({kernel}{stride}{padding}{ceil}{count})",
        f"nn.AvgPool{space}d({kernel}{stride}{padding}{count})",
        f"nn.AdaptiveAvgPool{space}d({size})",
        f"nn.AdaptiveMaxPool{space}d({size})",
        f"nn.LPPool{space}d(2, {kernel})",
    )
    return f"{d.fresh()} = {d.part('p', layer)}({x})"


def resized(d: Draft, x: str) -> Texts:
    """Draw an interpolation."""
    rank, y = len(d.shape(x)), d.fresh()
    if rank not in {3, 4}:
        raise Unfit
    smooth = {3: ["linear"], 4: ["bilinear", "bilinear", "bicubic"]}[rank]
    mode = d.one("nearest", "nearest", "nearest-exact", "area", *smooth, *smooth)
    corners = d.one("", ", align_corners=False", ", align_corners=True") if mode in smooth else ""
    factor = d.one(2, 2, 2, 3, 4, 0.5, 1.5, 2.05, 0.7, 1.0)
    size = tuple(d.random.randint(2, 13) for _ in range(rank - 2))
    target = d.one(f"scale_factor={factor}", f"scale_factor={factor}", f"size={size}")
    if isinstance(factor, float) and "factor" in target and d.chance(0.15):
        target += ", recompute_scale_factor=True"
    if rank == 4 and d.chance(0.15):
        target = "scale_factor=(2, 3)"
    if d.chance(0.3) and "recompute" not in target:
        layer = f'nn.Upsample({target}, mode="{mode}"{corners})'
        return f"{y} = {d.part('u', layer)}({x})"
    return f'{y} = F.interpolate({x}, {target}, mode="{mode}"{corners})'


def padded(d: Draft, x: str) -> Texts:
    """Draw a padding."""
    rank, y = len(d.shape(x)), d.fresh()
    pads = [d.one(0, 1, 1, 2, 3, -1) for _ in range(2 * d.one(1, 2, 2))]
    mode = d.one("constant", "constant", "reflect", "replicate", "circular")
    if mode != "constant":
        pads = [abs(n) for n in pads[: 2 * (rank - 2) if rank in {3, 4} else 2]]
        return f'{y} = F.pad({x}, {tuple(pads)}, mode="{mode}")'
    value = d.one("", "", ", value=0.5", ", value=-1", ", value=1.0")
    return f"{y} = F.pad({x}, {tuple(pads[: 2 * rank])}{value})"


def shuffled(d: Draft, x: str) -> Texts:
    """Draw a rearrangement between channels and space."""
    shape = d.shape(x)
    if len(shape) != 4:
        raise Unfit
    n, c, h, w = shape
    forms = ["F.pixel_unshuffle({x}, 2)"]
    if c % 4 == 0:
        forms += ["F.pixel_shuffle({x}, 2)"]
    if c % 2 == 0:
        forms += [
            "F.channel_shuffle({x}, 2)",
            f"{{x}}.view({n}, 2, {c // 2}, {h}, {w}).transpose(1, 2).reshape({n}, {c}, {h}, {w})",
        ]
    forms += [
        "torch.cat([{x}[..., ::2, ::2], {x}[..., 1::2, ::2], {x}[..., ::2, 1::2], {x}[..., 1::2, 1::2]], 1)",
        "F.unfold({x}, 3, padding=1)",
        "F.unfold({x}, 2, stride=2)",
    ]
    return f"{d.fresh()} = {d.one(*forms).format(x=x)}"


def squeezed(d: Draft, x: str) -> Texts:
    """Draw a squeeze-and-excite block."""
    shape = d.shape(x)
    if len(shape) != 4:
        raise Unfit
    c, y, z = shape[1], d.fresh(), d.fresh()
    mean = d.one(
        "F.adaptive_avg_pool2d({}, 1)",
        "{}.mean((2, 3), keepdim=True)",
        "{}.mean(-1, keepdim=True).mean(-2, keepdim=True)",
        "{}.amax((2, 3), keepdim=True)",
    )
    gate = d.one("torch.sigmoid({})", "F.hardsigmoid({})", "{}.softmax(1)")
    layer = d.part("c", f"nn.Conv2d({c}, {c}, 1)")
    last = d.one(f"{d.fresh()} = {x} * {z}", f"{d.fresh()} = {z} * {x}", f"{x} *= {z}")
    return [f"{y} = {mean.format(x)}", f"{z} = {gate.format(f'{layer}({y})')}", last]


_MASKS = (
    '{a} = {a} + torch.triu(torch.full(({t}, {t}), float("-inf")), 1)',
    "{a} = {a}.masked_fill(torch.ones({t}, {t}).tril() == 0, -1e9)",
    '{a} = {a}.masked_fill(torch.tril(torch.ones({t}, {t})) == 0, float("-inf"))',
    "{a} = {a}.masked_fill(torch.triu(torch.ones({t}, {t}, dtype=torch.bool), 1), "
    "torch.finfo({a}.dtype).min)",
    "{a} = {a} + (1 - {m}) * -1e9",
    "{a} = {a} + (1 - {m}) * torch.finfo({a}.dtype).min",
    "{a} = {a}.masked_fill({m} == 0, -1e4)",
    '{a} = torch.where({m} > 0, {a}, float("-inf"))',
    "{a}[..., {t} // 2:] = -1e9",
    "{a} -= 1e4 * (torch.arange({t}) > {t} // 2)",
)


def attention(d: Draft, x: str) -> Texts:
    """Draw an attention, written out or as a function."""
    shape = d.shape(x)
    if len(shape) != 3 or shape[-1] % 2:
        raise Unfit
    _, t, c = shape
    q, k, v, a = (d.fresh() for _ in range(4))
    if d.chance(0.4):
        texts = [f"{q}, {k}, {v} = {d.part('l', f'nn.Linear({c}, {3 * c})')}({x}).chunk(3, -1)"]
    else:
        layers = [d.part("l", f"nn.Linear({c}, {c})") for _ in range(3)]
        texts = [f"{n} = {layer}({x})" for n, layer in zip((q, k, v), layers, strict=True)]
    if d.chance(0.4):
        heads = f".view({shape[0]}, {t}, 2, {c // 2}).transpose(1, 2)"
        q, k, v = (f"{n}{heads}" for n in (q, k, v))
    if d.chance(0.2):
        form = d.one(
            f"F.scaled_dot_product_attention({q}, {k}, {v})",
            f"F.scaled_dot_product_attention({q}, {k}, {v}, is_causal=True)",
        )
        return [*texts, f"{a} = {form}"]
    scores = d.one(
        f"{q} @ {k}.transpose(-2, -1) / math.sqrt({c})",
        f"torch.matmul({q}, {k}.transpose(-1, -2)) * {c} ** -0.5",
        f'torch.einsum("...id,...jd->...ij", {q}, {k}) * 0.3',
    )
    texts.append(f"{a} = {scores}")
    if d.chance(0.6):
        mask = d.one(*_MASKS)
        m = d.input((1, t), "mask") if "{m}" in mask else ""
        texts.append(mask.format(a=a, t=t, m=m))
    y = d.fresh()
    soft = d.one(f"{a}.softmax(-1)", f"F.softmax({a}, dim=-1)", f"torch.sigmoid({a})")
    return [*texts, f"{y} = {soft} @ {v}"]


def attention_layer(d: Draft, x: str) -> Texts:
    """Draw a layer of attention, or a whole encoder layer."""
    shape = d.shape(x)
    if len(shape) != 3 or shape[-1] % 2:
        raise Unfit
    c, y = shape[-1], d.fresh()
    if d.chance(0.4):
        first = d.one("", ", norm_first=True")
        layer = f"nn.TransformerEncoderLayer({c}, 2, {2 * c}, 0.0, batch_first=True{first})"
        return f"{y} = {d.part('e', layer)}({x})"
    layer = d.part("m", f"nn.MultiheadAttention({c}, 2, batch_first=True)")
    weights = d.one("", ", need_weights=False")
    return f"{y} = {layer}({x}, {x}, {x}{weights})[0]"


def recurrent(d: Draft, x: str) -> Texts:
    """Draw a recurrent layer, or one that is written out."""
    shape = d.shape(x)
    if len(shape) != 3:
        raise Unfit
    n, t, c = shape
    h, y = d.fresh(), d.fresh()
    if t > 6 or d.chance(0.4):
        kind = d.one("GRU", "LSTM", "RNN")
        more = d.one("", "", ", bidirectional=True", ", num_layers=2", ", bias=False")
        layer = d.part("g", f"nn.{kind}({c}, {c}, batch_first=True{more})")
        return d.one(f"{y}, _ = {layer}({x})", f"{y} = {layer}({x})[0][:, -1]")
    if d.chance(0.4):
        cell = d.part("g", f"nn.GRUCell({c}, {c})")
        step = f"{h} = {cell}({x}[:, i], {h})"
    else:
        one, two = (d.part("l", f"nn.Linear({c}, {c})") for _ in range(2))
        step = d.one(
            f"{h} = torch.tanh({one}({x}[:, i]) + {two}({h}))",
            f"z = torch.sigmoid({one}({x}[:, i]) + {two}({h}))\n"
            f"    {h} = (1 - z) * {h} + z * torch.tanh({x}[:, i])",
        )
    start = d.one(f"torch.zeros({n}, {c})", f"{x}.new_zeros({n}, {c})", f"{x}[:, 0] * 0.5")
    if d.chance(0.5):
        loop = f"s = []\nfor i in range({t}):\n    {step}\n    s.append({h})\n{y} = torch.stack(s, 1)"
    else:
        loop = f"{y} = torch.zeros_like({x})\nfor i in range({t}):\n    {step}\n    {y}[:, i] = {h}"
    return [f"{h} = {start}\n{loop}"]


def embedded(d: Draft, x: str) -> Texts:
    """Draw an embedding that is added: of an input, or of positions."""
    shape = d.shape(x)
    if len(shape) != 3:
        raise Unfit
    n, t, c = shape
    layer = d.part("e", f"nn.Embedding({max(t, 11)}, {c})")
    if d.chance(0.5):
        return f"{d.fresh()} = {x} + {layer}(torch.arange({t}))"
    ids = d.input((n, t), "ids")
    return f"{d.fresh()} = {d.one(f'{layer}({ids}) + {x}', f'{x} * {layer}({ids})')}"


def written_norm(d: Draft, x: str) -> Texts:
    """Draw a norm that is written out."""
    y, z = d.fresh(), d.fresh()
    keep = f"{d.one(-1, -1, 1)}, keepdim=True"
    return d.one(
        [f"{y} = {x} - {x}.mean({keep})", f"{z} = {y} / torch.sqrt(({y} ** 2).mean({keep}) + 1e-3)"],
        [f"{y} = {x} * torch.rsqrt({x}.pow(2).mean({keep}) + 1e-3)"],
        [f"{y} = ({x} - {x}.mean({keep})) / ({x}.std({keep}) + 0.1)"],
        [f"{y} = {x} / ({x}.norm(dim={keep}) + 0.1)"],
        [f"{y} = ({x} - {x}.amin({keep})) / ({x}.amax({keep}) - {x}.amin({keep}) + 0.1)"],
        [f"{y} = {x} / {x}.abs().amax({keep}).clamp(min=0.1)"],
    )


def computed_weights(d: Draft, x: str) -> Texts:
    """Draw a convolution or a product with weights that are computed."""
    shape, y = d.shape(x), d.fresh()
    if len(shape) == 4:
        w = d.constant(f"torch.randn(6, {shape[1]}, 3, 3) / {3 * shape[1] ** 0.5:.1f}")
        given = d.one(
            w, f"{w} - {w}.mean((1, 2, 3), keepdim=True)", f"torch.tanh({w})", f"{w}.flip(3)", f"{w} * 0.5"
        )
        return f"{y} = F.conv2d({x}, {given}, padding={d.one(0, 1, 2)})"
    w = d.constant(f"torch.randn({shape[-1]}, 6) * {shape[-1] ** -0.5:.3f}")
    return d.one(
        f"{y} = {x} @ {w}",
        f"{y} = torch.matmul({x}, {w}.tanh())",
        f"{y} = F.linear({x}, {w}.t())",
        f'{y} = torch.einsum("...i,io->...o", {x}, {w})',
    )


LAYERS = (
    (9.0, convolution),
    (3.0, transposed),
    (6.0, linear),
    (6.0, norm),
    (5.0, activation),
    (8.0, function),
    (4.0, block),
    (4.0, residual),
    (2.5, dropped),
    (4.0, pool),
    (4.0, resized),
    (2.5, padded),
    (5.0, shuffled),
    (3.5, squeezed),
    (8.0, attention),
    (2.0, attention_layer),
    (3.5, recurrent),
    (2.0, embedded),
    (1.5, written_norm),
    (1.0, computed_weights),
)

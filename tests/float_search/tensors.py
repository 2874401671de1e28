"""Shapes, reductions, joins and writes: what a network does with tensors, drawn for a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.float_search.drafts import Unfit
from tests.float_search.layers import LAYERS

if TYPE_CHECKING:
    from tests.float_search.drafts import Draft

Texts = str | list[str]


def _axis(d: Draft, x: str) -> int:
    rank = len(d.shape(x))
    return int(d.one(*range(1 if rank > 1 else 0, rank), -1))


def _order(d: Draft, rank: int) -> tuple[int, ...]:
    order = list(range(rank))
    d.random.shuffle(order)
    return tuple(order)


def shaped(d: Draft, x: str) -> Texts:
    """Draw another shape of a value."""
    shape, rank = d.shape(x), len(d.shape(x))
    axis = _axis(d, x)
    n = shape[axis]
    forms = [
        "{x}.flatten(1)",
        f"{{x}}.permute{_order(d, rank)}",
        f"{{x}}.unsqueeze({axis})",
        "{x}.flatten(-2)",
        "{x}.reshape(-1, {last})",
        "{x}.transpose(-1, -2)",
        "{x}.squeeze()",
        f"{{x}}.transpose({axis}, {d.one(0, 1, -1)})",
        "{x}.contiguous()",
        "{x}.clone()",
        f"torch.movedim({{x}}, {axis}, 0)",
        "{x}.view({first}, -1)",
        "{x}.squeeze(0)",
        "{x}[None]",
        f"{{x}}.repeat({', '.join(str(d.one(1, 1, 2)) for _ in range(rank))})",
        "{x}.mT",
        f"torch.repeat_interleave({{x}}, 2, dim={axis})",
        "torch.tile({x}, (2,))",
        f"{{x}}.unsqueeze(1).expand(-1, 2, {', '.join(map(str, shape[1:]))})",
    ]
    if n % 2 == 0:
        forms += [f"{{x}}.unflatten({axis}, (2, {n // 2}))"] * 2
    text = d.one(*forms).format(x=x, first=shape[0], last=shape[-1])
    if text.endswith(", )"):
        raise Unfit
    return f"{d.fresh()} = {text}"


def _colons(d: Draft, x: str, axis: int, inside: str) -> str:
    rank = len(d.shape(x))
    if axis % rank == rank - 1:
        return f"..., {inside}"
    return ", ".join([":"] * (axis % rank) + [inside])


def _part(d: Draft, n: int) -> str:
    """Return a slice of an axis of a length."""
    half = max(1, n // 2)
    return str(d.one(f":{half}", f"{half}:", "1:", ":-1", "::2", "1::2", "1:-1", f"-{half}:", f":{n - 1}"))


def sliced(d: Draft, x: str) -> Texts:
    """Draw a part of a value."""
    axis = _axis(d, x)
    n = d.shape(x)[axis]
    half = max(1, n // 2)
    places = d.random.sample(range(n), n)
    kept = sorted(places[: max(1, n - 1)])
    form = d.one(
        f"{{x}}[{_colons(d, x, axis, _part(d, n))}]",
        f"{{x}}[{_colons(d, x, axis, _part(d, n))}]",
        f"{{x}}[{_colons(d, x, axis, str(d.one(0, -1, half - 1)))}]",
        f"{{x}}.narrow({axis}, {n - half}, {half})",
        f"{{x}}.select({axis}, {d.one(0, -1)})",
        f"{{x}}[{_colons(d, x, axis, str(places))}]",
        f"{{x}}[{_colons(d, x, axis, f'torch.tensor({kept})')}]",
        f"torch.index_select({{x}}, {axis}, torch.tensor({places}))",
        f"{{x}}.flip({axis})",
        f"torch.roll({{x}}, {d.one(1, -1, 2)}, {axis})",
        f"{{x}}.roll(({d.one(1, -1)}, 1), (-1, -2))",
        f"torch.flip({{x}}, (-1, {axis}))",
        "{x}.tril()",
        "torch.triu({x}, 1)",
        "{x}.diagonal(dim1=-2, dim2=-1)",
        f"torch.gather({{x}}, {axis}, torch.zeros_like({{x}}, dtype=torch.long))",
    )
    return f"{d.fresh()} = {form.format(x=x)}"


def parted(d: Draft, x: str) -> Texts:
    """Draw parts of a value, and what is made of two of them."""
    axis = _axis(d, x)
    n = d.shape(x)[axis]
    a, b, y = d.fresh(), d.fresh(), d.fresh()
    forms = []
    if n % 2 == 0:
        forms += [f"{a}, {b} = {x}.chunk(2, {axis})", f"{a}, {b} = torch.split({x}, {n // 2}, {axis})"]
    if n == 2:
        forms += [f"{a}, {b} = {x}.unbind({axis})"] * 3
    if n > 2:
        forms += [
            f"{a}, {b} = torch.split({x}, [{n - 2}, 2], {axis})",
            f"{a}, {b} = {x}.tensor_split(2, {axis})",
            f"{a}, *_, {b} = {x}.unbind({axis})",
            f"{a}, {b} = {x}[..., :1], {x}[..., 1:]",
        ]
    if not forms:
        raise Unfit
    uses = [
        f"{y} = {a} * torch.sigmoid({b})",
        f"{y} = torch.cat([{b}, {a}], {axis})",
        f"{y} = torch.cat((-{b}, {a}), dim={axis})",
        f"{y} = {a} + {b}",
        f"{a} += {b}",
        f"{a}.mul_(2)",
        f"{b} *= 0.5",
        f"{y} = torch.stack([{a}, {b}], {axis}).flatten(1)",
        f"{a}.copy_({b})",
        f"{a}.relu_()",
        f"{y} = torch.maximum({a}, {b})",
    ]
    use = d.one(*uses)
    texts = [d.one(*forms), use]
    if not use.startswith(y):
        texts.append(d.one(f"{y} = {x} + 1", f"{y} = {x} * 1.5", f"{y} = torch.relu({x})"))
    return texts


def joined(d: Draft, x: str) -> Texts:
    """Draw a join of two values."""
    axis, y = _axis(d, x), d.fresh()
    other = d.other(x, same=True)
    forms = [
        f"torch.cat([{x}, {other}], {axis})",
        f"torch.cat([{other}, {x}, {other}], {axis})",
        f"torch.stack([{x}, {other}], {axis})",
        f"torch.cat([{x}, {x}.flip({axis})], {axis})",
        f"torch.cat([{x}, torch.zeros_like({x})], {axis})",
        f"torch.hstack([{x}, {other}])",
        f"torch.cat([{x}, {other} * 3], {axis})",
        f"torch.stack(({other}, {x})).sum(0)",
        f"torch.cat([F.max_pool1d({x}, 3, 1, 1), {x}], {axis})",
    ]
    return f"{y} = {d.one(*forms)}"


_BINARY = (
    "{x} + {y}",
    "{x} * {y}",
    "{x} - {y}",
    "{y} - {x}",
    "torch.maximum({x}, {y})",
    "{x} * {y} + {x}",
    "torch.minimum({x}, {y})",
    "torch.where({x} > {y}, {x}, {y} * 0.5)",
    "{x} / (1 + {y}.abs())",
    "torch.lerp({x}, {y} + 0 * {x}, 0.3)",
    "torch.where({x} < 0, {y}, {x})",
    "({x} - {y}) ** 2",
    "torch.addcmul({x}, {x}, {y}, value=0.5)",
    "torch.add({x}, {y}, alpha=2)",
    "({x} - {y}).abs()",
    "torch.sub({x}, {y}, alpha=0.5)",
    "{x} * {y}.sigmoid() + {x} * (1 - {y}.sigmoid())",
    "({x} + {y}).relu_()",
    "torch.addcdiv({x}, {x}, {y} ** 2 + 1)",
    "{x} * ({y} > 0).float()",
    "F.mse_loss({x} + 0 * {y}, {y} + 0 * {x}, reduction='none')",
    "torch.hypot({x}, {y} + 1)",
    "{x} + 0.5 * {y}",
    "{x} * ({x} >= {y})",
    "torch.where(({x} > 0) & ({y} > 0), {x}, {y})",
)


def binary(d: Draft, x: str) -> Texts:
    """Draw a function of two values."""
    return f"{d.fresh()} = {d.one(*_BINARY).format(x=x, y=d.other(x))}"


def reduced(d: Draft, x: str) -> Texts:
    """Draw a reduction or another function along axes."""
    axis, y = _axis(d, x), d.fresh()
    keep = d.one("", ", keepdim=True", ", True")
    both = d.one((-1, -2), (1, -1), (axis,), (0, -1))
    forms = [
        f"{{x}}.mean({axis}{keep})",
        f"{{x}}.mean({both}{keep})",
        f"{{x}}.sum({axis}{keep}) * 0.3",
        f"{{x}}.amax({axis}{keep})",
        f"{{x}}.amin({both}{keep})",
        f"{{x}}.max({axis}{keep})[0]",
        f"{{x}}.min({axis}{keep}).values",
        f"torch.std({{x}}, {axis})",
        f"{{x}}.var({axis}, unbiased=False)",
        f"torch.var({{x}}, {axis}, keepdim=True)",
        f"torch.norm({{x}}, dim={axis}) * 0.4",
        f"torch.logsumexp({{x}}, {axis})",
        f"{{x}}.cumsum({axis}) * 0.3",
        f"{{x}}.softmax({axis})",
        f"F.log_softmax({{x}}, {axis})",
        f"F.softmin({{x}}, {axis})",
        f"{{x}}.prod({axis})",
        f"{{x}}.cummax({axis})[0]",
        f"torch.topk({{x}}, 2, {axis})[0]",
        f"{{x}}.sort({axis})[0]",
        f"{{x}}.diff(dim={axis})",
        f"{{x}} - {{x}}.mean({axis}, keepdim=True)",
        f"{{x}}.median({axis})[0]",
        f"{{x}}.softmax({axis}) * {{x}}",
        f"({{x}}.softmax(-1) * torch.arange({d.shape(x)[-1]})).sum(-1)",
        f"{{x}}.unfold({axis}, 2, 1)",
    ]
    return f"{y} = {d.one(*forms).format(x=x)}"


def product(d: Draft, x: str) -> Texts:
    """Draw a product of matrices."""
    shape, y = d.shape(x), d.fresh()
    scale = f"* {shape[-1] ** -0.5:.2f}"
    forms = [f"{{x}} @ {{x}}.transpose(-1, -2) {scale}", f"torch.matmul({{x}}.mT, {{x}}) {scale}"]
    if len(shape) == 3:
        square = d.constant(f"torch.randn(1, {shape[1]}, {shape[1]})")
        forms += [
            f"torch.bmm({{x}}, {{x}}.transpose(1, 2)) {scale}",
            f'torch.einsum("bid,bjd->bij", {{x}}, {{x}}) {scale}',
            'torch.einsum("bij,bik->bjk", {x}, {x}) * 0.3',
            'torch.einsum("bij->bji", {x})',
            f"torch.baddbmm({square}, {{x}}, {{x}}.mT, alpha=0.3)",
        ]
    if len(shape) == 4:
        forms += [
            f'torch.einsum("bchw,bdhw->bcd", {{x}}, {{x}}) {scale}',
            'torch.einsum("bchw,bkhw->bhwck", {x}, {x})',
            'torch.einsum("bchw->bhwc", {x})',
        ]
    if len(shape) == 2:
        forms += ['torch.einsum("bi,bj->bij", {x}, {x})', "{x}[:, :, None] * {x}[:, None, :]"]
    return f"{y} = {d.one(*forms).format(x=x)}"


def fresh_buffer(d: Draft, x: str) -> Texts:
    """Draw a constant that is made in forward, and added, multiplied or joined."""
    shape, y, t = d.shape(x), d.fresh(), d.fresh()
    n = shape[-1]
    made = d.one(
        f"torch.arange({n}) / {n}",
        f"torch.linspace(-1, 1, {n})",
        f"torch.arange({n}, dtype=torch.float32) * 0.2",
        f"torch.ones({n})",
        f"{x}.new_zeros({n}) + 0.5",
        f"torch.full(({n},), 0.7)",
        f"torch.linspace(0, 1, {n}, dtype={x}.dtype)",
        f"torch.hann_window({n}, periodic=False) + 0.1",
        f"torch.exp(torch.arange({n}) * -0.2)",
        f"(torch.arange({n}) % 2).float() + 0.2",
    )
    texts = [f"{t} = {made}"]
    if d.chance(0.4):
        part = _part(d, n)
        source = d.one("0.3", f"{x}.reshape(-1, {n})[0, {part}]")
        texts.append(f"{t}[{part}] {d.one('=', '+=', '*=', '-=')} {source}")
    use = [
        f"{y} = {x} * {t}",
        f"{y} = {x} + {t}",
        f"{y} = {t} - {x}",
        f"{y} = {x} * torch.cos({t}) + {x}.flip(-1) * torch.sin({t})",
    ]
    if len(shape) == 4:
        b, _, h, w = shape
        use.append(f"{y} = torch.cat([{x}, {t}.expand({b}, 1, {h}, {w})], 1)")
        both = f"torch.meshgrid(torch.linspace(-1, 1, {h}), {t}, indexing='ij')"
        both = f"torch.stack({both}).expand({b}, 2, {h}, {w})"
        use.append(f"{y} = torch.cat([{x}, {both}], 1)")
    return [*texts, d.one(*use)]


_WRITES = (
    "{x}[{s}] *= {k}",
    "{x}[{s}] += {k}",
    "{x}[{s}] = {k}",
    "{x}[{s}] = {x}[{s}] * {k}",
    "{x}[{s}] = torch.relu({x}[{s}])",
    "{x}[{s}] = {x}[{s}].sigmoid()",
    "{x}[{s}].mul_({k})",
    "{x}[{s}].zero_()",
    "{x}[{s}].fill_({k})",
    "{x}[{s}].clamp_(-0.5, 0.5)",
    "{x}.mul_({k})",
    "{x} += {k}",
    "{x} *= {k}",
    "{x}.add_({k})",
    "torch.relu_({x})",
    "{x}.clamp_(min=-0.4)",
    "{x}.sigmoid_()",
    "F.relu({x}, inplace=True)",
    "{x}.neg_()",
    "{x}.sub_(0.3)",
    "{x}.div_(2)",
    "{x}[{x} < 0] = 0.1",
    "{x}.masked_fill_({x} > 1, 0.5)",
    "{x}[{s}] -= {x}[{s}].mean()",
    "{x}[{s}] = {x}[{s}].flip(-1)",
    "{x}.transpose(-1, -2).mul_({k})",
    "{x}.flatten()[{n}:] = {k}",
    "{x}.view(-1)[:{n}] *= {k}",
    "{x}.abs_()",
    "{x}.tanh_()",
    "{x}.index_fill_(-1, torch.tensor([0]), {k})",
    "{x}.index_add_(0, torch.tensor([0]), {x}[:1] * 0.5)",
    "{x}.copy_({x}.flip(-1))",
    "torch.clamp({x}, -1, 1, out={x})",
    "{x}[..., 0], {x}[..., -1] = {x}[..., -1].clone(), {x}[..., 0].clone()",
    "F.leaky_relu_({x}, 0.1)",
    "{x}[0] = {k}",
    "{x}[-1] *= {k}",
    "{x}.select(-1, 0).add_({k})",
    "{x}.narrow(-1, 0, 1).fill_({k})",
    "{x}.unsqueeze(0).add_({k})",
    "{x}.exp_()",
    "{x}.zero_().add_({x2})",
)


def _own(d: Draft, x: str) -> tuple[list[str], str]:
    """Return a value to write into: often a new one, so that less is in use already."""
    if d.chance(0.35):
        return [], x
    y = d.fresh()
    layers = [f"{y} = {x} * 1.5", f"{y} = {x}.clone()", f"{y} = torch.tanh({x})", f"{y} = {x} + 0"]
    shape = d.shape(x)
    if len(shape) == 4:
        layers += [f"{y} = {d.part('c', f'nn.Conv2d({shape[1]}, {shape[1]}, 3, padding=1)')}({x})"] * 3
    else:
        layers += [f"{y} = {d.part('l', f'nn.Linear({shape[-1]}, {shape[-1]})')}({x})"] * 3
    return [d.one(*layers)], y


def written(d: Draft, x: str) -> Texts:
    """Draw a write into a value, and sometimes what reads it afterwards."""
    axis = _axis(d, x)
    size = d.shape(x)[axis]
    texts, y = _own(d, x)
    text = d.one(*_WRITES).format(
        x=y, s=_colons(d, x, axis, _part(d, size)), k=d.one(3, 0.5, 2, -1, 0.25), n=size, x2=x
    )
    texts.append(text)
    if d.chance(0.6):
        after = d.one(f"torch.tanh({y})", f"{y} * 0.8", f"{y} + {x}", f"{y}.relu()")
        texts.append(f"{d.fresh()} = {after}")
    return texts


def viewed(d: Draft, x: str) -> Texts:
    """Draw a view that is written, with the value itself read afterwards."""
    axis = _axis(d, x)
    size = d.shape(x)[axis]
    texts, y = _own(d, x)
    v, z = d.fresh(), d.fresh()
    view = d.one(
        f"{y}[{_colons(d, x, axis, _part(d, size))}]",
        f"{y}.transpose(-1, -2)",
        f"{y}.flatten(1)",
        f"{y}[{_colons(d, x, axis, str(0))}]",
        f"{y}.view(-1)",
        f"{y}.narrow({axis}, 0, 1)",
        f"{y}.unsqueeze(1)",
        f"{y}[..., None]",
        f"{y}.chunk(2, {axis})[0]",
        y,
        f"{y}.contiguous()",
        f"{y}.detach()",
        f"{y}.float()",
        f"{y}.reshape(-1)",
        f"{y}.expand_as({y})",
        f"{y}.to(torch.float32)",
    )
    write = d.one(
        f"{v} *= 2",
        f"{v} += 1",
        f"{v}.mul_(0.5)",
        f"torch.relu_({v})",
        f"{v}.clamp_(-0.3, 0.6)",
        f"{v}[..., :1] = 0.5",
        f"{v} -= {v}.mean()",
        f"{v}.copy_(torch.tanh({v}))",
        f"{v}.fill_(0.3)",
        f"{v}.add_({v}.clone())",
        f"{d.part('a', 'nn.ReLU(inplace=True)', shared=0.5)}({v})",
    )
    after = d.one(f"{z} = {y} * 1.2", f"{z} = torch.sigmoid({y})", f"{z} = {y} + {x}", f"{z} = {y}.clone()")
    return [*texts, f"{v} = {view}", write, after]


def canvas(d: Draft, x: str) -> Texts:
    """Draw a tensor that is made, and filled part by part."""
    shape, y = d.shape(x), d.fresh()
    n, rank = shape[-1], len(shape)
    same = ", ".join(map(str, shape))
    larger = ", ".join(map(str, (*shape[:-1], n + 2)))
    make = d.one("torch.zeros", "torch.zeros", "torch.ones", "torch.empty", f"{x}.new_zeros", "torch.full")
    given = f"{make}(({{}},), 0.3)" if make == "torch.full" else f"{make}({{}})"
    bordered = [f"{y} = {given.format(larger)}", f"{y}[..., 1:-1] = {x}"]
    if make == "torch.empty":
        bordered += [f"{y}[..., 0] = 0", f"{y}[..., -1] = 1"]
    factor = d.one("2", "(i + 1) * 0.2", "0.5")
    forms = [
        bordered,
        [
            f"{y} = {d.one('torch.zeros_like', 'torch.empty_like')}({x})",
            f"for i in range({n}):\n    {y}[..., i] = {x}[..., i] * {factor}",
        ],
        [
            f"{y} = torch.empty_like({x})",
            f"{y}[..., ::2] = {x}[..., {(n + 1) // 2 * -1}:]",
            f"{y}[..., 1::2] = {x}[..., :{n // 2}]",
        ],
        [
            f"{y} = {d.constant(f'torch.randn({larger})')}.clone()",
            f"{y}[..., 1:-1] {d.one('=', '+=', '*=')} {x}",
        ],
        [f"{y} = torch.zeros_like({x})", f"{y} += {x}"],
        [f"{y} = torch.zeros_like({x})", f"{y}[..., 1:] = {x}[..., :-1]"],
        [f"{y} = {x}.clone()", f"{y}[..., 1:] = {x}[..., :-1]", f"{y}[..., :1] = 0"],
        [f"{y} = torch.zeros({same})", f"for i in range({shape[0]}):\n    {y}[i] = {x}[i] * 2"],
        [f"{y} = torch.zeros({larger})", f"{y}.narrow(-1, 1, {n}).copy_({x})"],
        [f"{y} = torch.zeros_like({x})", f"{y}.scatter_(-1, torch.arange({n}).flip(0).expand({same}), {x})"],
        [
            f"{y} = torch.zeros({shape[0]}, {', '.join(map(str, [*shape[1:], 2]))})",
            f"{y}[..., 0] = {x}",
            f"{y}[..., 1] = {x} * 0.5",
            f"{y} = {y}.flatten(1)",
        ],
    ]
    if rank == 4:
        b, c, h, w = shape
        forms += [
            [f"{y} = torch.zeros({b}, {c}, {h + 2}, {w + 2})", f"{y}[:, :, 1:-1, 1:-1] = {x}"],
            [f"{y} = {x}.clone()", f"{y}[:, :, 1:3, 1:3] {d.one('*=', '+=')} 2"],
            [
                f"{y} = torch.zeros_like({x})",
                f"{y}[:, : {c} // 2] = {x}[:, {c} - {c} // 2 :]",
                f"{y} = {y} + {x}",
            ],
        ]
    return list(d.one(*forms))


TENSORS = (
    (6.0, shaped),
    (6.0, sliced),
    (6.0, parted),
    (4.0, joined),
    (6.0, binary),
    (5.0, reduced),
    (2.0, product),
    (3.0, fresh_buffer),
    (6.0, written),
    (4.0, viewed),
    (3.5, canvas),
)
OPERATIONS = (*LAYERS, *TENSORS)

"""Networks on sounds, sensors and sequences: recurrence, dilated convolutions, attention."""

import itertools

import torch
from torch import nn
from torch.nn import functional


def _made(build, *shapes):
    torch.manual_seed(0)
    return build().eval(), tuple(torch.randn(shape) for shape in shapes)


class _Recurrent(nn.Module):
    """A recurrence over a sequence, then a linear at every step or at the last."""

    def __init__(self, kind, last=True, layers=1, both=False, **rest):
        super().__init__()
        self.rnn = kind(6, 8, layers, batch_first=True, bidirectional=both, **rest)
        self.fc, self.last = nn.Linear(16 if both else 8, 5), last

    def forward(self, x):
        x = self.rnn(x)[0]
        return self.fc(x[:, -1] if self.last else x)


def lstm():
    return _made(lambda: _Recurrent(nn.LSTM), (1, 6, 6))


def lstm_both():
    return _made(lambda: _Recurrent(nn.LSTM, last=False, both=True), (1, 5, 6))


def lstm_stacked():
    return _made(lambda: _Recurrent(nn.LSTM, layers=2), (1, 4, 6))


def gru():
    return _made(lambda: _Recurrent(nn.GRU), (1, 6, 6))


def gru_both():
    return _made(lambda: _Recurrent(nn.GRU, last=False, both=True), (1, 5, 6))


def rnn_both():
    return _made(lambda: _Recurrent(nn.RNN, last=False, both=True), (1, 5, 6))


class _Cells(nn.Module):
    """A loop written by hand over cells, as streaming models have it."""

    def __init__(self, kind):
        super().__init__()
        self.cell, self.fc = kind(6, 8), nn.Linear(8, 4)

    def forward(self, x, state):
        for step in range(3):
            state = self.cell(x[:, step], state)
        return self.fc(state), state


def gru_cell():
    return _made(lambda: _Cells(nn.GRUCell), (1, 3, 6), (1, 8))


class _LSTMCells(_Cells):
    def forward(self, x, state, memory):
        for step in range(3):
            state, memory = self.cell(x[:, step], (state, memory))
        return self.fc(state), state, memory


def lstm_cell():
    return _made(lambda: _LSTMCells(nn.LSTMCell), (1, 3, 6), (1, 8), (1, 8))


class _CRNN(nn.Module):
    """Text recognition: convolutions, columns as steps, a bidirectional LSTM, log-softmax."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d((2, 2)),
        )
        self.rnn, self.fc = nn.LSTM(32, 8, bidirectional=True, batch_first=True), nn.Linear(16, 11)

    def forward(self, x):
        x = self.body(x).permute(0, 3, 1, 2).flatten(2)
        return functional.log_softmax(self.fc(self.rnn(x)[0]), -1)


def crnn():
    return _made(_CRNN, (1, 1, 16, 24))


class _Separable(nn.Module):
    """DS-CNN of keyword spotting."""

    def __init__(self):
        super().__init__()
        layers = [nn.Conv2d(1, 16, (10, 4), 2, (5, 1)), nn.BatchNorm2d(16), nn.ReLU()]
        for _ in range(2):
            layers += [
                nn.Conv2d(16, 16, 3, padding=1, groups=16),
                nn.BatchNorm2d(16),
                nn.ReLU(),
                nn.Conv2d(16, 16, 1),
                nn.BatchNorm2d(16),
                nn.ReLU(),
            ]
        self.body, self.fc = nn.Sequential(*layers), nn.Linear(16, 12)

    def forward(self, x):
        x = self.body(x)
        return self.fc(functional.avg_pool2d(x, x.shape[-2:]).flatten(1)).softmax(-1)


def keyword_spotting():
    return _made(_Separable, (1, 1, 24, 10))


class _Causal(nn.Module):
    """WaveNet's gated block: causal, dilated, with a skip and a residual."""

    def __init__(self, dilation):
        super().__init__()
        self.pad = nn.ConstantPad1d((dilation, 0), 0.0)
        self.a, self.b = (nn.Conv1d(8, 8, 2, dilation=dilation), nn.Conv1d(8, 8, 2, dilation=dilation))
        self.skip, self.out = nn.Conv1d(8, 8, 1), nn.Conv1d(8, 8, 1)

    def forward(self, x):
        y = self.pad(x)
        y = torch.tanh(self.a(y)) * torch.sigmoid(self.b(y))
        return x + self.out(y), self.skip(y)


class _WaveNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.blocks = nn.Conv1d(1, 8, 1), nn.ModuleList([_Causal(d) for d in (1, 2, 4)])
        self.last = nn.Conv1d(8, 16, 1)

    def forward(self, x):
        x, total = self.first(x), 0.0
        for block in self.blocks:
            x, skip = block(x)
            total = total + skip
        return self.last(functional.relu(total))


def wavenet():
    return _made(_WaveNet, (1, 1, 32))


class _Temporal(nn.Module):
    """A TCN block with weight norm and chomp."""

    def __init__(self, before, after, dilation):
        super().__init__()
        normed = nn.utils.parametrizations.weight_norm
        self.chop = 2 * dilation
        self.a = normed(nn.Conv1d(before, after, 3, padding=self.chop, dilation=dilation))
        self.b = normed(nn.Conv1d(after, after, 3, padding=self.chop, dilation=dilation))
        self.skip = nn.Conv1d(before, after, 1)

    def forward(self, x):
        y = functional.relu(self.a(x)[:, :, : -self.chop])
        y = functional.relu(self.b(y)[:, :, : -self.chop])
        return functional.relu(y + self.skip(x))


def tcn():
    return _made(
        lambda: nn.Sequential(
            _Temporal(6, 8, 1), _Temporal(8, 8, 2), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 6)
        ),
        (1, 6, 32),
    )


class _TasNet(nn.Module):
    """Conv-TasNet: encoder, separator with global norms, masks, transposed decoder."""

    def __init__(self):
        super().__init__()
        self.encoder, self.norm = nn.Conv1d(1, 16, 8, 4, bias=False), nn.GroupNorm(1, 16)
        self.inner = nn.Sequential(
            nn.Conv1d(16, 16, 1),
            nn.PReLU(),
            nn.GroupNorm(1, 16),
            nn.Conv1d(16, 16, 3, padding=2, dilation=2, groups=16),
            nn.PReLU(),
            nn.GroupNorm(1, 16),
            nn.Conv1d(16, 32, 1),
        )
        self.back = nn.ConvTranspose1d(16, 1, 8, 4, bias=False)

    def forward(self, x):
        code = functional.relu(self.encoder(x))
        masks = torch.sigmoid(self.inner(self.norm(code))).view(1, 2, 16, -1)
        return torch.cat([self.back(code * masks[:, 0]), self.back(code * masks[:, 1])], 1)


def conv_tasnet():
    return _made(_TasNet, (1, 1, 128))


class _Residual1d(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(before, after, 7, stride, 3),
            nn.BatchNorm1d(after),
            nn.ReLU(),
            nn.Conv1d(after, after, 7, 1, 3),
            nn.BatchNorm1d(after),
        )
        self.skip = nn.Conv1d(before, after, 1, stride)

    def forward(self, x):
        return functional.relu(self.body(x) + self.skip(x))


def ecg_resnet():
    return _made(
        lambda: nn.Sequential(
            _Residual1d(1, 8, 2),
            _Residual1d(8, 16, 2),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(16, 5),
        ),
        (1, 1, 64),
    )


class _UNet1d(nn.Module):
    """Demucs and Wave-U-Net: strided down, transposed up, skips joined, GLU."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([nn.Conv1d(1, 8, 8, 4, 2), nn.Conv1d(8, 16, 8, 4, 2)])
        self.gate = nn.ModuleList([nn.Conv1d(8, 16, 1), nn.Conv1d(16, 32, 1)])
        self.up = nn.ModuleList([nn.ConvTranspose1d(16, 8, 8, 4, 2), nn.ConvTranspose1d(16, 1, 8, 4, 2)])

    def forward(self, x):
        skips = []
        for down, gate in zip(self.down, self.gate, strict=True):
            x = functional.glu(gate(functional.relu(down(x))), 1)
            skips.append(x)
        x = functional.relu(self.up[0](skips.pop()))
        return self.up[1](torch.cat([x, skips.pop()], 1))


def demucs():
    return _made(_UNet1d, (1, 1, 128))


class _Anomaly(nn.Module):
    """The dense autoencoder of machine monitoring."""

    def __init__(self):
        super().__init__()
        sizes, layers = (40, 32, 8, 32, 40), []
        for before, after in itertools.pairwise(sizes):
            layers += [nn.Linear(before, after), nn.BatchNorm1d(after), nn.ReLU()]
        self.body = nn.Sequential(*layers[:-2])

    def forward(self, x):
        back = self.body(x)
        return back, ((back - x) ** 2).mean(1)


def anomaly():
    return _made(_Anomaly, (1, 40))


class _Captioned(nn.Module):
    """nn.Transformer's encoder layer with a padding mask, and positions that are learned."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(50, 16), nn.Parameter(torch.randn(1, 8, 16) * 0.1)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True)
        self.body, self.last = nn.TransformerEncoder(layer, 2), nn.Linear(16, 6)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places
        return self.last(self.body(x).mean(1))


def transformer_encoder():
    torch.manual_seed(0)
    return _Captioned().eval(), (torch.randint(0, 50, (1, 8)),)


class _Decoding(nn.Module):
    """nn.TransformerDecoder with a causal mask and memory."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerDecoderLayer(16, 2, 32, batch_first=True)
        self.body, self.last = nn.TransformerDecoder(layer, 1), nn.Linear(16, 10)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(6))

    def forward(self, x, memory):
        return self.last(self.body(x, memory, tgt_mask=self.mask, tgt_is_causal=True))


def transformer_decoder():
    return _made(_Decoding, (1, 6, 16), (1, 8, 16))


class _Conformer(nn.Module):
    """A block of Conformer: half steps, attention, a gated convolution."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(16) for _ in range(5)])
        self.first = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 16))
        self.second = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 16))
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.wide, self.each = nn.Conv1d(16, 32, 1), nn.Conv1d(16, 16, 5, padding=2, groups=16)
        self.batch, self.narrow = nn.BatchNorm1d(16), nn.Conv1d(16, 16, 1)

    def forward(self, x):
        x = x + 0.5 * self.first(self.norms[0](x))
        y = self.norms[1](x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = functional.glu(self.wide(self.norms[2](x).transpose(1, 2)), 1)
        x = x + self.narrow(functional.silu(self.batch(self.each(y)))).transpose(1, 2)
        return self.norms[4](x + 0.5 * self.second(self.norms[3](x)))


def conformer():
    return _made(_Conformer, (1, 8, 16))


class _Points(nn.Module):
    """PointNet: shared layers over points, a maximum over all."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(3, 16, 1),
            nn.BatchNorm1d(16),
            nn.ReLU(),
            nn.Conv1d(16, 32, 1),
            nn.BatchNorm1d(32),
            nn.ReLU(),
        )
        self.head = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 5))

    def forward(self, x):
        return functional.log_softmax(self.head(torch.amax(self.body(x), 2)), -1)


def pointnet():
    return _made(_Points, (1, 3, 64))


class _Mixing(nn.Module):
    """MLP-Mixer over patches of a series."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(16), nn.LayerNorm(16)])
        self.across = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.along = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))

    def forward(self, x):
        x = x + self.across(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.along(self.norms[1](x))


def mixer():
    return _made(_Mixing, (1, 8, 16))


class _Recommender(nn.Module):
    """Embeddings, a factorization machine and a deep part, as DeepFM has."""

    def __init__(self):
        super().__init__()
        self.rows = nn.Embedding(40, 8)
        self.deep = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, numbers):
        rows = self.rows(numbers)
        pairs = 0.5 * (rows.sum(1).pow(2) - rows.pow(2).sum(1)).sum(1, keepdim=True)
        return torch.sigmoid(self.deep(rows.flatten(1)) + pairs)


def recommender():
    torch.manual_seed(0)
    return _Recommender().eval(), (torch.randint(0, 40, (1, 4)),)

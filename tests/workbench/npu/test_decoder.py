"""A decoder reads its prompt call by call, writes until its context is full, and refuses the rest."""

from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest

from tests.for_each import for_each
from tests.problems import refused
from workbench.npu import decoder as decoder_module
from workbench.npu.decoder import Decoder, Grid, written


class Counting:
    """Says that the token after n is n + 1; keeps what it read."""

    def __init__(self, size=1, context=16, vocabulary=32):
        self.name, self.tokens_per_call, self.context, self.vocabulary = "counting", size, context, vocabulary
        self.position, self.calls, self.seen = 0, [], []

    def read(self, tokens):
        assert len(tokens) == self.tokens_per_call
        self.calls.append(list(tokens))
        self.seen += tokens
        self.position += len(tokens)
        return np.eye(self.vocabulary)[(tokens[-1] + 1) % self.vocabulary]

    def take_caches(self, other):
        self.seen, self.position = list(other.seen), other.position


def likeliest(logits):
    return int(logits.argmax())


def test_that_a_prompt_is_read_token_by_token():
    decoder = Counting()
    assert [*written(decoder, [3, 4, 5], 4, likeliest)] == [6, 7, 8, 9]
    assert decoder.calls == [[3], [4], [5], [6], [7], [8]]


@for_each(
    ("length", "calls", "rest"),
    [(1, 0, [0]), (4, 0, [0, 1, 2, 3]), (5, 1, [4]), (8, 1, [4, 5, 6, 7]), (9, 2, [8])],
)
def test_that_a_second_program_reads_what_fills_its_calls_and_leaves_the_last_token(length, calls, rest):
    decoder, reader = Counting(), Counting(size=4)
    assert [*written(decoder, range(length), 2, likeliest, reader)] == [length, length + 1]
    assert len(reader.calls) == calls
    assert decoder.calls == [[token] for token in (*rest, length)]
    assert decoder.seen == [*range(length + 1)]


def test_that_writing_ends_with_the_context():
    assert [*written(Counting(context=6), [1, 2, 3], 10, likeliest)] == [4, 5, 6, 7]
    assert len([*written(Counting(context=None), [1, 2, 3], 20, likeliest)]) == 20


@for_each(
    ("decoder", "prompt", "code"),
    [
        (Counting(), [], "prompt-empty"),
        (Counting(), [32], "token-out-of-vocabulary"),
        (Counting(context=2), [1, 2, 3], "decoder-context-exceeded"),
        (Counting(size=4), [1, 2, 3], "program-not-decoder"),
    ],
)
def test_that_a_prompt_that_does_not_fit_is_refused_before_anything_is_read(decoder, prompt, code):
    with refused(code):
        next(written(decoder, prompt, 1, likeliest))
    assert decoder.calls == []


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.float32])
def test_that_caches_of_another_grid_stand_for_the_same_values(dtype):
    real = np.linspace(-2.0, 3.0, 11)
    grid = Grid(5 / 250, -25)
    numbers = grid.numbers(real, np.dtype(dtype))
    assert numbers.dtype == dtype
    back = numbers if np.dtype(dtype).kind == "f" else grid.real(numbers)
    assert np.abs(back - real).max() <= grid.scale / 2 + 1e-6


def test_that_values_beyond_a_grid_are_at_its_ends():
    assert Grid(0.1, 0).numbers(np.array([-99.0, 99.0]), np.dtype(np.int8)).tolist() == [-128, 127]


def tensor(*shape, dtype="float32"):
    return SimpleNamespace(shape=shape, dtype=dtype)


def decoder_of(monkeypatch, outputs, constants=MappingProxyType({}), tokens=1):
    """Return the decoder that a program of somebody else makes, with methods that give constants."""
    token = tensor(1, tokens, dtype="int32")
    program = SimpleNamespace(inputs=[token, tensor(4, dtype="int8")], outputs=outputs)
    values = ((name, SimpleNamespace(content=content)) for name, content in constants.items())
    methods = [
        SimpleNamespace(name=name, inputs=(), outputs=(0,), calls=(), values=(value,))
        for name, value in values
    ]
    monkeypatch.setattr(decoder_module, "load", lambda _: program)
    monkeypatch.setattr(decoder_module, "program_bytes", lambda _: b"")
    monkeypatch.setattr(decoder_module, "decode", lambda _: SimpleNamespace(methods=methods))
    return Decoder(Path("other.pte"), "other.pte", None)


@for_each("shape", [(), (2, 256), (1, 2, 256), (0,), (1, 0)])
def test_that_a_program_with_other_logits_than_those_of_a_token_is_no_decoder(shape, monkeypatch):
    cache = tensor(4, dtype="int8")
    with refused("program-not-decoder"):
        decoder_of(monkeypatch, [tensor(*shape), cache])
    assert decoder_of(monkeypatch, [tensor(1, 1, 256), cache]).vocabulary == 256
    assert decoder_of(monkeypatch, [tensor(1, 8, 256), cache], tokens=8).vocabulary == 256


@for_each("number", [float("nan"), float("inf"), -float("inf"), 0, -1.5, 2**63 - 1])
def test_that_constants_of_a_program_that_are_no_grid_are_none(number, monkeypatch):
    names = ("input1_scale", "input1_zp", "output0_scale", "output0_zp", "get_max_context_len")
    outputs = [tensor(1, 256, dtype="int8"), tensor(4, dtype="int8")]
    decoder = decoder_of(monkeypatch, outputs, dict.fromkeys(names, number))
    assert np.isfinite(decoder.carried[0]).all()
    assert decoder.context in {None, 0, -1, 2**63}

"""A decoder reads its prompt call by call, writes until its context is full, and refuses the rest."""

import numpy as np
import pytest

from tests.for_each import for_each
from tests.problems import refused
from workbench.npu.decoder import Grid, written


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

"""Samples from a text: the steps of a decoder, token by token."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from workbench.engine import user_code
from workbench.engine.data.sample import Sample, Samples, wrong
from workbench.files import open_regular
from workbench.project import sources
from workbench.project.model import Tokenization
from workbench.text import plural
from workbench.tokenizer_process import FileTokenizer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import ArrayLike

    from workbench.project.model import DataSource
    from workbench.project.sources import Reference
    from workbench.results import TensorSpec

_BLANK = "\u2423"
# Longer texts are truncated.
MOST_BYTES = 16 << 20


@dataclass(frozen=True)
class Tokenizer:
    """The tokens of a text as ids, and the text of each token."""

    ids: Callable[[str], ArrayLike]
    spell: Callable[[int], str]


def read_text(
    reference: Reference, source: DataSource, inputs: Sequence[TensorSpec], option: str, folder: Path
) -> Samples:
    """Return a text as samples: one per call of the model, with the next token as its class.

    The model's first input are tokens, usually one, a second integer input is their positions in
    the sequence, or that of the first one; further floating-point inputs are state from step to
    step, zero at the start of a sequence. A sequence with a ``dropped`` step ends before it, and
    with the last call that has all of its tokens.

    Raises:
        WorkbenchError: unreadable text, a failing tokenizer, or a model without token input.
    """
    assert reference.path is not None
    settings = source.tokens or Tokenization()
    tokenizer = _tokenizer(settings, folder, f"{option}.tokens.tokenizer")
    carried = _carried(inputs, option)
    tokens = _ids(reference.path, tokenizer, option)
    at_once = math.prod(inputs[0].shape)
    if len(tokens) <= at_once or settings.length < at_once:
        raise wrong(
            option,
            f"{reference.path.name} has {plural(len(tokens), 'token')}, read in sequences of "
            f"{settings.length}; a call of the model reads {at_once} and is followed by one more.",
            "Use a text of a few hundred tokens, and longer sequences if they are shorter than a call.",
            code="text-too-short",
        )
    dropped = set(source.dropped)
    calls = _Calls(len(tokens) - 1, settings.length, at_once)

    def read() -> Iterator[Sample]:
        ended = -1
        for number, (start, index) in enumerate(calls):
            ended = start if number in dropped else ended
            if ended != start:
                values = _step(inputs, tokens[index : index + at_once], index - start)
                yield Sample(number, values, int(tokens[index + at_once]), index == start, carried)

    return Samples(reference.path.name, None if dropped else calls.count, read, tokenizer.spell)


@dataclass(frozen=True)
class _Calls:
    """The calls of a model that reads a text: the starts of their sequence and of their tokens.

    ``tokens`` is the number of tokens that have one after them, ``length`` that of a sequence. Calls
    are counted and not stored: a text of 16 MiB has 16 million.
    """

    tokens: int
    length: int
    at_once: int

    @property
    def count(self) -> int:
        """The number of calls."""
        sequences, rest = divmod(self.tokens, self.length)
        return sequences * (self.length // self.at_once) + rest // self.at_once

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for start in range(0, self.tokens, self.length):
            end = min(start + self.length, self.tokens)
            for index in range(start, end - self.at_once + 1, self.at_once):
                yield start, index


def _carried(inputs: Sequence[TensorSpec], option: str) -> int:
    """Return the number of trailing inputs that are state."""
    takes = [s for s in inputs if not s.dtype.startswith(("float", "bfloat"))]
    numbers = len(takes)
    sizes = [math.prod(spec.shape) for spec in takes]
    fits = len(sizes) in {1, 2} and sizes[0] >= 1 and sizes[-1] in {1, sizes[0]}
    if not fits or list(inputs[:numbers]) != takes:
        given = ", ".join(f"{s.dtype} {list(s.shape)}" for s in inputs)
        raise wrong(
            option,
            f"Text data needs a decoder that takes tokens and their positions, but the inputs are {given}.",
            "Order the inputs: token ids, positions, then the carried state.",
            code="text-model-not-decoder",
        )
    return len(inputs) - numbers


def _step(inputs: Sequence[TensorSpec], tokens: np.ndarray[Any, Any], first: int) -> tuple[torch.Tensor, ...]:
    """Return the inputs of a call: tokens, positions from the first one on, and zeros."""
    numbers = iter((tokens, np.arange(first, first + len(tokens))))
    return tuple(
        torch.zeros(spec.shape, dtype=getattr(torch, spec.dtype))
        if spec.dtype.startswith(("float", "bfloat"))
        else torch.from_numpy(next(numbers)[: math.prod(spec.shape)])
        .reshape(spec.shape)
        .to(getattr(torch, spec.dtype))
        for spec in inputs
    )


def _ids(path: Path, tokenizer: Tokenizer, option: str) -> np.ndarray[Any, Any]:
    try:
        with open_regular(path) as file:
            text = file.read(MOST_BYTES).decode("utf-8")
    except OSError as error:
        reason = error.strerror or error
        raise wrong(option, f"{path.name} cannot be read: {reason}.", code="data-unreadable") from error
    except UnicodeDecodeError as error:
        raise wrong(
            option,
            f"{path.name} is not UTF-8 text (byte {error.start}).",
            "Save it as UTF-8.",
            code="text-not-utf8",
        ) from error
    given = tokenizer.ids(text)
    try:
        ids = np.array(given, np.int64)
    except (TypeError, ValueError, OverflowError) as error:
        ids = np.zeros((0, 0), np.int64)
        raise wrong(
            option, "The tokenizer did not return a list of integers.", code="tokenizer-output-invalid"
        ) from error
    if ids.ndim != 1 or (ids.size and int(ids.min()) < 0):
        raise wrong(
            option,
            "The tokenizer did not return a list of integers of at least 0.",
            code="tokenizer-output-invalid",
        )
    return ids


def _tokenizer(settings: Tokenization, folder: Path, option: str) -> Tokenizer:
    if not settings.tokenizer:
        return Tokenizer(lambda text: np.frombuffer(text.encode(), np.uint8), _spell_byte)
    reference = sources.tokenizer_reference(settings.tokenizer, folder, option)
    if not reference.runs_code:
        assert reference.path is not None
        return _from_file(reference.path, option)
    function = user_code.load_callable(reference, option)

    def ids(text: str) -> Any:
        return user_code.call(lambda: list(function(text)), reference, option)

    return Tokenizer(ids, str)


def _from_file(path: Path, option: str) -> Tokenizer:
    read = FileTokenizer(path, option)

    def ids(text: str) -> ArrayLike:
        tokens = read.ids(text)
        # Most samples are never spelled.
        read.close()
        return tokens

    return Tokenizer(ids, lambda token: read.text([token]).replace(" ", _BLANK) or str(token))


def _spell_byte(token: int) -> str:
    if 32 < token < 127:
        return chr(token)
    return _BLANK if token == 32 else f"\\x{token:02x}" if token < 256 else str(token)

"""A compiled decoder: tokens in, logits out, and its caches from call to call."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from workbench.errors import Place, WorkbenchError, failure
from workbench.npu.program import load
from workbench.pte.description import program_bytes
from workbench.pte.program import decode

if TYPE_CHECKING:
    from workbench.npu.cpu import CpuOperators
    from workbench.npu.program import Tensor

_Array = npt.NDArray[Any]
_INDEX_TYPES = frozenset({"int32", "int64"})
# Constant methods of a program for language models, and of quantized inputs and outputs.
_CONTEXT = "get_max_context_len"


@dataclass(frozen=True)
class Grid:
    """The numbers of an integer tensor stand for (number - zero) * scale."""

    scale: float = 1.0
    zero: int = 0

    def real(self, numbers: _Array) -> npt.NDArray[np.float64]:
        """Return what numbers [...] stand for."""
        return (numbers.astype(np.float64) - self.zero) * self.scale

    def numbers(self, real: _Array, dtype: np.dtype[Any]) -> _Array:
        """Return real values [...] in a type, rounded to the grid if it is an integer one."""
        if dtype.kind == "f":
            rounded = real
        else:
            limits = np.iinfo(dtype)
            rounded = np.clip(np.rint(real / self.scale) + self.zero, limits.min, limits.max)
        numbers: _Array = rounded.astype(dtype)
        return numbers


class Decoder:
    """A compiled decoder on the simulator, with its state.

    Its inputs are token ids [1, n], their positions or that of the first one, and caches, which are
    also its last outputs; caches in buffers are no inputs. The first output are logits of the token
    that follows. ``carried`` are the caches, with types and shapes as in ``caches``.

    Args:
        path: The ``.pte``.
        name: What messages call it.
        operators: Computes operators on the CPU.

    Raises:
        WorkbenchError: it cannot be read, or is no decoder.
    """

    def __init__(self, path: Path, name: str, operators: CpuOperators) -> None:
        self.name, self._operators = name, operators
        self._program = load(path)
        self._constants = _constants(path)
        inputs, outputs = self._program.inputs, self._program.outputs
        first = next((i for i, t in enumerate(inputs) if t.dtype not in _INDEX_TYPES), len(inputs))
        sizes = [math.prod(t.shape) for t in inputs[:first]]
        self._indices, self.caches = inputs[:first], inputs[first:]
        count = len(self.caches)
        fits = len(sizes) in {1, 2} and sizes[0] > 0 and sizes[-1] in {1, sizes[0]} and len(outputs) > count
        # Logits of the next token alone; those of a program that only reads are not looked at.
        logits = math.prod(outputs[0].shape) if fits else 0
        fits = logits > 0 and (sizes[0] > 1 or outputs[0].shape[-1:] == (logits,))
        if not fits or not _alike(self.caches, outputs[len(outputs) - count :]):
            given = ", ".join(f"{t.dtype} {list(t.shape)}" for t in inputs)
            raise failure(
                f"{name} is no decoder: it takes {given or 'nothing'}.",
                "A decoder takes token ids, their positions and caches, and gives logits and the new caches.",
                Place(kind="option", id="file"),
                code="program-not-decoder",
            )
        self.tokens_per_call = sizes[0]
        self.vocabulary = outputs[0].shape[-1]
        self.position, self.calls = 0, 0
        self._state: Any = {}
        self.carried = [
            self._grid("input", first + i).numbers(np.zeros(t.shape), np.dtype(t.dtype))
            for i, t in enumerate(self.caches)
        ]

    @property
    def context(self) -> int | None:
        """How many tokens the caches and the one that is read hold together; None if unknown."""
        known = self._constants.get(_CONTEXT)
        return None if known is None else int(known)

    def read(self, tokens: Sequence[int]) -> npt.NDArray[np.float64]:
        """Return the logits [vocabulary] after ``tokens_per_call`` tokens.

        Raises:
            WorkbenchError: there is no place for them, or as of ``Program.run``.
        """
        numbers = (tokens, range(self.position, self.position + len(tokens)))
        indices = [
            np.array(given[: math.prod(tensor.shape)], np.dtype(tensor.dtype)).reshape(tensor.shape)
            for tensor, given in zip(self._indices, numbers, strict=False)
        ]
        result = self._program.run([*indices, *self.carried], None, self._operators, self._state)
        self._state = result.state
        self.carried = list(result.outputs[len(result.outputs) - len(self.caches) :])
        self.position, self.calls = self.position + len(tokens), self.calls + 1
        logits = result.outputs[0].reshape(-1)
        grid = self._grid("output", 0)
        return grid.real(logits) if logits.dtype.kind in "iu" else logits.astype(np.float64)

    def take_caches(self, other: Decoder) -> None:
        """Go on where another decoder ended, with its caches in this one's types and grids.

        Raises:
            WorkbenchError: the caches have other shapes, or are not handed on.
        """
        shapes, given = ([t.shape for t in decoder.caches] for decoder in (self, other))
        if not shapes or shapes != given or self.vocabulary != other.vocabulary:
            raise failure(
                f"{other.name} has other caches than {self.name}.",
                "Both must be compiled from one model whose caches are inputs and outputs, with one "
                "context length.",
                Place(kind="option", id="prefill"),
                code="caches-differ",
            )
        first = len(self._indices)
        self.carried = [
            self._grid("input", first + index).numbers(real, np.dtype(tensor.dtype))
            for index, (real, tensor) in enumerate(zip(other.real_caches(), self.caches, strict=True))
        ]
        self.position = other.position

    def real_caches(self) -> list[npt.NDArray[np.float64]]:
        """Return what the caches stand for after at least one call."""
        first = len(self._program.outputs) - len(self.caches)
        return [self._grid("output", first + i).real(values) for i, values in enumerate(self.carried)]

    def _grid(self, side: str, index: int) -> Grid:
        """Return the grid of an input or output; that of plain numbers if it is not quantized."""
        scale, zero = (self._constants.get(f"{side}{index}_{key}") for key in ("scale", "zp"))
        return Grid() if scale is None or zero is None or scale <= 0 else Grid(float(scale), int(zero))


def _constants(path: Path) -> dict[str, float]:
    """Return the numbers that methods of a program give, by their names."""
    numbers = {}
    for method in decode(program_bytes(path)).methods:
        if not method.inputs and len(method.outputs) == 1 and not method.calls:
            (value,) = (method.values[i] for i in method.outputs)
            if isinstance(value.content, int | float) and math.isfinite(value.content):
                numbers[method.name] = float(value.content)
    return numbers


def _alike(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    return [(t.dtype, t.shape) for t in some] == [(t.dtype, t.shape) for t in others]


def written(
    decoder: Decoder,
    prompt: Sequence[int],
    count: int,
    choose: Callable[[npt.NDArray[np.float64]], int],
    reader: Decoder | None = None,
) -> Iterator[int]:
    """Yield the tokens that follow a prompt; fewer than ``count`` where the context ends.

    Args:
        decoder: Reads one token in a call.
        prompt: At least one token.
        count: How many tokens to write.
        choose: Returns a token from logits.
        reader: Reads the prompt, several tokens in a call, as far as they fill its calls; the
            decoder reads the rest.

    Raises:
        WorkbenchError: a token or the prompt does not fit the decoder, or as of ``Program.run``.
    """
    _require_fitting(decoder, prompt)
    rest = list(prompt)
    if reader is not None:
        # The last token is the decoder's: its logits are those that are asked for.
        size = reader.tokens_per_call
        whole = (len(rest) - 1) // size * size
        for start in range(0, whole, size):
            reader.read(rest[start : start + size])
        if whole:
            decoder.take_caches(reader)
        rest = rest[whole:]
    for token in rest[:-1]:
        decoder.read([token])
    token = rest[-1]
    for _ in range(count):
        if decoder.context is not None and decoder.position >= decoder.context:
            return
        token = choose(decoder.read([token]))
        yield token


def _require_fitting(decoder: Decoder, prompt: Sequence[int]) -> None:
    problem: WorkbenchError | None = None
    if not prompt:
        problem = _refused("The prompt has no tokens.", "Give a text.", "prompt-empty")
    elif decoder.tokens_per_call != 1:
        problem = _refused(
            f"{decoder.name} reads {decoder.tokens_per_call} tokens in a call, and cannot write one by one.",
            "Name it with --prefill, and the program that reads one token as FILE.",
            "program-not-decoder",
        )
    elif max(prompt) >= decoder.vocabulary:
        problem = _refused(
            f"The tokenizer gives token {max(prompt)}; the program knows {decoder.vocabulary} tokens.",
            "Use the tokenizer.json that belongs to the model (--tokenizer).",
            "token-out-of-vocabulary",
        )
    elif decoder.context is not None and len(prompt) > decoder.context:
        problem = _refused(
            f"The prompt has {len(prompt)} tokens; the program holds {decoder.context}.",
            "Shorten the prompt, or compile the model with a longer context.",
            "decoder-context-exceeded",
        )
    if problem is not None:
        raise problem


def _refused(message: str, hint: str, code: str) -> WorkbenchError:
    return failure(message, hint, Place(kind="option", id="prompt"), code=code)

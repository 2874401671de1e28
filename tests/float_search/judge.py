"""The judgement on a network, and the processes that compute what it needs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = Sequence[Sequence[npt.NDArray[Any]]]
# SQNR of the weakest output [dB]: enough for a config, and how much below stock is as good. Where
# there is plenty, two grids of one width differ by more: values that are joined share one.
ENOUGH = {"a8w8": 20.0, "a16w8": 35.0, "a8w4": 12.0}
_MARGIN, _PLENTY, _MARGIN_OF_PLENTY = 1.5, 8.0, 8.0
# What a perfect quantization must exceed before a low figure counts as a fault.
_POSSIBLE = 8.0
_SECONDS = 240
_RENEWED = 150
FINDINGS = ("differs", "below stock", "low", "unexpected", "unhelpful", "withheld", "crashed")


@dataclass(frozen=True)
class Verdict:
    """What became of a network: a word, details, and a name for its kind."""

    word: str
    details: str = ""
    kind: str = ""

    @property
    def is_finding(self) -> bool:
        """Whether it is a fault."""
        return self.word in FINDINGS


class Process:
    """Calls functions of a module in a process of its own, which is renewed at times."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: Any = None
        self._connection: Connection | None = None
        self._calls = 0

    def __call__(self, function: str, *arguments: Any, **named: Any) -> Any:
        """Return what a function returns; tensors become arrays.

        Raises:
            RuntimeError: the process ended, or did not answer in time.
        """
        if self._process is None or self._calls >= _RENEWED:
            self._start()
        self._calls += 1
        assert self._connection is not None
        try:
            self._connection.send((function, arguments, named))
            if not self._connection.poll(_SECONDS):
                raise RuntimeError("no answer in time")
            error, value = self._connection.recv()
        except (EOFError, OSError) as ended:
            self.close()
            raise RuntimeError("the process ended") from ended
        except RuntimeError:
            self.close()
            raise
        if error:
            raise RuntimeError(error)
        return value

    def _start(self) -> None:
        self.close()
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(self._module, theirs), daemon=False)
        self._process.start()
        theirs.close()
        self._calls = 0

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def _serve(module: str, connection: Connection) -> None:
    import importlib
    import logging
    import os
    import traceback
    import warnings

    import torch

    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    torch.set_num_threads(1)
    functions = importlib.import_module(module)
    while True:
        try:
            function, arguments, named = connection.recv()
        except EOFError:
            return
        try:
            answer = ("", _plain(getattr(functions, function)(*arguments, **named)))
        except (Exception, SystemExit):  # noqa: BLE001 - the other side raises it
            answer = (traceback.format_exc(), None)
        connection.send(answer)


def _plain(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().numpy()
    if isinstance(value, list | tuple):
        return type(value)(_plain(part) for part in value)
    if hasattr(value, "__dataclass_fields__"):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return value


def decibels(expected: Arrays, computed: Arrays | None) -> list[float] | None:
    """Return the SQNR of each output [dB], over all samples; None if the shapes differ."""
    if not computed or any(len(a) > len(b) for a, b in zip(expected, computed, strict=True)):
        return None
    figures = []
    for index in range(len(expected[0])):
        one = np.stack([sample[index] for sample in expected]).astype(np.float64)
        other = [np.asarray(sample[index], np.float64) for sample in computed]
        if any(values.shape != one.shape[1:] for values in other):
            return None
        error = np.sum((one - np.stack(other)) ** 2)
        signal = np.sum(one**2)
        ratio = np.nan_to_num(error / max(signal, 1e-30), nan=1e30, posinf=1e30)
        figures.append(float(-10 * np.log10(max(ratio, 1e-15))))
    return figures


class Judge:
    """Judges networks on a device and a config."""

    def __init__(self, target: str, config: str) -> None:
        self.target, self.config = target, config
        self.oracle = Process("tests.float_search.oracle")
        self.product = Process("tests.float_search.product")

    def close(self) -> None:
        """End the processes."""
        self.oracle.close()
        self.product.close()

    def __call__(self, source: str, *, deliver: bool = False) -> Verdict:
        """Return the verdict on the source of a network."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / "net.py"
            path.write_text(source)
            return self._verdict(path, source, deliver=deliver)

    def _verdict(self, path: Path, source: str, *, deliver: bool) -> Verdict:
        try:
            problem, expected = self.oracle("expected", str(path))
        except RuntimeError as error:
            problem = str(error)
        if problem:
            return Verdict("invalid", problem)
        try:
            made = self.product("answer", source, self.target, self.config, deliver=deliver)
        except RuntimeError as error:
            last = str(error).strip().splitlines()[-1]
            return Verdict("crashed", f"{last}\n{error}", kind_of(last))
        if made["refused"]:
            stock = self._stock(path, expected)
            return _of_refusal(made["refused"], stock, ENOUGH[self.config])
        verdict = self._of_outputs(path, expected, made["quantized"], "quantized")
        if verdict.word == "right" and deliver:
            verdict = self._of_outputs(path, expected, made["delivered"], "delivered")
            if verdict.word == "right" and made["verdict"] != "right":
                return Verdict("withheld", made["verdict"], made["verdict"].split(" ")[0])
        return verdict

    def _stock(self, path: Path, expected: Arrays) -> list[float] | None:
        """Return the figures of stock's quantized network; None if there is none."""
        return decibels(expected, self.oracle("plain", str(path), self.target, self.config))

    def _of_outputs(self, path: Path, expected: Arrays, computed: Arrays, form: str) -> Verdict:
        figures = decibels(expected, computed)
        if figures is None:
            return Verdict("differs", f"{form}: other outputs", "outputs")
        enough = ENOUGH[self.config]
        bounds = decibels(expected, self.oracle("bound", str(path), self.config)) or figures
        texts = [
            f"{form}: output {index}: {figure:.1f} dB, bound {bound:.1f} dB"
            for index, (figure, bound) in enumerate(zip(figures, bounds, strict=True))
        ]
        low = [index for index, figure in enumerate(figures) if figure < enough]
        # Stock takes three times as long: it is asked where a perfect quantization is better.
        if all(f >= b - _margin(f, enough) for f, b in zip(figures, bounds, strict=True)):
            return Verdict("beyond", texts[low[0]]) if low else Verdict("right")
        stock = self._stock(path, expected)
        plain = stock or [-np.inf] * len(figures)
        for index, (figure, bound) in enumerate(zip(figures, bounds, strict=True)):
            text = f"{texts[index]}, stock {plain[index]:.1f} dB"
            is_short = figure < plain[index] - _margin(figure, enough)
            # Stock may compute a part in float: then the bound is what integers reach.
            if plain[index] >= enough and is_short and figure < bound - _margin(figure, enough):
                return Verdict("below stock", text, form)
            # As good as stock and of some use: more than a lost statement leaves.
            is_like_stock = stock is not None and figure >= max(plain[index] - _MARGIN, enough / 2)
            if figure < enough and bound >= enough + _POSSIBLE and not is_like_stock:
                return Verdict("low", text, form)
        return Verdict("beyond", texts[low[0]]) if low else Verdict("right")


def _margin(figure: float, enough: float) -> float:
    return _MARGIN_OF_PLENTY if figure >= enough + _PLENTY else _MARGIN


def _of_refusal(
    refused: Sequence[tuple[str, str, str, str]], stock: list[float] | None, enough: float
) -> Verdict:
    code, place, message, hint = refused[0]
    if code in {"", "unexpected", "stage-blocked"}:
        return Verdict("unexpected", message, kind_of(message))
    if not place or not hint:
        return Verdict("unhelpful", f"{code} {place!r}: {message}", code)
    right = stock is not None and min(stock) >= enough
    return Verdict(f"refused {code}{' (stock right)' * right}", message[:300], code)


def kind_of(message: str) -> str:
    """Return a name for an error: its first line, without numbers and names of values."""
    return re.sub(r"[a-z_]*\d[\w.]*", "#", message.strip().splitlines()[0])[:120]

"""The limits of the gate: which differences a finished program may have."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pydantic import Field, field_validator

from workbench.errors import Place, WorkbenchError, failure
from workbench.project.frozen import Finite

# The default limit of the largest difference at outputs of 8 bits [LSB].
LSB_LIMIT = 3
# The figures that a condition may name, and what they are.
FIGURES: Mapping[str, str] = {
    "lsb": "largest difference of the integer program [LSB], at outputs of 8 bits if there are any",
    "share": "largest difference of the integer program at outputs of more than 8 bits, as a share "
    "of the values that they can have",
    "sqnr": "SQNR of the integer program against the quantized model [dB], lowest output",
    "argmax": "share of samples whose arg-max is equal in both",
    "loss": "SQNR against the float model that the integer program loses [dB]",
    "compiled": "output elements at which the compiled program differs from its TOSA",
    "findings": "errors that executing the compiled program reported",
    "executed": "largest difference of the executed program from the integer program [LSB]",
    "quality": "SQNR of the quantized model against the float model [dB]",
    "cosine": "cosine similarity of the quantized and the float model",
    "top1": "top-1 accuracy of the quantized model, from 0 to 1",
    "metric": "the project's own metric of the quantized model",
    "perplexity": "perplexity of the quantized model",
    "top1_loss": "top-1 accuracy that the program loses against the float model, from 0 to 1",
    "metric_loss": "what the project's own metric loses against the float model",
    "float_sqnr": "SQNR of the program against the float model [dB], lowest output",
    "part_sqnr": "SQNR of the program against the float model [dB], lowest part of the outputs, "
    "where one joins several tensors",
    "float_argmax": "share of samples whose class is that of the float model, lowest output",
    "cycles": "NPU cycles (estimated by Vela)",
    "ms": "time of an inference [ms] (estimated by Vela)",
    "sram": "SRAM [bytes] (estimated by Vela)",
    "flash": "constants [bytes] (estimated by Vela)",
    "cpu_ops": "operators on the CPU",
    "pte_bytes": "size of the program [bytes]",
}
# The figures that the second answer, the accuracy, follows from.
ACCURACY_FIGURES = frozenset({"top1_loss", "metric_loss", "float_sqnr", "part_sqnr", "float_argmax"})
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
# What a value must satisfy for a condition not to apply.
_LIMITS = {">": "<=", ">=": "<", "<": ">=", "<=": ">"}
_NUMBER = r"[0-9.]+(?:e[-+]?[0-9]+)?"
_CONDITION = re.compile(rf"\s*([a-z_0-9]+)\s*(>=|<=|>|<)\s*(-?{_NUMBER})\s*", re.I)
_RELATIVE = re.compile(
    rf"\s*([a-z_0-9]+)\s*(>=|<=|>|<)\s*"
    rf"(?:(?:baseline\s*)?([-+])\s*({_NUMBER})\s*%|baseline(?:\s*([-+])\s*({_NUMBER}))?)\s*",
    re.I,
)


@dataclass(frozen=True)
class Condition:
    """A condition under which a program is not accepted, such as ``lsb>2``."""

    name: str
    comparison: str
    value: float

    def applies(self, figure: float) -> bool:
        """Return whether a figure breaks the limit."""
        return _COMPARISONS[self.comparison](figure, self.value)

    @property
    def limit(self) -> str:
        """What the figure must satisfy, such as ``<= 2``."""
        return f"{_LIMITS[self.comparison]} {self.value:g}"


def condition_of(text: str) -> Condition:
    """Return a condition from its text: a figure of ``FIGURES``, a comparison and a number.

    Raises:
        WorkbenchError: it is not written so, or names no known figure.
    """
    match = _CONDITION.fullmatch(text)
    try:
        name, comparison, value = match.groups() if match else ("", "", "")
        condition = Condition(_known(name.lower()), comparison, float(value))
        if not math.isfinite(condition.value):
            raise ValueError(value)
        return condition
    except (ValueError, KeyError):
        raise failure(
            f"{text!r} is not a condition of the gate.",
            f'Write a figure, a comparison and a number, as "lsb>2". Known: {", ".join(FIGURES)}.',
            Place(kind="option", id="fail-if"),
            code="gate-condition-invalid",
        ) from None


def condition_against(text: str, baseline: Mapping[str, float]) -> Condition:
    """Return a condition that may name the figure of a baseline.

    Args:
        text: As for ``condition_of``, or with ``baseline``, ``baseline+N``, ``baseline-N`` or a
            signed percentage of the baseline's figure as the value: ``cycles>+5%``,
            ``top1<baseline-0.01``.
        baseline: The figures of the baseline. The value is NaN if it lacks the figure.

    Raises:
        WorkbenchError: It is not written so, or names no known figure.
    """
    match = _RELATIVE.fullmatch(text)
    if match is None:
        return condition_of(text)
    name, comparison, sign, percent, plain_sign, plain = match.groups()
    condition = condition_of(f"{name}{comparison}{percent or plain or 0}")
    figure = baseline.get(condition.name, math.nan)
    step = condition.value * (abs(figure) / 100 if percent else 1)
    value = figure - step if "-" in {sign, plain_sign} else figure + step
    return replace(condition, value=value)


def _known(name: str) -> str:
    if name not in FIGURES:
        raise KeyError(name)
    return name


class Gate(Finite):
    """The limits that decide whether a program is right; null switches a limit off.

    ``lsb`` is the largest difference of the integer program from the quantized model at outputs of
    8 bits, in steps of their grid; the default rises to what roundings of single operators explain.
    ``share`` is the largest at wider outputs, as a share of the values of their grid; by default
    what four steps are of 8 bits. ``sqnr`` is the lowest SQNR of
    the two at outputs of more than 8 bits or in float [dB]. ``argmax`` is the least share of
    samples with equal arg-max. ``loss`` is how much lower the integer program's SQNR against the
    float model may be than the quantized model's [dB]; an SQNR above 60 dB counts as 60 dB.
    ``compiled`` requires the compiled program to equal its TOSA at every output element.
    ``fail_if`` are conditions such as ``cycles>100000``; one that names the figure of another limit
    replaces it.
    """

    lsb: float | None = Field(default=LSB_LIMIT, ge=0)
    share: float | None = Field(default=0.0156, ge=0, le=1)
    sqnr: float | None = 40
    argmax: float | None = Field(default=0.95, ge=0, le=1)
    loss: float | None = Field(default=3, ge=0)
    compiled: bool = True
    fail_if: tuple[str, ...] = ()

    @field_validator("fail_if")
    @classmethod
    def _readable(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        for text in texts:
            try:
                condition_of(text)
            except WorkbenchError as error:
                raise ValueError(f"{error.infos[0].message} {error.infos[0].hint}") from error
        return texts

"""Parameters of number formats: names, limits, and parsing."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from workbench.errors import ErrorInfo, Place, WorkbenchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


Role = Literal["data", "weight", "bias"]
ROLES: tuple[Role, ...] = ("data", "weight", "bias")
PREFIXES: dict[Role, str] = {"data": "data_in_", "weight": "weight_", "bias": "bias_"}

Kind = Literal["int", "bool", "number", "ints", "numbers", "choice"]

# Keys of a complete MASE configuration that do not belong to one operand.
SILENT = frozenset({"name", "bypass", "data_out_width", "data_out_frac_width", "s1_init"})
_NOTHING = frozenset({"none", "na", "null"})
_WORDS = {
    "int": "a whole number",
    "bool": "true or false",
    "number": "a number",
    "ints": "a list of whole numbers",
    "numbers": "a list of numbers",
    "choice": "one of its choices",
}


@dataclass(frozen=True)
class ParameterSpec:
    """One parameter of a scheme, for forms, the command line and validation.

    Attributes:
        name: MASE's name without the operand's prefix.
        kind: Type of the value.
        meaning: One sentence.
        required: Whether the parameter is mandatory.
        default: Default value; None means the scheme computes it.
        optional: Whether None ("none", "NA") is a valid value.
        least: Smallest valid value, of every entry of a list.
        most: Largest valid value, of every entry of a list.
        choices: Values of a "choice".
        aliases: Alternative names.
    """

    name: str
    kind: Kind
    meaning: str
    required: bool = True
    default: Any = None
    optional: bool = False
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    def problem(self, value: Any) -> str:
        """Return what is wrong with a value, as the end of a sentence; "" if it is valid."""
        if value is None:
            return "" if self.optional else f"must be {_WORDS[self.kind]}"
        if self.kind == "choice":
            known = ", ".join(self.choices)
            return "" if value in self.choices else f"is {value!r}, but must be one of {known}"
        if self.kind == "bool":
            return "" if isinstance(value, bool) else "must be true or false"
        entries = value if self.kind in {"ints", "numbers"} else [value]
        whole = self.kind in {"int", "ints"}
        if not isinstance(entries, list | tuple) or not all(_is_number(v, whole) for v in entries):
            return f"must be {_WORDS[self.kind]}, but is {value!r}"
        if not entries:
            return "must not be empty"
        return self._out_of_range(entries)

    def _out_of_range(self, entries: Sequence[float]) -> str:
        low, high = self.least, self.most
        wrong = [v for v in entries if (low is not None and v < low) or (high is not None and v > high)]
        if not wrong:
            return ""
        if high is None:
            return f"is {wrong[0]}, but must be at least {low}"
        return f"is {wrong[0]}, but must be from {low} to {high}"


def _is_number(value: Any, whole: bool) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, int) or (not whole and isinstance(value, float) and abs(value) < float("inf"))


def read(
    scheme: str, specs: Iterable[ParameterSpec], parameters: Mapping[str, Any], role: Role
) -> dict[str, Any]:
    """Return every parameter of a scheme under its own name, with defaults filled in.

    Names may be bare (``width``) or have MASE's prefix of the operand (``weight_width``), which
    takes precedence. Entries of other operands are ignored.

    Raises:
        WorkbenchError: unknown or missing names, or values out of range; lists all.
    """
    table = tuple(specs)
    names = {alias: spec for spec in table for alias in (spec.name, *spec.aliases)}
    values, problems = _collect(scheme, names, parameters, role)
    for spec in table:
        if spec.name not in values:
            if spec.required:
                message = f"{scheme} needs {spec.name!r}, which is missing."
                code = "format-parameter-missing"
                problems.append(_info(spec.name, message, spec.meaning, code))
            values[spec.name] = spec.default
        elif wrong := spec.problem(values[spec.name]):
            message = f"{spec.name!r} of {scheme} {wrong}."
            code = "format-parameter-invalid"
            problems.append(_info(spec.name, message, spec.meaning, code))
    if problems:
        raise WorkbenchError(problems)
    return values


def _collect(
    scheme: str, names: Mapping[str, ParameterSpec], parameters: Mapping[str, Any], role: Role
) -> tuple[dict[str, Any], list[ErrorInfo]]:
    values: dict[str, Any] = {}
    problems = []
    own, others = PREFIXES[role], [p for r, p in PREFIXES.items() if r != role]
    for key, value in sorted(_flat(parameters).items(), key=lambda item: item[0].startswith(own)):
        spec = names.get(key) or (names.get(key.removeprefix(own)) if key.startswith(own) else None)
        if spec is not None:
            values[spec.name] = _read_value(spec, value)
        elif key not in SILENT and not any(key.startswith(p) for p in others):
            close = difflib.get_close_matches(key, names)
            hint = f"Did you mean {close[0]!r}? " if close else ""
            known = ", ".join(sorted({s.name for s in names.values()})) or "none"
            message = f"{scheme} has no parameter {key!r}."
            code = "format-parameter-unknown"
            problems.append(_info(key, message, f"{hint}Known: {known}.", code))
    return values, problems


def _flat(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries, with those of a nested ``q_config`` merged."""
    inner = parameters.get("q_config")
    if not isinstance(inner, dict):
        return dict(parameters)
    return {**inner, **{k: v for k, v in parameters.items() if k != "q_config"}}


def _read_value(spec: ParameterSpec, value: Any) -> Any:
    if isinstance(value, str) and value.lower() in _NOTHING:
        return None
    if isinstance(value, float) and spec.kind == "int" and value.is_integer():
        return int(value)
    if spec.kind in {"ints", "numbers"} and _is_number(value, whole=spec.kind == "ints"):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def _info(name: str, message: str, hint: str, code: str) -> ErrorInfo:
    return ErrorInfo(message=message, hint=hint, where=Place(kind="option", id=name), code=code)


Parameters = Mapping[str, Any]

# OCP Microscaling Formats v1.0, tables 2 to 5, and equivalents with 4 bits.
ELEMENTS = ((4, 3), (5, 2), (2, 3), (3, 2), (2, 1), (1, 2))
_LARGEST_EXPONENT = 128
_LEAST_EXPONENT = -149


def impossible(scheme: str, parameters: Parameters) -> str:
    """Return why the parameters are an impossible combination, as a sentence, or "".

    Args:
        scheme: Name of a number format.
        parameters: All its parameters, each validated.
    """
    check = _CHECKS.get(scheme)
    if check is not None and (reason := check(parameters)):
        return f"{scheme} {reason}"
    if 0 in _sizes(parameters):
        return f"{scheme} cannot share blocks without elements."
    return ""


def _sizes(parameters: Parameters) -> tuple[int, ...]:
    size = parameters.get("block_size")
    return tuple(size) if isinstance(size, tuple | list) else ()


def _fraction(least: int) -> Callable[[Parameters], str]:
    def check(parameters: Parameters) -> str:
        width, exponent = parameters["width"], parameters["exponent_width"]
        if width - exponent - 1 < least:
            need = exponent + 1 + least
            return f"with {exponent} exponent bits needs a width of at least {need}, not {width}."
        return _range(parameters)

    return check


def _range(parameters: Parameters) -> str:
    """Return whether float32 covers the largest exponent of a minifloat."""
    if "exponent_bias" not in parameters:
        return ""
    exponent, bias = parameters["exponent_width"], parameters["exponent_bias"]
    most = 2**exponent - 1 - (2 ** (exponent - 1) - 1 if bias is None else bias)
    if not _LEAST_EXPONENT <= most <= _LARGEST_EXPONENT:
        return f"reaches 2^{most}, which exceeds float32."
    return ""


def _width(least: int, most: int) -> Callable[[Parameters], str]:
    def check(parameters: Parameters) -> str:
        width = parameters["width"]
        return "" if least <= width <= most else f"supports a width from {least} to {most}."

    return check


def _element(parameters: Parameters) -> str:
    pair = parameters["exponent_width"], parameters["frac_width"]
    known = ", ".join(f"E{e}M{f}" for e, f in ELEMENTS)
    return "" if pair in ELEMENTS else f"has no element E{pair[0]}M{pair[1]}; known: {known}."


def _tile(parameters: Parameters) -> str:
    if len(parameters["parallelism"]) != 2:
        return "needs two numbers as parallelism, [rows, columns]."
    return _width(2, 32)(parameters)


_CHECKS: Mapping[str, Callable[[Parameters], str]] = {
    "minifloat_ieee": _fraction(0),
    "minifloat_denorm": _fraction(1),
    "block_minifloat": _fraction(0),
    "log": _width(2, 12),
    "block_log": _width(2, 8),
    "block_fp": lambda parameters: _width(2, 32)(parameters) or _range(parameters),
    "mxfp": _element,
    "mxint_hardware": _tile,
}

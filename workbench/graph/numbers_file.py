"""User files with values per operation, JSON or CSV, shown as overlays."""

from __future__ import annotations

import csv
import errno
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.errors import Place, failure
from workbench.files import read_limited

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SUFFIXES = (".json", ".csv")
LARGEST_BYTES = 16 << 20
_HINT = (
    'JSON: {"conv2d": 1.5, ...} or {"latency": {"conv2d": 1.5, ...}}. '
    "CSV: a line of titles, then the operation's name and its numbers."
)


@dataclass(frozen=True)
class NumbersFile:
    """Name of the file, and the values of each column by operation name."""

    name: str
    columns: Mapping[str, Mapping[str, float]]

    @property
    def operations(self) -> frozenset[str]:
        """All operations with a value."""
        return frozenset().union(*self.columns.values())


def read_numbers(path: Path) -> NumbersFile:
    """Read a file of values.

    Raises:
        WorkbenchError: it is unreadable or invalid; names the line.
    """
    place = Place(kind="file", id=path.name)
    try:
        text = read_limited(path, LARGEST_BYTES).decode("utf-8-sig")
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise failure(
                f"'{path.name}' is larger than 16 MiB.",
                "Remove columns.",
                place,
                code="numbers-file-too-large",
            ) from error
        raise failure(
            f"'{path.name}' cannot be read.", "", place, str(error), code="numbers-file-unreadable"
        ) from error
    except UnicodeDecodeError as error:
        raise failure(
            f"'{path.name}' is not UTF-8 text.", _HINT, place, code="numbers-file-not-utf8"
        ) from error
    columns = _from_json(text, path) if path.suffix.lower() == ".json" else _from_csv(text, path)
    columns = {title: values for title, values in columns.items() if values}
    if not columns:
        raise failure(
            f"'{path.name}' has no value for any operator.", _HINT, place, code="numbers-file-empty"
        )
    return NumbersFile(path.name, columns)


def _from_json(text: str, path: Path) -> dict[str, dict[str, float]]:
    place = Place(kind="file", id=path.name)
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise failure(
            f"'{path.name}' is not JSON.", _HINT, place, str(error), code="numbers-file-not-json"
        ) from error
    if not isinstance(raw, dict):
        raise failure(
            f"'{path.name}' is not an object of names and values.",
            _HINT,
            place,
            code="numbers-file-not-object",
        )
    if any(isinstance(value, dict) for value in raw.values()):
        return {str(t): _numbers(v) for t, v in raw.items() if isinstance(v, dict)}
    return {path.stem: _numbers(raw)}


def _from_csv(text: str, path: Path) -> dict[str, dict[str, float]]:
    try:
        rows = [row for row in csv.reader(text.splitlines()) if row]
    except csv.Error as error:
        raise failure(
            f"'{path.name}' is not a table: {error}.",
            _HINT,
            Place(kind="file", id=path.name),
            code="numbers-file-invalid",
        ) from error
    if len(rows) < 2 or len(rows[0]) < 2:
        place = Place(kind="file", id=path.name)
        raise failure(
            f"'{path.name}' has no header line with numeric columns.",
            _HINT,
            place,
            code="numbers-file-no-header",
        )
    titles = [title.strip() or f"column {k}" for k, title in enumerate(rows[0][1:], 2)]
    columns: dict[str, dict[str, float]] = {title: {} for title in titles}
    for row in rows[1:]:
        for title, cell in zip(titles, row[1:], strict=False):
            value = _number(cell)
            if value is not None:
                columns[title][row[0].strip()] = value
    return columns


def _numbers(raw: dict[Any, Any]) -> dict[str, float]:
    numbers = {str(name): _number(value) for name, value in raw.items()}
    return {name: value for name, value in numbers.items() if value is not None}


def _number(value: object) -> float | None:
    """Return a number, or None if the cell is not a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None

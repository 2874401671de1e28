"""Number formats of tables, cards and plots. Unknown values are a dash."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from workbench.text import plural

if TYPE_CHECKING:
    from workbench.history.runs import Run

DASH = "\u2013"
_KIB = 1024


def known(value: float | None) -> bool:
    """Return whether a value is a finite number."""
    return value is not None and math.isfinite(value)


def figure(value: float | None, digits: int = 4) -> str:
    """Return a number with few digits, e.g. ``0.01234``."""
    if value is None or not math.isfinite(value):
        return DASH
    return f"{value:.{digits}g}"


def decibel(value: float | None) -> str:
    """Return a ratio in dB."""
    return DASH if value is None or not math.isfinite(value) else f"{value:.2f} dB".replace("-", "\u2212")


def percent(share: float | None, digits: int = 2) -> str:
    """Return a fraction in [0, 1] in per cent. A positive value is never shown as 0."""
    if share is None or not math.isfinite(share):
        return DASH
    least = 10.0 ** -(digits + 2)
    if 0 < share < least:
        return f"<{100 * least:.{digits}f} %"
    if 1 - least < share < 1:
        return f">{100 * (1 - least):.{digits}f} %"
    return f"{100 * share:.{digits}f} %"


def count(value: float | None) -> str:
    """Return an integer with thousands separators."""
    return DASH if value is None else f"{value:,.0f}"


def size(count_bytes: int | None) -> str:
    """Return a number of bytes, e.g. ``29.5 KiB``."""
    if count_bytes is None:
        return DASH
    if count_bytes < _KIB:
        return f"{count_bytes} B"
    if count_bytes < _KIB * _KIB:
        return f"{count_bytes / _KIB:,.1f} KiB"
    return f"{count_bytes / (_KIB * _KIB):,.2f} MiB"


def kib(count_bytes: int) -> str:
    """Return a number of bytes in KiB, for columns with one unit. A positive value is never 0."""
    return "<0.1" if 0 < count_bytes < _KIB / 20 else f"{count_bytes / _KIB:,.1f}"


def milliseconds(value: float | None) -> str:
    """Return a time in ms."""
    return DASH if value is None else f"{value:,.3f} ms" if value < 100 else f"{value:,.0f} ms"


def cpu_line(operators: int, cycles: int) -> str:
    """Return the number of CPU operators and their roughly estimated cycles."""
    about = f", roughly {cycles:,} cycles more" if cycles else ""
    return f"{plural(operators, 'CPU operator')}{about} (not in the cycle estimate)"


def accuracy_text(run: Run) -> str:
    """Return the figure that runs are compared by, as text."""
    if run.accuracy is None:
        return DASH
    if run.quality.metric is not None:
        return f"{run.accuracy:.4g}"
    return percent(run.accuracy) if run.quality.top1 is not None else decibel(run.accuracy)

"""What the command line prints: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from workbench.errors import ErrorInfo

EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_TRUST, EXIT_CANCELLED = 0, 1, 2, 3, 130


def print_json(value: Any) -> None:
    """Print exactly one JSON document on stdout."""
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def print_infos(infos: Iterable[ErrorInfo], label: str = "error") -> None:
    """Print problems on stderr, each with its place and hint."""
    for info in infos:
        print(f"{label}: {info}", file=sys.stderr)


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows in columns as wide as their longest cell."""
    cells = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    for row in cells:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print(line.rstrip())


class Progress:
    """A bar on a terminal, plain lines elsewhere; always on stderr."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._open = False
        self._begun = time.monotonic()

    def line(self, text: str) -> None:
        """Print one line, above the bar if there is one."""
        self._clear()
        print(text, file=sys.stderr, flush=True)

    def update(self, stage: str, fraction: float | None, message: str) -> None:
        """Show how far a stage is."""
        if not self._terminal:
            return
        filled = int(24 * (fraction or 0.0))
        bar = "█" * filled + "·" * (24 - filled) if fraction is not None else "…"
        elapsed = time.monotonic() - self._begun
        self._clear()
        sys.stderr.write(f"{stage:>12} {bar} {message[:40]} ({elapsed:.0f} s)")
        sys.stderr.flush()
        self._open = True

    def _clear(self) -> None:
        if self._open:
            sys.stderr.write("\r\x1b[2K")
            self._open = False

"""The figures that benchmarks measure, and the table at the end of their run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.benchmarks import bars

Measured = Callable[[str, float], None]
_measured: dict[str, float] = {}


@pytest.fixture
def measured() -> Iterator[Measured]:
    """Return a function that records a figure by its title; a missed bar fails the test."""
    missed: list[str] = []

    def record(title: str, value: float) -> None:
        _measured[title] = value
        if not bars.BARS[title].holds(value):
            missed.append(f"{title}: {value:.4g}, asked {bars.BARS[title].text}")

    yield record
    assert not missed, "; ".join(missed)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--keep-figures", action="store_true", help="keep the measured figures")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _measured:
        return
    terminalreporter.write_sep("=", "figures")
    terminalreporter.write_line(bars.table(_measured))
    if terminalreporter.config.getoption("--keep-figures", default=False):
        bars.keep(_measured)

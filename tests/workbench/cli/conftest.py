"""The codes of the problems that the command line prints."""

import pytest

from workbench import cli


@pytest.fixture
def codes(monkeypatch):
    """Collect the code of every problem that ends a verb."""
    seen, printed = [], cli.print_infos

    def record(infos, *label):
        seen.extend(info.code for info in infos)
        printed(infos, *label)

    monkeypatch.setattr(cli, "print_infos", record)
    return seen

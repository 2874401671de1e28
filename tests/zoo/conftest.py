"""Let torch, ExecuTorch and Vela warn unheard; only warnings of the workbench are errors."""

from pathlib import Path

import pytest


def pytest_collection_modifyitems(items):
    """Mark what is collected here."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.filterwarnings("ignore"))
            item.add_marker(pytest.mark.filterwarnings(r"error:::(workbench|tests)\."))

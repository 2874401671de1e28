"""The history of a node is shared with the nodes made from it instead of being copied."""

from __future__ import annotations

import copy
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING

from workbench.engine.acceleration.patching import replaced

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def shared_provenance() -> Iterator[None]:
    """Let ``NodeSource`` copy the list of its ancestors, not the ancestors themselves."""
    from torch.fx import traceback

    shallow = SimpleNamespace(copy=copy.copy, deepcopy=copy.copy)
    with replaced(traceback, "copy", shallow):
        yield

"""A program that a decomposition has just made, and that the next cannot change, skips it."""

from __future__ import annotations

import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from workbench.engine.acceleration.early_functions import is_functional
from workbench.engine.acceleration.patching import replaced

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def settled_decompositions() -> Iterator[None]:
    """Return the program itself from ``run_decompositions`` when that would only retrace it."""
    from torch.export import exported_program

    stock = exported_program.ExportedProgram.run_decompositions
    settled: weakref.WeakSet[Any] = weakref.WeakSet()

    def run_decompositions(self: Any, decomp_table: Any = None, **options: Any) -> Any:
        known = decomp_table is not None and not options and self in settled
        if known and is_functional(self) and _is_without(self, decomp_table):
            return self
        done = stock(self, decomp_table, **options)
        if done is not self:
            settled.add(done)
        return done

    with replaced(exported_program.ExportedProgram, "run_decompositions", run_decompositions):
        yield


def _is_without(program: Any, table: Any) -> bool:
    """Tell whether no operator of ``table`` is left in ``program``."""
    return all(node.target not in table for node in program.graph.nodes)

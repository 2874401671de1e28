"""Decompositions that would only retrace a program are skipped.

A decomposition of ExecuTorch is a whole export of the program. Some of them find nothing to do:
the program was just made by another one, or the next retraces it all the same.
"""

# ruff: noqa: SLF001 - the insides of the toolchain are what this file is about

from __future__ import annotations

import operator
import weakref
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from workbench.engine.toolchain_patches.patching import replaced

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def skip_decomposition() -> Iterator[None]:
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


@contextmanager
def skip_functionalization() -> Iterator[None]:
    """Skip the pass that makes a program functional when it is, before Arm's partitioner.

    The decomposition that follows for that partitioner retraces the program all the same, and
    its retracing includes all that the skipped pass would do to such a program.
    """
    from executorch.backends.arm.ethosu import EthosUPartitioner
    from executorch.exir.program import _program
    from torch.export import exported_program

    stock_run = exported_program.ExportedProgram.run_decompositions
    stock_make = _program._gen_edge_manager_for_partitioners
    followed: list[bool] = [False]

    def make(partitioner: Any, *args: Any, **options: Any) -> Any:
        before = followed[0]
        every = partitioner.values() if partitioner else ()
        followed[0] = bool(every) and all(
            name and all(isinstance(one, EthosUPartitioner) for one in name) for name in every
        )
        try:
            return stock_make(partitioner, *args, **options)
        finally:
            followed[0] = before

    def run_decompositions(self: Any, decomp_table: Any = None, **options: Any) -> Any:
        empty = decomp_table is not None and len(decomp_table) == 0 and not options
        if empty and followed[0] and is_functional(self):
            return self
        return stock_run(self, decomp_table, **options)

    with ExitStack() as stack:
        stack.enter_context(replaced(_program, "_gen_edge_manager_for_partitioners", make))
        owner = exported_program.ExportedProgram
        stack.enter_context(replaced(owner, "run_decompositions", run_decompositions))
        yield


def is_functional(program: Any) -> bool:
    """Tell whether a program consists of plain functions: no change in place, no control flow."""
    import torch

    signature = program.graph_signature
    if signature.buffers_to_mutate or signature.user_inputs_to_mutate:
        return False
    for node in program.graph.nodes:
        if node.op in ("placeholder", "output") or node.target is operator.getitem:
            continue
        if not isinstance(node.target, torch._ops.OpOverload) or node.target._schema.is_mutable:
            return False
    return True

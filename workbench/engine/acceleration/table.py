"""The accelerations of lowering, one row each, and the one way to switch them on."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.engine.acceleration import gate
from workbench.engine.acceleration.cached_shapes import cached_shapes
from workbench.engine.acceleration.direct_trees import direct_trees
from workbench.engine.acceleration.early_functions import early_functions
from workbench.engine.acceleration.known_composites import known_composites
from workbench.engine.acceleration.lazy_recompile import lazy_recompile
from workbench.engine.acceleration.literal_lists import literal_lists
from workbench.engine.acceleration.quiet_collector import quiet_collector
from workbench.engine.acceleration.settled_decompositions import settled_decompositions
from workbench.engine.acceleration.shared_provenance import shared_provenance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Log = Callable[[str], None]


_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True)
class Acceleration:
    """One change to the toolchain which saves time and leaves every byte as it was."""

    id: str
    title: str
    what: str
    why_exact: str
    apply: Callable[[], AbstractContextManager[None]]


ACCELERATIONS: tuple[Acceleration, ...] = (
    Acceleration(
        "lazy-recompile",
        "Write code when it is read",
        "A changed graph module notes that its Python is due and writes it on first use.",
        "The same code comes from the same graph, only later; most of it nobody ever reads.",
        lazy_recompile,
    ),
    Acceleration(
        "shared-provenance",
        "Share the history of nodes",
        "A node's history points to that of its ancestors and holds no copies of it.",
        "Nothing changes an entry of the history once it is made, so a copy equals the original.",
        shared_provenance,
    ),
    Acceleration(
        "settled-decompositions",
        "Decompose once",
        "A program fresh from one decomposition skips the next if no operator is left to it.",
        "Retracing plain functions outside the table gives the same nodes with the same names.",
        settled_decompositions,
    ),
    Acceleration(
        "early-functions",
        "Leave functional programs as they are",
        "The pass that makes programs functional is skipped before Arm's decomposition if it can.",
        "Without changes in place it has nothing to do that the decomposition does not do again.",
        early_functions,
    ),
    Acceleration(
        "quiet-collector",
        "Collect garbage less often",
        "The collector's thresholds are raised while a program is lowered.",
        "When memory is given back decides nothing about what is computed.",
        quiet_collector,
    ),
    Acceleration(
        "literal-lists",
        "Pass lists of numbers whole",
        "A list of plain numbers becomes an argument of a node without a visit to each.",
        "A plain number stands for itself in every tracer.",
        literal_lists,
    ),
    Acceleration(
        "direct-trees",
        "Map containers in one walk",
        "Tuples, lists and dicts are mapped directly instead of being flattened and rebuilt.",
        "The same function meets the same leaves in the same order.",
        direct_trees,
    ),
    Acceleration(
        "cached-shapes",
        "Remember shapes of quantized values",
        "The cache of fake tensors takes in the quantize and dequantize operators.",
        "Shape and type of their results follow from the arguments, which are the cache's key.",
        cached_shapes,
    ),
    Acceleration(
        "known-composites",
        "Walk the list of operators once",
        "The composite operators are made known again only after a new one was registered.",
        "Making a known operator known has no effect.",
        known_composites,
    ),
)


@contextmanager
def accelerated(
    enabled: bool = True,
    only: frozenset[str] | set[str] | None = None,
    log: Log = _LOGGER.info,
) -> Iterator[frozenset[str]]:
    """Lower faster while the block runs, and give the stock toolchain back afterwards.

    Args:
        enabled: False changes nothing at all.
        only: Ids of the accelerations to switch on; None for all.
        log: Told, in one line, when the installed versions are not among the proven ones.

    Yields:
        The ids which are on: none if disabled or not approved for the installed versions.
    """
    if not enabled or not gate.approve(log):
        yield frozenset()
        return
    with applied(only) as ids:
        yield ids


@contextmanager
def applied(only: frozenset[str] | set[str] | None = None) -> Iterator[frozenset[str]]:
    """Switch accelerations on without asking whether they are approved; for proofs of them."""
    chosen = [row for row in ACCELERATIONS if only is None or row.id in only]
    with ExitStack() as stack:
        for row in chosen:
            stack.enter_context(row.apply())
        yield frozenset(row.id for row in chosen)

"""What the float model gives on the evaluation samples: computed once for each set of samples."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from workbench.engine.quality import Accumulator
from workbench.engine.stepping import stepping
from workbench.pipeline.plan import reading_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.engine.context import StageContext
    from workbench.engine.data import Sample, Samples

    Pair = tuple[Sample, list[torch.Tensor]]

KEPT_BYTES = 256 << 20
_NAME = "float reference"


@dataclass
class FloatReference:
    """Samples with the float model's outputs, and values inside of it, within a bound of memory.

    ``pairs`` is None while they were not all seen, or if they are too large to keep. ``values``
    holds tensors by the hash of the float sub-graph before them and the place of the sample;
    ``sums`` compares of whole passes by the hashes of both sides.
    """

    pairs: list[Pair] | None = None
    values: dict[tuple[str, int], torch.Tensor] = field(default_factory=dict)
    sums: dict[tuple[str, str], Accumulator] = field(default_factory=dict)
    _bytes: int = 0

    def keep(self, digest: str, place: int, value: torch.Tensor) -> None:
        """Keep one value if there is room; the first to come stay."""
        if self._bytes + value.nbytes <= KEPT_BYTES and (digest, place) not in self.values:
            self.values[digest, place] = value
            self._bytes += value.nbytes


def reference_of(context: StageContext) -> FloatReference:
    """Return the reference for the project's float program and evaluation samples."""
    read = reading_of(context.project, context.folder, context.cache, "evaluation.data")
    limit, threads = context.project.evaluation.limit, torch.get_num_threads()
    said = json.dumps([context.plan.key("export"), read, limit, threads], sort_keys=True)
    key = hashlib.sha256(said.encode()).hexdigest()
    found: FloatReference | None = context.store.get(_NAME, key)
    if found is None:
        found = FloatReference()
        context.store.keep(_NAME, key, found)
    return found


def pairs(
    context: StageContext, samples: Samples, reference: FloatReference | None
) -> Iterator[Pair]:
    """Yield up to the project's limit of samples, each with the float model's outputs.

    Without a ``reference`` every sample is read and run.
    """
    limit = context.project.evaluation.limit
    if reference is not None and reference.pairs is not None:
        yield from reference.pairs
        return
    seen: list[Pair] = []
    size = 0
    with stepping(context.hot("export").module(check_guards=False)) as floating:
        for number, sample in enumerate(samples):
            if number == limit:
                break
            floats = floating(sample)
            yield sample, floats
            size += sum(tensor.nbytes for tensor in (*sample.inputs, *floats))
            if size <= KEPT_BYTES:
                seen.append((sample, floats))
    if reference is not None and size <= KEPT_BYTES:
        reference.pairs = seen

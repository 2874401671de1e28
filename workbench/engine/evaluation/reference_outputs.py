"""The float model's outputs on the evaluation samples, computed once per set of samples."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import torch

from workbench.engine.evaluation.measures import Accumulator
from workbench.engine.evaluation.stateful_execution import stepping
from workbench.pipeline.plan import part_inputs
from workbench.results import SampleQuality

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.engine.data import Sample, Samples
    from workbench.engine.evaluation.measures import TensorSums
    from workbench.engine.runtime.context import StageContext
    from workbench.results import FormComparison

    Pair = tuple[Sample, list[torch.Tensor]]
    from collections.abc import Sequence

    from workbench.engine.data import Sample


_MAX_BYTES = 256 << 20
_NAME = "float reference"
_EXPORTED = "exported module"


def exported_module(context: StageContext) -> torch.fx.GraphModule:
    """Return the module of the exported program, which must not be changed.

    One of a program without state is made once.
    """
    key, exported = context.plan.key("export"), context.live("export")
    module: torch.fx.GraphModule | None = context.store.get(_EXPORTED, key)
    if module is None:
        module = cast("torch.fx.GraphModule", exported.module(check_guards=False))
        if not exported.graph_signature.buffers_to_mutate:
            context.store.keep(_EXPORTED, key, module)
    return module


@dataclass
class FloatReference:
    """Samples with the float model's outputs and intermediate values, within a memory limit.

    ``pairs`` is None until all were computed, or if they are too large. ``values`` has tensors by
    the hash of the float sub-graph before them and the sample index; ``sums`` has comparison sums
    of complete passes by the hashes of both sides. ``compared`` is the float program's comparison
    with the model on these samples; empty until it is made.
    """

    pairs: list[Pair] | None = None
    values: dict[tuple[str, int], torch.Tensor] = field(default_factory=dict)
    sums: dict[tuple[str, str], TensorSums] = field(default_factory=dict)
    compared: tuple[FormComparison, ...] = ()
    _bytes: int = 0

    def keep(self, digest: str, index: int, value: torch.Tensor) -> None:
        """Store a value if there is room; earlier ones are kept."""
        if self._bytes + value.nbytes <= _MAX_BYTES and (digest, index) not in self.values:
            self.values[digest, index] = value
            self._bytes += value.nbytes


def reference_of(context: StageContext) -> FloatReference:
    """Return the reference for the project's float program and evaluation samples."""
    read = part_inputs(context.opened, context.cache, "evaluation.data")
    limit, threads = context.project.evaluation.limit, torch.get_num_threads()
    identity = json.dumps([context.plan.key("export"), read, limit, threads], sort_keys=True)
    key = hashlib.sha256(identity.encode()).hexdigest()
    reference: FloatReference | None = context.store.get(_NAME, key)
    if reference is None:
        reference = FloatReference()
        context.store.keep(_NAME, key, reference)
    return reference


def pairs(context: StageContext, samples: Samples, reference: FloatReference | None) -> Iterator[Pair]:
    """Yield the samples up to the project's limit, each with the float model's outputs.

    Without a ``reference``, every sample is read and run.
    """
    limit = context.project.evaluation.limit
    if reference is not None and reference.pairs is not None:
        yield from reference.pairs
        return
    seen: list[Pair] = []
    size = 0
    with stepping(exported_module(context)) as floating:
        for number, sample in enumerate(samples):
            if number == limit:
                break
            floats = floating(sample)
            yield sample, floats
            size += sum(tensor.nbytes for tensor in (*sample.inputs, *floats))
            if size <= _MAX_BYTES:
                seen.append((sample, floats))
    if reference is not None and size <= _MAX_BYTES:
        reference.pairs = seen


_MAX_WORST = 50


@dataclass
class WorstSamples:
    """Comparison per sample, over all outputs."""

    qualities: list[SampleQuality] = field(default_factory=list)
    _classes: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)

    def add(self, sample: Sample, floats: Sequence[torch.Tensor], quantized: Sequence[torch.Tensor]) -> None:
        """Add the outputs of both sides for one sample."""
        sums = Accumulator()
        for a, b in zip(floats, quantized, strict=True):
            sums.add(a, b)
        self.qualities.append(
            SampleQuality(
                sample=sample.index, sqnr_db=sums.sqnr_db, max_abs_error=sums.worst, label=sample.label
            )
        )
        if sample.label is not None:
            sides = zip(floats, quantized, strict=True)
            self._classes[sample.index] = [
                tuple(int(side.double().argmax()) if side.numel() else 0 for side in pair) for pair in sides
            ]

    def result(self, class_output: int) -> tuple[SampleQuality, ...]:
        """Return the worst samples: those with another class first, then by SQNR.

        Args:
            class_output: The output that gives the class.
        """
        for index, sample in enumerate(self.qualities):
            if classes := self._classes.get(sample.sample):
                floating, quantized = classes[class_output]
                update = {"float_class": floating, "quantized_class": quantized}
                self.qualities[index] = sample.model_copy(update=update)

        def badness(sample: SampleQuality) -> tuple[bool, float]:
            same = sample.float_class == sample.quantized_class
            return same, math.inf if sample.sqnr_db is None else sample.sqnr_db

        return tuple(sorted(self.qualities, key=badness)[:_MAX_WORST])


def float_reference(context: StageContext) -> FloatReference | None:
    """Return the float reference of the evaluation samples, if it may be used."""
    return reference_of(context) if context.is_accelerated else None

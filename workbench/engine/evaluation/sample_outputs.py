"""Outputs of the float and the quantized model, which *evaluate* keeps for *verify*.

They are found by the inputs of a sample: data that gives others when it is read again finds none.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

from workbench.engine.fx.programs import raw_bytes
from workbench.npz import open_npz

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from workbench.engine.data import Sample
    from workbench.engine.runtime.context import StageContext

_FILE = "outputs.npz"
_LIMIT_BYTES = 16 << 20
_FLOAT, _QUANTIZED = "float", "quantized"


@dataclass(frozen=True)
class OutputsOfSample:
    """What both models return for a sample."""

    floats: list[torch.Tensor] = field(default_factory=list)
    quantized: list[torch.Tensor] = field(default_factory=list)


@dataclass
class SampleOutputs:
    """Outputs of programs without state, by the digest of a sample's inputs."""

    known: dict[str, OutputsOfSample] = field(default_factory=dict)
    _bytes: int = 0

    def add(self, sample: Sample, floats: Sequence[torch.Tensor], quantized: Sequence[torch.Tensor]) -> None:
        """Keep the outputs for a sample, if there is room and numpy has their types.

        Those of a sample that continues from the one before are not kept.
        """
        tensors = [*floats, *quantized]
        size = self._bytes + sum(tensor.nbytes for tensor in tensors)
        storable = all(tensor.dtype != torch.bfloat16 for tensor in tensors)
        if storable and not sample.carried and size <= _LIMIT_BYTES:
            self._bytes = size
            self.known[digest_of(sample)] = OutputsOfSample(list(floats), list(quantized))

    def get(self, sample: Sample) -> OutputsOfSample | None:
        """Return the outputs for a sample; None if they are not known."""
        return self.known.get(digest_of(sample)) if self.known else None

    def save(self, folder: Path) -> None:
        """Write the outputs to a result folder."""
        arrays = {
            f"{digest}/{side}/{at}": tensor.detach().numpy()
            for digest, outputs in self.known.items()
            for side, tensors in ((_FLOAT, outputs.floats), (_QUANTIZED, outputs.quantized))
            for at, tensor in enumerate(tensors)
        }
        if arrays:
            np.savez(folder / _FILE, **arrays)


def load_outputs(context: StageContext) -> SampleOutputs:
    """Return what *evaluate* has kept for this quantized model; nothing if it did not run."""
    outputs, path = SampleOutputs(), context.path("evaluate") / _FILE
    if not path.exists() or not context.cache.verify(context.plan.key("evaluate")):
        return outputs
    with open_npz(path) as arrays:
        for name in arrays.files:
            digest, side, _ = name.split("/")
            of_sample = outputs.known.setdefault(digest, OutputsOfSample())
            tensors = of_sample.floats if side == _FLOAT else of_sample.quantized
            tensors.append(torch.from_numpy(arrays[name]))
    return outputs


def digest_of(sample: Sample) -> str:
    """Return the digest of a sample's inputs: of their types, shapes and values."""
    digest = hashlib.blake2b(digest_size=16)
    for tensor in sample.inputs:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(raw_bytes(tensor))
    return digest.hexdigest()

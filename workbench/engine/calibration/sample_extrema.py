"""Extremes of every sample at each observed activation, which observers do not keep."""

from __future__ import annotations

import math
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torchao.quantization.pt2e import HistogramObserver

from workbench.engine.calibration.quick_observers import watched_observer
from workbench.errors import Place, failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from workbench.engine.calibration.observer_threads import ObserverThreads


_SHADOW = ("histogram", "min_val", "max_val")


@dataclass
class TensorExtrema:
    """Extremes per sample, and sums over all values, of one observer's tensors.

    ``shadow`` is a histogram for an observer without one.
    """

    tensor: str
    shadow: HistogramObserver | None = None
    extremes: dict[int, tuple[float, float]] = field(default_factory=dict)
    values: int = 0
    zeros: int = 0
    squares: float = 0.0
    infinite: int | None = None

    def see(self, sample: int, x: torch.Tensor) -> None:
        """Add one tensor of one sample.

        Raises:
            WorkbenchError: it contains NaN.
        """
        if not x.numel():
            return
        least, greatest = torch.aminmax(x)
        low, high = least.item(), greatest.item()
        if not (-math.inf < low and high < math.inf):
            x = self._finite(sample, x)
            if not x.numel():
                return
            least, greatest = torch.aminmax(x)
            low, high = least.item(), greatest.item()
        if sample in self.extremes:
            before = self.extremes[sample]
            low, high = min(before[0], low), max(before[1], high)
        self.extremes[sample] = low, high
        count = x.numel()
        self.values += count
        self.zeros += count - torch.count_nonzero(x).item()
        self.squares += torch.linalg.vector_norm(x).item() ** 2
        if self.shadow is not None:
            self.shadow(x)

    def _finite(self, sample: int, x: torch.Tensor) -> torch.Tensor:
        if bool(torch.isnan(x).any()):
            raise failure(
                f"Sample {sample} produces NaN in the tensor {self.tensor}.",
                "Give the operator values for which it is defined: torch.log(x.clamp(min=1e-6)), "
                "x / total.clamp(min=1e-6). Integers have no NaN, which a choice or nan_to_num behind "
                "other operators would need. Or exclude the sample.",
                Place(kind="tensor", id=self.tensor),
                code="tensor-not-finite",
            )
        self.infinite = sample if self.infinite is None else self.infinite
        return x[torch.isfinite(x)]

    def account(self) -> dict[str, torch.Tensor]:
        """Return all statistics as tensors."""
        samples = torch.tensor(list(self.extremes), dtype=torch.int64)
        ends = torch.tensor(list(self.extremes.values()), dtype=torch.float64).reshape(-1, 2)
        infinite = -1 if self.infinite is None else self.infinite
        sums = [float(self.values), float(self.zeros), self.squares, float(infinite)]
        arrays = {
            "extrema_samples": samples,
            "extrema": ends,
            "sums": torch.tensor(sums, dtype=torch.float64),
        }
        if self.shadow is not None:
            for name in _SHADOW:
                arrays[f"shadow_{name}"] = self.shadow._buffers[name].detach().clone()  # noqa: SLF001
        return arrays

    def recall(self, stored: Mapping[str, torch.Tensor]) -> None:
        """Use the statistics of another recorder of the same tensors."""
        ends = [(low, high) for low, high in stored["extrema"].tolist()]
        self.extremes = dict(zip(stored["extrema_samples"].tolist(), ends, strict=True))
        values, zeros, self.squares, infinite = stored["sums"].tolist()
        self.values, self.zeros = int(values), int(zeros)
        self.infinite = None if infinite < 0 else int(infinite)
        if self.shadow is not None:
            for name in _SHADOW:
                self.shadow._buffers[name] = stored[f"shadow_{name}"].clone()  # noqa: SLF001


class SampleExtrema:
    """A recorder for every activation observer while samples run."""

    def __init__(self, activations: Mapping[str, tuple[str, Any]]) -> None:
        """``observers`` by name, each with the node it observes."""
        self.by_name = {
            name: TensorExtrema(tensor, _shadow(observer)) for name, (tensor, observer) in activations.items()
        }
        self._observers = {name: observer for name, (_, observer) in activations.items()}
        self.samples: list[int] = []
        self._recalled: set[str] = set()

    @contextmanager
    def watching(self, threads: ObserverThreads | None = None) -> Iterator[None]:
        """Record the observed values in the block; ``begin`` sets the sample.

        Args:
            threads: What observes beside the program; the samples are observed when it has waited.
        """
        numbers = {id(observer): at for at, observer in enumerate(self._observers.values())}
        with ExitStack() as stack:
            for name, observer in self._observers.items():
                if name in self._recalled:
                    continue
                watched = self._watched(self.by_name[name], observer.forward)
                if threads is not None:
                    watched = _beside(threads, numbers[id(observer)], watched)
                stack.enter_context(watched_observer(observer, watched))
            yield

    def recall(self, name: str, stored: Mapping[str, torch.Tensor]) -> None:
        """Use an ``account`` for one recorder instead of recording."""
        if name in self.by_name:
            self.by_name[name].recall(stored)
            self._recalled.add(name)

    def account(self, name: str) -> dict[str, torch.Tensor]:
        """Return the statistics of one recorder; nothing for weights."""
        return self.by_name[name].account() if name in self.by_name else {}

    def begin(self, sample: int) -> None:
        """Set the number of the next sample in the data."""
        self.samples.append(sample)

    def arrays(self, names: list[str]) -> dict[str, NDArray[Any]]:
        """Return ``samples`` [S], and ``sample_min`` and ``sample_max`` [T, S] of named observers.

        NaN for tensors that a sample did not reach, and for weights.
        """
        shape = (len(names), len(self.samples))
        low, high = np.full(shape, np.nan, np.float32), np.full(shape, np.nan, np.float32)
        positions = {sample: index for index, sample in enumerate(self.samples)}
        for row, name in enumerate(names):
            if name in self.by_name:
                for sample, ends in self.by_name[name].extremes.items():
                    low[row, positions[sample]], high[row, positions[sample]] = ends
        return {"samples": np.asarray(self.samples, np.int64), "sample_min": low, "sample_max": high}

    def _watched(self, extrema: TensorExtrema, observe: Any) -> Any:
        samples = self.samples

        def forward(x: torch.Tensor) -> Any:
            extrema.see(samples[-1], x)
            return observe(x)

        return forward


def _beside(threads: ObserverThreads, number: int, observe: Any) -> Any:
    def forward(x: torch.Tensor) -> torch.Tensor:
        threads.observe(number, observe, x)
        return x

    return forward


def _shadow(observer: Any) -> HistogramObserver | None:
    if isinstance(observer, HistogramObserver):
        return None
    return HistogramObserver(
        dtype=observer.dtype,
        qscheme=observer.qscheme,
        quant_min=observer.quant_min,
        quant_max=observer.quant_max,
        eps=float(observer.eps),
    )

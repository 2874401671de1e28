"""The search for the best range of a histogram is made once for each histogram and scheme."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torchao.quantization.pt2e.observer import HistogramObserver

from workbench.engine.acceleration.patching import replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch

    Parameters = tuple[torch.Tensor, torch.Tensor]


class RangeMemory:
    """Scales and zero points found before, by the content of the observer they came from.

    One for an engine process: an edit of one module then searches that module's ranges only.
    """

    def __init__(self, entries: int = 20_000) -> None:
        self.entries = entries
        self.hits = 0
        self.searches = 0
        self._found: OrderedDict[bytes, Parameters] = OrderedDict()

    def parameters(self, observer: Any, search: Callable[[Any], Parameters]) -> Parameters:
        """Return what ``search`` returns for ``observer``, from memory where it is known."""
        key = _content(observer)
        if key in self._found:
            self.hits += 1
            self._found.move_to_end(key)
        else:
            self.searches += 1
            self._found[key] = search(observer)
            if len(self._found) > self.entries:
                self._found.popitem(last=False)
        scale, zero_point = self._found[key]
        return scale.clone(), zero_point.clone()


@contextmanager
def remembered_ranges(memory: RangeMemory) -> Iterator[RangeMemory]:
    """Let ``HistogramObserver.calculate_qparams`` ask ``memory`` first while the block runs.

    Exact because the key holds all that the search reads: histogram, extremes, type, scheme,
    limits, eps and the numbers of bins. Subclasses and observers without data search as ever.
    """
    stock = HistogramObserver.calculate_qparams

    def calculate_qparams(self: Any) -> Parameters:
        if type(self) is not HistogramObserver or bool(self.min_val > self.max_val):
            return stock(self)
        return memory.parameters(self, stock)

    with replaced(HistogramObserver, "calculate_qparams", calculate_qparams):
        yield memory


def _content(observer: Any) -> bytes:
    settings = (
        observer.dtype,
        observer.qscheme,
        observer.quant_min,
        observer.quant_max,
        observer.reduce_range,
        observer.has_customized_qrange,
        observer.bins,
        observer.dst_nbins,
        observer.upsample_rate,
        str(observer.histogram.device),
    )
    digest = hashlib.sha256(repr(settings).encode())
    for tensor in (observer.histogram, observer.min_val, observer.max_val, observer.eps):
        values = tensor.detach().cpu().contiguous()
        digest.update(repr((values.dtype, tuple(values.shape))).encode())
        digest.update(values.numpy().tobytes())
    return digest.digest()

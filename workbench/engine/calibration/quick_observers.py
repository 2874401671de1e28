"""Observe and search ranges in less time.

Weights are observed once, histograms need no dozen comparisons of scalars, and the search for the
best range of a histogram is made once for each histogram and scheme.
"""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torchao.quantization.pt2e.observer import HistogramObserver, MinMaxObserver, PerChannelMinMaxObserver

from workbench.engine.toolchain_patches.gate import require
from workbench.engine.toolchain_patches.patching import replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Parameters = tuple[torch.Tensor, torch.Tensor]

# What these have seen of a tensor does not change when they see it again.
_IDEMPOTENT = (MinMaxObserver, PerChannelMinMaxObserver)


def weight_observers(prepared: fx.GraphModule) -> dict[str, Any]:
    """Return the observers, by name, which only ever see weights and take their extremes.

    An observer that is called in several places counts only if each of them sees a constant.
    """
    constants, seen, refused = set[fx.Node](), dict[str, Any](), set[str]()
    for node in prepared.graph.nodes:
        if node.op == "get_attr":
            constants.add(node)
        elif node.op == "call_module":
            name = str(node.target)
            observer = prepared.get_submodule(name)
            if node.all_input_nodes[:1] and node.all_input_nodes[0] in constants:
                seen[name] = observer
            else:
                refused.add(name)
    shared = {id(prepared.get_submodule(name)) for name in refused}
    return {
        name: observer
        for name, observer in seen.items()
        if type(observer) in _IDEMPOTENT and id(observer) not in shared
    }


@contextmanager
def frozen_weight_observers(prepared: fx.GraphModule) -> Iterator[int]:
    """Let each observer of weights work at its first call in the block and pass values on later.

    Exact while the weights do not change: the extremes of values seen before are the same. Not
    for training. The observers are themselves again when the block ends.

    Yields:
        The number of observers concerned.
    """
    observers = {id(watcher): watcher for watcher in weight_observers(prepared).values()}
    with ExitStack() as stack:
        for observer in observers.values():
            stack.enter_context(replaced(observer, "forward", _once(observer)))
        yield len(observers)


@contextmanager
def watched_observer(observer: Any, forward: Callable[[torch.Tensor], Any]) -> Iterator[None]:
    """Let one observer run ``forward`` instead of its own while the block runs.

    Args:
        observer: An observer of torchao.
        forward: Sees the value, calls the stock function with it and returns its result.

    Raises:
        WorkbenchError: The installed torchao has other observers.
    """
    require("watched-observers")
    with replaced(observer, "forward", forward):
        yield


@contextmanager
def quick_histograms() -> Iterator[None]:
    """Let ``HistogramObserver`` decide by plain numbers what to do with a tensor.

    A tensor within the range known so far only adds its counts, which is what the stock code does
    after a dozen operators on scalars; any other tensor goes through the stock code.
    """
    stock = HistogramObserver.forward

    def forward(self: Any, x_orig: torch.Tensor) -> torch.Tensor:
        if type(self) is not HistogramObserver or x_orig.numel() == 0:
            return stock(self, x_orig)
        x = x_orig.detach()
        lowest, highest = torch.aminmax(x)
        low, high = self.min_val.item(), self.max_val.item()
        within = math.isfinite(low) and low <= lowest.item() and highest.item() <= high
        if not within or not math.isfinite(high):
            return stock(self, x_orig)
        self.histogram.add_(torch.histc(x, self.bins, min=low, max=high))
        return x_orig

    with replaced(HistogramObserver, "forward", forward):
        yield


@contextmanager
def quick_calibration(prepared: fx.GraphModule) -> Iterator[None]:
    """Calibrate ``prepared`` in the block to the same observers, bit for bit, in less time."""
    with quick_histograms(), frozen_weight_observers(prepared):
        yield


def _once(observer: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a ``forward`` that observes each tensor it is given only once."""
    stock = observer.forward
    observed: dict[int, torch.Tensor] = {}

    def forward(x: torch.Tensor) -> torch.Tensor:
        if id(x) not in observed:
            stock(x)
            observed[id(x)] = x
        return x

    return forward


class RangeMemory:
    """Scales and zero points found before, by the content of the observer they came from.

    One for an engine process: an edit of one module then searches that module's ranges only.
    """

    def __init__(self, entries: int = 20_000) -> None:
        self.entries = entries
        self.hits = 0
        self.searches = 0
        self._parameters: OrderedDict[bytes, Parameters] = OrderedDict()

    def parameters(self, observer: Any, search: Callable[[Any], Parameters]) -> Parameters:
        """Return what ``search`` returns for ``observer``, from memory where it is known."""
        key = _content(observer)
        if key in self._parameters:
            self.hits += 1
            self._parameters.move_to_end(key)
        else:
            self.searches += 1
            self._parameters[key] = search(observer)
            if len(self._parameters) > self.entries:
                self._parameters.popitem(last=False)
        scale, zero_point = self._parameters[key]
        return scale.clone(), zero_point.clone()


@contextmanager
def remembered_ranges(memory: RangeMemory) -> Iterator[RangeMemory]:
    """Let ``HistogramObserver.calculate_qparams`` ask ``memory`` first while the block runs.

    Exact because the key holds all that the search reads: histogram, extremes, type, scheme,
    limits, eps, what changes its grids and the numbers of bins. Subclasses and observers without
    data search as ever.
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
        getattr(observer, "grids", None),
    )
    digest = hashlib.sha256(repr(settings).encode())
    for tensor in (observer.histogram, observer.min_val, observer.max_val, observer.eps):
        values = tensor.detach().cpu().contiguous()
        digest.update(repr((values.dtype, tuple(values.shape))).encode())
        digest.update(values.numpy().tobytes())
    return digest.digest()

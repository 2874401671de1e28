"""Weights are observed once, not again for every sample of the calibration data."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torchao.quantization.pt2e.observer import MinMaxObserver, PerChannelMinMaxObserver

from workbench.engine.acceleration.patching import replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
    observers = {id(each): each for each in weight_observers(prepared).values()}
    with ExitStack() as stack:
        for observer in observers.values():
            stack.enter_context(replaced(observer, "forward", _once(observer)))
        yield len(observers)


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

"""Observers in two threads, while the program that they observe goes on.

Exact because what an observer keeps depends on its own tensors and their order only: each observer
has one thread, which takes its tensors in the order in which they came.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self

import torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

_THREADS = 2
# Tensors that wait to be observed are kept alive: the program waits where they take more [bytes].
_WAITING_BYTES = 64 << 20


def can_observe_beside(module: torch.fx.GraphModule) -> bool:
    """Return whether the observers of a program may run beside it.

    No operator may change a tensor, and there must be a second core that torch does not use.
    """
    graphs = (part.graph for part in module.modules() if isinstance(part, torch.fx.GraphModule))
    if (os.cpu_count() or 1) < _THREADS or torch.get_num_threads() > 1:
        return False
    return not any(_is_mutable(node) for graph in graphs for node in graph.nodes)


def _is_mutable(node: torch.fx.Node) -> bool:
    operator = node.target
    return isinstance(operator, torch._ops.OpOverload) and operator._schema.is_mutable  # noqa: SLF001


class ObserverThreads:
    """Threads that observe; the context manager ends them."""

    def __init__(self) -> None:
        self._threads = [ThreadPoolExecutor(1, thread_name_prefix="observers") for _ in range(_THREADS)]
        self._waiting: deque[Future[None]] = deque()
        self._bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for thread in self._threads:
            thread.shutdown(cancel_futures=True)

    def observe(self, number: int, work: Callable[[torch.Tensor], Any], x: torch.Tensor) -> None:
        """Let the observer of a number see a tensor, after those that it was given before."""
        self._bytes += x.nbytes
        self._waiting.append(self._threads[number % _THREADS].submit(_observed, work, x))
        if self._bytes > _WAITING_BYTES:
            self.wait()

    def wait(self) -> None:
        """Wait until all tensors are observed.

        Raises:
            WorkbenchError: an observer raised it; of several the first.
        """
        while self._waiting:
            self._waiting.popleft().result()
        self._bytes = 0


def _observed(work: Callable[[torch.Tensor], Any], x: torch.Tensor) -> None:
    with torch.inference_mode():
        work(x)

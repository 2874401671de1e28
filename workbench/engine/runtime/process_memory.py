"""Memory of a process that does many jobs: what a job leaves is freed, and growth is noticed.

Caches of the toolchain that live as long as the process have nodes, modules and tensors as keys.
One node keeps its graph, its module and the metadata of all its nodes: an engine grew by 2.6 MB
with each job of a small network. No later job asks for these entries; those with other keys stay.
"""

from __future__ import annotations

import ctypes
import gc
import linecache
import os
import sys
from contextlib import suppress
from functools import _lru_cache_wrapper
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import graph_module

from workbench.operating_system import resident_bytes
from workbench.system_limits import GROWTH_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from workbench.engine.runtime.context import LiveObjectCache

# The live objects that a process keeps when it has grown: those of about one job.
_MAX_OBJECTS = 8
# The packages whose caches are searched.
_TOOLCHAIN = frozenset(("torch", "torchao", "executorch", "tosa", "ethosu", "workbench"))
_PROGRAMS = (torch.nn.Module, torch.fx.Node, torch.fx.Graph, torch.Tensor)


class ProcessMemory:
    """Frees the memory of each job and notices the growth of the process.

    Args:
        store: The live objects of finished stages; older ones are dropped before the process
            counts as grown.
        size: Returns the memory of the process [bytes].
    """

    def __init__(self, store: LiveObjectCache, size: Callable[[], int] | None = None) -> None:
        self._store = store
        self._size = size or (lambda: resident_bytes(os.getpid()))
        self._first = 0

    def after_job(self) -> int:
        """Free what jobs left; return the growth since the first job [bytes].

        The growth is 0 unless it is above ``GROWTH_LIMIT``, also without the live objects of
        earlier jobs. Takes two tenths of a second.
        """
        release_programs()
        return_memory()
        size = self._size()
        self._first = self._first or size
        if size - self._first <= GROWTH_LIMIT:
            return 0
        self._store.shrink(_MAX_OBJECTS)
        gc.collect()
        return_memory()
        growth = self._size() - self._first
        return growth if growth > GROWTH_LIMIT else 0


def return_memory() -> None:
    """Return freed memory to the system with glibc's ``malloc_trim``, in milliseconds.

    A job frees many small blocks between those that stay; about 90 MB of two engines after
    MobileNetV2.
    """
    with suppress(AttributeError):  # Another C library.
        ctypes.CDLL(None).malloc_trim(0)


def release_programs() -> None:
    """Empty the caches that refer to programs, and free what only they referred to.

    Takes two tenths of a second. Results do not depend on these caches.
    """
    for cache in _function_caches():
        if _refers_to_program(cache):
            cache.cache_clear()
    shapes = FakeTensorMode.cache
    for key in [key for key in shapes if any(isinstance(part, _PROGRAMS) for part in key.key)]:
        del shapes[key]
    gc.collect()
    _release_sources()


def _function_caches() -> Iterator[_lru_cache_wrapper[Any]]:
    """Yield the functions with ``functools.lru_cache`` in the toolchain's modules and classes."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in _TOOLCHAIN or type(module) is not ModuleType:
            continue
        for value in list(vars(module).values()):
            if type(value) is _lru_cache_wrapper:
                yield value
            elif type(value) is type and value.__module__ == name:
                yield from (x for x in vars(value).values() if type(x) is _lru_cache_wrapper)


def _refers_to_program(cache: _lru_cache_wrapper[Any]) -> bool:
    if not cache.cache_info().currsize:
        return False
    for entries in gc.get_referents(cache):
        if type(entries) is dict:
            for key, value in list(entries.items()):
                parts = (*key, value) if isinstance(key, tuple | list) else (key, value)
                if any(isinstance(part, _PROGRAMS) for part in parts):
                    return True
    return False


def _release_sources() -> None:
    """Drop the source text of graph modules that no longer exist."""
    sources = graph_module._loader.eval_cache  # noqa: SLF001 - no public name
    classes = {type(x) for x in gc.get_objects() if issubclass(type(x), torch.fx.GraphModule)}
    forwards = (vars(kind).get("forward") for kind in classes)
    used = {f.__code__.co_filename for f in forwards if isinstance(f, FunctionType)}
    for name in [name for name in sources if name not in used]:
        del sources[name]
        linecache.cache.pop(name, None)

"""Graph modules write their Python when somebody reads or runs it, not at every change."""

# ruff: noqa: SLF001 - the insides of the toolchain are what this file is about

from __future__ import annotations

import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from workbench.engine.acceleration.patching import replaced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# What stock ``recompile`` leaves on the instance or on its class, and what reads it.
_ON_INSTANCE = ("_code", "_lineno_map", "_prologue_start")
_ON_CLASS = ("forward", "__reduce__", "__reduce_package__")


class _Pending:
    """Stands for one attribute of a module until it is read; then all of them are made."""

    def __init__(self, name: str, module: Any, recompile: Callable[[Any], Any]) -> None:
        self.name = name
        self.module = weakref.ref(module)
        self.recompile = recompile

    def __get__(self, instance: Any, owner: type) -> Any:
        module = self.module()
        if module is None:
            raise AttributeError(self.name)
        _settle(module)
        self.recompile(module)
        return getattr(owner if instance is None else instance, self.name)


class _PendingCode:
    """Stands for the ``PythonCode`` that ``recompile`` returns; hardly anybody reads it."""

    def __init__(self, module: Any, recompile: Callable[[Any], Any]) -> None:
        self._module = module
        self._recompile = recompile

    def __getattr__(self, name: str) -> Any:
        _settle(self._module)
        return getattr(self._recompile(self._module), name)


def _settle(module: Any) -> None:
    """Take the stand-ins off ``module``; every graph module has a class of its own."""
    cls = type(module)
    for name in (*_ON_INSTANCE, *_ON_CLASS):
        if isinstance(vars(cls).get(name), _Pending):
            delattr(cls, name)


@contextmanager
def lazy_recompile() -> Iterator[None]:
    """Let ``GraphModule.recompile`` only note that it is due.

    A module that is still due when the block ends writes its code on first use all the same.
    """
    from torch.fx import _lazy_graph_module, graph, graph_module
    from torch.fx.experimental import _config

    stock = graph_module.GraphModule.recompile

    def recompile(self: Any) -> Any:
        own_way = isinstance(self, _lazy_graph_module._LazyGraphModule)
        if own_way or _config.enrich_profiler_metadata:
            return stock(self)
        codegen = self._graph._codegen
        if isinstance(codegen, graph._PyTreeCodeGen):
            self._in_spec = codegen.pytree_info.in_spec
            self._out_spec = codegen.pytree_info.out_spec
        cls = type(self)
        if not isinstance(vars(cls).get("forward"), _Pending):
            for name in (*_ON_INSTANCE, *_ON_CLASS):
                self.__dict__.pop(name, None)
                setattr(cls, name, _Pending(name, self, stock))
        self._recompile_submodules()
        return _PendingCode(self, stock)

    with replaced(graph_module.GraphModule, "recompile", recompile):
        yield

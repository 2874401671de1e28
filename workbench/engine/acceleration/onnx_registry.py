"""The table of functions that write operators as ONNX is made once for a process.

``torch.onnx.export`` makes it for each export, from the sources of all functions of torchlib.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from workbench.engine.toolchain_patches.patching import replaced, sources_match

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MODULE = "torch.onnx._internal.exporter._registration"
REGISTRY = f"{_MODULE}:ONNXRegistry.from_torchlib"
PINS = ((REGISTRY, "e427d999c2ad2681"), (f"{_MODULE}:ONNXRegistry.__init__", "accac7c17746ce30"))


@contextmanager
def shared_registry() -> Iterator[None]:
    """Let exports share the table of ONNX functions while the block runs.

    Each export gets lists of its own: functions that it registers stay there. The entries are
    shared; exports only read them.
    """
    from torch.onnx._internal.exporter import _registration

    if not sources_match("The shared table of ONNX functions", PINS):
        yield
        return

    stock = _registration.ONNXRegistry.from_torchlib

    def from_torchlib(cls: Any, *arguments: Any, **named: Any) -> Any:
        known = _table(stock, *arguments, *named.items())
        registry = cls()
        vars(registry).update(vars(known))
        registry.functions = {key: list(entries) for key, entries in known.functions.items()}
        return registry

    with replaced(_registration.ONNXRegistry, "from_torchlib", classmethod(from_torchlib)):
        yield


@cache
def _table(make: Callable[..., Any], *arguments: Any) -> Any:
    """Return the table for arguments, of which those that are pairs have names."""
    named: dict[str, Any] = dict(argument for argument in arguments if isinstance(argument, tuple))
    return make(*(one for one in arguments if not isinstance(one, tuple)), **named)

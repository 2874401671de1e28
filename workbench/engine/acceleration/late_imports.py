"""Leave out of the toolchain's imports what few programs need, until one does.

Three modules are imported for one name each and bring hundreds of others with them. While the
toolchain is imported a stand-in answers in place of each, with the same names, behind which the
module itself is imported when it is needed. The stand-ins are gone afterwards: whoever imports
such a module later gets the module.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_POST_GRAD = "torch._inductor.fx_passes.post_grad"
_XNNPACK_PASS = "executorch.backends.xnnpack._passes.xnnpack_pass"
_VELA = "ethosu.vela.vela"


@contextmanager
def late_imports() -> Iterator[None]:
    """Put the stand-ins up while the block runs; modules that are there already stay."""
    functions = ModuleType(_POST_GRAD)
    vars(functions)["decompose_auto_functionalized"] = _decompose_auto_functionalized
    stand_ins = [
        stand_in
        for stand_in in (functions, _OfExportPass(_XNNPACK_PASS), _LateModule(_VELA))
        if stand_in.__name__ not in sys.modules
    ]
    sys.modules.update({stand_in.__name__: stand_in for stand_in in stand_ins})
    try:
        yield
    finally:
        for stand_in in stand_ins:
            if sys.modules.get(stand_in.__name__) is stand_in:
                del sys.modules[stand_in.__name__]


class _LateModule(ModuleType):
    """A module which is imported when something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or sys.modules.get(self.__name__) is self:
            raise AttributeError(name)
        return getattr(importlib.import_module(self.__name__), name)


class _OfExportPass(ModuleType):
    """Holds the one class that Arm's passes take from XNNPACK's, which took it from the exporter.

    Source: ExecuTorch 1.5.1 ``backends/transforms/aten_to_dialect_pass.py``, line 15.
    """

    def __getattr__(self, name: str) -> Any:
        if name != "ExportPass":
            raise AttributeError(name)
        from executorch.exir.pass_base import ExportPass

        return ExportPass


def _decompose_auto_functionalized(graph: Any) -> None:
    """Do what the compiler's pass of that name does, without its module where it does nothing.

    The pass replaces nodes whose target is one of two higher-order operators and looks into the
    sub-graphs of a third (torch 2.13 ``_inductor/fx_passes/post_grad.py``); a graph without any
    higher-order operator is left as it is.
    """
    from torch._ops import HigherOrderOperator

    if any(isinstance(node.target, HigherOrderOperator) for node in graph.nodes):
        importlib.import_module(_POST_GRAD).decompose_auto_functionalized(graph)

"""Tell where an operator was registered from its frame alone."""

# ruff: noqa: SLF001 - the insides of the toolchain are what this file is about

from __future__ import annotations

import inspect
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from workbench.engine.acceleration.patching import replaced

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType, ModuleType

# Package, module and function of those who ask.
_ASKS_FOR_LINE = ("torch", "utils", "get_source")
_ASKS_FOR_MODULE = ("torch", "library", "_register_fake")


@contextmanager
def plain_sources() -> Iterator[None]:
    """Spare each registration of an operator two searches through the sources of all modules.

    Exact because those who ask (torch 2.13 ``_library/utils.py``, ``get_source``, and
    ``library.py``, ``_register_fake``) take only the file, the line and the module, which a frame
    of a module loaded from its own source names itself; everybody else, and every other frame,
    gets the stock answer.
    """
    find_info, find_module = inspect.getframeinfo, inspect.getmodule

    def frame_info(frame: Any, context: int = 1) -> Any:
        if _caller(sys._getframe(1)) != _ASKS_FOR_LINE or _module_of(frame) is None:
            return find_info(frame, context)
        code = frame.f_code
        return inspect.Traceback(code.co_filename, frame.f_lineno, code.co_name, None, None)

    def module(thing: Any, _filename: str | None = None) -> Any:
        own = _module_of(thing) if _caller(sys._getframe(1)) == _ASKS_FOR_MODULE else None
        return find_module(thing, _filename) if own is None else own

    with replaced(inspect, "getframeinfo", frame_info), replaced(inspect, "getmodule", module):
        yield


def _caller(frame: FrameType) -> tuple[str, str, str]:
    name = str(frame.f_globals.get("__name__", ""))
    return name.partition(".")[0], name.rpartition(".")[2], frame.f_code.co_name


def _module_of(frame: Any) -> ModuleType | None:
    if not inspect.isframe(frame) or not frame.f_code.co_filename.endswith(".py"):
        return None
    found = sys.modules.get(frame.f_globals.get("__name__", ""))
    same = getattr(found, "__file__", None) == frame.f_code.co_filename
    return found if same else None

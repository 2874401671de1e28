"""Import the toolchain in a third of the time.

Five causes make the stock imports slow on CPython 3.11, and each has its own remedy: the
interpreter maps and unmaps a chunk of its data stack again and again when a deep call sits on a
chunk's edge (``interpreter.run_with_big_stack``); a pure Python parser reads the table of edge
operators; the collector walks millions of objects that live for ever; whole compilers are imported
for a single name; and every registration of an operator looks for its own source and for all
others.
"""

# ruff: noqa: SLF001 - the insides of the toolchain are what this file is about

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import marshal
import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from workbench import disk_cache
from workbench.engine.runtime.accelerated import acceleration
from workbench.engine.runtime.interpreter import collector_off, run_with_big_stack
from workbench.engine.toolchain_patches.patching import replaced
from workbench.files import is_open_to_others, make_private_folder
from workbench.toolchain_versions import status

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_POST_GRAD = "torch._inductor.fx_passes.post_grad"
_XNNPACK_PASS = "executorch.backends.xnnpack._passes.xnnpack_pass"
_VELA = "ethosu.vela.vela"
_TORCH_CACHE = "TORCHINDUCTOR_CACHE_DIR"
# Package, module and function of those who ask.
_ASKS_FOR_LINE = ("torch", "utils", "get_source")
_ASKS_FOR_MODULE = ("torch", "library", "_register_fake")

TOOLCHAIN = (
    "torch",
    "torch.export",
    "torchao.quantization.pt2e.quantize_pt2e",
    "executorch.exir",
    "executorch.backends.arm.ethosu",
    "executorch.backends.arm.ethosu.backend",
    "executorch.backends.arm.quantizer",
)


def import_toolchain() -> None:
    """Import torch, torchao and ExecuTorch with its Arm backend; quick when already imported.

    Vela's compiler is left to the first lowering.

    Raises:
        ImportError: A part of the toolchain is not installed.
    """
    run_with_big_stack(_import_all)


def import_quickly(name: str) -> ModuleType:
    """Return a module that registers operators when it is imported."""
    if name in sys.modules or not status().active:
        return importlib.import_module(name)
    with plain_sources():
        return importlib.import_module(name)


def _import_all() -> None:
    _keep_torch_private()
    with collector_off(), _parsed_edge_table():
        if not status().active:
            _import(TOOLCHAIN)
            return
        with late_imports(), plain_sources():
            _import(TOOLCHAIN[:2])
            with acceleration("known-composites"):
                _import(TOOLCHAIN[2:])


def _keep_torch_private() -> None:
    """Let torch keep its files in a folder of the user, unless the user has named one.

    By default that is a folder of a known name in the folder for temporary files, which another
    user may make first. torch reads from it which passes and decompositions to leave out.

    Source: torch 2.13 ``_inductor/runtime/cache_dir_utils.py`` and ``compiler_bisector.py``.
    """
    if os.environ.get(_TORCH_CACHE):
        return
    private = disk_cache.folder() / "torch"
    try:
        make_private_folder(private)
        is_own = not any(map(is_open_to_others, (private, private.parent)))
    except OSError:
        is_own = False
    os.environ[_TORCH_CACHE] = str(private) if is_own else tempfile.mkdtemp(prefix="workbench-")


def _import(names: tuple[str, ...]) -> None:
    for name in names:
        importlib.import_module(name)


@contextmanager
def _parsed_edge_table() -> Iterator[None]:
    """Answer the parse of the edge operators' table from a remembered copy, or by libyaml.

    The copy is found by the digest of the text.
    """
    text = _edge_table_text()
    if text is None or "executorch.exir.dialects.edge._ops" in sys.modules:
        yield
        return
    from ruamel.yaml import YAML

    stock = YAML.load
    name = f"edge-{hashlib.sha256(text.encode()).hexdigest()}-{sys.version_info[1]}.marshal"

    def load(self: Any, stream: Any) -> Any:
        if stream != text:
            return stock(self, stream)
        table = _recall_table(name)
        if table is None:
            table = _parsed_by_libyaml(text) or stock(self, stream)
            _remember_table(name, table)
        return table

    with replaced(YAML, "load", load):
        yield


def _parsed_by_libyaml(text: str) -> Any | None:
    """Return the table as libyaml parses it, ten times as fast; None where it is not proven.

    libyaml knows YAML 1.1 and the stock parser 1.2, which differ in words that the table of the
    proven versions does not have.
    """
    yaml = importlib.import_module("yaml")
    loader = getattr(yaml, "CSafeLoader", None)
    return yaml.load(text, Loader=loader) if loader and status().active else None


def _edge_table_text() -> str | None:
    spec = importlib.util.find_spec("executorch")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / "exir" / "dialects" / "edge" / "edge.yaml"
        try:
            return path.read_text(encoding="utf-8")
        except OSError:
            continue
    return None


def _recall_table(name: str) -> Any | None:
    payload = disk_cache.recall(name)
    if payload is None:
        return None
    try:
        return marshal.loads(payload)
    except (ValueError, EOFError, TypeError):
        return None


def _remember_table(name: str, table: Any) -> None:
    try:
        payload = marshal.dumps(table)
    except ValueError:
        return
    if marshal.loads(payload) == table:
        disk_cache.remember(name, payload)


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

    The pass replaces nodes whose target is one of two higher-order operators, looks into the
    sub-graphs of a third and removes attributes that no node uses (torch 2.13
    ``_inductor/fx_passes/post_grad.py``). The call of a delegate is none of the three.
    """
    from torch._ops import HigherOrderOperator

    for node in graph.nodes:
        operator = isinstance(node.target, HigherOrderOperator)
        other = operator and node.target.name() != "executorch_call_delegate"
        if other or (node.op == "get_attr" and not node.users):
            importlib.import_module(_POST_GRAD).decompose_auto_functionalized(graph)
            return


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
    module = sys.modules.get(frame.f_globals.get("__name__", ""))
    same = getattr(module, "__file__", None) == frame.f_code.co_filename
    return module if same else None

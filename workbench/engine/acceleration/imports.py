"""Import the toolchain in a third of the time, and run its jobs on a roomy interpreter stack.

Five causes make the stock imports slow on CPython 3.11, and each has its own remedy here: the
interpreter maps and unmaps a chunk of its data stack again and again when a deep call happens to
sit on a chunk's edge; a pure Python parser reads the table of edge operators; the collector walks
millions of objects that live for ever; whole compilers are imported for a single name; and every
registration of an operator looks for its own source and for all others.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import importlib.util
import logging
import marshal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from workbench.engine.acceleration import gate, remembered
from workbench.engine.acceleration.known_composites import known_composites
from workbench.engine.acceleration.late_imports import late_imports
from workbench.engine.acceleration.patching import replaced
from workbench.engine.acceleration.plain_sources import plain_sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

P = ParamSpec("P")
R = TypeVar("R")

# Slots of 8 bytes: one chunk of 2.4 MB holds every frame of the deepest call of the toolchain.
_STACK_SLOTS = 300_000

TOOLCHAIN = (
    "torch",
    "torch.export",
    "torchao.quantization.pt2e.quantize_pt2e",
    "executorch.exir",
    "executorch.backends.arm.ethosu",
    "executorch.backends.arm.ethosu.backend",
    "executorch.backends.arm.quantizer",
)


def _call(fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    return fn(*args, **kwargs)


_call.__code__ = _call.__code__.replace(co_stacksize=_STACK_SLOTS)


def run_with_big_stack(fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return ``fn(*args, **kwargs)``, run so that the interpreter's stack need not grow below it.

    Exact because only the memory that holds the frames changes. Use it for every job of the
    engine, once per thread.

    Source: CPython 3.11 ``Python/pystate.c``, ``push_chunk``: a frame that does not fit starts a
    new chunk, large enough for its ``co_stacksize``, which is freed when that frame returns.
    """
    return _call(fn, *args, **kwargs)


def import_toolchain() -> None:
    """Import torch, torchao and ExecuTorch with its Arm backend; quick when already imported.

    Vela's compiler is left to the first lowering.

    Raises:
        ImportError: A part of the toolchain is not installed.
    """
    run_with_big_stack(_import_all)


def _import_all() -> None:
    with _collector_off(), _parsed_edge_table():
        if not gate.approve(logging.getLogger(__name__).info):
            _import(TOOLCHAIN)
            return
        with late_imports(), plain_sources():
            _import(TOOLCHAIN[:2])
            with known_composites():
                _import(TOOLCHAIN[2:])


def _import(names: tuple[str, ...]) -> None:
    for name in names:
        importlib.import_module(name)


@contextmanager
def _collector_off() -> Iterator[None]:
    """Keep the collector away, and what was imported out of its sight afterwards."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


@contextmanager
def _parsed_edge_table() -> Iterator[None]:
    """Answer the parse of the edge operators' table from a remembered copy.

    The copy is found by the digest of the text, so that another text is parsed as ever.
    """
    text = _edge_table_text()
    if text is None or "executorch.exir.dialects.edge._ops" in sys.modules:
        yield
        return
    from ruamel import yaml

    stock = yaml.YAML.load
    name = f"edge-{hashlib.sha256(text.encode()).hexdigest()}-{sys.version_info[1]}.marshal"

    def load(self: Any, stream: Any) -> Any:
        if stream != text:
            return stock(self, stream)
        table = _recall_table(name)
        if table is None:
            table = stock(self, stream)
            _remember_table(name, table)
        return table

    with replaced(yaml.YAML, "load", load):
        yield


def _edge_table_text() -> str | None:
    spec = importlib.util.find_spec("executorch")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(place) / "exir" / "dialects" / "edge" / "edge.yaml"
        try:
            return path.read_text(encoding="utf-8")
        except OSError:
            continue
    return None


def _recall_table(name: str) -> Any | None:
    payload = remembered.recall(name)
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
        remembered.remember(name, payload)

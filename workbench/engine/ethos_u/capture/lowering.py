"""Read what the toolchain computes on its way and does not return.

Each function here stands in for a private name of ExecuTorch or Vela while a block runs, calls the
stock function with the same arguments, and hands what passes to the caller.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from executorch.backends.arm._passes import arm_pass_manager
from executorch.backends.arm._passes.insert_table_ops import InsertTableOpsPass
from executorch.backends.arm.ethosu.backend import EthosUBackend
from executorch.backends.arm.tosa import backend as tosa_backend
from executorch.backends.arm.tosa import partitioner as tosa_partitioner
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.program import _program as edge_programs

from workbench.engine.ethos_u.capture.vela_models import watched_regor
from workbench.engine.toolchain_patches.gate import exists, require
from workbench.engine.toolchain_patches.patching import replaced
from workbench.engine.toolchain_patches.table import PATCHES_BY_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch

# ruff: noqa: SLF001 - the insides of the toolchain are what this file is about

# What a node's meta says about where it comes from.
_SOURCE_META = ("nn_module_stack", "from_node", "stack_trace")


@contextmanager
def watched_compilation(
    compiled: Callable[[Any], None], translated: Callable[[torch.fx.Node], None]
) -> Iterator[None]:
    """Watch the lowering of delegates while the block runs.

    Args:
        compiled: Called with regor's model of each delegate, in order. The model has Vela's debug
            database, which changes no byte of the result. What passes compile to find out whether
            the NPU takes an operator (``DecomposePermuteForU55Pass``) is no delegate.
        translated: Called with each node before it is translated to TOSA.

    Raises:
        WorkbenchError: The installed versions lack what is watched.
    """
    for patch in ("vela-models", "tosa-origins", "vela-folder", "captured-tosa"):
        require(patch)
    stock = tosa_backend.process_call_function
    stock_compile = EthosUBackend._compile_tosa_flatbuffer
    is_delegate = False

    def process_call_function(node: torch.fx.Node, *rest: Any) -> None:
        translated(node)
        stock(node, *rest)

    def compile_delegate(tosa_flatbuffer: bytes, compile_spec: Any) -> Any:
        nonlocal is_delegate
        is_delegate = True
        try:
            return stock_compile(tosa_flatbuffer, compile_spec)
        finally:
            is_delegate = False

    def compiled_model(model: Any) -> None:
        if is_delegate:
            compiled(model)

    with ExitStack() as stack:
        stack.enter_context(watched_regor(compiled_model))
        stack.enter_context(
            replaced(EthosUBackend, "_compile_tosa_flatbuffer", staticmethod(compile_delegate))
        )
        stack.enter_context(replaced(tosa_backend, "process_call_function", process_call_function))
        stack.enter_context(replaced(InsertTableOpsPass, "call", _with_places(InsertTableOpsPass.call)))
        stack.enter_context(replaced(tempfile, "tempdir", _folder_without_spaces()))
        yield


def _with_places(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the pass that makes tables, whose tables have the place of the function they replace.

    The stock pass makes them without one. It names the values of a table after the function.
    """

    def call(self: Any, graph_module: Any) -> Any:
        places = {
            f"b_{node.name}_table_constant": {key: node.meta[key] for key in _SOURCE_META if key in node.meta}
            for node in graph_module.graph.nodes
        }
        result = original(self, graph_module)
        for node in result.graph_module.graph.nodes:
            if node.target == exir_ops.backend.tosa.TABLE.default:
                node.meta.update(places.get(str(node.args[1]), {}))
        return result

    return call


def _folder_without_spaces() -> str | None:
    """Return a temporary folder that survives ExecuTorch's join and split of Vela's arguments."""
    candidates = [tempfile.gettempdir(), "/tmp", "/var/tmp", str(Path.cwd())]
    for folder in candidates:
        if " " not in folder and os.access(folder, os.W_OK):
            return folder
    return tempfile.tempdir


@contextmanager
def capture_tosa() -> Iterator[list[bytes]]:
    """Yield a list that receives the TOSA flatbuffer of each delegate lowered in the block.

    They come in the order of the delegates in the program. One lowering at a time.

    Raises:
        WorkbenchError: The installed version of ExecuTorch compiles in another place.
    """
    require("captured-tosa")
    captured: list[bytes] = []
    stock = EthosUBackend._compile_tosa_flatbuffer

    def compile_and_keep(tosa_flatbuffer: bytes, compile_spec: Any) -> Any:
        captured.append(tosa_flatbuffer)
        return stock(tosa_flatbuffer, compile_spec)

    with replaced(EthosUBackend, "_compile_tosa_flatbuffer", staticmethod(compile_and_keep)):
        yield captured


@contextmanager
def partition_reasons() -> Iterator[dict[str, str]]:
    """Collect the partitioner's reasons by name of node; they are there when the block ends.

    Raises:
        WorkbenchError: The installed version of ExecuTorch reports in another way.
    """
    require("partition-reasons")
    original = tosa_partitioner.WhyNoPartitionReporter
    reports: list[Any] = []
    reasons: dict[str, str] = {}

    class Reporter(original):  # type: ignore[valid-type, misc]
        def __init__(self) -> None:
            super().__init__()
            reports.append(self)

    try:
        with replaced(tosa_partitioner, "WhyNoPartitionReporter", Reporter):
            yield reasons
    finally:
        for report in reports:
            for node, reason in report._rejected_nodes.items():
                reasons.setdefault(node.name, str(reason))


@contextmanager
def watched_passes(edge: Callable[[bool], None], passes: Callable[[str, int, int], None]) -> Iterator[None]:
    """Watch how far the lowering in the block is; nothing is watched with unknown versions.

    Args:
        edge: Called with False before the operators of a program are replaced by those of the edge
            dialect, and with True after it.
        passes: Called before each of Arm's passes over a delegate, with its name, its index and
            the number of passes over this delegate, and once with the index behind the last.
    """
    if not all(exists(path) for path in PATCHES_BY_ID["watched-passes"].patches):
        yield
        return
    adapter = arm_pass_manager._ExportedProgramGraphPassAdapter
    generate, call = edge_programs._generate_edge_program, adapter.call
    transform = arm_pass_manager.ArmPassManager._transform
    done = total = 0

    def watched_generate(*arguments: Any, **named: Any) -> Any:
        edge(False)
        result = generate(*arguments, **named)
        edge(True)
        return result

    def watched_transform(self: Any, *arguments: Any) -> Any:
        nonlocal done, total
        done, total = 0, len(self.passes)
        changed = transform(self, *arguments)
        passes("", total, total)
        return changed

    def watched_call(self: Any, program: Any) -> Any:
        nonlocal done
        passes(type(self.graph_pass).__name__, done, total)
        done += 1
        return call(self, program)

    with ExitStack() as stack:
        stack.enter_context(replaced(edge_programs, "_generate_edge_program", watched_generate))
        stack.enter_context(replaced(arm_pass_manager.ArmPassManager, "_transform", watched_transform))
        stack.enter_context(replaced(adapter, "call", watched_call))
        yield

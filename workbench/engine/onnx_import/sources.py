"""The nodes of an ONNX file as the source lines of the operations that they became."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from workbench.engine.fx.modules import frames

if TYPE_CHECKING:
    import torch


def name_sources(program: torch.export.ExportedProgram, module: torch.nn.Module, name: str) -> None:
    """Write the ONNX node of each operation where a line of Python otherwise is.

    The number of the line is that of the node among those that compute something.

    Args:
        program: The exported program, which is changed.
        module: The module that it was made from; others than converted ones change nothing.
        name: The file.
    """
    nodes: dict[str, tuple[int, str, str]] = getattr(module, "onnx_nodes", {})
    if not nodes:
        return
    for node in program.graph.nodes:
        for path, _, _ in reversed(frames(node.meta.get("nn_module_stack"))):
            if path in nodes:
                line, title, operator = nodes[path]
                node.meta["stack_trace"] = (
                    f'File "{PurePath(name).name}", line {line}, in {title}\n    {operator}'
                )
                break

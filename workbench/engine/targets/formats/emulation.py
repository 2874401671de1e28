"""The two operators of an emulated program: onto a format's grid, and what is read from it.

Values stay float, so the second gives what it is given: it marks where the values on the grid are
read, as a dequantize does in an integer program. Gradients go straight through both.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from workbench.engine.targets.formats.operations import Operation

if TYPE_CHECKING:
    from workbench.project.configs import FormatConfig

RESULT = "result"


@dataclass(frozen=True)
class Placing:
    """What one operand of one operation gets.

    Attributes:
        operation: Of MASE's table.
        operand: "x", "w" or "b"; "result" where a config quantizes what comes out.
        config: The format and its parameters.
    """

    operation: str
    operand: str
    config: FormatConfig

    @property
    def text(self) -> str:
        """All of it as JSON: what stands in the graph, and what equal operands share."""
        config = self.config.model_dump(mode="json")
        said = {"operation": self.operation, "operand": self.operand, **config}
        return json.dumps(said, sort_keys=True)

    @property
    def made(self) -> Operation:
        """The operation under its format."""
        return _operation(self.text)[0]

    def becomes(self, module: fx.GraphModule, observer: fx.Node) -> None:
        """Put the pair of operators in an observer's place; converting calls it."""
        graph = module.graph
        with graph.inserting_before(observer):
            onto = graph.call_function(quantize_per_format, (observer.args[0], self.text))
            read = graph.call_function(dequantize_per_format, (onto,))
        for node in (onto, read):
            node.meta = {**observer.meta}
        observer.replace_all_uses_with(read)
        graph.erase_node(observer)


@lru_cache(maxsize=4096)
def _operation(text: str) -> tuple[Operation, str]:
    said: dict[str, Any] = json.loads(text)
    made = Operation(said["operation"], said["scheme"], said["parameters"], said["mase_compatible"])
    return made, said["operand"]


def quantize_per_format(x: torch.Tensor, placing: str) -> torch.Tensor:
    """Return an operand on its grid; ``placing`` is the text of a ``Placing``.

    Raises:
        WorkbenchError: the shape does not suit the format.
    """
    operation, operand = _operation(placing)
    if operand == RESULT:
        return operation.result(x)
    return operation.placed(x, operand)


def dequantize_per_format(x: torch.Tensor) -> torch.Tensor:
    """Return the values as they are read: the same."""
    return x

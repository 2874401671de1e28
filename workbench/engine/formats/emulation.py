"""The two operators of an emulated program: rounding to a format's grid, and reading from it.

Values stay float, so the second operator is the identity: it marks where values on the grid are
read, like a dequantize in an integer program. Both have straight-through gradients.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from workbench.engine.formats.operations import Operation

if TYPE_CHECKING:
    from workbench.project.configs import FormatConfig

RESULT = "result"


@dataclass(frozen=True)
class Placing:
    """The format of one operand of one operation.

    Attributes:
        operation: An operation of MASE's table.
        operand: "x", "w" or "b"; "result" for a config that quantizes the result.
        config: The format and its parameters.
    """

    operation: str
    operand: str
    config: FormatConfig

    @property
    def text(self) -> str:
        """The JSON form, stored in the graph; equal operands share it."""
        config = self.config.model_dump(mode="json")
        fields = {"operation": self.operation, "operand": self.operand, **config}
        return json.dumps(fields, sort_keys=True)

    @property
    def formatted_operation(self) -> Operation:
        """The operation with its format."""
        return _operation(self.text)[0]

    def becomes(self, module: fx.GraphModule, observer: fx.Node) -> None:
        """Replace an observer by the pair of operators; called by conversion."""
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
    fields: dict[str, Any] = json.loads(text)
    operation = Operation(
        fields["operation"], fields["scheme"], fields["parameters"], fields["mase_compatible"]
    )
    return operation, fields["operand"]


def quantize_per_format(x: torch.Tensor, placing: str) -> torch.Tensor:
    """Return an operand on its grid; ``placing`` is the text of a ``Placing``.

    Raises:
        WorkbenchError: the format does not support the shape.
    """
    operation, operand = _operation(placing)
    if operand == RESULT:
        return operation.result(x)
    return operation.placed(x, operand)


def dequantize_per_format(x: torch.Tensor) -> torch.Tensor:
    """Return the values unchanged."""
    return x

"""The error that each operation itself adds: float arithmetic on its own quantized inputs.

The SQNR of a tensor accumulates all errors before it. Here every operation of the float program
computes once more from the values that its inputs have in the quantized program; what its quantized
output differs from that is the error of its own weights and of its own rounding and clipping.
"""

from __future__ import annotations

import copy
import operator
from typing import TYPE_CHECKING, Any

import torch
from torchao.quantization.pt2e import ObserverBase

from workbench.engine.fx import programs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from workbench.engine.calibration.statistics import State


class _UnknownError(Exception):
    """A value of the float program does not follow from the given ones."""


class FloatOperations:
    """The operations of a prepared module, each computed in float from given inputs.

    Operations inside of branches and loops are not computed, nor what reads a buffer that the
    program changes, nor one that does not take the values of the quantized program.

    Args:
        prepared: Module from ``prepare_pt2e``; one that changes tensors in place is copied.
        given: Names of the nodes whose values are given.
    """

    def __init__(self, prepared: torch.fx.GraphModule, input_names: Collection[str]) -> None:
        self._module = prepared
        if any(programs.is_write(node) for node in prepared.graph.nodes):
            self._module = torch.fx.GraphModule(prepared, copy.deepcopy(prepared.graph))
            programs.write_nowhere(self._module)
        self._nodes = {node.name: node for node in self._module.graph.nodes}
        self._changed = set(programs.written_buffers(prepared))
        self._input_names = frozenset(input_names)
        self.program_inputs = {n.name for n in self._nodes.values() if n.op == "placeholder"}

    def inputs_of(self, names: Iterable[str]) -> set[str]:
        """Return the given nodes, and inputs of the program, that some operations read."""
        pending = [self._nodes[name] for name in names if name in self._nodes]
        seen: set[torch.fx.Node] = set()
        read: set[str] = set()
        while pending:
            for source in pending.pop().all_input_nodes:
                if source in seen:
                    continue
                seen.add(source)
                if source.name in self._input_names or source.op == "placeholder":
                    read.add(source.name)
                else:
                    pending.append(source)
        return read

    def outputs(self, names: Iterable[str], values: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return the float outputs of operations by name; without those that are not computed.

        Args:
            names: The operations.
            values: Values of ``inputs_of``.
        """
        step = _Step(self._module, self._changed, values)
        results = {}
        for name in names:
            node = self._nodes.get(name)
            if node is None or node.op == "placeholder":
                continue
            try:
                results[name] = step.computed(node)
            except (_UnknownError, RuntimeError):
                # torch raises a RuntimeError for values of other shapes or strides.
                continue
        return results


class _Step:
    """The values of one sample."""

    def __init__(
        self, module: torch.fx.GraphModule, changed: set[str], values: Mapping[str, torch.Tensor]
    ) -> None:
        self._module, self._changed, self._values = module, changed, values
        self._others: State = {}

    def computed(self, node: torch.fx.Node) -> Any:
        """Return the value of a node from its inputs.

        Raises:
            _UnknownError: it does not follow from the given values.
        """
        pending = [source for source in node.all_input_nodes if not self._is_known(source)]
        while pending:
            waiting = [s for s in pending[-1].all_input_nodes if not self._is_known(s)]
            if waiting:
                pending += waiting
                continue
            source = pending.pop()
            if not self._is_known(source):
                self._others[source.name] = self._applied(source)
        return self._applied(node)

    def _is_known(self, node: torch.fx.Node) -> bool:
        return node.op == "get_attr" or node.name in self._values or node.name in self._others

    def _applied(self, node: torch.fx.Node) -> Any:
        """Return the value of a node whose inputs are known."""
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), self._value)
        if node.op == "call_module":
            module = self._module.get_submodule(str(node.target))
            return args[0] if isinstance(module, ObserverBase) else module(*args, **kwargs)
        target: Any = node.target
        # What still writes in place would change the values of the quantized program.
        is_inside = isinstance(target, torch._ops.HigherOrderOperator)  # noqa: SLF001
        if node.op != "call_function" or is_inside or programs.is_write(node):
            raise _UnknownError
        return target(*args, **kwargs)

    def _value(self, node: torch.fx.Node) -> Any:
        if node.name in self._values:
            return self._values[node.name]
        if node.op == "get_attr":
            if node.target in self._changed:
                raise _UnknownError
            return operator.attrgetter(str(node.target))(self._module)
        return self._others[node.name]

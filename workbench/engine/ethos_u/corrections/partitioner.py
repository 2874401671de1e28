"""A partitioner with corrections, whose parts for the NPU have one order and return integers only.

ExecuTorch 1.5.1
(``backends/arm/tosa/partitioner.py``) keeps the parts' names in a set of strings: its order is
another one in every process, and with it that of operators between several parts. It also leaves a
change of shape in a part that is made between a dequantize and an operator on the CPU, such as that
of a convolution without a batch: the part then declares a float output and writes integers. It takes
filled tensors of int64 that an operator on the CPU reads, as places of ``scatter``: the part then
declares 64 bits for each, and writes 32.
"""

import operator
from typing import Any

import torch
from executorch.backends.arm.ethosu import EthosUPartitioner
from executorch.exir.backend.partitioner import PartitionResult
from torch.fx import GraphModule
from torch.fx.passes.operator_support import OperatorSupportBase

from .lowering import LOWERING


class OrderedPartitioner(EthosUPartitioner):
    """Finds what Ethos-U's own partitioner finds, with corrections and in the program's order."""

    additional_checks: Any

    def _create_operator_support(self, containing_program: Any, reporter: Any) -> Any:
        """Ask the corrections too what the NPU supports."""
        checks = self.additional_checks
        self.additional_checks = [*(checks or ()), _CorrectedSupport(reporter)]
        try:
            return super()._create_operator_support(containing_program, reporter)
        finally:
            self.additional_checks = checks

    def _detag_boundary_nodes(
        self, module: GraphModule, tag: str, reporter: Any, detag_first_fp_node: bool = True
    ) -> None:
        """Remove the mark also from what ends a part with a float value, or with one of 64 bits."""
        super()._detag_boundary_nodes(module, tag, reporter, detag_first_fp_node)
        removed = False
        for node in reversed(module.graph.nodes):
            inside = any(user.meta.get("delegation_tag") == tag for user in node.users)
            kind = _unwritten(node)
            if node.meta.get("delegation_tag") != tag or inside or not kind:
                continue
            reporter.report_reject(node, f"Its result is read in {kind}, outside of the NPU.")
            del node.meta["delegation_tag"]
            removed = True
        if removed:
            super()._detag_boundary_nodes(module, tag, reporter, detag_first_fp_node)

    def partition(self, exported_program: Any) -> PartitionResult:
        """Return the program with its parts marked, and the parts."""
        result = super().partition(exported_program)
        LOWERING.run("partition", result)
        modules = result.tagged_exported_program.graph_module.modules()
        graphs = (module.graph for module in modules if isinstance(module, GraphModule))
        # Constants count for nothing: they are in the order of their registration, or, in a program
        # of a strict export, in that of their first use.
        calls = (node for graph in graphs for node in graph.nodes if node.op == "call_function")
        marks = (node.meta.get("delegation_tag", "") for node in calls)
        ordered = [mark for mark in dict.fromkeys(marks) if mark in result.partition_tags]
        return PartitionResult(
            tagged_exported_program=result.tagged_exported_program,
            partition_tags={mark: result.partition_tags[mark] for mark in ordered},
        )


class _CorrectedSupport(OperatorSupportBase):
    """Rejects the operators that corrections leave to the CPU, and reports why."""

    def __init__(self, reporter: Any) -> None:
        self._reporter = reporter

    def is_node_supported(self, submodules: Any, node: Any) -> bool:
        """Return whether no correction rejects an operator."""
        del submodules
        reason = LOWERING.rejection(node)
        if reason:
            self._reporter.report_reject(node, reason)
        return not reason


def _unwritten(node: Any) -> str:
    """Return the type of a node's one result if the NPU writes none of it: float or int64; else "".

    Passes need all results of a split together.
    """
    value = node.meta.get("val")
    if node.target is operator.getitem or not isinstance(value, torch.Tensor):
        return ""
    return "float" if value.is_floating_point() else "int64" * (value.dtype == torch.int64)

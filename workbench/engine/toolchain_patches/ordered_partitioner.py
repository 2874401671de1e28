"""A partitioner whose parts for the NPU have one order, so that a program has the same bytes again.

This file stands on ExecuTorch alone, because a generated script carries it along. ExecuTorch 1.5.1
(``backends/arm/tosa/partitioner.py``) keeps the parts' names in a set of strings: its order is
another one in every process, and with it that of operators between several parts.
"""

from typing import Any

from executorch.backends.arm.ethosu import EthosUPartitioner
from executorch.exir.backend.partitioner import PartitionResult
from torch.fx import GraphModule


class OrderedPartitioner(EthosUPartitioner):
    """Finds what Ethos-U's own partitioner finds, in the order of the program."""

    def partition(self, exported_program: Any) -> PartitionResult:
        """Return the program with its parts marked, and the parts."""
        result = super().partition(exported_program)
        modules = result.tagged_exported_program.graph_module.modules()
        graphs = (module.graph for module in modules if isinstance(module, GraphModule))
        marks = (node.meta.get("delegation_tag", "") for graph in graphs for node in graph.nodes)
        ordered = [mark for mark in dict.fromkeys(marks) if mark in result.partition_tags]
        return PartitionResult(
            tagged_exported_program=result.tagged_exported_program,
            partition_tags={mark: result.partition_tags[mark] for mark in ordered},
        )

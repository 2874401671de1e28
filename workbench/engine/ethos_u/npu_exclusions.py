"""Rules that keep nodes off the NPU, as a check of ExecuTorch's partitioner.

Generated scripts contain the class. Source of the interface: ExecuTorch 1.5.1,
``exir/backend/operator_support.py`` (DontPartition and related classes).
"""

from collections.abc import Sequence
from typing import Any

from executorch.exir.backend.operator_support import DontSupportBase

from workbench.engine.ethos_u.corrections.decomposition_tracking import root_of


class KeptOff(DontSupportBase):
    """Rejects the nodes that rules match.

    Args:
        rules: Pairs of a kind ("global", "module_name", "module_type", "node_target",
            "node_name") and a match. Modules include their children; nodes and operators are
            those of the exported float program and include everything made of them.
    """

    def __init__(self, rules: Sequence[tuple[str, str]]) -> None:
        self._rules = rules

    def is_node_supported(self, submodules: Any, node: Any) -> bool:
        """Return whether no rule rejects the node, or a node that was quantized with it.

        A node whose output is quantized only after its user cannot be separated from the user.
        """
        del submodules
        if "quantize_per" in str(node.target) or not self._is_excluded(node):
            return True
        self.reject_node(node)
        return False

    def _is_excluded(self, node: Any) -> bool:
        if node.op != "call_function" or "quantize_per" in str(node.target):
            return False
        return self._is_named(node) or any(self._is_excluded(user) for user in node.users)

    def _is_named(self, node: Any) -> bool:
        stack = [(str(path), str(kind)) for path, kind in self._modules(node)]
        root = root_of(node)
        name, operator = (root.name, str(root.target)) if root else ("", "")
        return any(
            kind == "global"
            or (kind == "module_name" and any(path == match for path, _ in stack))
            or (kind == "module_type" and any(_is_class(module, match) for _, module in stack))
            or (kind == "node_name" and name == match)
            or (kind == "node_target" and operator == match)
            for kind, match in self._rules
        )

    @staticmethod
    def _modules(node: Any) -> Any:
        for path, kind in (node.meta.get("nn_module_stack") or {}).values():
            yield path.removeprefix("L['self'].").split("@")[0], kind


def _is_class(qualified: str, match: str) -> bool:
    return match in {qualified, qualified.rpartition(".")[2]}

"""What a project's rules keep off the NPU, as a check of ExecuTorch's partitioner.

A generated script carries the class along. Source of the interface: ExecuTorch 1.5.1,
``exir/backend/operator_support.py`` (DontPartition and its kin).
"""

from collections.abc import Sequence
from typing import Any

from executorch.exir.backend.operator_support import DontSupportBase

from workbench.engine.toolchain_patches.decomposition_tracking import root_of


class KeptOff(DontSupportBase):
    """Rejects what rules name, in the words that rules use.

    Args:
        rules: Pairs of a kind ("global", "module_name", "module_type", "node_target",
            "node_name") and what it matches; modules with all inside them, nodes and operators as
            they were in the exported float program, with all that was made of them.
    """

    def __init__(self, rules: Sequence[tuple[str, str]]) -> None:
        self._rules = rules

    def is_node_supported(self, submodules: Any, node: Any) -> bool:
        """Return whether no rule keeps the node off, nor what it was quantized with as one.

        A node whose output is not quantized before its user has it cannot be left without it.
        """
        del submodules
        if "quantize_per" in str(node.target) or not self._is_kept(node):
            return True
        self.reject_node(node)
        return False

    def _is_kept(self, node: Any) -> bool:
        if node.op != "call_function" or "quantize_per" in str(node.target):
            return False
        return self._is_named(node) or any(self._is_kept(user) for user in node.users)

    def _is_named(self, node: Any) -> bool:
        stack = [(str(path), str(kind)) for path, kind in self._modules(node)]
        root = root_of(node)
        name, operator = (root.name, str(root.target)) if root else ("", "")
        return any(
            kind == "global"
            or (kind == "module_name" and any(path == match for path, _ in stack))
            or (kind == "module_type" and any(_is_class(each, match) for _, each in stack))
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

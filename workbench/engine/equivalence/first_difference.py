"""The first operation of a graph whose value is another than in an earlier form of the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torchao.quantization.pt2e import ObserverBase

from workbench.engine.equivalence.comparison import differs
from workbench.engine.fx import programs
from workbench.engine.fx.modules import source_line
from workbench.engine.loading.recording import Recorded, described

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def described_nodes(
    module: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]
) -> dict[torch.fx.Node, Recorded]:
    """Return what each operation of a program returns; inputs and observers are not changed."""
    seen = _Seen(module)
    with torch.no_grad():
        seen.run(*(tensor.clone() for tensor in inputs))
    return seen.values


def first_failing(module: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> torch.fx.Node | None:
    """Return the operation of a program that raises an error; None if none does."""
    seen = _Seen(module)
    try:
        with torch.no_grad():
            seen.run(*(tensor.clone() for tensor in inputs))
    except Exception:  # noqa: BLE001 - whatever the operation raises
        return seen.last
    return None


def first_unknown(
    values: Mapping[torch.fx.Node, Recorded], known: Iterable[Recorded]
) -> torch.fx.Node | None:
    """Return the first operation whose line of code ends with a value that is not known.

    Inside a line, two forms of a network may have other steps.

    Args:
        values: What the operations of a form return, in order.
        known: What the operators of an earlier form returned.
    """
    by_shape: dict[tuple[int, ...], list[Recorded]] = {}
    for value in known:
        by_shape.setdefault(value.shape, []).append(value)
    last = {node.meta.get("stack_trace"): node for node in values}
    for node, value in values.items():
        is_last = last[node.meta.get("stack_trace")] is node
        if is_last and not any(map(value.equals, by_shape.get(value.shape, ()))):
            return node
    return None


class _Seen(torch.fx.Interpreter):
    """Describes the tensor that each operation returns."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.values: dict[torch.fx.Node, Recorded] = {}
        self.last: torch.fx.Node | None = None

    def run_node(self, n: torch.fx.Node) -> Any:
        self.last = n
        value = super().run_node(n)
        if n.op == "call_function" and isinstance(value, torch.Tensor) and not value.is_complex():
            self.values[n] = described(value, "", programs.op_name(n))
        return value

    def call_module(self, target: Any, args: Any, kwargs: Any) -> Any:
        if isinstance(self.fetch_attr(str(target)), ObserverBase):
            return args[0]
        return super().call_module(target, args, kwargs)


def first_by_name(
    nodes: Mapping[str, torch.fx.Node],
    reference: Mapping[str, torch.Tensor],
    values: Mapping[str, torch.Tensor],
) -> torch.fx.Node | None:
    """Return the first operation that has another value than the one of the same name before.

    Args:
        nodes: The operations of the graph by name, in order.
        reference: The values of the graph before, by name.
        values: The values of this graph, by name.
    """
    for name, node in nodes.items():
        before, value = reference.get(name), values.get(name)
        if before is None or value is None or node.op != "call_function":
            continue
        if before.shape == value.shape and differs(before, value):
            return node
    return None


def location_text(node: torch.fx.Node | None) -> str:
    """Return operation, line and module of a node as a part of a sentence; "" if it is unknown."""
    if node is None:
        return ""
    line = source_line(node.meta.get("stack_trace"))
    module = programs.module_of(node)
    where = f" at {line}" if line else ""
    return f"{programs.op_name(node)}{where}{f' in module {module}' if module else ''}"

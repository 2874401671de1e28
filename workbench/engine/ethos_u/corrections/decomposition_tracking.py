"""Tracks the node of the float program from which each decomposed node comes.

Before it annotates, the quantizer decomposes operators into nodes with other names. Without this
record a rule for ``softmax`` would match no node, one for a norm's module would miss its mean, and
a ``bmm`` would have no module.
Source: ExecuTorch 1.5.1, ``backends/arm/_passes``: ``GetDecompositionPass`` (matmul, attention,
einsum) notes nothing at the nodes it makes, norms not at all of theirs, the others what was noted
before.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from executorch.backends.arm._passes import arm_pass_manager
from executorch.backends.arm.quantizer import EthosUQuantizer
from executorch.backends.arm.quantizer.arm_quantizer_utils import NodeFinder
from torch import fx
from torch.fx.traceback import NodeSource

# Where a node has the place of the one it was made of, while the passes run.
_PLACE = "place_in_float_program"
_MODULES = "nn_module_stack"
Known = dict[str, tuple[Any, int]]


def root_of(node: Any) -> Any:
    """Return what is on record of the float node that a node was made of; None for nothing."""
    root, sources = None, node.meta.get("from_node")
    while sources:
        root, sources = sources[0], sources[0].from_node
    return root


class MadeOf(NodeFinder):
    """Finds nodes of the float program, by name or by operator, and all that was made of them.

    Args:
        names: Names of nodes.
        operators: Operators, such as ``aten.softmax.int``.
    """

    def __init__(self, names: tuple[str, ...] = (), operators: tuple[str, ...] = ()) -> None:
        self._names, self._operators = names, operators

    def find_nodes(self, model: fx.GraphModule) -> Iterator[fx.Node]:
        """Yield the nodes, in the order of the graph."""
        for node in model.graph.nodes:
            root = root_of(node) or node
            if root.name in self._names or str(root.target) in self._operators:
                yield node

    def __repr__(self) -> str:
        """Return the findings in the form of the quantizer's report."""
        return f"MadeOf({', '.join((*self._names, *self._operators))})"


class OfClass(NodeFinder):
    """Finds the nodes in modules of a class that is named without its module."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_nodes(self, model: fx.GraphModule) -> Iterator[fx.Node]:
        """Yield the nodes, in the order of the graph."""
        for node in model.graph.nodes:
            kinds = [kind for _, kind in (node.meta.get(_MODULES) or {}).values()]
            names = (k if isinstance(k, str) else k.__qualname__ for k in kinds)
            if any(name.rpartition(".")[2] == self._name for name in names):
                yield node

    def __repr__(self) -> str:
        """Return the findings in the form of the quantizer's report."""
        return f"OfClass({self._name})"


class FollowingQuantizer(EthosUQuantizer):
    """Ethos-U's quantizer, with every node on record as made of one of the float program.

    It stands in the modules of that one, too, so that rules for modules reach it.
    """

    def transform_for_annotation(self, model: fx.GraphModule) -> fx.GraphModule:
        """Take operators apart as ever, and follow what becomes of each."""
        sources: list[tuple[NodeSource, Any]] = []
        for _, graph in _graphs(model):
            for node in _calls(graph):
                node.meta[_PLACE] = len(sources)
                sources.append((NodeSource(node), node.meta.get(_MODULES)))
        with _followed():
            module: fx.GraphModule = super().transform_for_annotation(model)
        for _, graph in _graphs(module):
            for node in _calls(graph):
                if _PLACE not in node.meta:
                    continue
                source, modules = sources[node.meta.pop(_PLACE)]
                if _is_other(root_of(node), source):
                    node.meta["from_node"] = [source]
                if modules and not node.meta.get(_MODULES):
                    node.meta[_MODULES] = modules
        return module


def _is_other(root: Any, source: Any) -> bool:
    """Tell whether what is on record is not where the source itself leads."""
    while source.from_node:
        source = source.from_node[0]
    return root is None or (root.name, root.graph_id) != (source.name, source.graph_id)


def _graphs(module: fx.GraphModule) -> Iterator[tuple[str, fx.Graph]]:
    """Yield a module's graph and those of the branches in it, with their paths."""
    for path, part in module.named_modules():
        if isinstance(part, fx.GraphModule):
            yield path, part.graph


def _calls(graph: fx.Graph) -> list[fx.Node]:
    return [node for node in graph.nodes if node.op == "call_function"]


@contextmanager
def _followed() -> Iterator[None]:
    """Let every pass before annotation be followed while the block runs."""
    stock = arm_pass_manager.GraphModulePassManager

    def following(passes: list[Any]) -> Any:
        return stock([_following(each_pass) for each_pass in passes])

    arm_pass_manager.GraphModulePassManager = following
    try:
        yield
    finally:
        arm_pass_manager.GraphModulePassManager = stock


def _following(one: Callable[[fx.GraphModule], Any]) -> Callable[[fx.GraphModule], Any]:
    """Return a pass that leaves no node without the place of what it was made of."""

    def run(module: fx.GraphModule) -> Any:
        before: dict[str, Known] = {
            path: {n.name: (n.target, n.meta[_PLACE]) for n in _calls(graph) if _PLACE in n.meta}
            for path, graph in _graphs(module)
        }
        with _watched(module):
            result = one(module)
        for path, graph in _graphs(result.graph_module):
            _fill(graph, before.get(path, {}))
        return result

    # Errors name the pass by this.
    run.__name__ = type(one).__name__
    return run


@contextmanager
def _watched(module: fx.GraphModule) -> Iterator[None]:
    """Give nodes that are made while the block runs the place of the node erased next.

    A pass that changes a graph makes the new nodes, and then erases the one that they replace.
    """
    new: list[fx.Node] = []

    def erased(node: fx.Node) -> None:
        position = node.meta.get(_PLACE)
        for added in new if position is not None else ():
            added.meta.setdefault(_PLACE, position)
        new.clear()

    parts = [part for part in module.modules() if isinstance(part, fx.GraphModule)]
    for part in parts:
        part._register_create_node_hook(new.append)  # noqa: SLF001 - its only name
        part._register_erase_node_hook(erased)  # noqa: SLF001
    try:
        yield
    finally:
        for part in parts:
            part._unregister_create_node_hook(new.append)  # noqa: SLF001
            part._unregister_erase_node_hook(erased)  # noqa: SLF001


def _fill(graph: fx.Graph, before: Known) -> None:
    """Give nodes without a place that of their neighbours, in the order of the graph.

    What an operator is replaced by stands where it stood. Between two operators that were both
    replaced, what the later one reads was made for it.
    """
    nodes = _calls(graph)
    now = {n.name: (n.target, n.meta.get(_PLACE)) for n in nodes}
    replaced = {known[1] for name, known in before.items() if now.get(name) != known}
    earlier, gap = None, list[fx.Node]()
    for node in nodes:
        position = node.meta.get(_PLACE)
        if position is None:
            gap.append(node)
            continue
        reads = any(member in node.all_input_nodes for member in gap)
        later = position if position in replaced else None
        source = later if reads or earlier not in replaced else earlier
        for member in gap if source is not None else ():
            member.meta[_PLACE] = source
        earlier, gap = position, []
    for member in gap if earlier in replaced else ():
        member.meta[_PLACE] = earlier

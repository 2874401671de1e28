"""Operators that stay on the CPU and have no out variant, made of operators that have one.

This file stands on torch and ExecuTorch alone, because a generated script carries it along.
ExecuTorch 1.5.1 writes every operator of a program as its out variant
(``exir/passes/__init__.py``, ``ToOutVarPass``), and the partitioner keeps some whole for the NPU
that have none (``aten.pad``): where the NPU does not take them, the program cannot be written.
"""

import operator
from typing import Any

import torch
from executorch.exir.dialects._ops import ops
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from executorch.exir.pass_base import ExportPass, ProxyValue
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree


def lacks_out_variant(target: Any) -> bool:
    """Return whether a program cannot be written with an operator."""
    if not isinstance(target, EdgeOpOverload) or target._op._schema.is_mutable:  # noqa: SLF001
        return False
    try:
        target.to_out_variant()
    except RuntimeError:
        return True
    return False


def with_out_variants(manager: Any) -> Any:
    """Return an edge manager whose operators on the CPU have out variants, as far as that goes.

    Args:
        manager: An edge manager after its delegates were made. It is returned as it is where
            nothing is to be done.
    """
    nodes = manager.exported_program().graph.nodes
    if not any(lacks_out_variant(node.target) for node in nodes if node.op == "call_function"):
        return manager
    return manager.transform([_Decompose()])


class _Decompose(ExportPass):
    """Replaces each operator that has no out variant by what core ATen makes of it."""

    def call_operator(self, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        """Return the value of an operator, made of others where it has no out variant."""
        if not lacks_out_variant(op):
            return super().call_operator(op, args, kwargs, meta)
        flat, structure = pytree.tree_flatten((args, kwargs))
        tensors = [argument for argument in flat if isinstance(argument, ProxyValue)]

        def whole(*arguments: Any) -> Any:
            values = iter(arguments)
            filled = [next(values) if isinstance(argument, ProxyValue) else argument for argument in flat]
            positional, named = pytree.tree_unflatten(filled, structure)
            return op._op(*positional, **named)  # noqa: SLF001 - its only name

        table = torch.export.default_decompositions()
        graph = make_fx(whole, decomposition_table=table)(*(tensor.data for tensor in tensors)).graph
        known = dict(zip((n for n in graph.nodes if n.op == "placeholder"), tensors, strict=True))
        for node in graph.nodes:
            if node.op == "call_function":
                given = torch.fx.map_arg((node.args, dict(node.kwargs)), known.__getitem__)
                if node.target is operator.getitem:
                    known[node] = self.call_getitem(*given[0], meta)
                else:
                    known[node] = super().call_operator(_edge(node.target), *given, meta)
        (result,) = next(node for node in graph.nodes if node.op == "output").args
        return torch.fx.map_arg(result, known.__getitem__)


def _edge(target: Any) -> Any:
    """Return the operator of the edge dialect of one of ATen's."""
    namespace, _, name = target._schema.name.partition("::")  # noqa: SLF001 - its only name
    packet = getattr(getattr(ops.edge, namespace), name)
    return getattr(packet, target._overloadname)  # noqa: SLF001 - its only name

"""The convolutions and linears of a float module, with the batch norms that follow them."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from workbench.engine.fx import programs
from workbench.engine.fx.modules import source_line
from workbench.errors import ErrorInfo, Place, WorkbenchError

if TYPE_CHECKING:
    from collections.abc import Iterator

_ATEN = torch.ops.aten
_CONVOLUTIONS = (_ATEN.conv1d.default, _ATEN.conv2d.default, _ATEN.conv3d.default)
_LINEAR = _ATEN.linear.default
_NORM = _ATEN.batch_norm.default
_GROUPS = {_ATEN.conv1d.default: 6, _ATEN.conv2d.default: 6, _ATEN.conv3d.default: 6}


@dataclass(frozen=True)
class Layer:
    """One layer; ``norm`` is the batch norm on its output, ``end`` the node with its result."""

    module: fx.GraphModule
    node: fx.Node
    norm: fx.Node | None

    @property
    def end(self) -> fx.Node:
        """The node whose value leaves the layer."""
        return self.norm or self.node

    @property
    def groups(self) -> int:
        """Groups of a convolution; 1 for a linear."""
        position = _GROUPS.get(self.node.target, 99)
        return int(str(self.node.args[position])) if len(self.node.args) > position else 1

    @property
    def weight(self) -> torch.Tensor:
        """The weight [out, in / groups, ...]."""
        value = tensor(self.module, self.node.args[1])
        assert value is not None
        return value

    @property
    def bias(self) -> torch.Tensor | None:
        """The bias of each output channel [out]; that of the norm, if there is one."""
        if self.norm is not None:
            return tensor(self.module, self.norm.args[2])
        return tensor(self.module, self.node.args[2]) if len(self.node.args) > 2 else None

    def gain(self) -> torch.Tensor:
        """Return the scale of the norm per channel [out]."""
        if self.norm is None:
            return torch.ones(self.weight.shape[0])
        gamma, variance = (tensor(self.module, self.norm.args[1]), tensor(self.module, self.norm.args[4]))
        assert variance is not None
        scale = torch.rsqrt(variance + float(str(self.norm.args[7])))
        return scale if gamma is None else scale * gamma

    def scale_outputs(self, factors: torch.Tensor) -> None:
        """Multiply every output channel by a factor [out]."""
        if self.norm is not None:
            gamma = tensor(self.module, self.norm.args[1])
            assert gamma is not None
            gamma.mul_(factors)
        else:
            self.weight.mul_(along_outputs(factors, self.weight))
        if self.bias is not None:
            self.bias.mul_(factors)

    def scale_inputs(self, factors: torch.Tensor) -> None:
        """Multiply the weights of every input channel by a factor [in]."""
        if self.groups > 1:
            factor = factors.repeat_interleave(self.weight.shape[0] // self.groups)
            self.weight.mul_(along_outputs(factor, self.weight))
        else:
            self.weight.mul_(_along(factors, 1, self.weight))


def layers(module: fx.GraphModule) -> Iterator[Layer]:
    """Yield every layer with unshared weights, in program order."""
    uses: dict[str, int] = {}
    for node in module.graph.nodes:
        if node.op == "get_attr":
            uses[str(node.target)] = uses.get(str(node.target), 0) + max(len(node.users), 1)
    for node in module.graph.nodes:
        if node.op != "call_function" or node.target not in (*_CONVOLUTIONS, _LINEAR):
            continue
        user = next(iter(node.users), None) if len(node.users) == 1 else None
        norm = user if user is not None and _is_norm(user) else None
        sources = [*node.all_input_nodes[1:], *(norm.all_input_nodes[1:] if norm else ())]
        if all(s.op == "get_attr" and uses[str(s.target)] == 1 for s in sources):
            yield Layer(module, node, norm)


def tensor(module: fx.GraphModule, node: Any) -> torch.Tensor | None:
    """Return the constant of a node; None for other nodes."""
    if not isinstance(node, fx.Node) or node.op != "get_attr":
        return None
    value = operator.attrgetter(str(node.target))(module)
    return value.data if isinstance(value, torch.Tensor) else None


def _is_norm(node: fx.Node) -> bool:
    return node.target is _NORM and node.args[5] is False and all(node.args[1:5])


def along_outputs(factors: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return factors [out] in the shape that multiplies a weight [out, ...]."""
    return _along(factors, 0, weight)


def _along(factors: torch.Tensor, dimension: int, weight: torch.Tensor) -> torch.Tensor:
    shape = [1] * weight.dim()
    shape[dimension] = -1
    return factors.reshape(shape)


_FOLDED_INTO = ("aten.conv", "aten.linear")


def refuse_present_statistics(module: fx.GraphModule) -> None:
    """Raise for batch norms with statistics of the batch, which torchao folds all the same.

    Raises:
        WorkbenchError: every such batch norm.
    """
    problems = [
        _of_present_statistics(node)
        for node in module.graph.nodes
        if str(node.target) == "aten.batch_norm.default"
        and node.args[5]
        and str(node.args[0].target).startswith(_FOLDED_INTO)
    ]
    if problems:
        raise WorkbenchError(problems)


def _of_present_statistics(norm: fx.Node) -> ErrorInfo:
    line = source_line(norm.meta.get("stack_trace"), own=True)
    named = f"{norm.name} in module {programs.module_of(norm) or 'forward'}"
    hint = "Let it use running statistics: training=False, or a program exported in evaluation mode"
    if norm.meta["val"].dim() > _WITHOUT_POSITIONS:
        affine = " and affine=True" if norm.args[1] is not None else ""
        hint += (
            f", or use InstanceNorm with track_running_stats=False{affine}, which is the same for "
            "a batch of one"
        )
    return ErrorInfo(
        message=f"The batch norm {named}{f' at {line}' if line else ''} normalizes with the "
        "statistics of the present batch, not with running ones.",
        hint=f"{hint}.",
        where=Place(kind="node", id=norm.name),
        code="batch-norm-without-statistics",
    )


# Dimensions of a value that has a batch and channels only.
_WITHOUT_POSITIONS = 2

"""Values that are not numbers, which a network makes and does not use."""

from collections.abc import Iterator
from typing import Any

import torch
from executorch.backends.arm.quantizer import EthosUQuantizer
from torch import fx

from .compared_values import called
from .graph_writer import Writer, finished, floating_calls, is_floating, quantized_nodes

_ATEN = torch.ops.aten
_LOGARITHMS = (_ATEN.log.default, _ATEN.log2.default, _ATEN.log10.default, _ATEN.rsqrt.default)
_ROOTS = (_ATEN.sqrt.default, _ATEN.pow.Tensor_Scalar)
_ARCS = (_ATEN.asin.default, _ATEN.acos.default, _ATEN.atanh.default)
# What is not a number behind it is not a number before it, at the same place or among others.
_PASSED_ON = frozenset(
    ("neg", "abs", "mul", "add", "sub", "rsub", "div", "exp", "sqrt", "pow", "clamp", "clamp_min")
) | frozenset(("reshape", "view", "unsqueeze", "squeeze", "transpose", "permute", "expand", "to", "clone"))
_CHOICES = ("where", "masked_fill")
_OF_ITS_SHAPE = ("zeros_like", "ones_like", "full_like", "empty_like")
_TOTALS = ("sum", "mean", "norm", "linalg_vector_norm")
# The guard of a denominator: what guarded_quotients takes for no limit that is meant to be reached.
_GUARD = 1e-12


def defined_operands(module: fx.GraphModule, quantizer: EthosUQuantizer) -> list[str]:
    """Let operators whose result is not used where it is no number have operands they are defined for.

    Fault: torch.where(y > 0, y.log(), 0) takes the logarithm of negative values and does not use
        it. Observers have no range for what is no number, and integers cannot be one.
    Instead: A logarithm, root or arc that only choices read has the absolute value of its operand,
        or the nearest one it is defined for. A quotient, or a logarithm of zero that is multiplied,
        has another number for its operand where the choice drops it. A sum that is never negative
        is at least 1e-12 where it divides, if choices or nan_to_num answer for zero by zero.
    Right because: Where the operator is defined its operand is the same, and elsewhere the choice
        takes the other value. Zero by the guard is zero, which nan_to_num gives.
    Network: torch.where(y > 0, y.log(), torch.zeros_like(y)) with y = linear(x) in a8w8
    Tools: executorch 1.5.1
    """
    done = list[str]()
    calls = list(floating_calls(module, *_LOGARITHMS, *_ROOTS, *_ARCS, _ATEN.div.Tensor))
    quantized = quantized_nodes(module, quantizer) if calls else set()
    for node in (call for call in calls if call in quantized):
        write = Writer(module, node)
        operand = _defined_operand(write, node)
        if operand is not None:
            at = 1 if node.target is _ATEN.div.Tensor else 0
            node.update_arg(at, operand)
            done.append(node.name)
    return finished(module, done)


def _defined_operand(write: Writer, node: fx.Node) -> fx.Node | None:
    """Return an operand that the operator is defined for; None where it must stay as it is."""
    x: Any = node.args[0]
    if node.target is _ATEN.div.Tensor:
        return _defined_divisor(write, node)
    is_power = node.target is _ATEN.pow.Tensor_Scalar
    if is_power and (not isinstance(node.args[1], float) or node.args[1].is_integer()):
        return None
    if _is_never_negative(x):
        # Zero by an infinite logarithm is no number.
        is_read_on = node.target in _LOGARITHMS and any(_name(reader) == "mul" for reader in node.users)
        return _chosen_operand(write, node, x) if is_read_on else None
    if _is_chosen(node):
        limits = (-1.0, 1.0) if node.target in _ARCS else ()
        return write(_ATEN.clamp.default, x, *limits) if limits else write(_ATEN.abs.default, x)
    is_root = node.target in _ROOTS and _is_chosen(node, zero=True)
    return write(_ATEN.relu.default, x) if is_root else None


def _defined_divisor(write: Writer, node: fx.Node) -> fx.Node | None:
    """Return a divisor that is not zero where the choice drops the quotient; None where it must stay."""
    divisor: Any = node.args[1]
    if not isinstance(divisor, fx.Node):
        return None
    is_sum = _is_never_negative(divisor)
    chosen = None if is_sum and _name(divisor) in _TOTALS else _chosen_operand(write, node, divisor)
    if chosen is None and is_sum and _is_chosen(node, zero=True):
        return write(_ATEN.clamp.default, divisor, _GUARD)
    return chosen


def _chosen_operand(write: Writer, node: fx.Node, operand: fx.Node) -> fx.Node | None:
    """Return an operand that is one number where the only choice that reads the result drops it."""
    value = node
    while len(value.users) == 1 and _name(value) != "where":
        (reader,) = value.users
        if _name(reader) not in (*_PASSED_ON, "where") or reader.meta["val"].shape != node.meta["val"].shape:
            return None
        if _name(reader) == "where" and reader.args[0] is value:
            return None
        before, value = value, reader
    if _name(value) != "where":
        return None
    condition: Any = value.args[0]
    if condition.meta["val"].shape != operand.meta["val"].shape:
        return None
    known = {*_nodes_before(node)}
    if condition not in known:
        if not known.issuperset(condition.all_input_nodes):
            return None
        condition = write(condition.target, *condition.args)
    number = write.constant(f"{node.name}_unchosen", torch.tensor(_limit(condition, operand)))
    values = (operand, number) if value.args[1] is before else (number, operand)
    return write(_ATEN.where.self, condition, *values)


def _nodes_before(node: fx.Node) -> Iterator[fx.Node]:
    for other in node.graph.nodes:
        if other is node:
            return
        yield other


def _limit(condition: fx.Node, operand: fx.Node) -> float:
    """Return the number that a condition compares an operand with, if it is above zero; else 1."""
    limit = condition.args[1] if condition.args[0] is operand else None
    return float(limit) if isinstance(limit, int | float) and limit > 0 else 1.0


def _is_chosen(node: fx.Node, *, zero: bool = False) -> bool:
    """Return whether all that reads a value leads to choices, which do not depend on it.

    Args:
        node: The value.
        zero: Whether the choice may be one of zero in place of what is no number.
    """
    waiting, visited = [node], set[fx.Node]()
    while waiting:
        value = waiting.pop()
        for reader in value.users:
            name = _name(reader)
            if name in _CHOICES:
                is_condition = reader.args[0 if name == "where" else 1] is value
                if is_condition or (name == "masked_fill" and reader.args[2] is value):
                    return False
            elif name in _OF_ITS_SHAPE or (zero and (_is_zero_for_nan(reader) or _asks_for_zeros(reader))):
                continue
            elif name not in _PASSED_ON or not is_floating(reader):
                return False
            elif reader not in visited:
                visited.add(reader)
                waiting.append(reader)
        if not value.users:
            return False
    return True


def _is_zero_for_nan(reader: fx.Node) -> bool:
    is_zero = reader.args[1:2] in {(), (None,), (0,), (0.0,)}
    return _name(reader) in ("nansum", "nanmean") or (_name(reader) == "nan_to_num" and is_zero)


def _asks_for_zeros(reader: fx.Node) -> bool:
    """Return whether a reader is isnan, and puts zero where it holds."""
    if _name(reader) != "isnan" or not reader.users:
        return False
    for choice in reader.users:
        name = _name(choice)
        if name not in _CHOICES or choice.args[0 if name == "where" else 1] is not reader:
            return False
        filled: Any = choice.args[1 if name == "where" else 2]
        is_zeros = isinstance(filled, fx.Node) and (
            _name(filled) in ("zeros_like", "zeros")
            or (_name(filled) in ("full", "full_like", "scalar_tensor") and 0 in filled.args)
        )
        if not is_zeros and filled != 0:
            return False
    return True


_NEVER_NEGATIVE = frozenset(
    ("relu", "sigmoid", "exp", "abs", "softmax", "_softmax", "softplus", "sqrt", "square")
)
_NEVER_NEGATIVE |= {"norm", "linalg_vector_norm", "cdist"}
# What is zero or more if its operands are.
_KEPT = frozenset(
    ("sum", "mean", "amax", "amin", "max", "cumsum", "expand", "reshape", "view", "pow", "clamp")
)
_KEPT |= {"unsqueeze", "squeeze", "transpose", "permute", "clone", "to", "_to_copy", "clamp_min"}
_KEPT_OF_TWO = ("mul", "add", "div")


def _is_never_negative(value: Any) -> bool:
    """Return whether a value is zero or more whatever the input is."""
    if not isinstance(value, fx.Node) or not value.args:
        return isinstance(value, int | float) and value >= 0
    name, rest = _name(value), list[Any](value.args[1:2])
    if name in _NEVER_NEGATIVE or _is_boolean(value) or (name == "mul" and rest == [value.args[0]]):
        return True
    if name == "pow" and rest[0] in (2, 4):
        return True
    if name in ("clamp", "clamp_min") and isinstance(rest[0], int | float) and rest[0] >= 0:
        return True
    is_kept = name in _KEPT or (name in _KEPT_OF_TWO and _is_never_negative(rest[0]))
    return is_kept and _is_never_negative(value.args[0])


def _is_boolean(value: fx.Node) -> bool:
    tensor = value.meta.get("val")
    return isinstance(tensor, torch.Tensor) and tensor.dtype is torch.bool


def _name(node: Any) -> str:
    return called(node).removesuffix("_")

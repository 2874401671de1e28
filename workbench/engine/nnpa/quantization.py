"""The rules of a project on an exported graph: observers at operands, int8 products.

Ranges are dynamic; calibration only shows their spread.
"""

from __future__ import annotations

import operator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torchao.quantization.pt2e import MinMaxObserver

from workbench.engine.fx import programs
from workbench.engine.fx.rules import rules_of
from workbench.engine.nnpa import arithmetic
from workbench.engine.nnpa.arithmetic import range_of
from workbench.engine.nnpa.emulation import (
    dequantize_per_nnpa,
    dequantize_weight_per_nnpa,
    nnpa_matmul,
    quantize_per_nnpa,
)
from workbench.engine.training.model import EmulatedQatModel
from workbench.errors import Place, WorkbenchError, failure
from workbench.project.configs import DynamicConfig
from workbench.results import NodeAnnotation
from workbench.targets import target_of
from workbench.targets.base import Reason
from workbench.targets.nnpa.options import quantizes
from workbench.targets.nnpa.products import ON_CPU, OPERATION_TYPES, OTHER, UNRULED, Product, why_never

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.engine.fx.rules import GraphRules
    from workbench.engine.runtime.context import StageContext
    from workbench.project.model import Project
    from workbench.project.opened import OpenProject
    from workbench.results import FormatMemory


_LINEAR, _ADDMM = "aten.linear.default", "aten.addmm.default"
_MATMULS = frozenset({"aten.matmul.default", "aten.mm.default", "aten.bmm.default"})
_ADDS = frozenset({"aten.add.Tensor", "aten.add_.Tensor"})


@dataclass(frozen=True)
class Match:
    """One product.

    Attributes:
        node: The node with the result: the product, or the fused addition.
        source: The product itself.
        left: First operand.
        right: Second operand.
        bias: The fused bias.
        linear: Whether the second operand is transposed, as in nn.Linear.
        product: As the compiler sees it.
    """

    node: fx.Node
    source: fx.Node
    left: fx.Node
    right: fx.Node
    bias: fx.Node | None
    linear: bool
    product: Product


def products(module: fx.GraphModule, *, rewritten: bool) -> Iterator[Match]:
    """Yield every matrix product of a graph, in order.

    Args:
        module: An exported program's module.
        rewritten: Whether the exported file gets its Gemms without transposition.
    """
    for node in list(module.graph.nodes):
        op = programs.op_of(node) if node.op == "call_function" else ""
        if op == _LINEAR:
            yield _linear(module, node, rewritten)
        elif op == _ADDMM:
            yield _addmm(module, node)
        elif op in _MATMULS:
            yield _matmul(module, node)


def constant(module: fx.GraphModule, node: fx.Node) -> torch.Tensor | None:
    """Return the value of a node that is known at compile time; None for others."""
    if node.op == "get_attr" and not programs.is_constant(node):
        return None
    if node.op == "get_attr":
        value = operator.attrgetter(str(node.target))(module)
        return value if isinstance(value, torch.Tensor) else None
    target: Any = node.target
    if node.op != "call_function" or not _is_steady(target) or not node.all_input_nodes:
        return None
    held = {source: constant(module, source) for source in node.all_input_nodes}
    if any(value is None for value in held.values()):
        return None
    args, kwargs = fx.map_arg((node.args, node.kwargs), held.__getitem__)
    with torch.no_grad():
        value = target(*args, **kwargs)
    return value if isinstance(value, torch.Tensor) else None


def _is_steady(target: Any) -> bool:
    """Return whether an operator is deterministic and has no side effects."""
    if not isinstance(target, torch._ops.OpOverload):  # noqa: SLF001 - no public name
        return False
    schema = target._schema  # noqa: SLF001 - no public name
    return not schema.is_mutable and torch.Tag.nondeterministic_seeded not in target.tags


def _linear(module: fx.GraphModule, node: fx.Node, rewritten: bool) -> Match:
    left, right, *rest = node.args
    assert isinstance(left, fx.Node)
    assert isinstance(right, fx.Node)
    given = rest[0] if rest else node.kwargs.get("bias")
    bias = given if isinstance(given, fx.Node) else None
    shape = _shape(right)
    gemm = len(_shape(left)) == 2
    product = Product(
        _shape(left),
        (*shape[:-2], shape[-1], shape[-2]) if len(shape) > 1 else shape,
        constant(module, right) is not None,
        gemm=gemm,
        transposed=gemm and not rewritten,
        bias=None if bias is None else _shape(bias),
        constant_bias=bias is None or constant(module, bias) is not None,
    )
    if bias is None:
        return _with_addition(module, Match(node, node, left, right, None, True, product))
    return Match(node, node, left, right, bias, True, product)


def _addmm(module: fx.GraphModule, node: fx.Node) -> Match:
    bias, left, right = node.args
    assert isinstance(bias, fx.Node)
    assert isinstance(left, fx.Node)
    assert isinstance(right, fx.Node)
    scaled = any(node.kwargs.get(name, 1) != 1 for name in ("alpha", "beta"))
    product = Product(
        _shape(left),
        _shape(right),
        constant(module, right) is not None,
        gemm=True,
        scaled=scaled,
        bias=_shape(bias),
        constant_bias=constant(module, bias) is not None,
    )
    return Match(node, node, left, right, bias, False, product)


def _matmul(module: fx.GraphModule, node: fx.Node) -> Match:
    left, right = node.args
    assert isinstance(left, fx.Node)
    assert isinstance(right, fx.Node)
    product = Product(_shape(left), _shape(right), constant(module, right) is not None)
    return _with_addition(module, Match(node, node, left, right, None, False, product))


def _with_addition(module: fx.GraphModule, match: Match) -> Match:
    """Return a product with the addition after it, if the compiler fuses both."""
    users = list(match.source.users)
    add = users[0] if len(users) == 1 else None
    if add is None or programs.op_of(add) not in _ADDS or add.kwargs.get("alpha", 1) != 1:
        return match
    first, second = add.args[:2]
    other = second if first is match.source else first
    held = not isinstance(other, fx.Node) or constant(module, other) is not None
    shape = _shape(other) if isinstance(other, fx.Node) else ()
    flat = len(match.product.left) == 2
    if flat and not held and first is not match.source:
        # Only an addition with the product as first operand becomes a Gemm.
        return match
    product = Product(
        match.product.left,
        match.product.right,
        match.product.constant,
        gemm=match.product.gemm,
        transposed=match.product.transposed,
        bias=shape,
        constant_bias=held,
    )
    if not (product.takes_bias and held and isinstance(other, fx.Node)):
        return Match(match.source, match.source, match.left, match.right, None, match.linear, product)
    return Match(add, match.source, match.left, match.right, other, match.linear, product)


def _shape(node: fx.Node) -> tuple[int, ...]:
    value = node.meta.get("val")
    return tuple(int(size) for size in value.shape) if isinstance(value, torch.Tensor) else ()


# Metadata key of the product at the node with its result.
_PRODUCT = "nnpa"
_TINY = 2.0**-126


@contextmanager
def float_module(context: StageContext) -> Iterator[fx.GraphModule]:
    """Yield the float program's module for preparation, with batch norms."""
    yield context.live("export").module(check_guards=False)


def options_of(project: Project) -> dict[str, Any]:
    """Return all options of the target."""
    choice = project.target
    return dict(target_of(choice.id).complete(choice).options)


def prepare(module: fx.GraphModule, rules: GraphRules) -> fx.GraphModule:
    """Insert an observer at both operands of every product that becomes an int8 product.

    Raises:
        WorkbenchError: the graph has branches or loops.
    """
    if programs.has_control_flow(module):
        raise failure(
            "NNPA emulation does not support branches and loops.",
            "Export the model without torch.cond and while_loop.",
            Place(kind="stage", id="prepare"),
            code="nnpa-branches-not-supported",
        )
    programs.write_nowhere(module, but_buffers=True)
    rules.decide(module.graph)
    options = options_of(rules.project)
    observers: dict[tuple[fx.Node, str], fx.Node] = {}
    for found_products in list(products(module, rewritten=bool(options["rewrite_gemm"]))):
        rule = rules.won.get(found_products.source)
        if rule is None or not isinstance(rules.project.config_of(rule), DynamicConfig):
            continue
        nodes = {found_products.source, found_products.node}
        why = _why_not(found_products, rules, options)
        if reason := why or found_products.product.splits or _odd_weight(module, found_products, options):
            rules.reasons.update(dict.fromkeys(nodes, reason))
        if why:
            continue
        _add_observers(module, found_products, options, observers)
        rules.placed.update(dict.fromkeys(nodes, rule))
    module.recompile()
    return module


def _why_not(match: Match, rules: GraphRules, options: dict[str, Any]) -> Reason | None:
    if match.source in rules.cpu_only:
        return ON_CPU
    return match.product.why_float if quantizes(options) else OPERATION_TYPES


def _odd_weight(module: fx.GraphModule, match: Match, options: dict[str, Any]) -> Reason | None:
    """Return a warning about a weight: no range, or one that NNPA does not support.

    Raises:
        WorkbenchError: it contains NaN or infinities.
    """
    value = constant(module, match.right)
    assert value is not None
    try:
        warnings = range_of(value.detach(), options["weights"]).warnings
        return Reason("weight-range", " ".join(warnings)) if warnings else None
    except WorkbenchError as error:
        place = Place(kind="node", id=match.source.name)
        infos = [
            info.model_copy(update={"message": f"The weight: {info.message}", "where": place})
            for info in error.infos
        ]
        raise WorkbenchError(infos) from error


def _add_observers(
    module: fx.GraphModule,
    match: Match,
    options: dict[str, Any],
    observers: dict[tuple[fx.Node, str], fx.Node],
) -> None:
    right = _standing(module, match)
    for source, role, mode in (
        (match.left, "activation", options["activations"]),
        (right, "weight", options["weights"]),
    ):
        key = source, role
        if key not in observers:
            with module.graph.inserting_before(match.source):
                observers[key] = _observed(module, source, role, mode)
        match.source.replace_input_with(source, observers[key])
    how = options["reading"], match.linear, match.node.name
    bias = None if match.bias is None else match.bias
    match.node.meta[_PRODUCT] = (
        observers[match.left, "activation"].name,
        observers[right, "weight"].name,
        bias.name if bias else "",
        how,
    )


def _standing(module: fx.GraphModule, match: Match) -> fx.Node:
    """Return the right operand as an attribute, replacing views of one."""
    if match.right.op == "get_attr":
        return match.right
    value = constant(module, match.right)
    assert value is not None
    name = f"_constant_{match.right.name}"
    module.register_buffer(name, value.detach().clone())
    with module.graph.inserting_before(match.source):
        attribute = module.graph.get_attr(name)
    attribute.meta = {**match.right.meta}
    match.source.replace_input_with(match.right, attribute)
    return attribute


def _observed(module: fx.GraphModule, source: fx.Node, role: str, mode: str) -> fx.Node:
    observer: Any = MinMaxObserver(
        dtype=torch.int8,
        eps=_TINY,
        quant_min=-127 if mode == "sym" else -128,
        quant_max=127,
        qscheme=torch.per_tensor_symmetric if mode == "sym" else torch.per_tensor_affine,
    )
    observer.operand = role, mode
    if role == "activation":
        observer.dynamic = mode
    number = sum(1 for node in module.graph.nodes if node.op == "call_module")
    name = f"operand_observer_{number}"
    module.add_submodule(name, observer)
    node = module.graph.call_module(name, (source,))
    node.meta = {key: value for key, value in source.meta.items() if key in {"val", "tensor_meta"}}
    return node


def convert(module: fx.GraphModule, *, fold: bool = True, reading: str = "") -> fx.GraphModule:
    """Return the emulated program, created in place from the module.

    Args:
        module: From ``prepare``.
        fold: Whether weights are quantized once and stored as codes.
        reading: Another arithmetic than the project's.
    """
    nodes = {node.name: node for node in module.graph.nodes}
    for node in nodes.values():
        if (kept := node.meta.pop(_PRODUCT, None)) is not None:
            left, right, bias, how = kept
            how = (reading or how[0], *how[1:])
            args = (nodes[left], nodes[right], nodes.get(bias), how)
            node.target, node.args, node.kwargs = nnpa_matmul, args, {}
    for node in nodes.values():
        if node.op == "call_module":
            _become(module, node, fold)
    programs.drop_unused(module.graph)
    module.recompile()
    return module


def _become(module: fx.GraphModule, node: fx.Node, fold: bool) -> None:
    """Replace an observer by operators, one set per reader: every product rounds its operands."""
    observer: Any = module.get_submodule(str(node.target))
    role, mode = observer.operand
    source = node.args[0]
    assert isinstance(source, fx.Node)
    graph = module.graph
    for reader in list(node.users):
        with graph.inserting_before(reader):
            if role == "weight" and fold:
                read = _stored(module, source, mode)
            else:
                held = graph.call_function(quantize_per_nnpa, (source, role, mode))
                held.meta = {**node.meta}
                if role == "activation":
                    held.meta[programs.DYNAMIC] = True
                read = graph.call_function(dequantize_per_nnpa, (held,))
        read.meta = {**node.meta}
        reader.replace_input_with(node, read)
    graph.erase_node(node)
    module.delete_submodule(str(node.target))


def _stored(module: fx.GraphModule, source: fx.Node, mode: Any) -> fx.Node:
    value = constant(module, source)
    assert value is not None
    with torch.no_grad():
        weight = arithmetic.weight_of(value, mode)
    name = f"_codes_{source.name}"
    if not hasattr(module, name):
        module.register_buffer(name, weight.codes.to(torch.int8))
    codes = module.graph.get_attr(name)
    codes.meta = {**source.meta}
    by = weight.by
    numbers = (float(by.scale), float(by.zero_point), float(by.reciprocal))
    return module.graph.call_function(dequantize_weight_per_nnpa, (codes, *numbers))


def memory(observed: fx.GraphModule) -> FormatMemory | None:
    """Return nothing: weights are int8 or float32, and activations dlfloat16 on NNPA."""
    del observed
    return None


def report(rules: GraphRules, prepared: fx.GraphModule, project: Project) -> list[NodeAnnotation]:
    """Return for every operator whether it is quantized, by which rule, or why not."""
    annotations = []
    for node in prepared.graph.nodes:
        if node.op != "call_function" or "val" not in node.meta:
            continue
        rule, by = rules.placed.get(node), rules.won.get(node)
        op, wanted = programs.op_of(node), by is not None and project.config_of(by) is not None
        why = None if rule else why_never(op) if wanted else UNRULED
        why = ON_CPU if node in rules.cpu_only else why
        reason = rules.reasons.get(node) or why or Reason("", "")
        annotations.append(
            NodeAnnotation(
                node=node.name,
                op=op,
                module=programs.module_of(node),
                config=project.label_of(rule) if rule else "float",
                by=f"{rule.id} {rule.kind} {rule.match}".rstrip() if rule else "",
                quantized=rule is not None,
                reason=reason.text,
                cause=reason.cause,
                never=reason == OTHER,
            )
        )
    return annotations


def qat_model(floating: fx.GraphModule, opened: OpenProject) -> EmulatedQatModel:
    """Return the float program with its int8 products, for training."""
    return EmulatedQatModel(
        floating,
        lambda module: convert(prepare(module, rules_of(opened)), fold=False),
        lambda node: node.target is nnpa_matmul,
    )

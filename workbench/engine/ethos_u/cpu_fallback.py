"""Placement of operators on NPU and CPU with reasons, predicted or from a compilation."""

from __future__ import annotations

import importlib.util
import math
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.exir.backend.partitioner import PartitionResult

from workbench.analysis.silicon import CONVERSION_CYCLES
from workbench.engine.ethos_u.capture.lowering import partition_reasons
from workbench.engine.ethos_u.compile_spec import compile_spec, own_ini_at_hand
from workbench.engine.ethos_u.corrections.decomposition_tracking import root_of
from workbench.engine.ethos_u.corrections.partition import TAG
from workbench.engine.ethos_u.cpu_kernels import ORIGIN
from workbench.engine.ethos_u.cpu_reasons import in_words, unreported
from workbench.engine.ethos_u.npu_exclusions import KeptOff
from workbench.engine.ethos_u.refusals import CheckingPartitioner, refuse_control_flow
from workbench.engine.fx import programs
from workbench.engine.runtime.accelerated import accelerated
from workbench.graph.snapshot import GraphSnapshot
from workbench.pipeline.resolution import resolve_graph, rule_name
from workbench.results import GRAPH_FILE, CpuCause, CpuNode, PrepareResult
from workbench.targets import target_of
from workbench.targets.ethos_u.devices import family_of
from workbench.text import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from workbench.engine.runtime.context import StageContext
    from workbench.project.model import TargetChoice

_BOOKKEEPING = ("getitem", "alloc", "executorch_call_delegate")


class _Foreseeing(CheckingPartitioner):
    """Tags operators for the NPU as usual, but delegates nothing, so that nothing is compiled."""

    device: str
    npu: int
    cpu: tuple[CpuNode, ...]
    not_quantized: dict[str, tuple[CpuCause, str]]

    def partition(self, exported_program: Any) -> PartitionResult:
        """Store the decisions; return the program without partitions."""
        with partition_reasons() as reasons:
            tagged = super().partition(exported_program).tagged_exported_program
        calls = [node for node in tagged.graph.nodes if node.op == "call_function"]
        self.npu = sum(1 for node in calls if TAG in node.meta)
        self.cpu = tuple(cpu_nodes(tagged, reasons, self.not_quantized, self.device))
        return PartitionResult(tagged_exported_program=exported_program, partition_tags={})


def preview_placement(context: StageContext, choice: TargetChoice) -> tuple[int, tuple[CpuNode, ...]]:
    """Return the number of operators on a device's NPU, and the others with reasons.

    The partitioner decides as in lowering; Vela is not run, so its own rejections are not
    predicted.

    Raises:
        WorkbenchError: the program cannot be lowered for that device.
    """
    choice = target_of(choice.id).complete(choice, context.folder)
    refuse_control_flow(context, choice)
    check = cpu_only_check(context, context.project.cpu_only_rules())
    checker = _Foreseeing(compile_spec(choice), additional_checks=[check] if check else None)
    checker.device, checker.not_quantized = device_of(choice), not_quantized(context)
    with own_ini_at_hand(choice, context.folder), accelerated(context.accelerate):
        to_edge_transform_and_lower(
            context.live("convert").program,
            partitioner=[checker],
            compile_config=EdgeCompileConfig(_check_ir_validity=False),
        )
    return checker.npu, checker.cpu


def cpu_only_check(context: StageContext, rules: Sequence[tuple[str, str]]) -> KeptOff | None:
    """Return the check for rules that keep parts off the NPU; None if there are none."""
    if not rules:
        return None
    return KeptOff(rules)


def not_quantized(context: StageContext) -> dict[str, tuple[CpuCause, str]]:
    """Return for each node of the prepared graph that stays in float why it does.

    That no rule covers an operator, that a rule leaves it in float, and that a rule covers it but
    the quantizer has no pattern for it are three reasons with three remedies.
    """
    project, prepared = context.project, context.result("prepare", PrepareResult)
    graph = GraphSnapshot.load(context.path("export") / GRAPH_FILE)
    resolution = resolve_graph(project, graph, prepared)
    names = {rule.id: rule_name(rule) for rule in project.rules}
    reasons: dict[str, tuple[CpuCause, str]] = {}
    for note in prepared.annotations:
        effective = resolution.nodes.get(note.origin) or resolution.modules.get(note.module)
        if note.quantized or effective is None or effective.cpu_only:
            continue
        rule = names.get(effective.rule or "")
        if effective.label != "float":
            sentence = f"The rule {rule} covers it, but {note.op} was not quantized: {note.reason}"
            reasons[note.node] = "pattern", sentence
        elif rule:
            reasons[note.node] = "float", f"The rule {rule} leaves it in float."
        else:
            reasons[note.node] = "float", "No rule covers it, so it stays in float."
    return reasons


def device_of(choice: TargetChoice) -> str:
    """Return the name of a device's family, such as Ethos-U65."""
    return f"Ethos-{family_of(choice.id).name.upper()}"


def cpu_nodes(
    edge: Any, reasons: dict[str, str], not_quantized: Mapping[str, tuple[CpuCause, str]], device: str
) -> Iterator[CpuNode]:
    """Yield the operators of an edge program outside all (planned) delegates.

    Args:
        edge: The program.
        reasons: The partitioner's reasons, by node.
        not_quantized: Why nodes of the prepared graph stay in float.
        device: From ``device_of``.
    """
    signature = edge.graph_signature
    inputs, written = set(signature.user_inputs), signature.buffers_to_mutate
    kept = {n for n, buffer in signature.inputs_to_buffers.items() if buffer in written.values()}
    for node in edge.graph.nodes:
        op = programs.op_of(node)
        is_kept = node.op != "call_function" or TAG in node.meta
        if is_kept or any(word in op for word in _BOOKKEEPING):
            continue
        takes_input = any(source.name in inputs for source in node.all_input_nodes)
        at_border = takes_input or any(user.op == "output" for user in node.users)
        origin = str(node.meta.get(ORIGIN, node.name))
        remembered = node.name in written or any(n.name in kept for n in node.all_input_nodes)
        reported = reasons.get(origin, "")
        if reported or "quantize_per" in op:
            cause, reason = in_words(reported, op, device, at_border=at_border, remembered=remembered)
        else:
            cause, reason = unreported(node)
        if cause == "float":
            root = root_of(node)
            cause, reason = not_quantized.get(root.name if root else "", (cause, reason))
        yield CpuNode(
            node=node.name,
            op=op,
            module=programs.module_of(node),
            reason=reason,
            cause=cause,
            cycles=cpu_cycles(node),
        )


# The argument whose last dimension is summed over, and the one with the weights of a convolution.
_SUMMED = {"aten.mm.": 0, "aten.bmm.": 0, "aten.addmm.": 1, "aten.linear.": 0, "aten.matmul.": 0}
_CONVOLUTION, _WEIGHT = "aten.convolution.", 1


def cpu_cycles(node: torch.fx.Node) -> int:
    """Return the roughly estimated cycles of a node on a Cortex-M55; 0 if a shape is not known.

    One figure is known: to load, convert and store a float took 9.1 cycles
    (``CONVERSION_CYCLES``). The same is taken for each element that an operator reads or writes,
    whichever are more, and for each product of a matrix product or convolution. Functions such as
    exponentials take more, and kernels with vector instructions less.
    """
    read = [_value(source) for source in node.all_input_nodes]
    written = _value(node)
    elements = [_elements(value) for value in (*read, written)]
    if any(count is None for count in elements):
        return 0
    *inputs, output = (count or 0 for count in elements)
    products = output * _products(node)
    return math.ceil(CONVERSION_CYCLES * max(sum(inputs), output, products))


def _value(node: torch.fx.Node) -> Any:
    return node.meta.get("val")


def _elements(value: Any) -> int | None:
    """Return the number of elements of a value or of several; None if a size is not a number."""
    if isinstance(value, list | tuple):
        counts = [_elements(part) for part in value]
        return None if any(count is None for count in counts) else sum(c or 0 for c in counts)
    if not isinstance(value, torch.Tensor):
        return 0
    sizes = tuple(value.shape)
    return math.prod(sizes) if all(isinstance(size, int) for size in sizes) else None


def _products(node: torch.fx.Node) -> int:
    """Return the products for each element of the output; 1 for other operators."""
    op = programs.op_of(node)
    if op.startswith(_CONVOLUTION):
        return math.prod(_shape(node.args[_WEIGHT])[1:])
    for name, position in _SUMMED.items():
        if op.startswith(name):
            return _shape(node.args[position])[-1]
    return 1


def _shape(argument: Any) -> tuple[int, ...]:
    return tuple(_value(argument).shape)


# Entries of ExecuTorch's list of portable kernels: of aten's operators, and of its own ones.
_ENTRY = re.compile(r"^- (?:op|func): ([\w.:]+)", re.MULTILINE)
_ATEN = "aten::"
# Numbers, which the runtime itself computes.
_BUILT_IN = (f"{_ATEN}sym_", f"{_ATEN}_local_scalar_dense")


def missing_kernels(kernels: Sequence[str], on_cpu: Sequence[CpuNode]) -> Iterator[str]:
    """Yield a warning for the operators that no portable kernel computes.

    Args:
        kernels: Names of the kernels that a program calls, e.g. ``aten::sort.values``.
        on_cpu: The operators on the CPU.
    """
    known = _portable()
    missing = [
        name
        for name in kernels
        if name.startswith(_ATEN) and not name.startswith(_BUILT_IN) and name not in known
    ]
    if not missing or not known:
        return
    operators = {name: [n.node for n in on_cpu if _operator(n.op) == _operator(name)] for name in missing}
    named = listed([f"{name} ({', '.join(nodes)})" if nodes else name for name, nodes in operators.items()])
    yield (
        f"ExecuTorch has no portable kernel for {named}: the program does not load on a device whose "
        "firmware has none of its own. Write it with other operators, or so that the NPU takes it."
    )


def _operator(name: str) -> str:
    """Return an operator's name without namespace and overload."""
    return re.split(r"::|\.", name)[1]


@cache
def _portable() -> frozenset[str]:
    """Return the names of the portable kernels; nothing where the package has no list of them."""
    package = importlib.util.find_spec("executorch.kernels.portable")
    for folder in (package.submodule_search_locations or ()) if package is not None else ():
        path = Path(folder) / "functions.yaml"
        if path.is_file():
            names = _ENTRY.findall(path.read_text(encoding="utf-8"))
            return frozenset(name if "::" in name else f"{_ATEN}{name}" for name in names)
    return frozenset()

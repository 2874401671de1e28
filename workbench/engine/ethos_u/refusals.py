"""Errors of Vela and the partitioner, as messages with remedies."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch

from workbench.engine.ethos_u.corrections.decomposition_tracking import root_of
from workbench.engine.ethos_u.corrections.partition import has_grid, passthrough_chains
from workbench.engine.ethos_u.corrections.partitioner import OrderedPartitioner
from workbench.engine.ethos_u.npu_exclusions import KeptOff
from workbench.engine.ethos_u.out_variants import lacks_out_variant
from workbench.engine.fx import programs
from workbench.engine.fx.branches import branch_names, constants
from workbench.engine.fx.modules import source_line
from workbench.engine.toolchain_patches.gate import require
from workbench.errors import ErrorInfo, Place, WorkbenchError, failure
from workbench.results import ExportResult, PrepareResult
from workbench.targets.ethos_u.devices import has_control_flow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from executorch.exir.backend.partitioner import PartitionResult

    from workbench.engine.ethos_u.corrections.complex_values import NotWrittenError
    from workbench.engine.runtime.context import StageContext
    from workbench.project.model import TargetChoice


def vela_left(error: SystemExit) -> WorkbenchError:
    """Return an error for invalid Vela arguments."""
    info = ErrorInfo(
        message=f"Vela rejected its arguments and ended with exit code {error.code}.",
        hint="Check the additional Vela flags. See the log for Vela's output.",
        where=Place(kind="option", id="target.options.extra_flags"),
        code="vela-arguments-rejected",
    )
    return WorkbenchError([info])


def vela_refused(error: RuntimeError) -> WorkbenchError:
    """Return an error for a program that Vela rejects as a whole, with a common remedy."""
    if loop := loop_refused(error):
        return loop
    text = str(error).strip().splitlines()
    first = text[0] if text else type(error).__name__
    hint = "See the log for details."
    if "could not run on NPU" in str(error):
        hint = (
            "Vela cannot move the operator to the CPU. Usual cause: 16 bits on U55 or U65 with a "
            "correction switched off. Assign a8w8 or float to the module. workbench blame finds "
            "the module."
        )
    info = ErrorInfo(
        message=f"The program cannot be compiled: {first}"[:600],
        hint=hint,
        where=Place(kind="stage", id="lower"),
        details=str(error),
        code="vela-compile-failed",
    )
    return WorkbenchError([info])


# Vela 5.1.0 compiles a linear of 65,536 inputs for each family, and rejects one of 65,537.
_MOST_INPUTS = 65_536
_WITH_WEIGHTS = ("aten.linear.default", "aten.conv1d.default", "aten.conv2d.default")


def too_many_inputs(module: torch.fx.GraphModule) -> list[ErrorInfo]:
    """Return an error for each layer that sums more inputs than a register of the NPU counts."""
    return [
        ErrorInfo(
            message=f"{node.name} in module {programs.module_of(node) or 'forward'} has "
            f"{inputs:,} inputs; the NPU takes at most {_MOST_INPUTS:,}.",
            hint="Add layers for parts of the inputs: a(x[..., :50000]) + b(x[..., 50000:]). Or "
            "keep its module off the NPU: workbench rules PROJECT add --kind module-name "
            "--match MODULE --config cpu.",
            where=Place(kind="node", id=node.name),
            code="too-many-inputs",
        )
        for node in module.graph.nodes
        if node.op == "call_function" and programs.op_name(node) in _WITH_WEIGHTS
        for inputs in [_inputs_of(node)]
        if inputs > _MOST_INPUTS
    ]


def _inputs_of(node: torch.fx.Node) -> int:
    weight: Any = node.args[1]
    return int(weight.meta["val"].shape[1])


# torch 2.13 records the check that torch.linalg.inv and others make of their result as an effect, and
# ExecuTorch 1.5.1 looks for the schema of what has one.
_WITH_CHECK = ErrorInfo(
    message="ExecuTorch cannot lower an operator that checks its result while it runs, as "
    "torch.linalg.inv, solve and cholesky do.",
    hint="Use the form without the check: torch.linalg.inv_ex(x).inverse, solve_ex(a, b).result, "
    "cholesky_ex(x).L.",
    where=Place(kind="stage", id="lower"),
    code="operator-with-check",
)


def lowering_failed(error: Exception, *, foretold: bool) -> ErrorInfo:
    """Return the messages of ExecuTorch's passes that failed."""
    if "'WithEffects' object" in str(error.__cause__ or error):
        return _WITH_CHECK.model_copy(update={"details": str(error)})
    lines = str(error.__cause__ or error).strip().splitlines() or [type(error).__name__]
    hint = (
        "The forecast of this program names the likely cause."
        if foretold
        else "workbench blame finds the module. Keep it off the NPU, or leave it in float."
    )
    return ErrorInfo(
        message=f"ExecuTorch could not lower the program: {lines[0]}"[:600],
        hint=hint,
        where=Place(kind="stage", id="lower"),
        details=str(error),
        code="lowering-failed",
    )


def modules_by_operator(module: torch.fx.GraphModule) -> dict[str, str]:
    """Return the first module of each operator, by its name in lower-case letters and digits."""
    calls = [node for node in module.graph.nodes if node.op == "call_function"]
    named = [(re.sub(r"[^a-z0-9]", "", str(n.target).lower()), n) for n in reversed(calls)]
    return {name: programs.module_of(node) for name, node in named}


def preparing_failed(error: Exception, modules: Mapping[str, str]) -> WorkbenchError | None:
    """Return an error for a pass before calibration that fails; None for other errors.

    Args:
        error: What the toolchain raised.
        modules: From ``modules_by_operator``, before the passes ran.

    Source: torch 2.13 ``fx/passes/infra/pass_manager.py`` names the pass in its message.
    """
    name = re.search(r"running the '(\w+)' pass", str(error))
    if name is None:
        return None
    lines = str(error.__cause__ or error).strip().splitlines() or [type(error).__name__]
    rewritten = name[1].removeprefix("Decompose").removesuffix("Pass").lower()
    path = next((path for operator, path in modules.items() if rewritten in operator), "")
    info = ErrorInfo(
        message=f"ExecuTorch cannot prepare the model: {name[1]} failed: {lines[0]}"[:600],
        hint="Assign float to the module, or write its operator with others.",
        where=Place(kind="module", id=path) if path else Place(kind="stage", id="prepare"),
        details=str(error),
        code="preparing-failed",
    )
    return WorkbenchError([info])


def complex_refused(error: NotWrittenError) -> WorkbenchError:
    """Return an error for an operator on complex numbers that cannot be written with real ones."""
    (node,) = error.args
    line = source_line(node.meta.get("stack_trace"))
    info = ErrorInfo(
        message=f"{programs.op_name(node)}{f' at {line}' if line else ''} computes with complex numbers in a "
        "way that cannot be written with real ones.",
        hint="Write it with sums, products, quotients, exp, abs, angle or torch.polar of complex numbers, or "
        "with z.real and z.imag: torch.sgn(z) is z / z.abs().clamp(min=1e-6).",
        where=Place(kind="node", id=node.name),
        code="complex-not-supported",
    )
    return WorkbenchError([info])


_WRITTEN_OUT = (
    "Write the turns out: for _ in range(4): x = step(x). A loop can carry quantized tensors "
    "only, no integers that are counted up."
)


def loop_refused(error: BaseException) -> WorkbenchError | None:
    """Return an error for a loop that ExecuTorch's passes fail on; None for other errors.

    Sources: ExecuTorch 1.5.1 ``exir/emit/_emitter.py`` writes no loops for the CPU. Its passes fold
    quantization into a loop and then find a float input and an integer result. This depends on
    the operator before the loop: it happens for a linear, a ReLU alone or a sigmoid, but not for
    a convolution, a pool or abs.
    """
    if _NO_LOOPS in str(error):
        return WorkbenchError([_loop_on_cpu(error)])
    cause: BaseException | None = error
    while cause is not None and "carried_inputs and body_output" not in str(cause):
        cause = cause.__cause__
    if cause is None:
        return None
    loop = re.search(r"%(while_loop\w*)", str(cause))
    name = loop[1] if loop else "while_loop"
    info = ErrorInfo(
        message=f"ExecuTorch cannot lower {name}: what it is given and what its turns give "
        "differ in type or size.",
        hint=f"{_WRITTEN_OUT} Or put a convolution with its ReLU, a pool or an absolute value "
        "right before the loop: a linear, or a ReLU or a sigmoid alone, leaves its input float.",
        where=Place(kind="node", id=name),
        details=str(cause),
        code="loop-not-lowerable",
    )
    return WorkbenchError([info])


_NO_LOOPS = "Unsupported control flow operator: while_loop"


def _loop_on_cpu(error: BaseException) -> ErrorInfo:
    return ErrorInfo(
        message="The NPU cannot run everything inside of the while_loop, and ExecuTorch has no "
        "loops for the CPU.",
        hint=_WRITTEN_OUT,
        where=Place(kind="node", id="while_loop"),
        details=str(error),
        code="loop-on-cpu",
    )


def refuse_custom(module: torch.fx.GraphModule) -> None:
    """Stop where an operator of another library has no kernel that a program could call.

    Raises:
        WorkbenchError: every such operator, with its module and what helps.
    """
    infos = [
        ErrorInfo(
            message=f"{node.name} ({programs.op_of(node)}) in module "
            f"{programs.module_of(node) or 'forward'} is an operator of another library, and no "
            "kernel for ExecuTorch comes with it.",
            hint="Write its module with torch's operators. Experts of transformers: "
            'model.set_experts_implementation("batched_mm").',
            where=Place(kind="node", id=node.name),
            code="operator-without-kernel",
        )
        for node in module.graph.nodes
        if node.op == "call_function" and _is_without_kernel(node.target)
    ]
    if infos:
        raise WorkbenchError(infos)


_OF_THE_TOOLS = ("aten", "prims", "quantized_decomposed", "dim_order_ops", "torchao")


def _is_without_kernel(target: Any) -> bool:
    """Return whether an operator of another library has no overload that writes its outputs."""
    if not isinstance(target, torch._ops.OpOverload) or target.namespace in _OF_THE_TOOLS:  # noqa: SLF001
        return False
    packet = target.overloadpacket
    schemas = [getattr(packet, name)._schema for name in packet.overloads()]  # noqa: SLF001
    return not any(
        argument.is_out or schema.is_mutable for schema in schemas for argument in schema.arguments
    )


def refuse_unwritable(manager: Any) -> None:
    """Stop where an operator on the CPU has no out variant, without which nothing is written.

    Args:
        manager: The edge manager that is to become the runtime's program.

    Raises:
        WorkbenchError: every such operator, with its module and what helps.
    """
    infos = [
        ErrorInfo(
            message=f"{node.name} ({programs.op_of(node)}) in module "
            f"{programs.module_of(node) or 'forward'} stays on the CPU, and ExecuTorch has no "
            "out variant of it: the program cannot be written.",
            hint="Give its module a8w8, so that the NPU takes it, or write it with other operators.",
            where=Place(kind="node", id=node.name),
            code="operator-without-out-variant",
        )
        for node in manager.exported_program().graph.nodes
        if node.op == "call_function" and lacks_out_variant(node.target)
    ]
    if infos:
        raise WorkbenchError(infos)


def refuse_control_flow(context: StageContext, choice: TargetChoice) -> None:
    """Raise if quantized branches cannot run: only U85 supports them, the CPU flow does not.

    Raises:
        WorkbenchError: the first reason.
    """
    result = context.result("export", ExportResult)
    if not result.branches:
        return
    if not has_control_flow(choice.id):
        raise failure(
            "torch.cond and while_loop run only on Ethos-U85. This program has "
            f"{', '.join(result.branches)}.",
            "Choose an Ethos-U85, or rewrite the model without them.",
            Place(kind="node", id=result.branches[0]),
            code="branches-not-supported",
        )
    annotations = context.result("prepare", PrepareResult).annotations
    quantized = {note.node: note.quantized for note in annotations}
    for name, is_wide in _readers(context.live("calibrate").module):
        if is_wide:
            raise failure(
                f"{name} would have 16-bit weights, which no device supports: inside branches "
                "ExecuTorch quantizes weights with the activations' bits.",
                "Assign a8w8 to its module.",
                Place(kind="node", id=name),
                code="branch-int16-weights",
            )
        if not quantized.get(name, True):
            raise failure(
                f"{name} is in float: inside branches ExecuTorch lowers operators with "
                "weights only when they are quantized.",
                "Assign a8w8 to its module.",
                Place(kind="node", id=name),
                code="branch-float-weights",
            )


def _readers(prepared: torch.fx.GraphModule) -> Iterator[tuple[str, bool]]:
    """Yield the readers of weights in branches: name, and whether the weights have 16 bits."""
    inside = dict(branch_names(prepared))
    for graph, placeholder, _ in constants(prepared):
        for reader, wide in _behind_observers(graph, placeholder, wide=False):
            yield f"{inside[id(graph)]}{reader.name}", wide


def _behind_observers(
    graph: torch.fx.GraphModule, source: torch.fx.Node, *, wide: bool
) -> Iterator[tuple[torch.fx.Node, bool]]:
    for user in source.users:
        if user.op == "call_module":
            observer: Any = graph.get_submodule(str(user.target))
            is_wide = wide or observer.dtype == torch.int16
            yield from _behind_observers(graph, user, wide=is_wide)
        elif user.op == "call_function":
            yield user, wide


class CheckingPartitioner(OrderedPartitioner):
    """The standard partitioner, which also rejects programs that Vela would reject.

    Args:
        spec: The compile spec.
        additional_checks: Further checks of what may be delegated.
        counted: Called with the number of delegates once it is known.
    """

    def __init__(
        self,
        spec: Any,
        additional_checks: Sequence[KeptOff] | None = None,
        counted: Callable[[int], None] = lambda _: None,
    ) -> None:
        super().__init__(spec, additional_checks=additional_checks)
        self._counted = counted

    def partition(self, exported_program: Any) -> PartitionResult:
        """Return the partitioned program.

        Raises:
            WorkbenchError: a partition passes a value through unchanged.
        """
        require("ordered-partitions")
        result = super().partition(exported_program)
        for chain in passthrough_chains(result.tagged_exported_program.graph):
            roots = [root.name for node in chain if not has_grid(node) and (root := root_of(node))]
            name = roots[0] if roots else chain[0].name
            raise failure(
                f"The NPU would only pass through an input or output of {name} unchanged, and "
                "Vela rejects the whole program.",
                "Keep it off the NPU, assign a8w8 to its module, or choose an Ethos-U85.",
                Place(kind="node", id=name),
                code="passthrough-partition",
            )
        self._counted(len(result.partition_tags))
        return result

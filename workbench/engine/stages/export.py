"""Export: export the model to a graph of ATen operators."""

from __future__ import annotations

import re
import traceback
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch
from torch._subclasses.fake_tensor import DynamicOutputShapeException

from workbench.engine.equivalence.forms import compare_exported
from workbench.engine.evaluation.model_outputs import can_be_described, described, output_names
from workbench.engine.fx import programs
from workbench.engine.fx.branch_modules import name_modules
from workbench.engine.fx.branches import branch_names
from workbench.engine.fx.chosen_rows import with_all_rows
from workbench.engine.fx.functional_writes import WriteNotSupportedError, with_functional_writes
from workbench.engine.fx.modules import name_sources, source_line
from workbench.engine.fx.output_factors import with_output_factors
from workbench.engine.fx.output_parts import origins, split_outputs, user_outputs
from workbench.engine.fx.plain_regions import graphs_of
from workbench.engine.fx.program_outputs import (
    class_of_output,
    exported_program,
    outputs_left_out,
    with_tensor_outputs,
)
from workbench.engine.fx.snapshot import snapshot
from workbench.engine.fx.usual_forms import (
    values_of_other_types,
    with_float32,
    with_free_weights,
    with_instance_norms,
)
from workbench.engine.loading.forms import refuse_ends, refuse_values
from workbench.engine.quantization.compression import NotPrunableError, channels_of
from workbench.engine.runtime.accelerated import acceleration
from workbench.engine.runtime.forked import Beside
from workbench.engine.runtime.memory_check import check_memory
from workbench.engine.user_code import line_in_user_code, line_of_definition
from workbench.errors import Place, WorkbenchError, failure
from workbench.results import (
    GRAPH_FILE,
    ChannelLayer,
    ExportResult,
    ImportResult,
    ModelOutput,
    TensorSpec,
    save_result,
)
from workbench.text import sentence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from workbench.engine.loading.models import LoadedModel
    from workbench.engine.runtime.context import StageContext

LEVEL = "float"
_UNNAMED = (
    "The modules of operations inside {} are unknown: rules for modules or types "
    "do not apply there. Rules for the whole model, operators and nodes apply."
)
_FLOAT32 = "What is of {} in the model{} is computed in float32 before it is quantized."
_LEFT_OUT = "Output {} of the model is not a tensor, and is left out of the program."


def run(context: StageContext) -> None:
    """Write the exported program, its graph and its module tree."""
    context.progress(0, None, "tracing")
    loaded: LoadedModel = context.live("import_model")
    program = _traced(loaded, strict=context.project.model.strict_export)
    left_out, names = outputs_left_out(program), output_names(program)
    program = with_instance_norms(with_tensor_outputs(_without_writes(program)))
    program, precision, computed = _with_float32(program)
    memory = programs.tensor_memory(program)
    check_memory("export", memory)
    context.progress(0, None, f"comparing it with the model; largest tensor: {memory.largest}")
    compared = compare_exported(context, loaded, program, precision)
    context.check_cancelled()
    structure = _structure(program)
    program, returned = _with_parts(context, program, names)
    unnamed = name_modules(program, loaded.module)
    if loaded.module is not None:
        name_sources(program, loaded.module, context.project.model.spec)
    with Beside(partial(_save, context, program), context.check_cancelled) as saving:
        graph = snapshot(program, LEVEL, loaded.module)
        graph.save(context.out / GRAPH_FILE)
        result = ExportResult(
            nodes=len(graph.nodes),
            inputs=_named_inputs(program, context.result("import_model", ImportResult)),
            outputs=tuple(_outputs(program)),
            model_outputs=returned,
            structure=structure,
            branches=tuple(n.name for n in program.graph.nodes if programs.is_control_flow(n)),
            state=tuple(sorted(program.graph_signature.buffers_to_mutate.values())),
            layers=tuple(_layers(program)),
            compared=(compared,),
            memory=memory,
            precision=precision,
            warnings=(
                *(_LEFT_OUT.format(position) for position in left_out),
                *computed,
                *(_UNNAMED.format(name) for name in _branches(program, unnamed)),
            ),
        )
        saving.result()
    save_result(result, context.out)
    context.keep(program)


def _save(context: StageContext, program: torch.export.ExportedProgram) -> None:
    with acceleration("plain-saving") if context.accelerate else nullcontext():
        programs.save(program, context.out)


def _traced(loaded: LoadedModel, *, strict: bool) -> torch.export.ExportedProgram:
    """Return the program of a model.

    Raises:
        WorkbenchError: It cannot be exported, or has what the NPU cannot have.
    """
    program = with_all_rows(with_free_weights(loaded.program or _export(loaded, strict=strict)))
    _drop_failed_calls(program)
    _refuse_written_parameters(program)
    _refuse_dynamic_shapes(program)
    refuse_values(program)
    refuse_ends(program)
    return program


def _with_float32(
    program: torch.export.ExportedProgram,
) -> tuple[torch.export.ExportedProgram, str, list[str]]:
    """Return a program of float32, the least precise other float type that it had, and warnings."""
    first, types = dict[str, str](), dict[str, torch.dtype]()
    for node in values_of_other_types(program):
        for value in _tensors(node):
            name = programs.dtype_name(value.dtype)
            types[name] = value.dtype
            first.setdefault(name, source_line(node.meta.get("stack_trace")))
    coarsest = max(types, key=lambda name: torch.finfo(types[name]).eps, default="")
    warnings = [_FLOAT32.format(name, f" ({line})" if line else "") for name, line in first.items()]
    return with_float32(program), coarsest, warnings


def _tensors(node: torch.fx.Node) -> Iterator[torch.Tensor]:
    for value in torch.utils._pytree.tree_leaves(node.meta["val"]):  # noqa: SLF001
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            yield value


def _drop_failed_calls(program: torch.export.ExportedProgram) -> None:
    """Remove calls that raised an error the model caught, which torch.export records without a value."""
    for node in reversed(program.graph.nodes):
        schema = getattr(node.target, "_schema", None)
        if schema is not None and schema.returns and not node.users and node.meta.get("val") is None:
            program.graph.erase_node(node)
    program.graph_module.recompile()


def _with_parts(
    context: StageContext, program: torch.export.ExportedProgram, names: Sequence[str]
) -> tuple[torch.export.ExportedProgram, tuple[ModelOutput, ...]]:
    """Return the program with the outputs that the project splits, and the model's outputs.

    Args:
        context: The stage.
        program: The exported program.
        names: What the outputs of the model are called.

    Raises:
        WorkbenchError: An output to split joins nothing, or in a way that firmware cannot.
    """
    nodes = user_outputs(program)
    known = origins(program)
    factors = {i: row for i, row in enumerate(context.project.output_factors) if row}
    positions = context.project.split_outputs
    for position in positions:
        if position >= len(known) or not known[position].is_joined:
            raise _not_split(position, "it joins no tensors that depend on the inputs")
        if not can_be_described(known[position]):
            raise _not_split(position, "its parts are not joined in a regular way")
    try:
        program = with_output_factors(program, factors)
    except ValueError as error:
        raise _not_divided(str(error)) from error
    program, ports = split_outputs(program, known, positions)
    return program, described(known, nodes, ports, factors, names)


def _not_divided(why: str) -> WorkbenchError:
    return failure(
        f"The parts of an output cannot be divided: {why}.",
        "Remove it: workbench settings PROJECT output_factors=",
        Place(kind="option", id="output_factors"),
        code="output-not-divided",
    )


def _not_split(position: int, why: str) -> WorkbenchError:
    return failure(
        f"Output {position} cannot be split: {why}.",
        "Remove it: workbench settings PROJECT split_outputs=",
        Place(kind="option", id="split_outputs"),
        code="output-not-split",
    )


def _structure(program: torch.export.ExportedProgram) -> str:
    """Return how the model returns its outputs, as torch writes a tree; "" if it cannot."""
    signature = program.module_call_graph[0].signature
    try:
        return str(torch.utils._pytree.treespec_dumps(signature.out_spec))  # noqa: SLF001
    except (NotImplementedError, AttributeError, TypeError):
        return ""


def _layers(program: torch.export.ExportedProgram) -> Iterator[ChannelLayer]:
    """Yield the layers of a program without branches, and which channels can be removed."""
    if programs.has_control_flow(program):
        return
    channels = channels_of(cast("torch.fx.GraphModule", program.module(check_guards=False)))
    for name, labels in channels.outputs.items():
        try:
            count, why = len(channels.roots_of(name)), ""
        except NotPrunableError as error:
            count, why = len(labels), str(error)
        partners = () if why else tuple(channels.partners(name))
        yield ChannelLayer(module=name, channels=count, partners=partners, fixed=why)


def _branches(program: torch.export.ExportedProgram, graphs: Sequence[str]) -> Iterator[str]:
    """Yield the names of branches as node prefixes, e.g. ``cond/true``, by graph name."""
    names = dict(branch_names(program.graph_module))
    for graph in graphs:
        name = names.get(id(program.graph_module.get_submodule(graph)), graph)
        yield name.removesuffix("/")


def load(context: StageContext) -> torch.export.ExportedProgram:
    """Load the program."""
    return programs.load(context.path("export"))


def _export(loaded: LoadedModel, *, strict: bool) -> torch.export.ExportedProgram:
    assert loaded.module is not None
    try:
        with torch.no_grad(), _unchecked_distributions():
            return _without_vmap(exported_program(loaded.module, loaded.inputs, strict=strict))
    except Exception as error:
        line = line_in_user_code(error) or _definition_of_output(error, loaded.module)
        first = next((t for t in str(error).splitlines() if t.strip()), type(error).__name__)
        location = f" at {line}" if line else ""
        raise failure(
            sentence(f"The model cannot be exported{location}. torch.export: {first.strip()[:300]}"),
            _remedy(error) if _runs(loaded) else _FAILS_ALONE,
            Place(kind="stage", id="export"),
            details=str(error),
            code="export-failed",
        ) from error


@contextmanager
def _unchecked_distributions() -> Iterator[None]:
    """Let ``torch.distributions`` look into no values while the block runs: the checks compute nothing."""
    kind: Any = torch.distributions.Distribution
    stock = kind._validate_args  # noqa: SLF001 - the public function only sets it
    kind.set_default_validate_args(False)
    try:
        yield
    finally:
        kind.set_default_validate_args(stock)


def _without_vmap(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return a program whose calls of ``torch.vmap`` are the batched operators that they amount to.

    torch 2.13 records them as functions of ``torch._functorch.predispatch``, which no pass takes;
    decomposing, even nothing, traces through them.
    """
    graphs = (part.graph for part in graphs_of(program.graph_module))
    targets = (node.target for graph in graphs for node in graph.nodes if node.op == "call_function")
    if not any(getattr(target, "__module__", "") == _VMAP for target in targets):
        return program
    return program.run_decompositions({})


_VMAP = "torch._functorch.predispatch"
_FAILS_ALONE = (
    "The model fails without torch.export too: correct it, or its input shapes, which follow from the "
    "calibration data where a new project names none."
)


def _runs(loaded: LoadedModel) -> bool:
    """Return whether the model computes something for its example inputs."""
    assert loaded.module is not None
    try:
        with torch.no_grad():
            loaded.module(*loaded.inputs)
    except Exception:  # noqa: BLE001 - whatever the user's code raises
        return False
    return True


def _remedy(error: Exception) -> str:
    """Return what helps against a failed export."""
    frames = traceback.extract_tb(error.__traceback__)
    # A packed sequence has tensors for sizes, which the first states of the layer are made of.
    if "argument 'size' failed to unpack" in str(error) and any(
        frame.filename.endswith(_RECURRENT) for frame in frames
    ):
        return (
            "torch cannot export packed sequences: give the recurrent layer the padded tensor, and "
            "set what lies behind the end to zero: "
            "y * (torch.arange(y.shape[1])[None, :, None] < lengths[:, None, None])."
        )
    if unknown := _UNKNOWN_OUTPUT.search(str(error)):
        name = unknown[1].rpartition(".")[2]
        return (
            f"torch does not know what is in a {name}: return a tuple or a dict, or make {name} a "
            "dataclass of the module."
        )
    is_mapped = any(frame.name == _without_vmap.__name__ for frame in frames)
    if is_mapped or "fake tensor in the exported program constant's list" in str(error):
        return _UNTRACED
    if isinstance(error, DynamicOutputShapeException):
        return (
            f"The size of what {error.args[0]} computes depends on the data: return what it reads, and "
            "compute the rest, such as a loss, outside of the model."
        )
    return "Rewrite the line without data-dependent Python, or use torch.cond."


def _definition_of_output(error: Exception, module: torch.nn.Module) -> str:
    """Return where the class of an output is that torch does not know; "" for other errors.

    A class that lies in a function has no name to find it by: then it is the model's ``forward``.
    """
    if not _UNKNOWN_OUTPUT.search(str(error)):
        return ""
    return line_of_definition(class_of_output(error) or type(module).forward)


_UNTRACED = (
    "torch cannot record gradients, writes into .data, threads, nor what some torch.vmap compute: "
    "write into the tensor itself, call the mapped function with the whole batch, which layers and "
    "element-wise operators take as it is, and leave gradients out of forward."
)
_RECURRENT = "torch/nn/modules/rnn.py"
_UNKNOWN_OUTPUT = re.compile(r"Found <class '([^']+)'> in output, which is not a known type")


def _refuse_written_parameters(program: torch.export.ExportedProgram) -> None:
    """Raise for parameters that the model changes in place; buffers are state, parameters not."""
    parameters = program.graph_signature.inputs_to_parameters
    for placeholder in program.graph.find_nodes(op="placeholder"):
        name = parameters.get(placeholder.name)
        writers = [reader for reader in placeholder.users if programs.is_write(reader)]
        if name is not None and any(writer.args[0] is placeholder for writer in writers):
            raise failure(
                f"The model changes its parameter {name} while it runs.",
                "Change it once, before the model is returned, or register it as a buffer.",
                Place(kind="module", id=name.rpartition(".")[0]),
                code="parameter-written",
            )


def _without_writes(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return a program whose writes into tensors are new values.

    Raises:
        WorkbenchError: a write that has no such form.
    """
    try:
        return with_functional_writes(program)
    except WriteNotSupportedError as error:
        node: torch.fx.Node = error.args[0]
        line = source_line(node.meta.get("stack_trace"))
        raise failure(
            f"The write into {programs.op_of(node)}{f' at {line}' if line else ''} has no form "
            "without a write, which quantization needs.",
            "Compute a new tensor instead: with torch.where, torch.cat or torch.stack.",
            Place(kind="node", id=node.name),
            code="write-not-supported",
        ) from error


def _refuse_dynamic_shapes(program: torch.export.ExportedProgram) -> None:
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if node.op != "placeholder" or not isinstance(value, torch.Tensor):
            continue
        free = [i for i, size in enumerate(value.shape) if not isinstance(size, int)]
        if free:
            raise failure(
                f"Dimension {free[0]} of the input {node.name} is dynamic; the NPU needs fixed sizes.",
                "Export with fixed example inputs, without dynamic_shapes.",
                Place(kind="node", id=node.name),
                code="dynamic-shape-not-supported",
            )


def _named_inputs(program: torch.export.ExportedProgram, imported: ImportResult) -> tuple[TensorSpec, ...]:
    names = program.graph_signature.user_inputs
    pairs = zip(names, imported.inputs, strict=False)
    return tuple(spec.model_copy(update={"name": str(name)}) for name, spec in pairs)


def _outputs(program: torch.export.ExportedProgram) -> Any:
    by_name = {node.name: node for node in program.graph.nodes}
    for name in program.graph_signature.user_outputs:
        node = by_name.get(str(name))
        value = node.meta.get("val") if node is not None else None
        if isinstance(value, torch.Tensor):
            dtype = str(value.dtype).removeprefix("torch.")
            yield TensorSpec(name=str(name), shape=tuple(value.shape), dtype=dtype)

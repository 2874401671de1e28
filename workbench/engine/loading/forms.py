"""Forms of a model that cannot be quantized, each refused by its name with what to give instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from workbench.engine.fx import programs
from workbench.engine.fx.modules import source_line
from workbench.errors import Place, failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.errors import WorkbenchError

_MODEL = Place(kind="option", id="model.spec")
_STATISTICS = ("running_mean", "running_var")
_SHORT = (torch.float16, torch.bfloat16)
_QUANTIZED = (torch.qint8, torch.quint8, torch.qint32)
_OBSERVERS = (torch.ao.quantization.ObserverBase, torch.ao.quantization.FakeQuantizeBase)
_EAGER_QUANTIZED = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized", "torch.nn.quantized")


def refuse_form(module: torch.nn.Module) -> None:
    """Raise for a module that was scripted, exported or quantized, or whose weights cannot be taken.

    Raises:
        WorkbenchError: the module is of such a form.
    """
    for name, part in module.named_modules():
        if refused := _refused_part(part):
            message, hint, code = refused
            raise failure(
                f"{f'Its part {name}' if name else 'The model'} {message}.", hint, _MODEL, code=code
            )
    for name, weight in (*module.named_parameters(), *module.named_buffers()):
        if refused := _refused_weight(weight):
            message, hint, code = refused
            raise failure(f"The weight {name} {message}.", hint, _MODEL, code=code)


def refuse_weights(model: torch.nn.Module | torch.export.ExportedProgram, option: str) -> None:
    """Raise for a parameter, or statistics of a norm, with NaN or infinity.

    Other buffers may be masks of infinity.

    Args:
        model: The model with the weights that the project uses.
        option: The field of the project that names their file.

    Raises:
        WorkbenchError: A value is not finite.
    """
    statistics = ((n, b) for n, b in model.named_buffers() if n.rpartition(".")[2] in _STATISTICS)
    for name, weight in (*model.named_parameters(), *statistics):
        if weight.is_floating_point() and not weight.detach().isfinite().all():
            raise failure(
                f"The weight {name} has values that are infinite or NaN.",
                "Load a checkpoint from before the loss diverged, or train again with a lower learning rate.",
                Place(kind="option", id=option),
                code="weight-not-finite",
            )


def _refused_part(part: torch.nn.Module) -> tuple[str, str, str] | None:
    """Return what a module is that cannot be quantized, what to do, and a code; None for others."""
    kind = type(part)
    if isinstance(part, torch.jit.ScriptModule):
        return (
            f"is a TorchScript module ({_way(part)}), which torch.export does not take",
            "Return the nn.Module that it was made from; its weights can be loaded into it.",
            "model-scripted",
        )
    if kind.__module__.startswith(_EAGER_QUANTIZED):
        return (
            f"is quantized already ({kind.__module__}.{kind.__name__})",
            "Return the model as it was before quantization: the workbench quantizes it.",
            "model-quantized",
        )
    if isinstance(part, _OBSERVERS):
        return (
            f"observes or imitates integers ({kind.__name__}): prepare or prepare_qat put it there",
            "Return the model as it was before; weights trained so can be loaded into it with "
            "load_state_dict(weights, strict=False).",
            "model-quantized",
        )
    if isinstance(part, torch.fx.GraphModule) and _refuses_eval(part):
        return (
            "is the module of an exported program",
            "Return the nn.Module that was exported, or save the program with torch.export.save and "
            "give the .pt2 as the model.",
            "model-exported",
        )
    return None


def _refuses_eval(part: torch.fx.GraphModule) -> bool:
    """Return whether a module is that of an exported program, whose mode is fixed."""
    try:
        part.train(part.training)
    except NotImplementedError:
        return True
    return False


def _way(part: torch.nn.Module) -> str:
    is_traced = "Traced" in type(part).__name__
    return "torch.jit.trace" if is_traced else "torch.jit.script"


def _refused_weight(weight: torch.Tensor) -> tuple[str, str, str] | None:
    """Return what a weight is that cannot be quantized, what to do, and a code; None for others."""
    if isinstance(weight, torch.nn.parameter.UninitializedTensorMixin):
        return (
            "of a lazy module is not initialized",
            "Call the model once with its example inputs, model(*inputs), before it is returned.",
            "model-not-initialized",
        )
    kind = type(weight.data)
    if weight.is_quantized or kind.__module__.startswith("torchao"):
        return (
            f"is quantized already ({kind.__module__}.{kind.__name__})",
            "Return the model as it was before quantize_: the workbench quantizes it.",
            "model-quantized",
        )
    if weight.is_meta:
        return (
            "is on the meta device and has no values",
            'Give it values: model.to_empty(device="cpu"), then load_state_dict.',
            "model-without-values",
        )
    if weight.layout != torch.strided:
        return (
            f"is sparse ({str(weight.layout).removeprefix('torch.')})",
            "Store it with its zeros: nn.Parameter(weight.to_dense()). torch.sparse.mm takes it too.",
            "model-sparse",
        )
    if weight.dtype in _SHORT:
        return (
            f"is of {programs.dtype_name(weight.dtype)}",
            "Devices take float32: call .float() on the model and on its example inputs, and leave .half(), "
            ".bfloat16() and autocast out of forward.",
            "model-half-precision",
        )
    return None


def refuse_quantized(program: torch.export.ExportedProgram, name: str) -> None:
    """Raise for an exported program that has quantize operators already.

    Quantizing it again would replace the ranges that were chosen for it.

    Raises:
        WorkbenchError: it has such operators.
    """
    kinds = [
        programs.quantize_kind(programs.op_name(node))
        for node in program.graph.nodes
        if node.op == "call_function"
    ]
    count = sum(kind is not None for kind in kinds)
    if count:
        raise failure(
            f"{name} is quantized already: it has {count} quantize and dequantize operators.",
            "Save the program as it was before convert_pt2e; choose its ranges in Ranges.",
            _MODEL,
            code="program-quantized",
        )


def refuse_values(program: torch.export.ExportedProgram) -> None:
    """Raise for sizes or numbers that depend on the data, quantized tensors, and functions.

    Raises:
        WorkbenchError: the first operation of each kind, with its line.
    """
    # Branches and what autocast surrounds are graphs of their own.
    graphs = [m.graph for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    for node in (node for graph in graphs for node in graph.nodes if node.op == "call_function"):
        if getattr(node.target, "__name__", "") == _FLEXIBLE:
            raise _flexible_refused(node)
        for value in _values(node.meta.get("val")):
            if error := _refused(node, value):
                raise error


_FLEXIBLE = "flex_attention"


def _flexible_refused(node: torch.fx.Node) -> WorkbenchError:
    line = source_line(node.meta.get("stack_trace"))
    return failure(
        f"ExecuTorch has no {_FLEXIBLE}{f', as at {line}' if line else ''}: it takes functions.",
        "Call torch.nn.functional.scaled_dot_product_attention, with what the functions compute as a "
        "tensor for attn_mask.",
        Place(kind="node", id=node.name),
        code="attention-not-supported",
    )


def _values(value: object) -> Iterator[object]:
    if isinstance(value, tuple | list):
        for item in value:
            yield from _values(item)
    else:
        yield value


def _refused(node: torch.fx.Node, value: object) -> WorkbenchError | None:
    line = source_line(node.meta.get("stack_trace"))
    where = f"{programs.op_name(node)}{f' at {line}' if line else ''}"
    place = Place(kind="node", id=node.name)
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return failure(
            f"{where} makes a number of Python from the data, which a compiled program cannot.",
            "Keep it a tensor: compute with the tensor itself, or choose with torch.where.",
            place,
            code="number-from-data",
        )
    if not isinstance(value, torch.Tensor):
        return None
    if any(not isinstance(size, int) for size in value.shape):
        return failure(
            f"The size of the result of {where} depends on the data; the NPU needs fixed sizes.",
            "Keep all elements, and set those that do not count to zero with torch.where or a "
            "product with the mask; topk gives a fixed number of them.",
            place,
            code="size-from-data",
        )
    # Fake tensors of quantized types have the type of their values.
    if any(given in _QUANTIZED for given in node.args if isinstance(given, torch.dtype)):
        return failure(
            f"The result of {where} is a quantized tensor.",
            "Leave it in float: the workbench quantizes it.",
            place,
            code="value-quantized",
        )
    return None


def refuse_ends(program: torch.export.ExportedProgram) -> None:
    """Raise for complex inputs, and for outputs that are complex or have no elements.

    Raises:
        WorkbenchError: the first one.
    """
    signature = program.graph_signature
    ends = [("Input", str(name), i) for i, name in enumerate(signature.user_inputs)]
    ends += [("Output", str(name), i) for i, name in enumerate(signature.user_outputs)]
    nodes = {node.name: node for node in program.graph.nodes}
    for kind, name, position in ends:
        value = nodes[name].meta.get("val") if name in nodes else None
        if isinstance(value, torch.Tensor) and value.is_complex():
            raise failure(
                f"{kind} {position} of the model is complex; a program takes and returns real numbers.",
                "Take its parts as the last dimension, x = torch.view_as_complex(parts), and return "
                "torch.view_as_real(y).",
                Place(kind="node", id=name),
                code="value-complex",
            )
        if kind == "Output" and isinstance(value, torch.Tensor) and not value.numel():
            raise failure(
                f"Output {position} of the model has no elements: {'x'.join(map(str, value.shape))}.",
                "Leave it out of what forward returns.",
                Place(kind="node", id=name),
                code="output-empty",
            )

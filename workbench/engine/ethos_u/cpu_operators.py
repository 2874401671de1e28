"""Operators of a compiled program that run on the CPU, computed by torch and ExecuTorch.

A kernel of a program has the name and the arguments of its out variant in torch's registry
("aten::add.out"), so that it is called as the runtime calls it: with outputs of the planned type.

As a process it answers requests on its standard input: see ``workbench.npu.operator_process``.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from workbench.engine.ethos_u.litert import NAMESPACE, compute_tflite
from workbench.errors import Place, WorkbenchError, failure
from workbench.npu.cpu import Output
from workbench.npu.operator_process import receive, send

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

# Modules that register the operators of a namespace.
_REGISTERED_BY = {
    "dim_order_ops": "executorch.exir.passes.dim_order_ops_registry",
    "quantized_decomposed": "torch.ao.quantization.fx._decomposed",
    "cortex_m": "executorch.backends.cortex_m.passes.cortex_m_pass_manager",
}

# Tensors whose elements are written later. torch refuses the out variants: they cannot be given a
# memory format.
_WITHOUT_VALUES = frozenset({"empty", "_empty_dim_order"})


def compute(name: str, arguments: Sequence[Any], outputs: Sequence[Output]) -> list[npt.NDArray[Any]]:
    """Return the outputs of a kernel.

    Args:
        name: As the program names it.
        arguments: Without the outputs, in the order of the operator's schema.
        outputs: Type and shape of each output as the program plans it.

    Raises:
        WorkbenchError: torch has no such operator, or the operator refuses the arguments.
    """
    if name.startswith(f"{NAMESPACE}::"):
        return compute_tflite(name, arguments)
    if name.rpartition("::")[2].partition(".")[0] in _WITHOUT_VALUES:
        return [np.zeros(o.shape, o.dtype) for o in outputs]
    packet, overload = _operator(name)
    values = [_to_torch(value) for value in arguments]
    into = [torch.empty(o.shape, dtype=getattr(torch, o.dtype)) for o in outputs]
    try:
        with torch.no_grad():
            try:
                results = _call(overload, values, into)
            except NotImplementedError:
                # Operators of ExecuTorch may have Python code for the functional form alone.
                results = _call(_functional(packet, overload), values, [])
    except (RuntimeError, TypeError, ValueError, NotImplementedError, AttributeError) as error:
        raise _refused(name, str(error).split("\n")[0]) from error
    listed = results if isinstance(results, tuple | list) else [results]
    return [tensor.detach().contiguous().numpy() for tensor in listed]


def _operator(name: str) -> tuple[Any, Any]:
    """Return the operator and its overload."""
    path, _, overload = name.partition(".")
    namespace, _, operator = path.partition("::")
    try:
        if namespace in _REGISTERED_BY:
            importlib.import_module(_REGISTERED_BY[namespace])
        packet = getattr(getattr(torch.ops, namespace), operator)
        if _is_out(overload) and overload not in packet.overloads():
            # ExecuTorch generates the out variants of such operators for its own kernels only.
            overload = overload.removesuffix("out").removesuffix("_") or "default"
        return packet, getattr(packet, overload or "default")
    except (AttributeError, ImportError) as error:
        raise _refused(name, "torch knows no such operator") from error


def _is_out(overload: str) -> bool:
    return overload == "out" or overload.endswith("_out")


def _functional(packet: Any, overload: Any) -> Any:
    """Return the overload without outputs among its arguments."""
    name = str(overload).rpartition(".")[2]
    short = name.removesuffix("out").removesuffix("_") or "default"
    return getattr(packet, short if short in packet.overloads() else "default")


def _call(overload: Any, values: Sequence[Any], into: Sequence[torch.Tensor]) -> Any:
    """Call an overload with arguments in the order of its schema, which ends with the outputs.

    Raises:
        ValueError: there are more arguments than it takes.
    """
    schema = overload._schema.arguments  # noqa: SLF001 - torch offers no other way
    taken = [argument for argument in schema if not argument.is_out]
    if len(values) > len(taken):
        raise ValueError(f"it takes {len(taken)} arguments, not {len(values)}")
    pairs = list(zip(taken, values, strict=False))
    positional = [value for argument, value in pairs if not argument.kwarg_only]
    named = {argument.name: value for argument, value in pairs if argument.kwarg_only}
    outs = [argument for argument in schema if argument.is_out]
    if len(outs) == 1 and isinstance(outs[0].type, torch.ListType):
        overload(*positional, **named, **{outs[0].name: list(into)})
        return into
    given = {argument.name: output for argument, output in zip(outs, into, strict=False)}
    return overload(*positional, **named, **given)


def _to_torch(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return torch.from_numpy(np.array(value, copy=True))
    if isinstance(value, list):
        return [_to_torch(item) for item in value]
    return value


def _refused(name: str, reason: str) -> WorkbenchError:
    return failure(
        f"The program runs {name} on the CPU, which cannot be simulated: {reason}.",
        "Quantize the module it comes from, so that a delegate takes it.",
        Place(kind="file", id="program"),
        code="npu-cpu-operator",
    )


def main() -> int:
    """Answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    # What a library prints must not get between the answers.
    os.dup2(2, 1)
    while (request := receive(sys.stdin.buffer)) is not None:
        document, arrays = request
        outputs = [Output(dtype, tuple(shape)) for dtype, shape in document["outputs"]]
        try:
            results = compute(document["name"], _filled(document["arguments"], arrays), outputs)
        except WorkbenchError as error:
            send(answers, {"infos": [info.model_dump(mode="json") for info in error.infos]}, [])
        else:
            send(answers, {}, results)
    return 0


def _filled(arguments: list[Any], arrays: Sequence[npt.NDArray[Any]]) -> list[Any]:
    """Return the arguments with the arrays in their places."""
    filled: list[Any] = []
    for value in arguments:
        match value:
            case {"array": number}:
                filled.append(arrays[number])
            case list():
                filled.append(_filled(value, arrays))
            case _:
                filled.append(value)
    return filled


if __name__ == "__main__":
    sys.exit(main())

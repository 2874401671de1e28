"""Integer inputs and outputs of a program, where they are quantized.

This file depends on ExecuTorch only, because generated scripts contain it. Source: ExecuTorch
1.5.1, ``exir/passes/quantize_io_pass.py``, which fails at the first unquantized input or output,
and
counts state among the outputs, before those of the model.
"""

from typing import Any

from executorch.exir.passes.quantize_io_pass import QuantizeInputs, QuantizeOutputs


def with_integer_borders(manager: Any) -> Any:
    """Return an edge manager whose quantized inputs and outputs are integers.

    Scale, zero point, limits and dtype of each are available as methods of the program such as
    ``input0_scale``. Indices, and inputs with unquantized readers too, are unchanged.
    """
    program = manager.exported_program()
    signature, graph = program.graph_signature, program.graph
    given = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    inputs = [i for i, name in enumerate(signature.user_inputs) if is_quantized(given[name])]
    values = list(graph.output_node().args[0])
    first = len(values) - len(signature.user_outputs)
    outputs = [i for i, node in enumerate(values) if i >= first and is_dequantized(node)]
    changed = manager.transform(passes=[QuantizeInputs(manager, inputs), QuantizeOutputs(manager, outputs)])
    for i in outputs if first else ():
        for key in ("scale", "zp", "quant_min", "quant_max", "dtype"):
            value = changed._config_methods.pop(f"output{i}_{key}")  # noqa: SLF001
            changed._config_methods[f"output{i - first}_{key}"] = value  # noqa: SLF001
    return changed


def is_quantized(node: Any) -> bool:
    """Return whether a value is quantized by its only reader."""
    readers = [str(user.target) for user in node.users]
    return len(readers) == 1 and ".quantize_per_tensor.default" in readers[0]


def is_dequantized(node: Any) -> bool:
    """Return whether a value is a dequantized integer."""
    return ".dequantize_per_tensor.default" in str(getattr(node, "target", ""))

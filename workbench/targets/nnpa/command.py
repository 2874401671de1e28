"""Command lines and exclusion file of onnx-mlir.

Source: onnx-mlir ec744fe6, src/Compiler/CompilerOptions.cpp,
src/Accelerators/NNPA/Compiler/NNPACompilerOptions.cpp, docs/JsonConfigFile-NNPA.md;
IBM/zDLC fdf03cc, README. Taken from the source; not run.
"""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import JsonValue

COMPILER, CONTAINER_TOOL = "onnx-mlir", "docker"
IMAGE = "ghcr.io/onnxmlir/onnx-mlir"
ZDLC_IMAGE = "icr.io/ibmz/zdlc:5.0.1"
MACHINE, TRIPLE = "z17", "s390x-ibm-loz"

NO_SWITCH = (
    "The exclusion file needs onnx-mlir 0.5.1 or later. zDLC 5.0.1 cannot "
    "exclude single operations: its command quantizes all supported products."
)
STATE = (
    "The state between calls is in the last {count} inputs and the last {count} "
    "outputs of the file, in the same order: pass each output to the next call, "
    "and start with the inputs of the first vector."
)
SILENT_ERRORS = (
    "Set OM_STATUS_MESSAGES_ENABLED=1 at run time; otherwise NNPA errors, such "
    "as an unsupported scale, are not reported."
)


def quantization_flags(options: Mapping[str, JsonValue]) -> list[str]:
    """Return the quantization flags."""
    kinds = f"{options['activations']}Activation,{options['weights']}Weight"
    types = "".join(str(options["op_types"]).split())
    return [f"--nnpa-quant-dynamic={kinds}", f"--nnpa-quant-op-types={types}"]


def arguments(
    model: str, options: Mapping[str, JsonValue], *, emit: str = "EmitLib", config: str = ""
) -> list[str]:
    """Return the compiler's arguments.

    Args:
        model: The ONNX file.
        options: All options of the target.
        emit: The output: "EmitLib", or "EmitZHighIR" to inspect the products.
        config: The exclusion file; "" for none.
    """
    return [
        "-O3",
        f"--{emit}",
        f"-march={MACHINE}",
        "-maccel=NNPA",
        f"--mtriple={TRIPLE}",
        *quantization_flags(options),
        *([f"--config-file={config}"] if config else []),
        "-o",
        model.removesuffix(".onnx"),
        model,
    ]


def command(model: str, options: Mapping[str, JsonValue], config: str = "") -> str:
    """Return the command line of the compiler."""
    return shlex.join([COMPILER, *arguments(model, options, config=config)])


def container_command(model: str, options: Mapping[str, JsonValue]) -> str:
    """Return the command line of IBM's container, which writes a library beside the model."""
    flags = shlex.join(
        [
            "--EmitLib",
            "--O3",
            f"-march={MACHINE}",
            f"--mtriple={TRIPLE}",
            "--maccel=NNPA",
            *quantization_flags(options),
            model,
        ]
    )
    return f'docker run --rm -v "$PWD":/workdir:z {ZDLC_IMAGE} {flags}'


def exclusions(unquantized: Sequence[str], on_cpu: Sequence[str]) -> str:
    """Return the compiler's exclusion file as JSON; "" if nothing is excluded.

    The compiler joins the names of fused operations, so each name is matched as a substring.

    Args:
        unquantized: Names of products that stay dlfloat16.
        on_cpu: Names of operations that run on the CPU.
    """
    entries = [
        {
            "pattern": {
                "match": {"node_type": kind, "onnx_node_name": f".*{re.escape(name)}.*"},
                "rewrite": rewrite,
            }
        }
        for names, kind, rewrite in (
            # A product fused with an addition only checks the second of these.
            (on_cpu, "onnx.*", {"device": "cpu", "quantize": False}),
            (unquantized, "onnx.(MatMul|Gemm)", {"quantize": False}),
        )
        for name in names
    ]
    return json.dumps({"nnpa_ops_config": entries}, indent=2) + "\n" if entries else ""

#!/usr/bin/env python3
"""A double of onnx-mlir: refuses what the compiler would, and quantizes as its sources say.

It takes the flags of onnx-mlir 0.5.1 that are named here and no others, reads the model and the
file of exclusions, and writes what ``--EmitZHighIR`` writes: names of operations, int8 products
among them. It decides by its own few lines, not by the workbench's.
"""

import json
import re
import sys
from pathlib import Path

import onnx

VERSION = "onnx-mlir version 0.5.1.0, onnx version 1.19.0 (a double for tests)"
PLAIN = {"-O3", "--EmitLib", "--EmitZHighIR", "-maccel=NNPA", "--mtriple=s390x-ibm-loz"}
KINDS = {"symWeight", "asymWeight", "symActivation", "asymActivation"}


def refuse(text):
    print(text, file=sys.stderr)
    sys.exit(1)


def read_arguments(arguments):
    found = {"march": "", "quant": None, "types": "MatMul", "config": None, "o": None, "emit": ""}
    rest = list(arguments)
    models = []
    while rest:
        flag = rest.pop(0)
        name, is_set, value = flag.partition("=")
        if flag in PLAIN:
            found["emit"] = flag[2:] if flag.startswith("--Emit") else found["emit"]
        elif name == "-march" and value in {"z16", "z17", "arch14", "arch15"}:
            found["march"] = value
        elif name == "--nnpa-quant-dynamic" and (not is_set or set(value.split(",")) <= KINDS):
            found["quant"] = value.split(",")
        elif name == "--nnpa-quant-op-types" and is_set:
            found["types"] = value
        elif name == "--config-file" and is_set:
            found["config"] = json.loads(Path(value).read_text())
        elif flag == "-o" and rest:
            found["o"] = rest.pop(0)
        elif not flag.startswith("-"):
            models.append(flag)
        else:
            refuse(f"onnx-mlir: Unknown command line argument '{flag}'.  Try: 'onnx-mlir --help'")
    if len(models) != 1:
        refuse("onnx-mlir: Not enough positional command line arguments specified!")
    return found, models[0]


def excluded(node, config):
    for entry in (config or {"nnpa_ops_config": []})["nnpa_ops_config"]:
        match, rewrite = entry["pattern"]["match"], entry["pattern"]["rewrite"]
        if re.fullmatch(match["node_type"], f"onnx.{node.op_type}") and re.fullmatch(
            match.get("onnx_node_name", ".*"), node.name
        ):
            return rewrite.get("device") == "cpu" or rewrite.get("quantize") is False
    return False


def operations(model, flags):
    held = {each.name for each in model.graph.initializer}
    wanted = flags["quant"] is not None and flags["march"] in {"z17", "arch15"}
    wanted = wanted and "matmul" in flags["types"].lower().split(",")
    if wanted and "asymWeight" in flags["quant"]:
        print("Asymmetric quantization for weights is not yet supported. Turning off quantization.")
        wanted = False
    for node in model.graph.node:
        numbers = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        plain = not numbers.get("transA") and not numbers.get("transB")
        is_product = node.op_type in {"MatMul", "Gemm"} and node.input[1] in held and plain
        is_int8 = wanted and is_product and not excluded(node, flags["config"])
        yield "zhigh.QuantizedMatMul" if is_int8 else f"onnx.{node.op_type}"


def main():
    if sys.argv[1:] == ["--version"]:
        print(VERSION)
        return
    flags, name = read_arguments(sys.argv[1:])
    model = onnx.load(name)
    lines = [f'  %{i} = "{op}"()' for i, op in enumerate(operations(model, flags))]
    base = flags["o"] or name.removesuffix(".onnx")
    suffix = ".onnx.mlir" if flags["emit"] == "EmitZHighIR" else ".so"
    Path(f"{base}{suffix}").write_text("module {\n" + "\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()

"""Lowering for NNPA: an ONNX file, the compile commands, and the predicted int8 products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.engine.nnpa import compiler
from workbench.engine.nnpa.onnx_export import (
    IR_VERSION,
    OPSET,
    check,
    exported,
    file_products,
    float_program,
    origins,
    rewrite_gemms,
    state_buffers,
    tidy,
)
from workbench.engine.nnpa.quantization import options_of
from workbench.engine.targets import Lowered
from workbench.results import (
    CONFIG_FILE,
    MODEL_FILE,
    ExportedModel,
    ExportedProduct,
    LowerResult,
    PrepareResult,
)
from workbench.targets.base import Reason
from workbench.targets.nnpa.command import (
    NO_SWITCH,
    SILENT_ERRORS,
    STATE,
    command,
    container_command,
    exclusions,
)
from workbench.targets.nnpa.options import SILENT, WHAT_IF, quantizes
from workbench.targets.nnpa.products import ASYMMETRIC, ON_CPU, OPERATION_TYPES, UNRULED

if TYPE_CHECKING:
    import onnx

    from workbench.engine.runtime.context import StageContext

    Origins = dict[str, tuple[str, str]]


def lower(context: StageContext) -> tuple[Lowered, LowerResult]:
    """Write the float program as ONNX, and run the compiler if installed.

    Raises:
        WorkbenchError: the export fails, or the file is invalid.
    """
    context.progress(0, None, "exporting to ONNX")
    options = options_of(context.project)
    model = exported(float_program(context), context.live("import_model").inputs)
    known = origins(model)
    rewritten = rewrite_gemms(model) if options["rewrite_gemm"] else 0
    tidy(model)
    check(model)
    context.check_cancelled()
    report = context.result("prepare", PrepareResult)
    products = _products(model, known, report, options)
    config = _config(model, known, products, report)
    data = model.SerializeToString(deterministic=True)
    context.progress(0, None, "running the compiler")
    predicted = sum(product.quantized for product in products)
    onnx_model = ExportedModel(
        opset=OPSET, ir_version=IR_VERSION, nodes=len(model.graph.node), bytes=len(data),
        rewritten=rewritten, products=products, config=config,
        commands=_commands(options, config),
        notes=(*_state_notes(context), *_notes(options, config)),
        check=compiler.check(data, config, options, predicted, context.check_cancelled),
    )  # fmt: skip
    context.log(onnx_model.check.sentence)
    files = {MODEL_FILE: data, **({CONFIG_FILE: config.encode()} if config else {})}
    warnings = _differences(products, report)
    return Lowered(edge=None, tosa=[], pte=b"", files=files), LowerResult(
        target=context.project.target.id, system_config="", memory_mode="", delegates=0,
        delegated_nodes=predicted, cpu_nodes=(), kernels=(), vela=(), pte_bytes=len(data),
        accelerated=False, vela_version="", exported=onnx_model, warnings=tuple(warnings),
    )  # fmt: skip


def _products(
    model: onnx.ModelProto, known: Origins, report: PrepareResult, options: dict[str, Any]
) -> tuple[ExportedProduct, ...]:
    """Return every product with the compiler's verdict; a rule against it takes precedence."""
    notes = {note.node: note for note in report.annotations}
    product_list = []
    for node, product in file_products(model):
        module, origin = known.get(node.name, ("", ""))
        note = notes.get(origin)
        why = product.why_float
        if options["weights"] == "asym":
            why = why or ASYMMETRIC
        elif not quantizes(options):
            why = why or OPERATION_TYPES
        emulated = Reason(note.cause, note.reason) if note is not None else Reason("", "")
        if not why and note is not None and not note.quantized:
            why = emulated
        cause, text = why or emulated
        product_list.append(
            ExportedProduct(
                node=node.name,
                op=node.op_type,
                origin=origin,
                module=module,
                quantized=not why,
                reason=text,
                cause=cause,
            )
        )
    return tuple(product_list)


def _config(
    model: onnx.ModelProto, known: Origins, products: tuple[ExportedProduct, ...], report: PrepareResult
) -> str:
    """Return the exclusion file for parts that rules leave in float or keep on the CPU."""
    off = {note.node for note in report.annotations if note.cause == ON_CPU.cause}
    on_cpu = [n.name for n in model.graph.node if known.get(n.name, ("", ""))[1] in off]
    plain = [p.node for p in products if p.cause == UNRULED.cause]
    return exclusions(plain, on_cpu)


def _commands(options: dict[str, Any], config: str) -> tuple[tuple[str, str], ...]:
    return (
        ("onnx-mlir", command(MODEL_FILE, options, CONFIG_FILE if config else "")),
        ("IBM zDLC (container)", container_command(MODEL_FILE, options)),
    )


def _state_notes(context: StageContext) -> tuple[str, ...]:
    count = len(state_buffers(context.live("export")))
    return (STATE.format(count=count),) if count else ()


def _notes(options: dict[str, Any], config: str) -> tuple[str, ...]:
    notes = [WHAT_IF] if options["weights"] == "asym" else []
    notes += [] if quantizes(options) else [SILENT]
    return (*notes, *([NO_SWITCH] if config else []), SILENT_ERRORS)


def _differences(products: tuple[ExportedProduct, ...], report: PrepareResult) -> list[str]:
    """Return the differences in quantization between the file and the emulated program."""
    emulated = {note.node for note in report.annotations if note.quantized}
    in_file = {p.origin for p in products if p.quantized}
    there = {p.origin for p in products if p.cause != ASYMMETRIC.cause}
    lost = sorted((in_file - emulated) | ((emulated & there) - in_file))
    return [f"The file and the emulation differ at {name}." for name in lost]

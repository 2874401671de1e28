"""``tflite``: the compiled program beside the same network in TensorFlow Lite."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.output import (
    EXIT_DONE,
    add_engine,
    add_project,
    job_options,
    opened_cache,
    print_json,
    print_table,
)
from workbench.studies.tflite import CAUSES, TfliteComparison
from workbench.text import plural

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from workbench.studies.tflite import LayerSide, SideTotals


def add_tflite(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "tflite",
        help="compare the program with that of the same network in TensorFlow Lite, layer by layer",
        description="Says why one is slower than the other. A .tflite from before Vela is compiled with "
        "the project's device and options; one that Vela compiled for that device has no estimate, "
        "so that both programs are compared by the device's limits.",
    )
    add_project(verb)
    verb.add_argument("file", type=Path, metavar="FILE.tflite", help="the network, quantized to integers")
    add_engine(verb)
    verb.set_defaults(perform=_perform)


def _perform(options: argparse.Namespace) -> int:
    with opened_cache(options) as cache:
        result = api.compare_tflite(api.open(options.project), options.file, **job_options(options, cache))
    if options.json:
        print_json(_document(result))
    else:
        _print(result)
    return EXIT_DONE


def _document(result: TfliteComparison) -> dict[str, Any]:
    return {
        **result.model_dump(mode="json", exclude={"layers"}),
        "kind": "estimated" if result.compiled_here else "limits",
        "answer": result.answer(),
        "remarks": list(result.remarks()),
        "difference": result.program.cycles - result.tflite.cycles,
        "causes": [
            {"cause": cause, "title": CAUSES[cause][0], "cycles": cycles, "layers": layers}
            for cause, cycles, layers in result.causes()
        ],
        "layers": [
            {**layer.model_dump(mode="json"), "difference": layer.difference} for layer in result.layers
        ],
    }


def _print(result: TfliteComparison) -> None:
    print(result.answer())
    kind = "estimated" if result.compiled_here else "device's limits: the compiled file has no estimate"
    print(f"{result.target}, {result.system_config}, {result.memory_mode}; {kind}.\n")
    head = ("", "program", "TensorFlow Lite")
    print_table(head, _total_rows(result.program, result.tflite))
    print()
    rows = [
        (CAUSES[cause][0], f"{cycles:+,}", plural(layers, "layer"), CAUSES[cause][1])
        for cause, cycles, layers in result.causes()
    ]
    if rows:
        print_table(("cause", "cycles", "in", "what it means"), rows)
        print()
    print_table(("layer", "TensorFlow Lite", "cycles", "there", "more", "causes"), list(_layer_rows(result)))
    if result.on_cpu:
        print("\nOn the CPU in the program:")
        rows_on_cpu = [(one.op, one.module, f"{one.cycles:,}", one.reason) for one in result.on_cpu]
        print_table(("operator", "module", "cycles, roughly", "reason"), rows_on_cpu)
    _print_outputs(result)
    for remark in result.remarks():
        print(f"note: {remark}")


def _total_rows(ours: SideTotals, theirs: SideTotals) -> list[tuple[str, str, str]]:
    both = (ours, theirs)
    rows = [
        ("cycles", *(f"{side.cycles:,}" for side in both)),
        ("as Vela says", *("-" if side.cycles_vela is None else f"{side.cycles_vela:,}" for side in both)),
        ("time [ms]", *("-" if side.inference_ms is None else f"{side.inference_ms:.3f}" for side in both)),
        ("SRAM [bytes]", *(f"{side.sram_bytes:,}" for side in both)),
        ("constants [bytes]", *(f"{side.constant_bytes:,}" for side in both)),
        ("MACs", *(f"{side.macs:,}" for side in both)),
        ("NPU operations", *(f"{side.operations:,}" for side in both)),
        ("delegates", *(f"{side.delegates:,}" for side in both)),
        ("CPU operators", *(_cpu(side) for side in both)),
    ]
    return [(row[0], row[1], row[2]) for row in rows]


def _cpu(side: SideTotals) -> str:
    names = ", ".join(
        f"{count} {name.split('.')[-2] if '.' in name else name}" for name, count in side.cpu.items()
    )
    return names or "none"


def _layer_rows(result: TfliteComparison) -> Iterator[tuple[str, ...]]:
    for layer in result.layers:
        causes = ", ".join(f"{CAUSES[s.cause][0].lower()} {s.cycles:+,}" for s in layer.shares)
        yield (
            _side(layer.ours),
            _side(layer.theirs),
            f"{layer.ours.cycles:,}" if layer.ours is not None else "-",
            f"{layer.theirs.cycles:,}" if layer.theirs is not None else "-",
            f"{layer.difference:+,}" if layer.difference else "=",
            causes,
        )


def _side(side: LayerSide | None) -> str:
    if side is None:
        return "-"
    return f"{side.name} ({'x'.join(map(str, side.output_shape))})"


def _print_outputs(result: TfliteComparison) -> None:
    if result.not_executed:
        print(f"\nOutputs are not compared: {result.not_executed}")
        return
    print(f"\nOutputs on {plural(result.samples, 'sample')}, SQNR [dB]:")
    print_table(
        ("output", "program to float", "TensorFlow Lite to float", "program to TensorFlow Lite"),
        [(o.name, *map(_db, (o.program_db, o.tflite_db, o.between_db))) for o in result.outputs],
    )


def _db(value: float | None) -> str:
    return "equal" if value is None else f"{value:.1f}"

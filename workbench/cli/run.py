"""``run``: run the stages of a project, up to the deliverables, and print what they came to."""

from __future__ import annotations

import io
import shlex
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.analysis.accuracy import AccuracyResult
from workbench.analysis.error_sources import largest_sources
from workbench.analysis.gate import GateResult, Limit, limit_words
from workbench.cli.output import (
    EXIT_DIFFERS,
    EXIT_DONE,
    EXIT_FAILED,
    ProgressPrinter,
    add_engine,
    add_project,
    opened_cache,
    print_infos,
    print_json,
    print_labelled,
    print_next,
    print_table,
    shown_path,
)
from workbench.errors import ErrorInfo, Place
from workbench.pipeline.stages import STAGES, optional_stages, title_of_job
from workbench.project.gate import FIGURES
from workbench.results import ModuleCycles, TensorQuality, TosaExecutors, VelaReport
from workbench.targets import target_of
from workbench.targets.ethos_u.devices import EXTERNAL_WEIGHTS
from workbench.targets.ethos_u.efficiency import efficiency_text, module_texts
from workbench.text import listed, plural

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from workbench.analysis.accuracy import AccuracyPart


def add_run(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser("run", help="run the stages and write the deliverables")
    add_project(verb)
    verb.add_argument(
        "--until",
        choices=[stage.id for stage in STAGES],
        metavar="STAGE",
        help=f"last stage, default: the target's last:  {', '.join(stage.id for stage in STAGES)}",
    )
    verb.add_argument(
        "--skip",
        action="append",
        default=[],
        choices=list(optional_stages()),
        metavar="STAGE",
        help=f"skip a stage that no other needs: {', '.join(optional_stages())}",
    )
    verb.add_argument("--out", type=Path, metavar="DIR", help="folder for the deliverables")
    verb.add_argument(
        "--fail-if", action="append", default=[], metavar="CONDITION",
        help="a condition under which the program is not accepted, as \"lsb>2\"; it replaces the "
        f"project's limit of the same figure. Figures: {', '.join(FIGURES)}",
    )  # fmt: skip
    verb.add_argument(
        "--allow-differences",
        action="store_true",
        help="with --out: write the deliverables of a program that differs, or is not accurate "
        "enough, too; they say so",
    )
    verb.add_argument(
        "--external-weights", action="store_true",
        help="write the weights to a .ptd beside the program, overriding the project",
    )  # fmt: skip
    verb.add_argument("--verbose", action="store_true", help="print the toolchain's own output")
    add_engine(verb)
    verb.set_defaults(perform=_run)  # fmt: skip


def _run(options: argparse.Namespace) -> int:
    opened = api.open(options.project)
    if options.external_weights:
        choice = opened.project.target
        opened = api.set_target(opened, choice.id, {**choice.options, EXTERNAL_WEIGHTS: True})
    last = options.until or target_of(opened.project.target.id).stages[-1]
    printer = ProgressPrinter(verbose=options.verbose)
    with opened_cache(options) as cache:
        result = api.run(
            opened,
            last,
            skip=options.skip,
            out=options.out,
            fail_if=options.fail_if,
            allow_differences=options.allow_differences,
            trust=options.trust,
            cache=cache,
            accelerate=not options.no_acceleration,
            on_event=printer.event,
            on_output=printer.output,
            on_warning=printer.warning,
        )
        return _report(result, last, options.project, as_json=options.json)


_WITHHELD = ErrorInfo(
    message="The deliverables are not written, because the program differs or is not accurate enough.",
    hint="See the limits. --allow-differences with --out writes them all the same.",
    where=Place(kind="option", id="out"),
    code="deliverables-withheld",
)


def _split_outputs_advice(parts: Sequence[AccuracyPart], project: Path) -> ErrorInfo:
    """Return what to do about parts of outputs that are lost in the range of other parts."""
    names = listed([f"{part.name} of {part.output_name}" for part in parts])
    return ErrorInfo(
        message=f"Lost in a range that is shared with larger values: {names}.",
        hint=f"workbench suggest {shlex.quote(str(project))} --apply split_output",
        where=Place(kind="stage", id="evaluate"),
        code="output-parts-lost",
    )


def _next_steps(result: api.RunResult, last: str, project: Path) -> list[str]:
    """Return the commands that follow a run."""
    name = shlex.quote(str(project))
    if not result.succeeded:
        return [f"workbench check {name}"] if result.document["stages"] else []
    if last in {"import_model", "export", "prepare", "calibrate", "convert", "evaluate"}:
        return [f"workbench run {name}"]
    steps = []
    if result.document.get("suggestions"):
        steps.append(f"workbench suggest {name}")
    if not result.document.get("package", {}).get("files"):
        steps.append(f"workbench run {name} --out dist")
    return [*steps, f"workbench report {name} --out {shlex.quote(project.stem)}-report.html"]


def _report(result: api.RunResult, last: str, project: Path, *, as_json: bool) -> int:
    for stage in result.stages:
        print_infos(stage.errors, f"{title_of_job(stage.id)} failed")
    if result.history_problem is not None:
        print_infos([result.history_problem], "warning")
    if as_json:
        print_json(result.document)
    else:
        print_summary(result.document)
    if result.document.get("package", {}).get("withheld"):
        print_infos([_WITHHELD], "not written")
    if result.accuracy is not None and result.accuracy.parts_to_split:
        print_infos([_split_outputs_advice(result.accuracy.parts_to_split, project)], "not accurate enough")
    if not as_json:
        print_next(*_next_steps(result, last, project))
    if not result.succeeded or last not in {stage.id for stage in result.stages}:
        return EXIT_FAILED
    differs = result.gate is not None and result.gate.verdict == "differs"
    inaccurate = result.accuracy is not None and result.accuracy.refused
    return EXIT_DIFFERS if differs or inaccurate else EXIT_DONE


_NAMED = 3


def print_exported(part: dict[str, Any]) -> None:
    """Print the products predicted to be quantized, and the commands to compile the file."""
    products = part["products"]
    count = sum(product["quantized"] for product in products)
    print(
        f"Model        ONNX opset {part['opset']}, {part['bytes']:,} bytes, "
        f"{part['nodes']} operations; {part['rewritten']} Gemm rewritten"
    )
    print(f"Predicted    {count} of {len(products)} matrix products become int8")
    left: dict[str, list[str]] = {}
    for product in products:
        if not product["quantized"]:
            left.setdefault(product["reason"], []).append(product["origin"] or product["node"])
    for reason, names in left.items():
        known = list(dict.fromkeys(names))
        more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
        print(f"             {len(names)} not ({', '.join(known[:_NAMED])}{more}): {reason}")
    print(f"Compiler     {part['check']['sentence']}")
    for title, command in part["commands"]:
        print(f"Command      {title}: {command}")
    for note in part["notes"]:
        print(f"             {note}")


def print_runtime(part: dict[str, Any]) -> None:
    """Print the agreement of the exported file with the float model, and the arithmetics."""
    print(
        f"Computed     {part['runtime']} and torch differ by at most "
        f"{part['max_abs_error']:.3g} over {plural(part['elements'], 'output')} of "
        f"{plural(part['samples'], 'sample')}; same class for "
        f"{part['argmax_equal']}"
    )
    print_variants(part["readings"])


def print_variants(variants: list[dict[str, Any]]) -> None:
    """Print one line per arithmetic, compared to the float model."""
    for reading in variants:
        top1 = "" if reading["top1"] is None else f", top-1 {reading['top1']:.2%}"
        decibel = "equal" if reading["sqnr_db"] is None else f"{reading['sqnr_db']:.2f} dB"
        print(
            f"             {reading['title']:23}SQNR {decibel}, max error "
            f"{reading['max_abs_error']:.3g}{top1}: {reading['marks']}"
        )


def print_text(text: dict[str, Any] | None, *sides: str) -> None:
    """Print perplexities, and the difference of the last program from the float model."""
    if text is None:
        return
    values = ", ".join(f"{text[f'perplexity_{side}']:.4g} {side}" for side in sides)
    print(
        f"Text         perplexity {values}; KL from float "
        f"{text[f'kl_{sides[-1]}']:.3g} nats per token, at most "
        f"{text[f'worst_{sides[-1]}']:.3g} ({text['tokens']} tokens)"
    )


def _print_forms(forms: list[dict[str, Any]]) -> None:
    """Print how far the forms of the network are from the user's model."""
    names = list(dict.fromkeys(form["form"] for form in forms))
    worst = min((f["sqnr_db"] for f in forms if f["sqnr_db"] is not None), default=None)
    far = "equal" if worst is None else f"at least {worst:.0f} dB"
    print(f"Network      {', '.join(names)} program against your model: {far}")


def _print_corrections(corrections: list[dict[str, Any]]) -> None:
    """Print each correction that changed something, is switched off or could not be applied."""
    for correction in corrections:
        count = plural(len(correction["places"]), "place")
        if correction.get("times", 0) > len(correction["places"]):
            count += f", {correction['times']} times"
        words = {"on": count, "off": "switched off", "aside": "not applied: other tools"}
        if correction["places"] or correction["state"] != "on":
            print(f"Correction   {correction['title']}: {words[correction['state']]}")


def _print_rewrites(rewrites: list[dict[str, Any]]) -> None:
    """Print each rewrite that changed something or is switched off, with the cycles it saves."""
    for rewrite in rewrites:
        if rewrite["state"] == "off":
            print(f"Rewrite      {rewrite['title']}: switched off")
        elif rewrite["places"]:
            cycles = ""
            if rewrite["cycles_before"] is not None:
                cycles = f", {rewrite['cycles_before']:,} to {rewrite['cycles_after']:,} cycles"
            count = plural(len(rewrite["places"]), "place")
            print(f"Rewrite      {rewrite['title']}: {count}{cycles}")


def _print_improvements(improvements: list[dict[str, Any]]) -> None:
    for improvement in improvements:
        print(f"Transform    {improvement['title']}: {improvement['sentence']}")


def print_summary(document: dict[str, Any]) -> None:
    """Print the figures of a run."""
    text = io.StringIO()
    with redirect_stdout(text):
        _print_parts(document)
    for line in text.getvalue().splitlines():
        print_labelled(line)
    if document.get("package"):
        _print_package(document["package"])


def _print_parts(document: dict[str, Any]) -> None:
    for name, write in (
        ("conversion", _print_conversion),
        ("emulated", _print_emulated),
        ("evaluate", _print_evaluate),
        ("lower", _print_lower),
        ("corrections", _print_corrections),
        ("rewrites", _print_rewrites),
        ("improvements", _print_improvements),
        ("suggestions", _print_suggestions),
        ("board", _print_board),
        ("verify", _print_verify),
        ("run", _print_run),
        ("forms", _print_forms),
        ("gate", _print_gate),
        ("accuracy", _print_accuracy),
    ):
        if document.get(name):
            write(document[name])
    for warning in document["warnings"]:
        print(f"Warning      {warning['message']}")


def _print_conversion(part: dict[str, Any]) -> None:
    print(
        f"Converted    {part['executor']} and the converted model differ by at most "
        f"{part['relative_error']:.1g} of the largest output, over "
        f"{plural(part['samples'], 'sample')}"
    )


def _print_emulated(part: dict[str, Any]) -> None:
    print(f"Numbers      {part['sentence']}")
    for name, words in (("weight", "weights"), ("data", "what flows")):
        if part.get(f"{name}_bits") is not None:
            print(
                f"             {words}: {part[f'{name}_bits']:.2f} bits on average, memory "
                f"density {part[f'{name}_density']:.2f} (relative to float32; computed)"
            )


def _db(value: float | None) -> str:
    return "equal" if value is None else f"{value:.2f} dB"


def _print_evaluate(part: dict[str, Any]) -> None:
    line = f"Quality      SQNR {_db(part['sqnr_db'])} over {plural(part['samples'], 'sample')}"
    if part["top1_float"] is not None:
        where = f" of {part['outputs'][part['class_output']]['name']}" if part.get("class_output") else ""
        line += f"; top-1{where} {part['top1_float']:.2%} float, {part['top1_quantized']:.2%} quantized"
    if part["metric_float"] is not None:
        form = "{:.1%}" if part.get("task") is not None else "{:g}"
        sides = [form.format(part[f"metric_{side}"]) for side in ("float", "quantized")]
        line += f"; {part['metric_name']} {sides[0]} float, {sides[1]} quantized"
    print(line)
    if part.get("task") is not None:
        _print_task(part["task"])
    _print_added(part["tensors"])
    print(f"             calibrated on {part['calibrated_on']}")
    print_text(part["text"], "float", "quantized")
    print_variants(part["readings"])


def _print_added(tensors: list[dict[str, Any]]) -> None:
    """Print which operations themselves add most of the error."""
    sources = largest_sources(TensorQuality.model_validate(tensor) for tensor in tensors)
    names = [
        f"{t.tensor}{' in ' if t.module else ''}{t.module} {t.added_share:.0%}" for t in sources[:_NAMED]
    ]
    if names:
        print(f"             error added by {', '.join(names)}")


def _print_task(task: dict[str, Any]) -> None:
    """Print the figures beside the metric, and what the quantized model loses of each class."""
    for row in [*task["figures"][1:], *task["per_class"]]:
        values = ["none" if row[side] is None else f"{row[side]:.1%}" for side in ("floating", "quantized")]
        print(
            f"             {row['name']} {values[0]} float, {values[1]} quantized ({row['count']:,} labelled)"
        )
    if task["metric"] == "detection":
        print(f"             {plural(task['lost'], 'object')} of the float model lost, {task['added']:,} new")


def _print_lower(part: dict[str, Any]) -> None:
    if part["exported"] is not None:
        print_exported(part["exported"])
        return
    print(
        f"Program      {plural(part['delegates'], 'delegate')}, "
        f"{plural(part['delegated_nodes'], 'operator')} on the NPU, "
        f"{len(part['cpu_nodes'])} on the CPU"
    )
    for node in part["cpu_nodes"]:
        print(f"             CPU: {node['op']}  {node['reason']}")
    for vela in part["vela"]:
        print(
            f"Estimated    {vela['cycles_total']:,} cycles, "
            f"SRAM {vela['sram_bytes'] / 1024:.1f} KiB, constants {vela['flash_bytes'] / 1024:.1f} "
            f"KiB (Vela {part['vela_version']}, {part['target']}, {part['memory_mode']})"
        )
        if vela["ideal_cycles"]:
            print(f"             {efficiency_text(VelaReport.model_validate(vela))}")
    for text in module_texts(map(ModuleCycles.model_validate, part["modules"])):
        print(f"             {text}")
    _print_time(part["time"])
    if corrections := part["cycle_corrections"]:
        stated = sum(vela["cycles_vela"] for vela in part["vela"])
        titles = ", ".join(f"{c['title'].lower()} -{c['cycles']:,}" for c in corrections)
        print(f"             Vela says {stated:,} cycles; corrected: {titles}")


def _print_time(time: dict[str, Any]) -> None:
    if time["ms"] is None:
        print(f"Time         {time['sentence']}")
    else:
        ends = ""
        if time["low_ms"] is not None:
            ends = f" ({time['low_ms']:.3f} to {time['high_ms']:.3f})"
        print(f"Time         {time['ms']:.3f} ms on the NPU{ends}, {time['origin']}")
        print(f"             {time['placement']}. {time['sentence']}")
    for line in time["beside"]:
        print(f"             {line}")


def _print_suggestions(part: list[dict[str, Any]]) -> None:
    for suggestion in part:
        print(f"Suggestion   {suggestion['title']}. {suggestion['expected']}")
        for line in suggestion["source"]:
            print(f"             {line['place']}: {line['instead']}")


def _print_board(part: dict[str, Any]) -> None:
    print(f"Board        {part['sentence']}")
    for filling in part["fillings"]:
        used = sum(demand["bytes"] for demand in filling["demands"])
        if filling["bytes"] is None:
            room = "size unknown"
        else:
            doubt = "" if filling["confirmed"] else ", not confirmed"
            room = f"{filling['bytes'] / 1024:,.0f} KiB{doubt}"
        what = ", ".join(f"{d['what']} {d['bytes'] / 1024:,.1f}" for d in filling["demands"])
        print(
            f"             {filling['name']}: {used / 1024:,.1f} KiB of {room}{f' ({what})' if what else ''}"
        )


def _print_verify(part: dict[str, Any]) -> None:
    if part["runtime"]:
        print_runtime(part)
        return
    share = part["exact"] / part["elements"] if part["elements"] else 0.0
    executors = part.get("executors")
    where = "in TOSA" if executors is not None else "on the TOSA reference model"
    print(
        f"Computed     {share:.2%} of {plural(part['elements'], 'output')} equal {where}, at "
        f"most {part['max_lsb']} LSB apart, same class for "
        f"{part['argmax_equal']} of {part['samples']}"
    )
    if executors is not None:
        print(f"             {TosaExecutors.model_validate(executors).sentence}")
    print_text(part["text"], "float", "quantized", "integer")
    if part["first_divergence"]:
        print(
            f"             first tensor that differs from the quantized model: {part['first_divergence']}, "
            f"over {plural(part['tensor_samples'], 'sample')}"
        )
    if part["compiled"] is not None:
        tosa = "its TOSA" if executors is not None else "the TOSA reference model"
        _print_compiled(part["compiled"], part["samples"], tosa)


def _print_compiled(part: dict[str, Any], samples: int, tosa: str) -> None:
    """Print the comparison of the executed program with its TOSA, which the caller names."""
    if part["refused"]:
        print(f"Functional   not checked on the compiled program: {part['refused']}")
    elif not part["elements"]:
        print("Functional   no operator runs on the NPU: there is nothing to execute on its simulator")
    elif part["equal"] == part["elements"]:
        print(
            f"Functional   {part['samples']} of {plural(samples, 'sample')} equal to {tosa} "
            "(executed on the simulator, no timing)"
        )
    else:
        print(
            f"Functional   {part['elements'] - part['equal']:,} of "
            f"{plural(part['elements'], 'NPU output')} differ from {tosa}, by at most "
            f"{part['max_lsb']} (executed on the simulator, no timing)"
        )
    if (first := part["first_difference"]) is not None:
        location = [first["operation"], first["module"], first["source_line"], first["command"]]
        where = ", ".join(text for text in location if text) or "operation unknown"
        print(
            f"             first: output {first['output']} of delegate {first['delegate']}, "
            f"{first['computed']} instead of {first['expected']}; {where}"
        )
    for finding in part["findings"]:
        at = f"{finding['command']} at {finding['offset']:#x} of delegate {finding['delegate']}: "
        print(f"             {finding['severity']}: {at if finding['command'] else ''}{finding['message']}")


_HELD = {True: "passed", False: "FAILED", None: "not checked"}


def _print_gate(part: dict[str, Any]) -> None:
    print(f"Verdict      Compiled program {GateResult.model_validate(part).sentence}")
    for entry in part["limits"]:
        limit = Limit.model_validate(entry)
        print(f"             {_HELD[limit.held]}: {limit_words(limit)}")


def _print_accuracy(part: dict[str, Any]) -> None:
    result = AccuracyResult.model_validate(part)
    print(f"Accuracy     {result.sentence}")
    for limit in result.limits:
        print(f"             {_HELD[limit.held]}: {limit_words(limit)}")
    for mark in result.marks:
        print(f"             LOW: {limit_words(mark, 'better')}")
    for one in result.parts:
        figure = "no SQNR" if one.sqnr_db is None else f"SQNR {one.sqnr_db:.2f} dB"
        if one.sqnr_db is None and one.held is not False and not one.not_finite:
            figure = "equal"
        classes = "" if one.agreement is None else f", same class {one.agreement:.2%}"
        print(
            f"             {one.name}: {figure}{classes} ({one.program} against float, "
            f"{plural(one.samples, 'sample')})"
        )
    for note in result.notes:
        print(f"             {note}")


def _print_run(part: dict[str, Any]) -> None:
    report = part["report"]
    label = f"{report['simulator']} {report['version']}".rstrip()
    if part["kind"] == "functional":
        print("Simulated    executed on the simulator (no timing)")
    elif part["cycles"] is None:
        print(f"Measured     functional only, no cycles ({label})")
    else:
        ratio = part["cycles"] / part["estimated_cycles"] if part["estimated_cycles"] else 0.0
        print(
            f"Measured     {part['cycles']:,.0f} NPU cycles per inference, {ratio:.2f} of "
            f"Vela's estimate ({label})"
        )
    for name, words in (("against_reference", "its TOSA"), ("against_quantized", "the quantized model")):
        against = part[name]
        if not against["elements"]:
            continue
        share = against["exact"] / against["elements"]
        print(
            f"             {share:.2%} of {against['elements']} outputs equal to {words}, at most "
            f"{against['max_lsb']} LSB apart, same class for {against['argmax_equal']} of "
            f"{part['samples']}"
        )
    reasons = () if part["kind"] == "functional" and report["succeeded"] else (report["exit_reason"],)
    for sentence in (*reasons, *report["explanation"][-1:], *report["notes"]):
        print(f"             {sentence}")


def _print_package(part: dict[str, Any]) -> None:
    if part["withheld"] or not part["files"]:
        return
    files = [(Path(file["path"]), file["bytes"], file["purpose"]) for file in part["files"]]
    print(f"Deliverables in {shown_path(files[0][0].parent)}")
    print_table(
        ("file", "bytes", "purpose"), [(path.name, f"{size:,}", purpose) for path, size, purpose in files]
    )

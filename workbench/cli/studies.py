"""Studies of a project: ``sensitivity``, ``placement``, ``blame``, ``matrix``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.output import (
    EXIT_DONE,
    EXIT_FAILED,
    add_engine,
    add_json,
    add_project,
    add_several,
    job_options,
    opened_cache,
    print_infos,
    print_json,
    print_table,
)
from workbench.project.model import KEEPING_CALLS
from workbench.studies.matrix import QAT_EPOCHS, QAT_SAMPLES, TRAINED, MatrixResult
from workbench.studies.sensitivity import DEFAULT_SAMPLES, SensitivityResult
from workbench.text import plural

if TYPE_CHECKING:
    from workbench.studies.matrix import Cell


_SENSITIVITY_HEADER = (
    "module",
    "only this quantized [dB]",
    "only this float [dB]",
    "gain [dB]",
    "weights per tensor [dB]",
    "weights",
)


def add_sensitivity(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "sensitivity",
        help="measure the quality cost of each module, worst first",
        description="Ctrl-C keeps the results; run again to continue.",
    )
    add_project(verb)
    verb.add_argument("--samples", type=int, default=DEFAULT_SAMPLES, metavar="N")
    add_engine(verb)
    verb.set_defaults(perform=_sensitivity)


def _sensitivity(options: argparse.Namespace) -> int:
    with opened_cache(options) as cache:
        result = api.sensitivity(api.open(options.project), options.samples, **job_options(options, cache))
    if options.json:
        print_json(_sensitivity_document(result))
        return EXIT_DONE
    rows = [
        (
            u.unit.name,
            _db(u.only.sqnr_db),
            _db(u.without.sqnr_db),
            _db(result.gain_db(u)),
            _db(result.per_tensor_db(u)),
            f"{u.unit.weights:,}",
        )
        for u in result.worst_first()
    ]
    print_table(_SENSITIVITY_HEADER, rows)
    print(f"Whole model: {_db(result.quantized.sqnr_db)} dB over {plural(result.samples, 'sample')}.")
    return EXIT_DONE


def _sensitivity_document(result: SensitivityResult) -> dict[str, Any]:
    units = [
        {
            **u.unit.model_dump(mode="json"),
            "only_db": u.only.sqnr_db,
            "without_db": u.without.sqnr_db,
            "gain_db": result.gain_db(u),
            "only_hits": u.only.hits,
            "without_hits": u.without.hits,
            "per_tensor_db": result.per_tensor_db(u),
            "per_tensor_points": result.per_tensor_points(u),
        }
        for u in result.worst_first()
    ]
    whole = {"sqnr_db": result.quantized.sqnr_db, "hits": result.quantized.hits}
    return {"samples": result.samples, "data": result.data, "quantized": whole, "units": units}


def _db(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def add_placement(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "placement",
        help="predict which operators each kind of device supports",
        description="Runs ExecuTorch's partitioner, without compiling: rejections "
        "by Vela itself are not predicted (see blame).",
    )
    add_project(verb)
    add_engine(verb)
    verb.set_defaults(perform=_placement)


def _placement(options: argparse.Namespace) -> int:
    with opened_cache(options) as cache:
        placement = api.placement(api.open(options.project), **job_options(options, cache))
    if options.json:
        print_json(placement.model_dump(mode="json"))
        return EXIT_DONE
    for device in placement.devices:
        if device.problem:
            print(f"{device.kind}  {device.problem}")
            continue
        print(f"{device.kind}  {device.npu} operators on the NPU, {len(device.cpu)} on the CPU")
        for node in device.cpu:
            print(f"  {node.op}  {node.module or '(model)'}: {node.reason}")
    return EXIT_DONE


def add_blame(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "blame",
        help="find the modules that the compiler rejects",
        description="Compiles with fewer and fewer modules kept off the NPU. To keep the "
        "reported modules off it, add rules: workbench rules add PROJECT --kind ... "
        "--match ... --config cpu.",
    )
    add_project(verb)
    add_engine(verb)
    verb.set_defaults(perform=_blame)


def _blame(options: argparse.Namespace) -> int:
    with opened_cache(options) as cache:
        result = api.blame(api.open(options.project), **job_options(options, cache))
    if options.json:
        print_json(result.model_dump(mode="json"))
        return EXIT_DONE
    if not result.reason:
        print("The compiler accepts the program.")
        return EXIT_DONE
    print(result.reason)
    for culprit in result.culprits:
        print(f'  {KEEPING_CALLS[culprit.kind]}("{culprit.match}")')
    print(f"Found in {result.compilations} compilations.")
    return EXIT_DONE


# Quantize and dequantize, for one input and one output.
_BORDER_NODES = 2
_TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
_CONFIGS = ("a8w8", "a16w8", "a8w4", f"a8w8{TRAINED}")


def add_matrix(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "matrix",
        help="compile and verify models on several devices in several precisions",
        description="Each model uses one config for all modules; with the suffix -qat the "
        "weights are trained with it first. The program is run on the TOSA reference "
        "model and compared with the quantized model.",
    )
    verb.add_argument("projects", nargs="+", type=Path, metavar="PROJECT")
    add_several(verb, "--targets", default=list(_TARGETS), metavar="T")
    add_several(verb, "--configs", default=list(_CONFIGS), metavar="C")
    verb.add_argument(
        "--qat-epochs",
        type=int,
        default=QAT_EPOCHS,
        metavar="N",
        help=f"training epochs for configs that end in {TRAINED}, over at most "
        f"{QAT_SAMPLES} samples ({QAT_EPOCHS})",
    )
    verb.add_argument("--markdown", action="store_true", help="print a Markdown table")
    add_json(verb)
    add_engine(verb)
    verb.set_defaults(perform=_matrix)


def _matrix(options: argparse.Namespace) -> int:
    asked = {"targets": options.targets, "configs": options.configs, "qat_epochs": options.qat_epochs}
    results: dict[str, MatrixResult] = {}
    failed = False
    for path in options.projects:
        opened = api.open(path)
        name = opened.project.name
        with opened_cache(options) as cache:
            how = job_options(options, cache)
            try:
                results[name] = api.study(opened, "matrix", MatrixResult, asked, **how)
            except api.JobFailedError as error:
                print_infos(error.infos, f"{name} failed")
                failed = True
    if options.json:
        print_json({name: result.model_dump(mode="json") for name, result in results.items()})
    elif options.markdown:
        _print_markdown(results, options.targets, options.configs)
    else:
        for name, result in results.items():
            print(f"{name}:")
            print_table(("device", "config", ""), [(c.target, c.config, _cell_text(c)) for c in result.cells])
    return EXIT_FAILED if failed else EXIT_DONE


def _cell_text(cell: Cell) -> str:
    if cell.problem:
        before = " (predicted)" if cell.warned else ""
        return f"no: {cell.problem}{before}"
    exact = f"{100 * cell.exact:.1f} %" if cell.exact is not None else "-"
    rest = f", {cell.cpu_nodes} on the CPU" if cell.cpu_nodes else ""
    if cell.gain_db is not None:
        gained = f"{cell.gain_db:+.1f} dB, predicted" if cell.gain_db else "no gain"
        rest += f", trained: {gained}"
    accuracy = f", {cell.accuracy}" if cell.accuracy else ""
    answers = f"{cell.verdict}{accuracy}, {exact} equal, at most {cell.max_lsb} LSB"
    return f"{answers}, {cell.cycles:,} cycles{rest}"


def _print_markdown(results: dict[str, MatrixResult], targets: list[str], configs: list[str]) -> None:
    columns = [(target, config) for target in targets for config in configs]
    heads = [f"{t.removeprefix('ethos-')} {c}" for t, c in columns]
    print(f"| model | {' | '.join(heads)} |")
    print(f"|---|{'---|' * len(columns)}")
    for name, result in results.items():
        cells = {(c.target, c.config): c for c in result.cells}
        row = [_short(cells.get(column)) for column in columns]
        print(f"| {name} | {' | '.join(row)} |")


_GOOD = frozenset({"right", "accurate enough", ""})


def _short(cell: Cell | None) -> str:
    if cell is None:
        return "not run"
    if cell.problem:
        return "no" if cell.warned else "no, unforeseen"
    more = f" ({cell.cpu_nodes} CPU)" if cell.cpu_nodes > _BORDER_NODES else ""
    answers = (cell.verdict, cell.accuracy)
    mark = "".join(f"{answer}: " for answer in answers if answer not in _GOOD)
    return f"{mark}{cell.max_lsb}{more}{' =' if cell.gain_db == 0 else ''}"

"""``matrix``: models on devices in precisions, each verified."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.jobs import job_options
from workbench.cli.output import (
    EXIT_DONE,
    EXIT_FAILED,
    add_engine,
    add_json,
    add_several,
    opened_cache,
    print_infos,
    print_json,
    print_table,
)
from workbench.studies.matrix import QAT_EPOCHS, QAT_SAMPLES, TRAINED, MatrixResult

if TYPE_CHECKING:
    from workbench.studies.matrix import Cell

# Quantize and dequantize, for one input and one output.
_BORDER_NODES = 2
_TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
_CONFIGS = ("a8w8", "a16w8", "a8w4", f"a8w8{TRAINED}")


def add(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "matrix",
        help="lower and verify models on several devices in several precisions",
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
    verb.set_defaults(perform=_perform)


def _perform(options: argparse.Namespace) -> int:
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
            print_table(("device", "config", ""), [(c.target, c.config, _said(c)) for c in result.cells])
    return EXIT_FAILED if failed else EXIT_DONE


def _said(cell: Cell) -> str:
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

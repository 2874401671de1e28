"""``sweep``: estimate devices, memory modes and SRAM limits for one quantized program."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.jobs import job_options
from workbench.cli.output import (
    EXIT_DONE,
    EXIT_FAILED,
    add_engine,
    add_project,
    add_several,
    opened_cache,
    print_json,
    print_table,
)
from workbench.errors import failure
from workbench.project.model import TargetChoice
from workbench.studies.sweep import SweepResult, remark
from workbench.targets import target_of
from workbench.targets.ethos_u.vela_ini import OPTION, load

if TYPE_CHECKING:
    from workbench.studies.sweep import SweepPoint

# Flag, target option, help.
_AXES = (
    ("--system-configs", "system_config", "names, or all"),
    ("--memory-modes", "memory_mode", "names, or all"),
    ("--arena-cache", "arena_cache_bytes", "SRAM limits [bytes]"),
    ("--optimise", "optimise", "Performance, Size, or all"),
)


def add(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "sweep",
        help="estimate cycles and memory on many devices, without lowering again",
        description="Only valid combinations are compiled; the others are listed with the "
        "reason. Ctrl-C keeps the results; run again to continue.",
    )
    add_project(verb)
    add_several(
        verb, "--targets", default=[], metavar="T",
        help="devices, prefixes of names, or all; default: the project's device",
    )  # fmt: skip
    for flag, name, words in _AXES:
        kind = int if name == "arena_cache_bytes" else str
        add_several(verb, flag, kind, dest=name, metavar="X", help=words)
    verb.add_argument(
        "--sram-budgets",
        action="store_true",
        help="for the project's device: optimised for size, and SRAM limits from there to the maximum",
    )
    verb.add_argument(
        "--ini", type=Path, metavar="FILE",
        help="your own system configurations and memory modes, instead of the project's",
    )  # fmt: skip
    verb.add_argument(
        "--workers", type=_count, default=os.cpu_count() or 1, metavar="N",
        help=f"number of processes, up to {os.cpu_count()} on this machine",
    )  # fmt: skip
    verb.add_argument(
        "--scheduler", default="", metavar="ADDRESS",
        help="compile on the workers of a Dask cluster",
    )  # fmt: skip
    add_engine(verb)
    verb.set_defaults(perform=_perform)


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("at least one process is needed")
    return count


def _perform(options: argparse.Namespace) -> int:
    opened = api.open(options.project)
    if options.ini is not None:
        choice = _with_ini(opened.project.target, options.ini, opened.folder)
        opened = api.set_target(opened, choice.id, choice.options)
    axes = {name: getattr(options, name) for _, name, _ in _AXES if getattr(options, name)}
    if options.sram_budgets:
        _refuse_other_axes(options)
    with opened_cache(options) as cache:
        how = job_options(options, cache)
        if options.sram_budgets:
            result = api.sram_budgets(opened, **how)
        else:
            result = api.sweep(
                opened, options.targets, axes, workers=options.workers, scheduler=options.scheduler, **how
            )
    if options.json:
        print_json(_document(result))
    else:
        _print(result)
    return EXIT_DONE if any(point.totals for point in result.points) else EXIT_FAILED


def _refuse_other_axes(options: argparse.Namespace) -> None:
    given = [flag for flag, name, _ in _AXES if getattr(options, name)]
    given += ["--targets"] if options.targets else []
    if given:
        raise failure(
            f"--sram-budgets sets its own points and cannot be combined with {given[0]}.",
            "Remove one of them.",
            code="option-conflict",
        )


def _with_ini(choice: TargetChoice, ini: Path, folder: Path) -> TargetChoice:
    """Return the choice with another .ini; missing names are replaced by its first ones.

    Raises:
        WorkbenchError: it is unreadable or not a Vela configuration.
    """
    load(ini)
    changed = TargetChoice(id=choice.id, options={**choice.options, OPTION: str(ini.absolute())})
    return target_of(choice.id).complete(changed, folder)


def _document(result: SweepResult) -> dict[str, Any]:
    return {
        "tool": result.tool,
        "kind": "estimated",
        "front": result.front(),
        "points": [_point(point) for point in result.points],
    }


def _point(point: SweepPoint) -> dict[str, Any]:
    figures = point.totals.model_dump() if point.totals else {}
    return {
        "target": point.target.id,
        **point.target.options,
        **figures,
        "problem": point.problem or None,
        "remark": remark(point) or None,
    }


def _print(result: SweepResult) -> None:
    front = set(result.front())
    rows = [_row(point, number in front) for number, point in enumerate(result.points)]
    print_table(
        (
            "device",
            "system configuration",
            "memory mode",
            "limit [KiB]",
            "optimise",
            "cycles",
            "time [ms]",
            "SRAM [KiB]",
            "constants [KiB]",
        ),
        rows,
    )
    print(f"Estimated by {result.tool}; * marks the Pareto front.")
    for point in result.points:
        if point.problem:
            print(f"skipped: {point.target.id}: {point.problem}")
        elif words := remark(point):
            print(f"note: {point.target.id}, {point.target.options['memory_mode']}: {words}")


def _row(point: SweepPoint, is_best: bool) -> list[str]:
    options, totals = point.target.options, point.totals
    limit = options.get("arena_cache_bytes")
    named = [
        f"{point.target.id}{' *' if is_best else ''}",
        str(options.get("system_config", "")),
        str(options.get("memory_mode", "")),
        f"{int(str(limit)) / 1024:,.0f}" if limit else "-",
        str(options.get("optimise", "")),
    ]
    if totals is None:
        return [*named, "-", "-", "-", "-"]
    return [
        *named,
        f"{totals.cycles_total:,}",
        f"{totals.inference_ms:,.3f}",
        f"{totals.sram_bytes / 1024:,.1f}",
        f"{totals.flash_bytes / 1024:,.1f}",
    ]

"""Studies that look for a better configuration or device: ``search`` and ``sweep``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.output import (
    EXIT_DONE,
    EXIT_FAILED,
    add_engine,
    add_project,
    add_several,
    job_options,
    opened_cache,
    print_json,
    print_table,
)
from workbench.errors import Place, failure
from workbench.project.model import TargetChoice
from workbench.studies.search import DEFAULT_TRIALS, TRANSFORMS, Candidate, Limits, SearchResult
from workbench.studies.sweep import SweepResult, remark
from workbench.targets import target_of
from workbench.targets.ethos_u.vela_ini import OPTION, load

if TYPE_CHECKING:
    from workbench.pipeline.cache import Cache
    from workbench.studies.sweep import SweepPoint


_SEARCH_HEADER = (
    "no",
    "accuracy",
    "cycles",
    "SRAM [KiB]",
    "flash [KiB]",
    "CPU",
    "limits",
    "origin",
    "precisions",
)


def add_search(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "search",
        help="search precisions under limits: accuracy, cycles, SRAM",
        description="Every candidate is quantized, measured and compiled. Ctrl-C keeps the "
        "results; run again to continue.",
    )
    add_project(verb)
    verb.add_argument(
        "--accuracy-at-least",
        type=_accuracy,
        metavar="X",
        help="your metric, else top-1 (98%% or 0.98), else SQNR [dB]",
    )
    verb.add_argument("--cycles-at-most", type=float, metavar="N")
    verb.add_argument("--sram-at-most", type=float, metavar="BYTES")
    verb.add_argument(
        "--cpu-operators-at-most",
        type=int,
        metavar="N",
        help=("not included in Vela's cycles; default: as many as with all modules in 8 bits"),
    )
    _add_size(verb)
    verb.add_argument(
        "--apply", action="store_true", help="write the fastest candidate within the limits to the project"
    )
    add_engine(verb)
    verb.set_defaults(perform=_search)


def _add_size(verb: argparse.ArgumentParser) -> None:
    """Add the options that say how much is searched, and by how many processes."""
    verb.add_argument("--trials", type=int, default=DEFAULT_TRIALS, metavar="N")
    verb.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help=f"number of processes, up to {os.cpu_count()} on this machine",
    )
    verb.add_argument(
        "--scheduler",
        default="",
        metavar="ADDRESS",
        help="run on a Dask cluster whose workers share the project folder and the cache "
        "under the same paths",
    )
    verb.add_argument(
        "--widths",
        action="store_true",
        help="search the numbers of output channels too, in steps of the NPU's blocks of 8",
    )
    verb.add_argument(
        "--train",
        type=int,
        default=0,
        metavar="EPOCHS",
        help="with --widths: train every candidate with fewer channels before it is measured",
    )
    verb.add_argument(
        "--transforms", action="store_true", help=f"search the weight transforms too: {', '.join(TRANSFORMS)}"
    )


def _accuracy(text: str) -> float:
    """Return an accuracy; with a per cent sign it is a share."""
    number = text.removesuffix("%")
    return float(number) / 100 if number != text else float(number)


def _search(options: argparse.Namespace) -> int:
    opened = api.open(options.project)
    if options.train < 0 or (options.train and not options.widths):
        raise failure(
            "--train needs --widths and a number of epochs.",
            "Example: --widths --train 20",
            Place(kind="option", id="train"),
            code="search-training-without-widths",
        )
    limits = Limits(
        accuracy=options.accuracy_at_least,
        cycles=options.cycles_at_most,
        sram=options.sram_at_most,
        cpu=options.cpu_operators_at_most,
    )
    with opened_cache(options) as cache:
        result = api.search(
            opened,
            limits,
            trials=options.trials,
            workers=options.workers,
            scheduler=options.scheduler,
            widths=options.widths,
            train=options.train,
            transforms=options.transforms,
            **job_options(options, cache),
        )
        best = result.best()
        if options.apply and best is not None:
            _apply(opened, result, best.number, options, cache)
    if options.json:
        document = result.model_dump(mode="json")
        print_json(
            {**document, "front": [c.number for c in result.front()], "best": best.number if best else None}
        )
    else:
        _print_search(result, best)
    return EXIT_DONE if best is not None else EXIT_FAILED


def _apply(
    opened: api.OpenProject, result: SearchResult, number: int, options: argparse.Namespace, cache: Cache
) -> None:
    """Write a candidate to the project file."""
    axes = {name: getattr(options, name) for name in ("widths", "train", "transforms")}
    api.update(opened, lambda fresh: api.apply_candidate(fresh, result, number, cache=cache, **axes))


def _print_search(result: SearchResult, best: Candidate | None) -> None:
    front = {candidate.number for candidate in result.front()}
    rows = [_candidate_row(candidate, candidate.number in front) for candidate in result.candidates]
    print_table(_SEARCH_HEADER, rows)
    if best is None:
        print("No candidate is within all limits; * marks the best trade-offs.")
    else:
        print(f"Best within limits: candidate {best.number}, {best.cycles:,} cycles (estimated).")


def _shown(candidate: Candidate) -> str:
    is_share = candidate.accuracy_name.lower() == "top-1"
    value = candidate.accuracy or 0.0
    return f"{100 * value:.2f} %" if is_share else f"{value:.4g}"


def _candidate_row(candidate: Candidate, is_best: bool) -> list[str]:
    named = list(candidate.choices.values())
    general = max(dict.fromkeys(named), key=named.count)
    rest = [f"{n}: {c}" for n, c in candidate.choices.items() if c != general]
    channels = [f"{n}: {c} channels" for n, c in candidate.channels.items()]
    transforms = [candidate.transforms] if candidate.transforms not in {"", "none"} else []
    summary = candidate.problem or ", ".join([general, *rest, *transforms, *channels])
    figures = ["-"] * 5
    if candidate.accuracy is not None:
        figures = [
            _shown(candidate),
            f"{candidate.cycles:,}",
            f"{(candidate.sram_bytes or 0) / 1024:.1f}",
            "-" if candidate.flash_bytes is None else f"{candidate.flash_bytes / 1024:.1f}",
            str(candidate.cpu_nodes),
        ]
    kept = "kept" if candidate.is_within else "broken"
    number = f"{candidate.number}{' *' if is_best else ''}"
    return [number, *figures, kept, candidate.origin, summary]


# Flag, target option, help.
_AXES = (
    ("--system-configs", "system_config", "names, or all"),
    ("--memory-modes", "memory_mode", "names, or all"),
    ("--arena-cache", "arena_cache_bytes", "SRAM limits [bytes]"),
    ("--optimise", "optimise", "Performance, Size, or all"),
)


def add_sweep(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "sweep",
        help="estimate cycles and memory on many devices, with Vela alone",
        description="Only valid combinations are compiled; the others are listed with the "
        "reason. Ctrl-C keeps the results; run again to continue.",
    )
    add_project(verb)
    add_several(
        verb,
        "--targets",
        default=[],
        metavar="T",
        help="devices, prefixes of names, or all; default: the project's device",
    )
    for flag, name, words in _AXES:
        kind = int if name == "arena_cache_bytes" else str
        add_several(verb, flag, kind, dest=name, metavar="X", help=words)
    verb.add_argument(
        "--sram-budgets",
        action="store_true",
        help="for the project's device: optimised for size, and SRAM limits from there to the maximum",
    )
    verb.add_argument(
        "--ini",
        type=Path,
        metavar="FILE",
        help="your own system configurations and memory modes, instead of the project's",
    )
    most = os.cpu_count() or 1
    words = f"number of processes, up to {most} on this machine"
    verb.add_argument("--workers", type=_count, default=most, metavar="N", help=words)
    verb.add_argument(
        "--scheduler", default="", metavar="ADDRESS", help="compile on the workers of a Dask cluster"
    )
    add_engine(verb)
    verb.set_defaults(perform=_sweep)


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("at least one process is needed")
    return count


def _sweep(options: argparse.Namespace) -> int:
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
        print_json(_sweep_document(result))
    else:
        _print_sweep(result)
    return EXIT_DONE if any(point.totals for point in result.points) else EXIT_FAILED


def _refuse_other_axes(options: argparse.Namespace) -> None:
    flags = [flag for flag, name, _ in _AXES if getattr(options, name)]
    flags += ["--targets"] if options.targets else []
    if flags:
        raise failure(
            f"--sram-budgets sets its own points and cannot be combined with {flags[0]}.",
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


def _sweep_document(result: SweepResult) -> dict[str, Any]:
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


def _print_sweep(result: SweepResult) -> None:
    front = set(result.front())
    rows = [_point_row(point, number in front) for number, point in enumerate(result.points)]
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


def _point_row(point: SweepPoint, is_best: bool) -> list[str]:
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

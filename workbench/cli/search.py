"""``search``: search precisions for every module under limits, with real evaluations."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from workbench.cli.jobs import keep_run, run_study
from workbench.cli.output import (
    EXIT_DONE,
    EXIT_FAILED,
    add_engine,
    add_project,
    open_project,
    opened_cache,
    print_json,
    print_table,
)
from workbench.pipeline.plan import plan
from workbench.project import store
from workbench.studies.documents import load_study, study_folder, study_key
from workbench.studies.search import DEFAULT_TRIALS, Candidate, SearchResult, with_choices

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from workbench.pipeline.cache import Cache
    from workbench.project.model import Project

_HEADER = ("no", "accuracy", "cycles", "SRAM [KiB]", "CPU", "limits", "origin", "precisions")


def add(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "search",
        help="search precisions under limits: accuracy, cycles, SRAM",
        description="Every candidate is quantized, measured and compiled. Ctrl-C keeps the "
        "results; run again to continue.",
    )
    add_project(verb)
    verb.add_argument(
        "--accuracy-at-least", type=float, metavar="X", help="your metric, else top-1, else SQNR"
    )
    verb.add_argument("--cycles-at-most", type=float, metavar="N")
    verb.add_argument("--sram-at-most", type=float, metavar="BYTES")
    verb.add_argument(
        "--cpu-operators-at-most",
        type=int,
        metavar="N",
        help=("not included in Vela's cycles; default: as many as with all modules in 8 bits"),
    )
    verb.add_argument("--trials", type=int, default=DEFAULT_TRIALS, metavar="N")
    verb.add_argument(
        "--workers", type=int, default=1, metavar="N",
        help=f"number of processes, up to {os.cpu_count()} on this machine",
    )  # fmt: skip
    verb.add_argument(
        "--scheduler",
        default="",
        metavar="ADDRESS",
        help="run on a Dask cluster whose workers share the project folder and the cache "
        "under the same paths",
    )
    verb.add_argument(
        "--apply",
        action="store_true",
        help="write the fastest candidate within the limits to the project",
    )
    add_engine(verb)
    verb.set_defaults(perform=_perform)


def _perform(options: argparse.Namespace) -> int:
    project, folder = open_project(options)
    asked = {
        "accuracy": options.accuracy_at_least,
        "cycles": options.cycles_at_most,
        "sram": options.sram_at_most,
        "cpu": options.cpu_operators_at_most,
        "trials": options.trials,
        "workers": options.workers,
        "scheduler": options.scheduler,
    }
    with opened_cache(options) as cache:
        try:
            found = run_study("search", SearchResult, (project, folder), cache, options, asked)
        finally:
            _keep(options.project, project, folder, cache)
    best = found.best()
    if options.json:
        document = found.model_dump(mode="json")
        print_json({**document, "front": [c.number for c in found.front()],
                    "best": best.number if best else None})  # fmt: skip
    else:
        _print(found, best)
    if best is None:
        return EXIT_FAILED
    if options.apply:
        store.edit(options.project, lambda fresh: with_choices(fresh, found.units, best.choices))
    return EXIT_DONE


def _keep(path: Path, project: Project, folder: Path, cache: Cache) -> None:
    """Store every evaluated candidate, also after cancellation."""
    key = study_key("search", project, folder, cache, {})
    found = load_study(SearchResult, study_folder(cache, key))
    if found is None:
        return
    for candidate in found.candidates:
        made = with_choices(project, found.units, candidate.choices)
        keep_run(path, made, plan(made, folder, cache), cache, "search")


def _print(found: SearchResult, best: Candidate | None) -> None:
    front = {each.number for each in found.front()}
    rows = [_row(each, each.number in front) for each in found.candidates]
    print_table(_HEADER, rows)
    if best is None:
        print("No candidate is within all limits; * marks the best trade-offs.")
    else:
        print(f"Best within limits: candidate {best.number}, {best.cycles:,} cycles (estimated).")


def _row(candidate: Candidate, is_best: bool) -> list[str]:
    named = list(candidate.choices.values())
    general = max(dict.fromkeys(named), key=named.count)
    rest = [f"{n}: {c}" for n, c in candidate.choices.items() if c != general]
    summary = candidate.problem or ", ".join([general, *rest])
    figures = ["-"] * 4
    if candidate.accuracy is not None:
        figures = [
            f"{candidate.accuracy:.4g}",
            f"{candidate.cycles:,}",
            f"{(candidate.sram_bytes or 0) / 1024:.1f}",
            str(candidate.cpu_nodes),
        ]
    kept = "kept" if candidate.is_within else "broken"
    number = f"{candidate.number}{' *' if is_best else ''}"
    return [number, *figures, kept, candidate.origin, summary]

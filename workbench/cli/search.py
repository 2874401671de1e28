"""``search``: search precisions for every module under limits, with real evaluations."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.jobs import job_options
from workbench.cli.output import (
    EXIT_DONE,
    EXIT_FAILED,
    add_engine,
    add_project,
    opened_cache,
    print_json,
    print_table,
)
from workbench.errors import Place, failure
from workbench.studies.search import DEFAULT_TRIALS, TRANSFORMS, Candidate, Limits, SearchResult

if TYPE_CHECKING:
    import argparse

    from workbench.pipeline.cache import Cache

_HEADER = ("no", "accuracy", "cycles", "SRAM [KiB]", "flash [KiB]", "CPU", "limits", "origin", "precisions")


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
    verb.set_defaults(perform=_perform)


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


def _perform(options: argparse.Namespace) -> int:
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
        _print(result, best)
    return EXIT_DONE if best is not None else EXIT_FAILED


def _apply(
    opened: api.OpenProject, result: SearchResult, number: int, options: argparse.Namespace, cache: Cache
) -> None:
    """Write a candidate to the project file."""
    given = {name: getattr(options, name) for name in ("widths", "train", "transforms")}
    api.update(opened, lambda fresh: api.apply_candidate(fresh, result, number, cache=cache, **given))


def _print(result: SearchResult, best: Candidate | None) -> None:
    front = {candidate.number for candidate in result.front()}
    rows = [_row(candidate, candidate.number in front) for candidate in result.candidates]
    print_table(_HEADER, rows)
    if best is None:
        print("No candidate is within all limits; * marks the best trade-offs.")
    else:
        print(f"Best within limits: candidate {best.number}, {best.cycles:,} cycles (estimated).")


def _shown(candidate: Candidate) -> str:
    is_share = candidate.accuracy_name.lower() == "top-1"
    value = candidate.accuracy or 0.0
    return f"{100 * value:.2f} %" if is_share else f"{value:.4g}"


def _row(candidate: Candidate, is_best: bool) -> list[str]:
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

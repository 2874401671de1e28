"""``etdump``: the times of a run that ExecuTorch's runtime recorded, by module."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.cli.output import EXIT_DONE, add_json, print_json, print_table
from workbench.deploy.simulators.etdump import events_of
from workbench.deploy.simulators.etrecord import Computed, located, read_record
from workbench.errors import Place, failure
from workbench.files import MAX_PROGRAM_BYTES, read_limited
from workbench.text import listed

if TYPE_CHECKING:
    import argparse

_MOST_NAMED = 3


def add(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "etdump",
        help="print the times that ExecuTorch's runtime recorded, by module",
        description="Times are those of the runtime's clock: CPU cycles on a device.",
    )
    verb.add_argument("file", type=Path, metavar="FILE.etdp", help="an ETDump")
    verb.add_argument(
        "--etrecord",
        type=Path,
        metavar="FILE.etrecord",
        help="the .etrecord beside the program; names operators and modules",
    )
    add_json(verb)
    verb.set_defaults(perform=_etdump)


def _etdump(options: argparse.Namespace) -> int:
    try:
        events = events_of(_read(options.file))
    except ValueError as error:
        raise failure(
            f"{options.file.name} cannot be read: {error}.",
            "Give the file that the runtime wrote.",
            Place(kind="file", id=str(options.file)),
            code="etdump-unreadable",
        ) from error
    rows = [(event, Computed()) for event in events]
    if options.etrecord is not None:
        rows = list(located(events, read_record(_read(options.etrecord))))
    if options.json:
        print_json(
            {
                "events": [
                    {**event.model_dump(), "operators": list(what.operators), "modules": list(what.modules)}
                    for event, what in rows
                ]
            }
        )
        return EXIT_DONE
    print_table(
        ("event", "kind", "time", "calls", "modules"),
        [
            (
                event.name,
                event.kind,
                f"{event.cycles:,.0f}",
                event.calls,
                listed([m for m in what.modules if m], _MOST_NAMED),
            )
            for event, what in rows
        ],
    )
    return EXIT_DONE


def _read(path: Path) -> bytes:
    try:
        return read_limited(path, MAX_PROGRAM_BYTES)
    except OSError as error:
        raise failure(
            f"{path} cannot be read: {error.strerror}.",
            "Correct the path.",
            Place(kind="file", id=str(path)),
            code="file-not-readable",
        ) from error

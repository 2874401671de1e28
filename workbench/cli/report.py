"""``report``: one self-contained page with all results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.output import EXIT_DONE, add_project, print_json
from workbench.errors import Place, failure
from workbench.files import write_file

if TYPE_CHECKING:
    import argparse


def add(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "report",
        help="write an HTML page: model, rules, ranges, accuracy, cost, runs, versions",
        description="Uses the cache and the history; computes nothing.",
    )
    add_project(verb)
    verb.add_argument("--out", type=Path, required=True, metavar="FILE.html")
    verb.set_defaults(perform=_perform)


def _perform(options: argparse.Namespace) -> int:
    text = api.report(api.open(options.project))
    try:
        write_file(options.out, text.encode())
    except OSError as error:
        raise failure(
            f"{options.out} cannot be written: {error.strerror or error}.",
            where=Place(kind="file", id=options.out.name),
            code="report-not-writable",
        ) from error
    if options.json:
        print_json({"path": str(options.out.absolute()), "bytes": len(text.encode())})
    else:
        print(f"{options.out}: {len(text.encode()):,} bytes")
    return EXIT_DONE

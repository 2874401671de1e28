"""``blame``: find the modules and nodes that the compiler rejects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.cli.jobs import run_study
from workbench.cli.output import (
    EXIT_DONE,
    add_engine,
    add_project,
    open_project,
    opened_cache,
    print_json,
)
from workbench.project.model import KEEPING_CALLS
from workbench.studies.documents import Blame

if TYPE_CHECKING:
    import argparse


def add(verbs: Any) -> None:
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
    verb.set_defaults(perform=_perform)


def _perform(options: argparse.Namespace) -> int:
    project, folder = open_project(options)
    with opened_cache(options) as cache:
        found = run_study("blame", Blame, (project, folder), cache, options, {})
    if options.json:
        print_json(found.model_dump(mode="json"))
        return EXIT_DONE
    if not found.reason:
        print("The compiler accepts the program.")
        return EXIT_DONE
    print(found.reason)
    for culprit in found.culprits:
        print(f'  {KEEPING_CALLS[culprit.kind]}("{culprit.match}")')
    print(f"Found in {found.compilations} compilations.")
    return EXIT_DONE

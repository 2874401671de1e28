"""``blame``: find the modules and nodes that the compiler rejects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.jobs import job_options
from workbench.cli.output import EXIT_DONE, add_engine, add_project, opened_cache, print_json
from workbench.project.model import KEEPING_CALLS

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

"""``improve``: transformations of the float weights before quantization."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.output import EXIT_DONE, add_project, print_json, print_table
from workbench.project.configs import IMPROVERS

if TYPE_CHECKING:
    import argparse


def add(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "improve",
        help="enable or disable improvers of the float weights",
        description=(
            "Without an option: list all improvers. 'run' measures their effect, 'runs' compares."
        ),
    )
    add_project(verb)
    ids = [improver.id for improver in IMPROVERS]
    verb.add_argument("--on", action="append", default=[], choices=ids, metavar="ID")
    verb.add_argument("--off", action="append", default=[], choices=ids, metavar="ID")
    verb.set_defaults(perform=_perform, edits=True)


def _perform(options: argparse.Namespace) -> int:
    opened = changed = api.open(options.project)
    for on, names in ((True, options.on), (False, options.off)):
        for name in names:
            changed = api.set_improver(changed, name, on=on)
    if changed != opened:
        api.save(changed)
    improvers = changed.project.improvers
    if options.json:
        print_json({"improvers": list(improvers)})
        return EXIT_DONE
    rows = [("on" if i.id in improvers else "off", i.id, i.description) for i in IMPROVERS]
    print_table(("", "id", "what it does"), rows)
    return EXIT_DONE

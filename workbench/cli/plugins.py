"""``plugins``: list plug-ins and their items, add and remove plug-ins of a project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.output import EXIT_DONE, add_project, print_json, print_table
from workbench.project.plugins import installed, items_of

if TYPE_CHECKING:
    import argparse


def add(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "plugins",
        help="list, add or remove files with configs, observers, finders and quantizers",
        description="Without an option: list the items of the project's and of installed "
        "plug-ins, without running them. A run that uses them needs --trust.",
    )
    add_project(verb)
    verb.add_argument("--add", metavar="FILE.py", help="add a plug-in file to the project")
    verb.add_argument("--remove", metavar="FILE.py", help="remove a plug-in file; rules that use it are kept")
    verb.set_defaults(perform=_perform, edits=True)


def _perform(options: argparse.Namespace) -> int:
    opened = changed = api.open(options.project)
    if options.remove:
        changed = api.remove_plugin(changed, options.remove)
    if options.add:
        changed = api.add_plugin(changed, options.add)
    if changed != opened:
        api.save(changed)
    plugins = changed.project.plugins
    items = [item for plugin in (*plugins, *installed()) for item in items_of(plugin, changed.folder)]
    if options.json:
        named = [{"kind": i.role, "reference": i.reference, "title": i.title} for i in items]
        print_json({"plugins": list(plugins), "items": named})
        return EXIT_DONE
    rows = [(i.role, i.name, i.title, i.reference.rpartition(":")[0]) for i in items]
    print_table(("kind", "name", "what it does", "plug-in"), rows)
    return EXIT_DONE

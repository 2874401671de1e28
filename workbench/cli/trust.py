"""Verbs on code that projects name: ``trust`` and ``plugins``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.output import EXIT_DONE, add_json, add_project, print_json, print_table
from workbench.errors import Place, failure
from workbench.project.plugins import installed, items_of
from workbench.project.trust import TrustStore

if TYPE_CHECKING:
    import argparse


# Characters of a digest in the list.
_SHOWN = 12


def add_trust(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "trust",
        help="list the folders whose code may run, or take the permission back",
        description="Permissions are given in the window, once for the code of a folder as it is. "
        "The option --trust of other verbs allows the code for one call.",
    )
    actions = verb.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list what may run")
    add_json(listing)
    listing.set_defaults(perform=_list_trusted)
    revoking = actions.add_parser("revoke", help="take a permission back")
    revoking.add_argument(
        "place", metavar="PLACE", help="a folder or callable of the list, or its digest as listed"
    )
    revoking.set_defaults(perform=_revoke)


def _list_trusted(options: argparse.Namespace) -> int:
    granted = TrustStore().granted()
    if options.json:
        print_json(
            {
                "trusted": [
                    {"place": entry, "digest": grant.digest, "project": grant.description}
                    for entry, grant in granted.items()
                ]
            }
        )
        return EXIT_DONE
    rows = [(entry, grant.digest[:_SHOWN], grant.description) for entry, grant in granted.items()]
    print_table(("place", "digest", "project"), rows)
    return EXIT_DONE


def _revoke(options: argparse.Namespace) -> int:
    store = TrustStore()
    granted = store.granted()
    named = {options.place, os.path.abspath(options.place)}
    # The name of a folder may have characters that a terminal does not show.
    is_digest = len(options.place) >= _SHOWN
    entry = next(
        (
            entry
            for entry, grant in granted.items()
            if entry in named or (is_digest and grant.digest.startswith(options.place))
        ),
        "",
    )
    if not entry:
        raise failure(
            f"Nothing is trusted at {options.place}.",
            "workbench trust list shows the places.",
            Place(kind="option", id="place"),
            code="trust-place-unknown",
        )
    store.revoke(entry)
    print(f"The code of {entry} is asked for again.")
    return EXIT_DONE


def add_plugins(verbs: Any) -> None:
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
    verb.set_defaults(perform=_plugins, edits=True)


def _plugins(options: argparse.Namespace) -> int:
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

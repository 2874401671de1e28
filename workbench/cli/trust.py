"""``trust``: list the code that may run, and take the permission back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from workbench.cli.output import EXIT_DONE, add_json, print_json, print_table
from workbench.errors import Place, failure
from workbench.project.trust import TrustStore

if TYPE_CHECKING:
    import argparse

# Characters of a digest in the list.
_SHOWN = 12


def add(verbs: Any) -> None:
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
    listing.set_defaults(perform=_list)
    revoking = actions.add_parser("revoke", help="take a permission back")
    revoking.add_argument(
        "place", metavar="PLACE", help="a folder or callable of the list, or its digest as listed"
    )
    revoking.set_defaults(perform=_revoke)


def _list(options: argparse.Namespace) -> int:
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

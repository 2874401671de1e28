"""``samples``: list the sample projects, and copy one to a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.cli.output import EXIT_DONE, add_json, print_json, print_table
from workbench.errors import Place, failure
from workbench.samples import SAMPLES, copy_sample

if TYPE_CHECKING:
    import argparse


def add(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "samples",
        help="list the sample projects, or copy one",
        description="Without a name: lists the samples. With one: copies its folder.",
    )
    verb.add_argument("name", nargs="?", default="", help="the sample to copy")
    verb.add_argument("--to", type=Path, default=Path(), metavar="DIR", help="where (default: this folder)")
    add_json(verb)
    verb.set_defaults(perform=_samples)


def _samples(options: argparse.Namespace) -> int:
    if options.name:
        sample = next((candidate for candidate in SAMPLES if candidate.name == options.name), None)
        if sample is None:
            raise failure(
                f"There is no sample {options.name}.",
                f"The samples are {', '.join(candidate.name for candidate in SAMPLES)}.",
                Place(kind="option", id="name"),
                code="sample-unknown",
            )
        path = copy_sample(sample, options.to)
        if options.json:
            print_json({"project": str(path)})
        else:
            print(path)
        return EXIT_DONE
    if options.json:
        listed = [{"name": s.name, "title": s.title, "purpose": s.purpose} for s in SAMPLES]
        print_json({"samples": listed})
        return EXIT_DONE
    print_table(("name", "purpose"), ((s.name, s.purpose) for s in SAMPLES))
    return EXIT_DONE

"""``rules take-mase`` and ``rules write-mase``: MASE's pass_args as rules, and rules as these."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.cli.arguments import open_project
from workbench.cli.output import EXIT_DONE, print_infos, print_json
from workbench.errors import Place, failure
from workbench.project import store
from workbench.targets.number_formats.mase_rules import pass_args_of
from workbench.targets.number_formats.pass_args import read_args, taken, toml_of

if TYPE_CHECKING:
    import argparse


def add_actions(actions: Any) -> None:
    """Add both actions to those of the verb ``rules``."""
    take = actions.add_parser("take-mase", help="MASE's pass_args in place of the rules")
    take.add_argument("file", type=Path, metavar="FILE", help="TOML, JSON or a Python dict")
    take.add_argument(
        "--mase-compatible", action="store_true",
        help="in the form that MASE computes, where it has the format",
    )  # fmt: skip
    take.set_defaults(perform=_take)
    write = actions.add_parser("write-mase", help="the rules as MASE's pass_args")
    write.add_argument("file", type=Path, metavar="FILE", help="FILE.toml or FILE.json")
    write.set_defaults(perform=_write)


def _take(options: argparse.Namespace) -> int:
    project, _ = open_project(options)
    args = read_args(options.file)
    found = taken(project, args, mase_compatible=options.mase_compatible)
    store.parse(store.dump(found.project).encode(), str(options.project))
    store.save(found.project, options.project)
    print_infos(found.notes, "note")
    if options.json:
        notes = [note.model_dump(mode="json") for note in found.notes]
        print_json({"rules": len(found.project.rules), "notes": notes})
    else:
        print(f"{len(found.project.rules)} rules taken from {options.file}.")
    return EXIT_DONE


def _write(options: argparse.Namespace) -> int:
    project, _ = open_project(options)
    args = pass_args_of(project)
    text = json.dumps(args, indent=1) if options.file.suffix == ".json" else toml_of(args)
    try:
        options.file.write_text(text)
    except OSError as error:
        place = Place(kind="file", id=str(options.file))
        raise failure(f"The file cannot be written: {error.strerror}.", where=place) from error
    if options.json:
        print_json({"file": str(options.file), "pass_args": args})
    else:
        print(f"Wrote {options.file}.")
    return EXIT_DONE

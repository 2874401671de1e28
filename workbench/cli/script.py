"""``script``: a stand-alone Python file that makes the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.cli.arguments import add_project, open_project
from workbench.cli.output import EXIT_DONE, print_json
from workbench.errors import WorkbenchError, failure
from workbench.pipeline.resolution import problems
from workbench.project.store import write_atomically
from workbench.script import script

if TYPE_CHECKING:
    import argparse


def add(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser("script", help="write a plain ExecuTorch script for the same .pte")
    add_project(verb)
    verb.add_argument("--out", type=Path, required=True, metavar="FILE.py")
    verb.set_defaults(perform=_script)


def _script(options: argparse.Namespace) -> int:
    project, folder = open_project(options)
    errors = [p.info for p in problems(project, folder, None) if p.level == "error"]
    if errors:
        raise WorkbenchError(errors)
    text = script(project, folder, options.out)
    try:
        write_atomically(options.out, text.encode())
    except OSError as error:
        raise failure(f"{options.out} cannot be written: {error.strerror}.") from error
    if options.json:
        print_json({"script": str(options.out)})
    else:
        print(f"Wrote {options.out}. Run: python {options.out}")
    return EXIT_DONE

"""``decoders``: list the decoders of common detector heads, and write one to a file."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.cli.output import EXIT_DONE, add_json, print_json, print_table
from workbench.errors import Place, failure
from workbench.files import write_file
from workbench.installation import resources
from workbench.project.store import require_folder

if TYPE_CHECKING:
    import argparse


def add(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "decoders",
        help="list decoders of detectors and key points, or write one to a file",
        description="Without a name: lists them. With one: writes it to a file that is yours to "
        "change, and that the project names: evaluation.decode=FILE.py:decode.",
    )
    verb.add_argument("name", nargs="?", default="", help="the decoder to write")
    verb.add_argument("file", nargs="?", type=Path, metavar="FILE.py", help="where")
    verb.add_argument("--force", action="store_true", help="overwrite an existing file")
    add_json(verb)
    verb.set_defaults(perform=_decoders)


def _decoders(options: argparse.Namespace) -> int:
    files = {path.stem: path for path in sorted((resources() / "decoders").glob("*.py"))}
    if not options.name:
        titles = {name: _title(path) for name, path in files.items()}
        if options.json:
            print_json({"decoders": [{"name": n, "title": t} for n, t in titles.items()]})
        else:
            print_table(("name", "decodes"), titles.items())
        return EXIT_DONE
    if options.name not in files:
        raise failure(
            f"There is no decoder {options.name}.",
            f"The decoders are {', '.join(files)}.",
            Place(kind="option", id="name"),
            code="decoder-unknown",
        )
    path = options.file or Path(f"{options.name}.py")
    require_folder(path)
    if os.path.exists(path) and not options.force:
        raise failure(f"{path} already exists.", "Add --force to overwrite it.", code="file-exists")
    write_file(path, files[options.name].read_bytes())
    if options.json:
        print_json({"file": str(path)})
    else:
        print(
            f"Wrote {path}. Next: workbench settings PROJECT evaluation.metric=detection "
            f"evaluation.decode={path}:decode"
        )
    return EXIT_DONE


def _title(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0]

"""``overlays``: a project's graph and figures for Model Explorer, its timeline for Perfetto."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.output import EXIT_DONE, add_project, print_json, print_table
from workbench.errors import Place, failure
from workbench.files import write_file

if TYPE_CHECKING:
    import argparse

_PURPOSES = {
    "graph": "the float program, for Model Explorer",
    "ranges": "largest absolute value of each activation",
    "error": "SQNR of each tensor against float, in dB",
    "added": "part of the error that each operation itself adds, in %",
    "cycles": "estimated NPU cycles of each operation",
    "device": "NPU or CPU",
    "trace": "timeline of one inference, for ui.perfetto.dev",
}


def add(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "overlays",
        help="write graph and figures for Model Explorer, the timeline for Perfetto",
        description="Uses the cache; computes nothing. The figures are node data of Model "
        "Explorer, by operation of the float program.",
    )
    add_project(verb)
    verb.add_argument("--out", type=Path, required=True, metavar="DIR")
    verb.set_defaults(perform=_perform)


def _perform(options: argparse.Namespace) -> int:
    files = api.overlays(api.open(options.project))
    rows = []
    for name, data in files.items():
        path = options.out / name
        try:
            options.out.mkdir(parents=True, exist_ok=True)
            write_file(path, data)
        except OSError as error:
            raise failure(
                f"{path} cannot be written: {error.strerror or error}.",
                "Choose another folder.",
                Place(kind="file", id=str(path)),
                code="file-not-writable",
            ) from error
        rows.append((name, len(data), _PURPOSES[name.split(".")[-2]]))
    if options.json:
        print_json(
            {
                "folder": str(options.out.absolute()),
                "files": [{"name": n, "bytes": b, "purpose": p} for n, b, p in rows],
            }
        )
        return EXIT_DONE
    print(f"Wrote to {options.out}:")
    print_table(("file", "bytes", "purpose"), [(n, f"{b:,}", p) for n, b, p in rows])
    graph, *figures = (shlex.quote(str(options.out / name)) for name, _, _ in rows)
    figures = [name for name in figures if "trace.json" not in name]
    shown = f" --node_data_paths={','.join(figures)}" if figures else ""
    print(f"Next: model-explorer {graph}{shown}")
    return EXIT_DONE

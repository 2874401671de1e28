"""Verbs on programs: ``inspect``, ``script``, ``overlays``, ``etdump``, ``decoders``."""

from __future__ import annotations

import ast
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.output import EXIT_DONE, add_json, add_project, print_json, print_table
from workbench.deploy.simulators.etdump import events_of
from workbench.deploy.simulators.etrecord import Computed, located, read_record
from workbench.errors import Place, failure, not_written
from workbench.files import MAX_PROGRAM_BYTES, make_output_folder, read_limited, write_file, write_together
from workbench.installation import resources
from workbench.project.store import require_folder
from workbench.text import listed, plural

if TYPE_CHECKING:
    import argparse


def add_inspect(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "inspect", help="show the contents of a .pte, a .bpte, or a .tflite that Vela compiled"
    )
    verb.add_argument("program", type=Path, metavar="FILE")
    verb.add_argument("--method", default="", metavar="NAME", help="which one; else the first")
    verb.add_argument("--plan", action="store_true", help="list instructions, memory plan and constants")
    verb.add_argument("--commands", action="store_true", help="list the commands of every Ethos-U delegate")
    verb.add_argument(
        "--find", default="", metavar="TEXT", help="only commands that contain this text, e.g. NPU_OP"
    )
    add_json(verb)
    verb.set_defaults(perform=_inspect)


def _inspect(options: argparse.Namespace) -> int:
    inspection = api.inspect(
        options.program, options.method, plan=options.plan, commands=options.commands, find=options.find
    )
    description = inspection.description
    if options.json:
        if options.commands or options.find:
            description = {**description, "commands": inspection.listings}
        print_json(description)
        return EXIT_DONE
    _print_program(options.program, description)
    if options.plan:
        _print_plan(description)
    for lines in inspection.listings:
        print("\n".join(["", *lines]))
    return EXIT_DONE


def _print_program(path: Path, description: dict[str, Any]) -> None:
    print(f"{path.name}: {description['bytes']:,} bytes, methods {', '.join(description['methods'])}")
    if len(description["methods"]) > 1:
        print(f"  method   {description['method']}")
    for side in ("inputs", "outputs"):
        for tensor in description[side]:
            print(f"  {side[:-1]:<9}{tensor.get('dtype', tensor['type'])} {tensor.get('shape', '')}")
    for delegate in description["delegates"]:
        _print_delegate(delegate)
    memory = description["memory"]
    print(f"  planned buffers {', '.join(f'{b:,}' for b in memory['planned_bytes'])} bytes")
    print(f"  method pool     {memory['method_pool_bytes']:,} bytes")
    print(f"  scratch pool    {memory['scratch_pool_bytes']:,} bytes")
    print(f"  constants       {description['constants_bytes']:,} bytes")
    for name, size in description["named_data_bytes"].items():
        print(f"  named data      {name} {size:,} bytes")
    if description["test_cases"]:
        print(f"  test vectors    {plural(description['test_cases'], 'sample')}")
    print(f"  kernels         {', '.join(description['kernels']) or 'none'}")


def _print_delegate(delegate: dict[str, Any]) -> None:
    print(f"  delegate {delegate['index']}: {delegate['backend']}, {delegate['bytes']:,} bytes")
    for name, size in delegate.get("vela_blocks", {}).items():
        beside = ", beside the program" if name in delegate["external_blocks"] else ""
        print(f"    {name:<14}{size:>12,} bytes{beside}")
    if "scratch_bytes" in delegate:
        print(f"    scratch needed {delegate['scratch_bytes']:,} bytes")
    if npu := delegate.get("npu"):
        kinds = ", ".join(f"{count} {kind}" for kind, count in npu["operations"].items())
        print(f"    compiled for {npu['family']}-{npu['macs']}, {npu['commands']:,} commands")
        print(f"    {kinds}")


def _print_plan(description: dict[str, Any]) -> None:
    print("\ninstructions:")
    rows = [(str(c["number"]), c["kind"], c["name"], "; ".join(c["values"])) for c in description["calls"]]
    print_table(("#", "kind", "what", "values"), rows)
    print("\nmemory plan:")
    rows_of_plan = [
        (
            str(t["index"]),
            t["role"],
            f"{t['dtype']} {list(t['shape'])}",
            str(t["memory"]),
            f"{t['address']:#x}",
            f"{t['bytes']:,}",
            f"{t['first']} to {t['last']}",
        )
        for t in description["plan"]
    ]
    head = ("value", "for", "tensor", "memory", "address", "bytes", "instructions")
    print_table(head, rows_of_plan)
    print("\nconstants:")
    print_table(
        ("buffer", "tensor", "bytes"),
        [
            (str(c["index"]), f"{c['dtype']} {list(c['shape'])}" if c["dtype"] else "", f"{c['bytes']:,}")
            for c in description["constants"]
        ],
    )


def add_script(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "script",
        help="write a plain ExecuTorch script that creates the same .pte",
        description="Range methods are exported as their resulting ranges. The script imports the "
        "folder ethos_u_corrections, which is written beside it.",
    )
    add_project(verb)
    verb.add_argument("--out", type=Path, required=True, metavar="FILE.py")
    verb.add_argument(
        "--aot",
        action="store_true",
        help=("write the model for ExecuTorch's aot_arm_compiler instead, and print its command"),
    )
    verb.add_argument(
        "--form",
        choices=("plain", "recipe"),
        default="plain",
        help="calls of ExecuTorch's functions, or one of its export recipes; default: plain",
    )
    verb.set_defaults(perform=_script)


def _script(options: argparse.Namespace) -> int:
    require_folder(options.out)
    script = api.script(api.open(options.project), options.out, aot=options.aot, form=options.form)
    try:
        script.save(options.out)
    except OSError as error:
        raise not_written(options.out, error) from error
    if options.json:
        print_json({"script": str(options.out), "commands": list(script.commands)})
        return EXIT_DONE
    print(f"Wrote {options.out}. Run{f' in {options.out.parent}' if options.aot else ''}:")
    for command in script.commands:
        print(f"  {command}")
    return EXIT_DONE


_PURPOSES = {
    "graph": "the float program, for Model Explorer",
    "ranges": "largest absolute value of each activation",
    "error": "SQNR of each tensor against float, in dB",
    "added": "part of the error that each operation itself adds, in %",
    "cycles": "estimated NPU cycles of each operation",
    "device": "NPU or CPU",
    "trace": "timeline of one inference, for ui.perfetto.dev",
}


def add_overlays(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "overlays",
        help="write graph and figures for Model Explorer, the timeline for Perfetto",
        description="Uses the cache; computes nothing. The figures are node data of Model "
        "Explorer, by operation of the float program.",
    )
    add_project(verb)
    verb.add_argument("--out", type=Path, required=True, metavar="DIR")
    verb.set_defaults(perform=_overlays)


def _overlays(options: argparse.Namespace) -> int:
    files = api.overlays(api.open(options.project))
    try:
        make_output_folder(options.out)
        write_together({options.out / name: data for name, data in files.items()})
    except OSError as error:
        raise not_written(options.out, error) from error
    rows = [(name, len(data), _PURPOSES[name.split(".")[-2]]) for name, data in files.items()]
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


_MOST_NAMED = 3


def add_etdump(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "etdump",
        help="print the times that ExecuTorch's runtime recorded, by module",
        description="Times are those of the runtime's clock: CPU cycles on a device.",
    )
    verb.add_argument("file", type=Path, metavar="FILE.etdp", help="an ETDump")
    verb.add_argument(
        "--etrecord",
        type=Path,
        metavar="FILE.etrecord",
        help="the .etrecord beside the program; names operators and modules",
    )
    add_json(verb)
    verb.set_defaults(perform=_etdump)


def _etdump(options: argparse.Namespace) -> int:
    try:
        events = events_of(_read_record(options.file))
    except ValueError as error:
        raise failure(
            f"{options.file.name} cannot be read: {error}.",
            "Give the file that the runtime wrote.",
            Place(kind="file", id=str(options.file)),
            code="etdump-unreadable",
        ) from error
    rows = [(event, Computed()) for event in events]
    if options.etrecord is not None:
        rows = list(located(events, read_record(_read_record(options.etrecord))))
    if options.json:
        print_json(
            {
                "events": [
                    {**event.model_dump(), "operators": list(what.operators), "modules": list(what.modules)}
                    for event, what in rows
                ]
            }
        )
        return EXIT_DONE
    print_table(
        ("event", "kind", "time", "calls", "modules"),
        [
            (
                event.name,
                event.kind,
                f"{event.cycles:,.0f}",
                event.calls,
                listed([m for m in what.modules if m], _MOST_NAMED),
            )
            for event, what in rows
        ],
    )
    return EXIT_DONE


def _read_record(path: Path) -> bytes:
    try:
        return read_limited(path, MAX_PROGRAM_BYTES)
    except OSError as error:
        raise failure(
            f"{path} cannot be read: {error.strerror}.",
            "Correct the path.",
            Place(kind="file", id=str(path)),
            code="file-not-readable",
        ) from error


def add_decoders(verbs: Any) -> None:
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
        titles = {name: _decoder_title(path) for name, path in files.items()}
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
    try:
        write_file(path, files[options.name].read_bytes())
    except OSError as error:
        raise not_written(path, error) from error
    if options.json:
        print_json({"file": str(path)})
    else:
        print(
            f"Wrote {path}. Next: workbench settings PROJECT evaluation.metric=detection "
            f"evaluation.decode={path}:decode"
        )
    return EXIT_DONE


def _decoder_title(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0]

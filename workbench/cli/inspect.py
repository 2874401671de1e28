"""``inspect``: the contents of a ``.pte``, or of a TensorFlow Lite file that Vela compiled."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.output import EXIT_DONE, add_json, print_json, print_table
from workbench.text import plural

if TYPE_CHECKING:
    import argparse


def add(verbs: Any) -> None:
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
    _print(options.program, description)
    if options.plan:
        _print_plan(description)
    for lines in inspection.listings:
        print("\n".join(["", *lines]))
    return EXIT_DONE


def _print(path: Path, description: dict[str, Any]) -> None:
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

"""``fvp build``: a runner for a program, from the user's ExecuTorch checkout."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.cli.arguments import add_json
from workbench.cli.output import EXIT_DONE, print_json

if TYPE_CHECKING:
    import argparse

    from workbench.fvp.building import Wanted

_PLACEMENTS = ("semihosting", "embedded")


def add(parts: Any) -> None:
    """Add the part of the verb."""
    verb = parts.add_parser(
        "build", help="a runner for a program, from an ExecuTorch checkout",
        description="The pools are computed from the program; a runner that reads programs from "
        "files gives at least what runners give by themselves. It is remembered for projects.",
    )  # fmt: skip
    verb.add_argument("program", type=Path, metavar="FILE.pte")
    verb.add_argument("--checkout", default="", metavar="DIR",
                      help="the ExecuTorch checkout; default: the one of `fvp set`")  # fmt: skip
    verb.add_argument(
        "--placement", default="semihosting", metavar="P",
        help="where the program comes from: semihosting (a file), embedded, or an address 0x...",
    )  # fmt: skip
    verb.add_argument("--etdump", action="store_true", help="have it record events (ETDump)")
    verb.add_argument("--out", type=Path, metavar="DIR", help="keep the runner there")
    verb.add_argument("--verbose", action="store_true", help="print the build's log as it comes")
    add_json(verb)
    verb.set_defaults(perform=_perform)


def _perform(options: argparse.Namespace) -> int:
    from workbench.cli.fvp import read_program, terminated_as_interrupted
    from workbench.fvp.building import Build, Watching, build_runner, known_checkouts
    from workbench.fvp.machine import adopt_runner, load_settings, runners_folder

    wanted, address = _placement(options.placement)
    (checkout,) = known_checkouts(options.checkout or load_settings().executorch)
    build = Build(
        checkout.absolute(), read_program(options.program), wanted, address, options.etdump
    )
    place = options.out.absolute() if options.out else runners_folder() / build.name
    watching = Watching(_show if options.verbose else lambda _: None)
    with tempfile.TemporaryDirectory(prefix="runner-") as tree, terminated_as_interrupted():
        runner = build_runner(build, Path(tree), place, watching)
    adopt_runner(runner.path, address if wanted == "address" else None)
    document = {
        "runner": str(runner.path), "target": build.target, "placement": runner.placement,
        "memory_mode": build.program.memory_mode, "pools": runner.pools,
    }  # fmt: skip
    if options.json:
        print_json(document)
        return EXIT_DONE
    print(f"Runner       {runner.path}")
    print(f"For          {build.target}, {build.program.memory_mode}, {runner.placement}")
    for name, size in runner.pools.items():
        print(f"Pool         {name}: {size:,} bytes")
    return EXIT_DONE


def _placement(text: str) -> tuple[Wanted, int]:
    from workbench.errors import failure

    if text == "semihosting":
        return "semihosting", 0
    if text == "embedded":
        return "embedded", 0
    try:
        return "address", int(text, 16)
    except ValueError as error:
        raise failure(
            f"--placement wants {', '.join(_PLACEMENTS)} or an address such as 0x62000000: "
            f"{text!r}."
        ) from error


def _show(line: str) -> None:
    print(line, file=sys.stderr)

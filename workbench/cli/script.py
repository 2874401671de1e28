"""``script``: export a Python script that creates the same program without the workbench."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.output import EXIT_DONE, add_project, print_json
from workbench.errors import failure

if TYPE_CHECKING:
    import argparse


def add(verbs: Any) -> None:
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
    script = api.script(api.open(options.project), options.out, aot=options.aot, form=options.form)
    try:
        script.save(options.out)
    except OSError as error:
        raise failure(
            f"{options.out} cannot be written: {error.strerror}.", code="file-not-writable"
        ) from error
    if options.json:
        print_json({"script": str(options.out), "commands": list(script.commands)})
        return EXIT_DONE
    print(f"Wrote {options.out}. Run{f' in {options.out.parent}' if options.aot else ''}:")
    for command in script.commands:
        print(f"  {command}")
    return EXIT_DONE

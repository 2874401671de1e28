"""``board``: flash a board, run the compiled program on it, and compare its outputs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.fvp import print_report, terminated_as_interrupted
from workbench.cli.output import EXIT_DONE, add_json, add_project, print_infos, print_json
from workbench.deploy.simulators.discovery import BoardLink, load_settings, save_settings, settings_path
from workbench.errors import Place, failure

if TYPE_CHECKING:
    import argparse

_FLASH = (
    "a command, run without a shell; {elf}, {pte}, {bpte}, {header} and {folder} stand for the "
    "firmware and the deliverables, {name} for the project, e.g. "
    "'probe-rs download --chip CHIP {elf}'"
)


def add(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "board",
        help="run a program on a board: flash it, read its serial port, compare its outputs",
        description="The firmware is ExecuTorch's Arm runner, or prints the same lines. Build it "
        "with ET_BUNDLE_IO and ET_LOG_DUMP_OUTPUT.",
    )
    actions = verb.add_subparsers(dest="action", metavar="ACTION", required=True)
    run = actions.add_parser("run", help="flash, run the first test vector, and compare")
    add_project(run)
    _add_link(run)
    run.add_argument("--log", type=Path, metavar="FILE", help="keep the log of the serial port")
    run.add_argument("--verbose", action="store_true", help="print the log while running")
    run.add_argument(
        "--remember",
        action="store_true",
        help="keep the measured cycles: later estimates of this board are anchored in them",
    )
    run.set_defaults(perform=_run)
    put = actions.add_parser("set", help="remember the board of this machine")
    _add_link(put)
    put.add_argument(
        "--simulate",
        choices=("on", "off"),
        help="whether the stage Simulate runs on the board instead of an FVP; default: off",
    )
    add_json(put)
    put.set_defaults(perform=_set)


def _add_link(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--port", metavar="PORT", help="serial port, e.g. /dev/ttyACM0 or COM3")
    verb.add_argument("--baud", type=int, metavar="N", help="default: 115200")
    verb.add_argument("--flash", metavar="COMMAND", help=_FLASH)
    verb.add_argument("--elf", metavar="FILE", help="the firmware that {elf} stands for; may have {name} too")
    verb.add_argument("--timeout", type=float, metavar="S", help="default: 120")


def _link(options: argparse.Namespace) -> BoardLink:
    """Return the remembered board with the options that were given."""
    named = {
        "port": options.port,
        "baud": options.baud,
        "flash": options.flash,
        "elf": options.elf,
        "timeout_s": options.timeout,
    }
    given = {name: value for name, value in named.items() if value is not None}
    known = load_settings().board
    before = {} if known is None else known.model_dump()
    if not {**before, **given}.get("port"):
        raise failure(
            "No serial port given.",
            "Add --port, or remember it: workbench board set --port PORT --flash COMMAND.",
            Place(kind="option", id="port"),
            code="board-not-configured",
        )
    for name in ("baud", "timeout_s"):
        if name in given and not given[name] > 0:
            flag = name.removesuffix("_s")
            raise failure(
                f"--{flag} must be greater than 0.",
                where=Place(kind="option", id=flag),
                code="board-option-invalid",
            )
    return BoardLink.model_validate({**before, **given})


def _set(options: argparse.Namespace) -> int:
    link = _link(options)
    if options.simulate is not None:
        link = link.model_copy(update={"simulate": options.simulate == "on"})
    save_settings(load_settings().model_copy(update={"board": link}))
    if options.json:
        print_json(link.model_dump(mode="json"))
    else:
        print(f"Written to {settings_path()}.")
    return EXIT_DONE


def _run(options: argparse.Namespace) -> int:
    opened = api.open(options.project)

    def show(lines: list[str]) -> None:
        if options.verbose:
            for line in lines:
                print(line.rstrip(), file=sys.stderr)

    with terminated_as_interrupted():
        outcome = api.run_on_board(opened, _link(options), log=options.log, live=show)
    if outcome.history_problem is not None:
        print_infos([outcome.history_problem], "warning")
    kept = api.remember_run(opened, outcome.report) if options.remember else None
    if options.json:
        print_json({**outcome.document(), "remembered": str(kept) if kept else None})
        return EXIT_DONE
    print_report(outcome.report, list(outcome.report.notes), [])
    for difference in outcome.differences:
        print(
            f"Compared     {difference.equal} of {difference.elements} values equal to the "
            f"{difference.against}, "
            f"at most {difference.largest:g} apart"
        )
    if outcome.equals_tosa is not None:
        same = "equals" if outcome.equals_tosa else "differs from"
        print(f"             the functional simulator {same} the TOSA reference model (verify)")
    if outcome.cycles is not None:
        print(f"Cycles       {outcome.cycles:,.0f} measured, {outcome.estimated_cycles:,} estimated")
    if kept is not None:
        print(f"Remembered   {kept}")
    return EXIT_DONE

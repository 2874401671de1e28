"""Verbs on boards: ``boards``, ``board``, ``silicon``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.analysis.silicon import SiliconFile, SiliconRow, add_row, files, groups, in_figures, problems
from workbench.cli.fvp import print_report, terminated_as_interrupted
from workbench.cli.output import (
    EXIT_DONE,
    EXIT_USAGE,
    add_json,
    add_project,
    print_infos,
    print_json,
    print_table,
)
from workbench.deploy.boards import Board, Memory, Npu, all_boards, load
from workbench.deploy.simulators.discovery import BoardLink, load_settings, save_settings, settings_path
from workbench.errors import ErrorInfo, Place, WorkbenchError, failure

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping


def add_boards(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "boards",
        help="list boards, describe one, or set a project's board",
        description="Your own boards are .toml files in your configuration folder, or beside a "
        "project and named by path. See a supplied board for the keys.",
    )
    verb.add_argument("board", nargs="?", metavar="BOARD", help="a board id, or FILE.toml")
    verb.add_argument(
        "--put",
        type=Path,
        metavar="PROJECT",
        help="set the project's board, device, configuration, memory mode and SRAM limit",
    )
    verb.add_argument("--device", default="", metavar="T", help="one of the board's NPUs")
    add_json(verb)
    verb.set_defaults(perform=_boards)


def _boards(options: argparse.Namespace) -> int:
    if options.put is not None:
        return _put_board(options)
    if options.board is None:
        return _list_boards(options)
    board = load(options.board, Path.cwd())
    if options.json:
        print_json({"id": options.board, **board.model_dump(mode="json")})
    else:
        _describe(board)
    return EXIT_DONE


def _put_board(options: argparse.Namespace) -> int:
    if options.board is None:
        raise failure("No board given.", "Run: workbench boards BOARD --put PROJECT.", code="board-not-given")
    opened = api.update(
        api.open(options.put), lambda fresh: api.set_board(fresh, options.board, options.device)
    )
    project = opened.project
    if options.json:
        print_json({"board": project.board, "target": project.target.model_dump(mode="json")})
    else:
        print(f"{project.board}: {project.target.id}, {_board_settings(project.target.options)}")
    return EXIT_DONE


def _board_settings(options: Any) -> str:
    limit = options["arena_cache_bytes"]
    words = f"{options['system_config']}, {options['memory_mode']}"
    return f"{words}, at most {limit / 1024:,.0f} KiB of SRAM" if limit else words


def _list_boards(options: argparse.Namespace) -> int:
    boards_by_id = all_boards()
    known = {name: board for name, board in boards_by_id.items() if isinstance(board, Board)}
    broken = {name: error for name, error in boards_by_id.items() if isinstance(error, WorkbenchError)}
    if options.json:
        print_json(
            {
                "boards": [{"id": n, **b.model_dump(mode="json")} for n, b in known.items()],
                "broken": [
                    {"id": n, "problems": [i.model_dump(mode="json") for i in e.infos]}
                    for n, e in broken.items()
                ],
            }
        )
        return EXIT_DONE
    print_table(
        ("board", "", "devices", "memories [KiB]"),
        ((name, board.title, _devices(board), _memories(board)) for name, board in known.items()),
    )
    print("? marks an unconfirmed figure. workbench boards BOARD lists all sources.")
    for error in broken.values():
        print_infos(error.infos)
    return EXIT_DONE


def _devices(board: Board) -> str:
    return " ".join(f"{d}{'' if npu.confirmed else '?'}" for npu in board.npu for d in npu.devices)


def _memories(board: Board) -> str:
    return ", ".join(f"{memory.name} {_kib(memory)}" for memory in board.memory)


def _kib(memory: Memory) -> str:
    if memory.bytes is None:
        return "?"
    return f"{memory.bytes / 1024:,.0f}{'' if memory.confirmed else '?'}"


def _describe(board: Board) -> None:
    print(board.title)
    for title, text in (("CPU", board.cpu), ("Zephyr", board.zephyr)):
        if text:
            print(f"{title:<9}{text}")
    for npu in board.npu:
        _describe_npu(npu)
    for memory in board.memory:
        where = f" at {memory.address}" if memory.address else ""
        print(f"{memory.kind.upper():<9}{memory.name}, {_kib(memory)} KiB{where}")
        print(f"         {_source(memory)}")
    for note in board.notes:
        print(f"Note     {note}")


def _describe_npu(npu: Npu) -> None:
    clock = f"{npu.clock_hz / 1e6:,.0f} MHz" if npu.clock_hz else "clock of the configuration"
    print(f"NPU      {', '.join(npu.devices)}, {clock}")
    own = f" of {npu.ini}" if npu.ini else ""
    print(f"         {npu.system_config}{own}; {', '.join(npu.memory_modes)}")
    print(f"         {_source(npu)}")
    if npu.note:
        print(f"         {npu.note}")


def _source(figure: Npu | Memory) -> str:
    return f"{'confirmed' if figure.confirmed else 'not confirmed'}: {figure.source}"


_FLASH = (
    "a command, run without a shell; {elf}, {pte}, {bpte}, {header} and {folder} stand for the "
    "firmware and the deliverables, {name} for the project, e.g. "
    "'probe-rs download --chip CHIP {elf}'"
)


def add_board(verbs: Any) -> None:
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
        help="keep the measured cycles: later estimates of this board are based on them",
    )
    run.set_defaults(perform=_run_on_board)
    put = actions.add_parser("set", help="remember the board of this machine")
    _add_link(put)
    put.add_argument(
        "--simulate",
        choices=("on", "off"),
        help="whether the stage Simulate runs on the board instead of an FVP; default: off",
    )
    add_json(put)
    put.set_defaults(perform=_set_link)


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
    settings = {name: value for name, value in named.items() if value is not None}
    known = load_settings().board
    before = {} if known is None else known.model_dump()
    if not {**before, **settings}.get("port"):
        raise failure(
            "No serial port given.",
            "Add --port, or remember it: workbench board set --port PORT --flash COMMAND.",
            Place(kind="option", id="port"),
            code="board-not-configured",
        )
    for name in ("baud", "timeout_s"):
        if name in settings and not settings[name] > 0:
            flag = name.removesuffix("_s")
            raise failure(
                f"--{flag} must be greater than 0.",
                where=Place(kind="option", id=flag),
                code="board-option-invalid",
            )
    return BoardLink.model_validate({**before, **settings})


def _set_link(options: argparse.Namespace) -> int:
    link = _link(options)
    if options.simulate is not None:
        link = link.model_copy(update={"simulate": options.simulate == "on"})
    save_settings(load_settings().model_copy(update={"board": link}))
    if options.json:
        print_json(link.model_dump(mode="json"))
    else:
        print(f"Written to {settings_path()}.")
    return EXIT_DONE


def _run_on_board(options: argparse.Namespace) -> int:
    opened = api.open(options.project)

    def show(lines: list[str]) -> None:
        if options.verbose:
            for line in lines:
                print(line.rstrip(), file=sys.stderr)

    with terminated_as_interrupted():
        outcome = api.run_on_board(opened, _link(options), log=options.log, live=show)
    if outcome.history_problem is not None:
        print_infos([outcome.history_problem], "warning")
    remembered = api.remember_run(opened, outcome.report) if options.remember else None
    if options.json:
        print_json({**outcome.document(), "remembered": str(remembered) if remembered else None})
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
    if remembered is not None:
        print(f"Remembered   {remembered}")
    return EXIT_DONE


def add_silicon(verbs: Any) -> None:
    """Add the verb with its actions."""
    verb = verbs.add_parser(
        "silicon",
        help="measured times of programs on boards, on which estimates are based",
        description="Rows are published times with their sources and your own. Five rows of a "
        "board, device and placement give an estimate an interval.",
    )
    actions = verb.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list the rows")
    listing.add_argument("--board", metavar="BOARD", help="rows of this board only")
    add_json(listing)
    listing.set_defaults(perform=_list_silicon)
    adding = actions.add_parser("add", help="add a measured time to your own rows")
    _add_silicon_options(adding)
    adding.set_defaults(perform=_add_silicon)
    checking = actions.add_parser("check", help="check the rows, and how well they predict another")
    add_json(checking)
    checking.set_defaults(perform=_check_silicon)


def _add_silicon_options(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "project",
        nargs="?",
        type=Path,
        metavar="PROJECT",
        help="the project that was measured, compiled; board, device, placement and estimate are "
        "taken from it",
    )
    verb.add_argument("--measured-ms", type=float, metavar="MS", help="time of one inference")
    verb.add_argument("--measured-cycles", type=float, metavar="N", help="NPU cycles of one")
    verb.add_argument("--source", required=True, metavar="TEXT", help="who measured it, and how")
    for name, words in (
        ("id", "the row's id; an equal one is replaced"),
        ("network", "name of the network"),
        ("board", "without a project: the board's id"),
        ("device", "e.g. ethos-u55-128"),
        ("placement", "the placement's name, as workbench boards BOARD lists it"),
        ("note", "e.g. median of 100"),
    ):
        verb.add_argument(f"--{name}", default="", metavar="TEXT", help=words)
    verb.add_argument("--estimate-ms", type=float, metavar="MS", help="without a project")
    add_json(verb)


def _invalid_silicon(by_path: Mapping[Path, SiliconFile | WorkbenchError]) -> list[ErrorInfo]:
    broken = [error for error in by_path.values() if isinstance(error, WorkbenchError)]
    return [info for error in broken for info in error.infos]


def _list_silicon(options: argparse.Namespace) -> int:
    by_path = files()
    print_infos(_invalid_silicon(by_path))
    listed = [
        (file.board, row)
        for file in by_path.values()
        if isinstance(file, SiliconFile) and options.board in {None, file.board}
        for row in file.row
    ]
    if options.json:
        documents = [{"board": board, **_row_document(row)} for board, row in listed]
        print_json({"rows": documents})
        return EXIT_DONE
    print_table(
        ("board", "id", "network", "device", "placement", "measured", "estimate", "ratio", ""),
        (
            (
                board or "not named",
                row.id,
                row.network,
                row.device or "?",
                row.placement or "?",
                in_figures(row.measured_ms, row.measured_cycles),
                in_figures(row.estimate_ms, row.estimate_cycles),
                "" if row.ratio is None else f"{row.ratio:.2f}",
                "" if row.used else "not used",
            )
            for board, row in listed
        ),
    )
    return EXIT_DONE


def _row_document(row: SiliconRow) -> dict[str, Any]:
    return {**row.model_dump(mode="json"), "ratio": row.ratio}


def _add_silicon(options: argparse.Namespace) -> int:
    if options.measured_ms is None and options.measured_cycles is None:
        raise failure(
            "No measured time given.", "Add --measured-ms or --measured-cycles.", code="silicon-not-measured"
        )
    if options.project is not None:
        board, row = api.measured_row(
            api.open(options.project),
            options.source,
            options.measured_ms,
            options.measured_cycles,
            options.id,
        )
        named = {name: value for name in ("network",) if (value := getattr(options, name))}
        row = row.model_copy(update={**named, "measured_note": options.note})
    else:
        board, row = options.board, _row_from_options(options)
    path = add_row(board, row)
    if options.json:
        print_json({"file": str(path), "board": board, "row": _row_document(row)})
    else:
        ratio = "" if row.ratio is None else f", {row.ratio:.2f} times the estimate"
        print(f"{row.id}: written to {path}{ratio}.")
    return EXIT_DONE


def _row_from_options(options: argparse.Namespace) -> SiliconRow:
    missing = [n for n in ("id", "network", "board", "device") if not getattr(options, n)]
    if missing:
        raise failure(
            f"Not given: {', '.join(f'--{name}' for name in missing)}.",
            "Name a project, or all of --id, --network, --board and --device.",
            code="silicon-option-missing",
        )
    values = {
        "id": options.id,
        "network": options.network,
        "device": options.device,
        "placement": options.placement,
        "measured_ms": options.measured_ms,
        "measured_cycles": options.measured_cycles,
        "measured_note": options.note,
        "estimate_ms": options.estimate_ms,
        "source": options.source,
    }
    return api.checked_row(values)


def _check_silicon(options: argparse.Namespace) -> int:
    infos = [*_invalid_silicon(files()), *problems()]
    by_placement = groups()
    if options.json:
        print_json(
            {
                "groups": [group.model_dump(mode="json") for group in by_placement],
                "problems": [info.model_dump(mode="json") for info in infos],
            }
        )
    else:
        print_table(
            ("board", "device", "placement", "rows", "ratio", "interval", "inside"),
            (
                (
                    g.board,
                    g.device,
                    g.placement,
                    len(g.rows),
                    f"{min(r.ratio for r in g.rows):.2f} to {max(r.ratio for r in g.rows):.2f}",
                    "" if g.low is None else f"{g.low:.2f} to {g.high:.2f}",
                    "" if g.inside is None else f"{g.inside} of {len(g.rows)}",
                )
                for g in by_placement
            ),
        )
        print("inside: rows within the interval that the others give, which know nothing of them.")
        print_infos(infos)
    return EXIT_USAGE if infos else EXIT_DONE

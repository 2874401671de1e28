"""``boards``: list boards, and set a project's board."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import api
from workbench.cli.output import EXIT_DONE, add_json, print_infos, print_json, print_table
from workbench.deploy.boards import Board, Memory, Npu, all_boards, load
from workbench.errors import WorkbenchError, failure

if TYPE_CHECKING:
    import argparse


def add(verbs: Any) -> None:
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
    verb.set_defaults(perform=_perform)


def _perform(options: argparse.Namespace) -> int:
    if options.put is not None:
        return _put(options)
    if options.board is None:
        return _list(options)
    board = load(options.board, Path.cwd())
    if options.json:
        print_json({"id": options.board, **board.model_dump(mode="json")})
    else:
        _describe(board)
    return EXIT_DONE


def _put(options: argparse.Namespace) -> int:
    if options.board is None:
        raise failure("No board given.", "Run: workbench boards BOARD --put PROJECT.", code="board-not-given")
    opened = api.update(
        api.open(options.put), lambda fresh: api.set_board(fresh, options.board, options.device)
    )
    project = opened.project
    if options.json:
        print_json({"board": project.board, "target": project.target.model_dump(mode="json")})
    else:
        print(f"{project.board}: {project.target.id}, {_settings(project.target.options)}")
    return EXIT_DONE


def _settings(options: Any) -> str:
    limit = options["arena_cache_bytes"]
    words = f"{options['system_config']}, {options['memory_mode']}"
    return f"{words}, at most {limit / 1024:,.0f} KiB of SRAM" if limit else words


def _list(options: argparse.Namespace) -> int:
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

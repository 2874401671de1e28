"""From a board to a target: device, system configuration, memory mode and limits at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.boards.board import Board, Npu, load
from workbench.errors import ErrorInfo, Place, WorkbenchError, failure
from workbench.project import edits
from workbench.project.model import Project, TargetChoice
from workbench.targets import target_of
from workbench.targets.ethos_u_memory import clock_of, memory_use
from workbench.targets.vela_ini import BOARD_PREFIX, OPTION

if TYPE_CHECKING:
    from pydantic import JsonValue


def choice_for(
    name: str, board: Board, folder: Path, present: TargetChoice | None = None, device: str = ""
) -> TargetChoice:
    """Return the target that a board makes.

    Args:
        name: The board's id or path, as the project will name it.
        board: What its file says.
        folder: Where the project's relative paths start.
        present: The project's choice; options that no board decides are kept, and the device
            where the board has it.
        device: A device of the board; empty takes the present one, or the board's first.

    Raises:
        WorkbenchError: the board has no such device, or lacks a memory that its mode needs.
    """
    npu = _npu(board, device or (present.id if present else ""), asked=bool(device))
    wanted = device or (present.id if present else "")
    kept = dict(present.options) if present else {}
    options: dict[str, JsonValue] = {
        **kept,
        "system_config": npu.system_config,
        "memory_mode": npu.memory_modes[0],
        OPTION: f"{BOARD_PREFIX}{name}/{npu.ini}" if npu.ini else "",
        "arena_cache_bytes": None,
    }
    chosen = wanted if wanted in npu.devices else npu.devices[0]
    target = target_of(chosen)
    choice = target.complete(TargetChoice(id=chosen, options=options), folder)
    problems = [*target.check(choice, folder), *lacking(board, choice, folder)]
    if problems:
        raise WorkbenchError(problems)
    limited = {**choice.options, "arena_cache_bytes": sram_limit(board, choice, folder)}
    return TargetChoice(id=chosen, options=limited)


def _npu(board: Board, device: str, *, asked: bool) -> Npu:
    found = board.npu_of(device)
    if found is None and asked:
        known = ", ".join(d for npu in board.npu for d in npu.devices)
        raise failure(
            f"{board.title} has no {device}.", f"It has {known}.",
            Place(kind="option", id="target.id"),
        )  # fmt: skip
    return found or board.npu[0]


def sram_limit(board: Board, choice: TargetChoice, folder: Path) -> int | None:
    """Return the limit for Vela's scheduler [bytes]: the largest SRAM, where the arena lies in it.

    None where the size is not known, or where SRAM is only a cache whose size the mode says.
    """
    if not memory_use(choice, folder).arena_in_sram:
        return None
    return max((m.bytes for m in board.of_kind("sram") if m.bytes is not None), default=None)


def lacking(board: Board, choice: TargetChoice, folder: Path) -> list[ErrorInfo]:
    """Return what memory the choice's mode needs and the board does not have.

    Raises:
        WorkbenchError: the choice's own .ini is missing or broken.
    """
    mode, use = choice.options.get("memory_mode"), memory_use(choice, folder)
    needs: list[tuple[str, tuple[str, ...], str]] = []
    if use.arena_in_sram or use.cache_bytes or use.constants_in_sram:
        needs.append(("SRAM", ("sram",), "tensors" if use.arena_in_sram else "a cache"))
    if not use.arena_in_sram:
        needs.append(("DRAM", ("dram",), "tensors"))
    if not use.constants_in_sram:
        needs.append(("flash or DRAM", ("flash", "dram"), "weights"))
    where = Place(kind="option", id="target.options.memory_mode")
    return [
        ErrorInfo(
            message=f"{mode} keeps {what} in {words}, and {board.title} has none.",
            hint=f"It has {_words(board)}; choose another memory mode or board.",
            where=where,
        )
        for words, kinds, what in needs
        if not any(memory.kind in kinds for memory in board.memory)
    ]


def _words(board: Board) -> str:
    return ", ".join(f"{memory.name} ({memory.kind})" for memory in board.memory)


def put(project: Project, name: str, folder: Path, device: str = "") -> Project:
    """Return the project on another board: its target and limits with it; "" takes the board away.

    Raises:
        WorkbenchError: there is no such board, or it cannot be used.
    """
    if not name:
        return edits.set_board(project, "", project.target)
    board = load(name, folder)
    return edits.set_board(project, name, choice_for(name, board, folder, project.target, device))


def problems(project: Project, folder: Path) -> Iterator[ErrorInfo]:
    """Yield what is wrong with the project's board, and with the target on it."""
    try:
        found = placed(project, folder)
        if found is not None:
            yield from lacking(*found, folder)
    except WorkbenchError as error:
        yield from error.infos


def oddities(project: Project, folder: Path) -> Iterator[ErrorInfo]:
    """Yield where the target is not what the project's board says."""
    try:
        found = placed(project, folder)
        sentences = departures(*found, folder) if found is not None else []
    except WorkbenchError:
        return
    where = Place(kind="option", id="target.id")
    for sentence in sentences:
        yield ErrorInfo(message=sentence, hint="Choose the board again to set it.", where=where)


def placed(project: Project, folder: Path) -> tuple[Board, TargetChoice] | None:
    """Return the project's board with the complete target; None without a board.

    None too where the target itself is wrong, which others say.

    Raises:
        WorkbenchError: there is no such board, or its file is broken.
    """
    if not project.board:
        return None
    board = load(project.board, folder)
    target = target_of(project.target.id)
    choice = target.complete(project.target, folder)
    return None if target.check(choice, folder) else (board, choice)


def departures(board: Board, choice: TargetChoice, folder: Path) -> list[str]:
    """Return in sentences where a complete target is not what the board says.

    Raises:
        WorkbenchError: the choice's own .ini is missing or broken.
    """
    npu = board.npu_of(choice.id)
    if npu is None:
        return [f"The target is {choice.id}, which {board.title} does not have."]
    said = []
    for option, usual in (
        ("system_config", (npu.system_config,)), ("memory_mode", npu.memory_modes),
    ):  # fmt: skip
        value = str(choice.options.get(option))
        if value not in usual:
            said.append(f"{option.replace('_', ' ')} is {value}; the board names "
                        f"{', '.join(usual)}.")  # fmt: skip
    clock = clock_of(choice, folder)
    if npu.clock_hz is not None and npu.clock_hz != clock:
        said.append(
            f"The system configuration assumes {clock / 1e6:,.0f} MHz; the board's NPU runs at "
            f"{npu.clock_hz / 1e6:,.0f} MHz, and estimated times differ in that ratio at least."
        )
    return said

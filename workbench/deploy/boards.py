"""Boards as described by their files: NPUs, memories, and the source of every figure."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, ValidationError

from workbench.deploy.placements import Placement, following
from workbench.errors import ErrorInfo, InvalidValue, Place, WorkbenchError, failure, invalid_values
from workbench.files import read_limited
from workbench.project import edits
from workbench.project.board_files import board_file, listed
from workbench.project.frozen import Finite
from workbench.project.model import Project, TargetChoice
from workbench.project.opened import OpenProject
from workbench.targets import target_of
from workbench.targets.ethos_u.devices import clock_of, memory_use
from workbench.targets.ethos_u.vela_ini import BOARD_PREFIX, OPTION
from workbench.text import read_toml
from workbench.toolchains.registry import tools_of

if TYPE_CHECKING:
    from pydantic import JsonValue

    from workbench.project.model import Project


MemoryKind = Literal["sram", "flash", "dram"]
_MOST_BYTES = 1 << 20


class Npu(Finite):
    """One NPU of a board, its available sizes, and its Vela options.

    ``clock_hz`` is the NPU clock; None if unknown. ``ini`` is a file beside the board's file; empty
    selects Vela's own. The first of ``memory_modes`` is the default. ``placement`` lists where
    weights and tensors can be, in order of preference; without it no placement is described.
    """

    devices: tuple[str, ...] = Field(min_length=1)
    clock_hz: int | None = Field(default=None, gt=0)
    system_config: str = Field(min_length=1)
    memory_modes: tuple[str, ...] = Field(min_length=1)
    ini: str = ""
    source: str = Field(min_length=1)
    confirmed: bool = False
    note: str = ""
    placement: tuple[Placement, ...] = ()

    def placement_of(self, choice: TargetChoice) -> Placement | None:
        """Return the placement of a complete choice; None if it is not described."""
        listed = following(self.placement, *_section_and_mode(choice))
        return listed[0] if listed else None


class Memory(Finite):
    """A memory that the NPU can access; ``bytes`` None is an unknown or unconfirmed size."""

    name: str = Field(min_length=1)
    kind: MemoryKind
    bytes: int | None = Field(default=None, gt=0)
    address: str = ""
    source: str = Field(min_length=1)
    confirmed: bool = False


class Board(Finite):
    """A board. ``zephyr`` is its name for ``west build``, if it has one.

    ``executorch`` is the release that the board's SDK carries, such as ``1.4``; empty if the
    firmware is free to take any, or if it is not known.
    """

    title: str = Field(min_length=1)
    vendor: str = ""
    cpu: str = ""
    zephyr: str = ""
    executorch: str = Field(default="", pattern=r"^([0-9]+\.[0-9]+(\.[0-9]+)?)?$")
    npu: tuple[Npu, ...] = Field(min_length=1)
    memory: tuple[Memory, ...] = Field(min_length=1)
    notes: tuple[str, ...] = ()

    def npu_of(self, device: str) -> Npu | None:
        """Return the NPU with a device id; None if the board has no such NPU."""
        return next((npu for npu in self.npu if device in npu.devices), None)

    def of_kind(self, kind: MemoryKind) -> list[Memory]:
        """Return the memories of a kind."""
        return [memory for memory in self.memory if memory.kind == kind]


def _section_and_mode(choice: TargetChoice) -> tuple[str, str]:
    return str(choice.options.get("system_config")), str(choice.options.get("memory_mode"))


def load(name: str, folder: Path) -> Board:
    """Return a board by id, or by a path relative to the project.

    Raises:
        WorkbenchError: the board does not exist, or its file is invalid; lists every problem
            with file and key.
    """
    return read(board_file(name, folder))


def read(path: Path) -> Board:
    """Return the board described by a file.

    Raises:
        WorkbenchError: as for ``load``.
    """
    where = Place(kind="file", id=path.name)
    try:
        raw = read_toml(read_limited(path, _MOST_BYTES).decode())
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise failure(
                f"{path.name} is too large for a board file.",
                "Give the board's .toml file.",
                where=where,
                code="board-file-too-large",
            ) from error
        raise failure(
            f"The board {path.name} cannot be read: {error.strerror or error}.",
            "Correct the path or choose another board.",
            where,
            code="board-unreadable",
        ) from error
    except (ValueError, RecursionError) as error:
        raise failure(
            f"{path.name} is not TOML: {error}.",
            "Copy a supplied board file as a starting point.",
            where,
            code="board-not-toml",
        ) from None
    try:
        return Board.model_validate(raw)
    except ValidationError as error:
        values = invalid_values(error)
        raise WorkbenchError(_translated(path.name, value) for value in values) from None


def all_boards() -> dict[str, Board | WorkbenchError]:
    """Return every board with an id; an invalid file is included with its error."""
    boards_by_id: dict[str, Board | WorkbenchError] = {}
    for name, path in listed().items():
        try:
            boards_by_id[name] = read(path)
        except WorkbenchError as error:
            boards_by_id[name] = error
    return boards_by_id


def _translated(name: str, value: InvalidValue) -> ErrorInfo:
    key = value.field or "the file"
    hint = {
        "missing": "Every figure needs its source. See a supplied board file for an example.",
        "extra_forbidden": "Remove the key, or correct its name.",
    }.get(value.kind, "")
    if key.endswith("kind"):
        hint = "Use sram, flash (also for MRAM and RRAM) or dram."
    return ErrorInfo(
        message=f"{name}, {key}: {value.message}",
        hint=hint,
        where=Place(kind="file", id=name),
        code="board-invalid",
    )


def choice_for(
    name: str, board: Board, folder: Path, present: TargetChoice | None = None, device: str = ""
) -> TargetChoice:
    """Return the target for a board.

    Args:
        name: The board's id or path, as stored in the project.
        board: The board.
        folder: Base of the project's relative paths.
        present: The project's choice; options that the board does not determine are kept, and
            the device if the board has it.
        device: A device of the board; empty selects the present one, or the board's first.

    Raises:
        WorkbenchError: the board has no such device, or lacks a memory that its mode needs.
    """
    wanted = device or (present.id if present else "")
    npu = _npu(board, wanted, asked=bool(device))
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
    candidate = board.npu_of(device)
    if candidate is None and asked:
        known = ", ".join(d for npu in board.npu for d in npu.devices)
        raise failure(
            f"{board.title} has no device {device}.",
            f"Available: {known}.",
            Place(kind="option", id="target.id"),
            code="board-device-unknown",
        )
    return candidate or board.npu[0]


def sram_limit(board: Board, choice: TargetChoice, folder: Path) -> int | None:
    """Return the limit for Vela's scheduler [bytes]: the largest SRAM, if the arena is in SRAM.

    None if the size is unknown, or if SRAM is only a cache, whose size the mode defines.
    """
    if not memory_use(choice, folder).arena_in_sram:
        return None
    return max((m.bytes for m in board.of_kind("sram") if m.bytes is not None), default=None)


def lacking(board: Board, choice: TargetChoice, folder: Path) -> list[ErrorInfo]:
    """Return the memory that the choice's mode needs but the board lacks.

    Raises:
        WorkbenchError: the choice's own .ini is missing or invalid.
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
            message=f"{mode} places {what} in {words}, but {board.title} has none.",
            hint=f"{board.title} has {_words(board)}. Choose another memory mode or board.",
            where=where,
            code="board-memory-missing",
        )
        for words, kinds, what in needs
        if not any(memory.kind in kinds for memory in board.memory)
    ]


def _words(board: Board) -> str:
    return ", ".join(f"{memory.name} ({memory.kind})" for memory in board.memory)


def put(opened: OpenProject, name: str, device: str = "") -> Project:
    """Return the project with another board, its target and limits; "" removes board and limits.

    Without a board the device has the system configuration and memory mode of its family, unless the
    project has a Vela .ini of its own.

    Raises:
        WorkbenchError: the board does not exist, or cannot be used.
    """
    project = opened.project
    if not name:
        return edits.set_board(project, "", _without_board(opened) if project.board else project.target)
    board = load(name, opened.folder)
    return edits.set_board(project, name, choice_for(name, board, opened.folder, project.target, device))


def _without_board(opened: OpenProject) -> TargetChoice:
    """Return the target without the options that its board determines."""
    choice = opened.project.target
    options = {**choice.options, "arena_cache_bytes": None}
    ini = str(options.get(OPTION) or "")
    if not ini or ini.startswith(BOARD_PREFIX):
        for option in (OPTION, "system_config", "memory_mode"):
            options.pop(option, None)
    bare = TargetChoice(id=choice.id, options=options)
    return target_of(choice.id).complete(bare, opened.folder)


def problems(opened: OpenProject) -> Iterator[ErrorInfo]:
    """Yield the problems of the project's board, and of the target on it."""
    try:
        placement = board_and_target(opened)
        if placement is not None:
            yield from lacking(*placement, opened.folder)
    except WorkbenchError as error:
        yield from error.infos


def warnings_of(opened: OpenProject) -> Iterator[ErrorInfo]:
    """Yield the differences between the target and the project's board."""
    try:
        placement = board_and_target(opened)
        sentences = known_differences(*placement, opened.folder) if placement is not None else []
    except WorkbenchError:
        return
    where = Place(kind="option", id="target.id")
    if placement is not None and (
        differs := runtime_difference(placement[0], _executorch_of(opened.project))
    ):
        yield ErrorInfo(
            message=differs,
            hint="Update the SDK's ExecuTorch, or make the program with that release. See the "
            "guide, ExecuTorch releases.",
            where=Place(kind="option", id="board"),
            code="board-executorch-differs",
        )
    for sentence in sentences:
        yield ErrorInfo(
            message=sentence,
            hint="Select the board again to restore its settings.",
            where=where,
            code="board-target-differs",
        )


def _executorch_of(project: Project) -> str:
    """Return the release of ExecuTorch of a project's toolchain; "" if it is not here."""
    try:
        return tools_of(project.toolchain)["executorch"]
    except WorkbenchError:
        return ""


def runtime_difference(board: Board, installed: str) -> str:
    """Return how the SDK's ExecuTorch differs from a release; "" if it does not, or is not known.

    Patch releases of one release read each other's programs.

    Args:
        board: The board.
        installed: The release that programs are made with; "" if it is not known.
    """
    if not board.executorch or not installed or _release(board.executorch) == _release(installed):
        return ""
    return (
        f"The SDK of {board.title} carries ExecuTorch {board.executorch}; programs are made with {installed}."
    )


def _release(version: str) -> list[str]:
    return version.split(".")[:2]


def board_and_target(opened: OpenProject) -> tuple[Board, TargetChoice] | None:
    """Return the project's board with the complete target; None without a board.

    Also None if the target itself is invalid, which is reported elsewhere.

    Raises:
        WorkbenchError: the board does not exist, or its file is invalid.
    """
    project, folder = opened.project, opened.folder
    if not project.board:
        return None
    board = load(project.board, folder)
    target = target_of(project.target.id)
    choice = target.complete(project.target, folder)
    return None if target.check(choice, folder) else (board, choice)


def known_differences(board: Board, choice: TargetChoice, folder: Path) -> list[str]:
    """Return the differences between a complete target and the board, as sentences.

    Raises:
        WorkbenchError: the choice's own .ini is missing or invalid.
    """
    npu = board.npu_of(choice.id)
    if npu is None:
        return [f"The target is {choice.id}, which {board.title} does not have."]
    sentences = []
    for option, usual in (("system_config", (npu.system_config,)), ("memory_mode", npu.memory_modes)):
        value = str(choice.options.get(option))
        if value not in usual:
            sentences.append(
                f"{option.replace('_', ' ')} is {value}; the board specifies {', '.join(usual)}."
            )
    clock = clock_of(choice, folder)
    if npu.clock_hz is not None and npu.clock_hz != clock:
        sentences.append(
            f"The system configuration assumes {clock / 1000000.0:,.0f} MHz, but the "
            f"board's NPU runs at {npu.clock_hz / 1000000.0:,.0f} MHz; estimated times "
            "differ by at least that ratio."
        )
    return sentences


def why_not_on(board: Board, choice: TargetChoice, sram_bytes: int) -> str:
    """Return why an estimated program does not fit a board; "" if it does.

    Args:
        board: The board.
        choice: A complete target choice.
        sram_bytes: Peak SRAM of the program [bytes], as estimated.
    """
    npu = board.npu_of(choice.id)
    if npu is None:
        return "other NPU"
    if choice.options.get("memory_mode") not in npu.memory_modes:
        return "other memory mode"
    sizes = [memory.bytes for memory in board.of_kind("sram") if memory.bytes is not None]
    if sizes and sram_bytes > max(sizes):
        return "too little SRAM"
    return ""


def candidates(opened: OpenProject) -> list[tuple[str, Project]]:
    """Return the placements to compile for, by name, in order: the project's and those after it.

    Empty without a board, or if its file does not describe the project's choice.

    Raises:
        WorkbenchError: the board's file or an own .ini is missing or invalid.
    """
    project, folder = opened.project, opened.folder
    placement = board_and_target(opened)
    npu = placement[0].npu_of(project.target.id) if placement else None
    if placement is None or npu is None:
        return []
    board, choice = placement
    limited = choice.options.get("arena_cache_bytes") == sram_limit(board, choice, folder)
    projects = []
    for row in following(npu.placement, *_section_and_mode(choice)):
        options = {
            **project.target.options,
            "system_config": row.system_config,
            "memory_mode": row.memory_mode,
        }
        other = target_of(choice.id).complete(TargetChoice(id=choice.id, options=options), folder)
        if limited:
            options["arena_cache_bytes"] = sram_limit(board, other, folder)
        target = project.target.model_copy(update={"options": options})
        same = row.system_config == choice.options["system_config"]
        same = same and row.memory_mode == choice.options["memory_mode"]
        projects.append((row.name, project if same else edits.set_target(project, target)))
    return projects


def undescribed(opened: OpenProject) -> str:
    """Return why the project's choice has no time on its board; "" without a board.

    Raises:
        WorkbenchError: as for ``candidates``.
    """
    placement = board_and_target(opened)
    if placement is None:
        return ""
    board, choice = placement
    npu = board.npu_of(choice.id)
    system, mode = _section_and_mode(choice)
    known = "; ".join(row.name for row in npu.placement) if npu else ""
    described = f"Described: {known}." if known else "Its file describes no placement."
    return f"No time: {system} with {mode} is no placement of {board.title}. {described}"


def with_placement(opened: OpenProject, name: str) -> OpenProject:
    """Return the project for the placement that its program was compiled for; "" changes nothing.

    Raises:
        WorkbenchError: as for ``candidates``.
    """
    if not name:
        return opened
    return replace(opened, project=dict(candidates(opened)).get(name, opened.project))

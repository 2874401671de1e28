"""How a program fits the memories of a board."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from workbench.deploy.boards import Board, MemoryKind, board_and_target, with_placement
from workbench.project.frozen import Frozen
from workbench.results import PROGRAM_FILE, WEIGHTS_FILE, LowerResult, load_result
from workbench.targets.ethos_u.devices import memory_use
from workbench.text import listed

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.deploy.placements import Placement
    from workbench.project.model import TargetChoice
    from workbench.project.opened import OpenProject
    from workbench.pte.description import Memory as Needs


class Demand(Frozen):
    """Data that must be contiguous in a memory of one of these kinds.

    ``origin`` is the source of the number of bytes. ``memories`` names those that the placement
    allows; empty allows all of the kinds.
    """

    what: str
    bytes: int
    kinds: tuple[MemoryKind, ...]
    origin: str
    memories: tuple[str, ...] = ()


class Filling(Frozen):
    """One memory of the board with its contents; ``bytes`` None is an unknown size."""

    name: str
    kind: MemoryKind
    bytes: int | None
    confirmed: bool
    demands: tuple[Demand, ...] = ()

    @property
    def used(self) -> int:
        """The used bytes."""
        return sum(demand.bytes for demand in self.demands)

    @property
    def free(self) -> int | None:
        """The free bytes; None if the size is unknown."""
        return None if self.bytes is None else self.bytes - self.used


class Fit(Frozen):
    """A program on a board, memory by memory; ``homeless`` items fit no memory.

    ``absent`` is the NPU that the program is compiled for, if the board has no such NPU.
    ``remedies`` are sentences, one for each cause.
    """

    board: str
    fillings: tuple[Filling, ...]
    homeless: tuple[Demand, ...] = ()
    absent: str = ""
    remedies: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether the board has the NPU, and everything fits."""
        return not self.homeless and not self.absent

    @property
    def doubts(self) -> tuple[str, ...]:
        """The names of used memories with an unknown or unconfirmed size."""
        return tuple(f.name for f in self.fillings if f.demands and not f.confirmed)


def of_results(opened: OpenProject, results: Path) -> Fit | None:
    """Return how the program of a lower result fits the project's board.

    Raises:
        OSError: there is no program.
        WorkbenchError: as for ``of_program``.
    """
    if not opened.project.board:
        return None
    weights = results / WEIGHTS_FILE
    beside = weights.stat().st_size if weights.exists() else 0
    program = (results / PROGRAM_FILE).read_bytes()
    lowered = load_result(LowerResult, results)
    return of_program(with_placement(opened, lowered.placement), program, beside)


def of_program(opened: OpenProject, program: bytes, beside: int = 0) -> Fit | None:
    """Return how a program fits the project's board; None without a board.

    Args:
        opened: The project, with its board and target.
        program: The .pte.
        beside: Size of the separate weights file [bytes], 0 for none.

    Raises:
        WorkbenchError: the board is unreadable, or the bytes are not a program.
    """
    # Imported late to keep the window's start fast.
    from workbench.pte.description import memory

    placement = board_and_target(opened)
    if placement is None:
        return None
    board, choice = placement
    demanded = demands(choice, (len(program), beside), memory(program), opened.folder)
    npu = board.npu_of(choice.id)
    filled = fit(board, _where_allowed(npu.placement_of(choice) if npu else None, demanded))
    if npu is None:
        named = f"Compile for a device of the board: workbench boards {opened.project.board} lists them."
        return filled.model_copy(update={"absent": choice.id, "remedies": (named,)})
    return filled.model_copy(update={"remedies": _remedies(filled, choice)})


def _where_allowed(placement: Placement | None, demanded: list[Demand]) -> list[Demand]:
    """Return the demands with the memories that a placement names, and what is kept for firmware.

    The cache of the NPU is in SRAM in every placement.
    """
    if placement is None:
        return demanded
    places = {"program": placement.weights, "weights": placement.weights, "NPU cache": ()}
    allowed = [
        demand.model_copy(update={"memories": places.get(demand.what, placement.tensors)})
        for demand in demanded
    ]
    if not placement.reserved_bytes:
        return allowed
    firmware = Demand(
        what="firmware",
        bytes=placement.reserved_bytes,
        kinds=("flash", "dram", "sram"),
        origin="kept free, as the board's file says",
        memories=placement.weights[:1],
    )
    return sorted([*allowed, firmware], key=lambda d: -d.bytes)


def demands(choice: TargetChoice, stored: tuple[int, int], needs: Needs, folder: Path) -> list[Demand]:
    """Return the memory demands of a program, largest first.

    Pools are those of ``pte.description.memory``; the memory mode determines the allowed memories.
    A program with constants in SRAM must be in SRAM while it runs.

    Args:
        choice: A complete target.
        stored: Sizes of the program and of the separate weights file [bytes], 0 for none.
        needs: The pools.
        folder: Base of the project's relative paths.

    Raises:
        WorkbenchError: the choice's own .ini is missing or invalid.
    """
    use = memory_use(choice, folder)
    sram: tuple[MemoryKind, ...] = ("sram",)
    ram: tuple[MemoryKind, ...] = ("sram", "dram") if use.arena_in_sram else ("dram", "sram")
    lasting: tuple[MemoryKind, ...] = sram if use.constants_in_sram else ("flash", "dram")
    demanded = [
        Demand(what="program", bytes=stored[0], origin="measured: the file", kinds=lasting),
        Demand(what="weights", bytes=stored[1], origin="measured: the file", kinds=lasting),
        Demand(
            what="scratch pool",
            bytes=needs.scratch_pool_bytes,
            origin="computed from the program",
            kinds=sram if use.arena_in_sram else ("dram",),
        ),
        Demand(what="NPU cache", bytes=use.cache_bytes, origin="set by the memory mode", kinds=sram),
        Demand(
            what="method pool", bytes=needs.method_pool_bytes, kinds=ram, origin="computed from the program"
        ),
    ]
    return sorted((d for d in demanded if d.bytes), key=lambda d: -d.bytes)


def fit(board: Board, demanded: list[Demand]) -> Fit:
    """Return the memory of each demand: largest first, in the fullest memory with room.

    A memory of unknown size has room for anything, and is used last.
    """
    lying: dict[str, list[Demand]] = {memory.name: [] for memory in board.memory}
    homeless: list[Demand] = []
    for demand in demanded:
        home = _home(board, demand, lying)
        (homeless if home is None else lying[home]).append(demand)
    fillings = tuple(
        Filling(
            name=m.name,
            kind=m.kind,
            bytes=m.bytes,
            demands=tuple(lying[m.name]),
            confirmed=m.confirmed and m.bytes is not None,
        )
        for m in board.memory
    )
    return Fit(board=board.title, fillings=fillings, homeless=tuple(homeless))


def _home(board: Board, demand: Demand, lying: dict[str, list[Demand]]) -> str | None:
    for kind in demand.kinds:
        room: list[tuple[float, str]] = []
        for memory in board.of_kind(kind):
            if demand.memories and memory.name not in demand.memories:
                continue
            if memory.bytes is None:
                room.append((math.inf, memory.name))
                continue
            free = memory.bytes - sum(other.bytes for other in lying[memory.name])
            if free >= demand.bytes:
                room.append((free, memory.name))
        if room:
            return min(room)[1]
    return None


def document(fit: Fit) -> dict[str, Any]:
    """Return a verdict with its figures as JSON."""
    return {"fits": fit.fits, "sentence": sentence(fit), **fit.model_dump(mode="json")}


def sentence(fit: Fit) -> str:
    """Return the verdict, with what would help, or with the sizes that are unconfirmed."""
    if fit.absent:
        return " ".join((f"Does not run on {fit.board}: the board has no {fit.absent}.", *fit.remedies))
    if not fit.fits:
        lost = "; ".join(_no_space_message(fit, demand) for demand in fit.homeless)
        return " ".join((f"Does not fit {fit.board}: {lost}.", *fit.remedies))
    doubts = ", ".join(fit.doubts)
    if doubts:
        return f"Fits {fit.board} (size from a secondary source: {doubts})."
    return f"Fits {fit.board}."


def _no_space_message(fit: Fit, demand: Demand) -> str:
    needed = f"the {demand.what} needs {demand.bytes / 1024:,.1f} contiguous KiB"
    rooms = [
        f"{f.name} has {f.free / 1024:,.1f} of {f.bytes / 1024:,.1f} KiB free"
        for f in fit.fillings
        if f.kind in demand.kinds
        and (not demand.memories or f.name in demand.memories)
        and f.bytes is not None
        and f.free is not None
    ]
    if rooms:
        return f"{needed}, and {listed(rooms)}"
    kinds = " or ".join(kind.upper() if kind != "flash" else kind for kind in demand.kinds)
    return f"{needed}, and there is no {kinds}"


def _remedies(fit: Fit, choice: TargetChoice) -> tuple[str, ...]:
    """Return what makes smaller that which has no room, the settings that are open first."""
    lost = {demand.what for demand in fit.homeless}
    steps: list[str] = []
    if "scratch pool" in lost and choice.options.get("optimise") != "Size":
        steps.append("Compile for size: workbench target PROJECT optimise=Size.")
    if "method pool" in lost and not choice.options.get("integer_io"):
        steps.append("Use integer inputs and outputs: workbench target PROJECT integer_io=true.")
    if lost & {"scratch pool", "method pool"} and not steps:
        steps.append("Give the network smaller inputs, or choose a board with more SRAM: workbench boards.")
    if lost & {"program", "weights", "firmware"}:
        steps.append("Remove channels: workbench compress PROJECT.")
    if "NPU cache" in lost:
        steps.append("Choose a memory mode with a smaller cache: workbench target PROJECT lists them.")
    return tuple(steps)

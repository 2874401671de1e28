"""Whether a compiled program fits a board: what lies where, and how much is left."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.boards.board import Board, MemoryKind
from workbench.boards.choosing import placed
from workbench.project.frozen import Frozen
from workbench.results import PROGRAM_FILE, WEIGHTS_FILE
from workbench.targets.ethos_u_memory import memory_use

if TYPE_CHECKING:
    from workbench.project.model import Project, TargetChoice
    from workbench.pte.description import Memory as Needs


class Demand(Frozen):
    """Something that must lie in one piece in a memory of one of these kinds.

    ``origin`` says where the number of bytes comes from.
    """

    what: str
    bytes: int
    kinds: tuple[MemoryKind, ...]
    origin: str


class Filling(Frozen):
    """One memory of the board and what lies in it; ``bytes`` None is a size that is not known."""

    name: str
    kind: MemoryKind
    bytes: int | None
    confirmed: bool
    demands: tuple[Demand, ...] = ()

    @property
    def used(self) -> int:
        """The bytes taken."""
        return sum(demand.bytes for demand in self.demands)

    @property
    def free(self) -> int | None:
        """The bytes left; None where the size is not known."""
        return None if self.bytes is None else self.bytes - self.used


class Fit(Frozen):
    """A program on a board, memory by memory; ``homeless`` found no room anywhere."""

    board: str
    fillings: tuple[Filling, ...]
    homeless: tuple[Demand, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether everything found room."""
        return not self.homeless

    @property
    def doubts(self) -> tuple[str, ...]:
        """The names of memories that are used and whose size is not known or not confirmed."""
        return tuple(f.name for f in self.fillings if f.demands and not f.confirmed)


def of_results(project: Project, folder: Path, results: Path) -> Fit | None:
    """Return how the program of a stage lower's results fits the project's board.

    Raises:
        OSError: there is no program.
        WorkbenchError: as for ``of_program``.
    """
    if not project.board:
        return None
    weights = results / WEIGHTS_FILE
    beside = weights.stat().st_size if weights.exists() else 0
    return of_program(project, folder, (results / PROGRAM_FILE).read_bytes(), beside)


def of_program(project: Project, folder: Path, program: bytes, beside: int = 0) -> Fit | None:
    """Return how a program fits the project's board; None without a board.

    Args:
        project: Names board and target.
        folder: Where the project's relative paths start.
        program: The .pte.
        beside: Size of the weights that lie beside the program [bytes], 0 for none.

    Raises:
        WorkbenchError: the board cannot be read, or the bytes are no program.
    """
    # Decoding programs is nothing that the start of the window should wait for.
    from workbench.pte.description import memory

    found = placed(project, folder)
    if found is None:
        return None
    board, choice = found
    return fit(board, demands(choice, (len(program), beside), memory(program), folder))


def demands(
    choice: TargetChoice, stored: tuple[int, int], needs: Needs, folder: Path
) -> list[Demand]:
    """Return what a program asks of a board, the largest first.

    Pools are those of ``pte.description.memory``; where things may lie follows from the memory
    mode. A program whose constants lie in SRAM is needed there while it runs.

    Args:
        choice: A complete target.
        stored: Sizes of the program and of weights beside it [bytes], 0 for none.
        needs: The pools it asks for.
        folder: Where the project's relative paths start.

    Raises:
        WorkbenchError: the choice's own .ini is missing or broken.
    """
    use = memory_use(choice, folder)
    sram: tuple[MemoryKind, ...] = ("sram",)
    ram: tuple[MemoryKind, ...] = ("sram", "dram") if use.arena_in_sram else ("dram", "sram")
    lasting: tuple[MemoryKind, ...] = sram if use.constants_in_sram else ("flash", "dram")
    found = [
        Demand(what="program", bytes=stored[0], origin="measured: the file", kinds=lasting),
        Demand(what="weights", bytes=stored[1], origin="measured: the file", kinds=lasting),
        Demand(what="scratch pool", bytes=needs.scratch_pool_bytes,
               origin="computed from the program",
               kinds=sram if use.arena_in_sram else ("dram",)),
        Demand(what="NPU cache", bytes=use.cache_bytes, origin="set by the memory mode",
               kinds=sram),
        Demand(what="method pool", bytes=needs.method_pool_bytes, kinds=ram,
               origin="computed from the program"),
    ]  # fmt: skip
    return sorted((d for d in found if d.bytes), key=lambda d: -d.bytes)


def fit(board: Board, wanted: list[Demand]) -> Fit:
    """Return where everything finds room: the largest first, in the fullest memory that takes it.

    A memory whose size is not known takes anything, after those whose size is.
    """
    lying: dict[str, list[Demand]] = {place.name: [] for place in board.memory}
    homeless: list[Demand] = []
    for demand in wanted:
        home = _home(board, demand, lying)
        (homeless if home is None else lying[home]).append(demand)
    fillings = tuple(
        Filling(name=m.name, kind=m.kind, bytes=m.bytes, demands=tuple(lying[m.name]),
                confirmed=m.confirmed and m.bytes is not None)
        for m in board.memory
    )  # fmt: skip
    return Fit(board=board.title, fillings=fillings, homeless=tuple(homeless))


def _home(board: Board, demand: Demand, lying: dict[str, list[Demand]]) -> str | None:
    for kind in demand.kinds:
        room = []
        for place in board.of_kind(kind):
            if place.bytes is None:
                room.append((1, 0, place.name))
                continue
            free = place.bytes - sum(each.bytes for each in lying[place.name])
            if free >= demand.bytes:
                room.append((0, free, place.name))
        if room:
            return min(room)[2]
    return None


def document(found: Fit) -> dict[str, Any]:
    """Return a verdict with its numbers as JSON."""
    return {"fits": found.fits, "sentence": sentence(found), **found.model_dump(mode="json")}


def sentence(found: Fit) -> str:
    """Return the verdict in words, with what is in doubt."""
    if not found.fits:
        lost = "; ".join(_lost(found, demand) for demand in found.homeless)
        return f"Does not fit {found.board}: {lost}."
    doubts = ", ".join(found.doubts)
    if doubts:
        return f"Fits {found.board}, if the sizes that are not confirmed hold ({doubts})."
    return f"Fits {found.board}."


def _lost(found: Fit, demand: Demand) -> str:
    frees = [f.free for f in found.fillings if f.kind in demand.kinds and f.free is not None]
    kinds = " or ".join(kind.upper() if kind != "flash" else kind for kind in demand.kinds)
    return (
        f"the {demand.what} needs {demand.bytes / 1024:,.1f} KiB in one piece, and no {kinds} has "
        f"more than {max(frees, default=0) / 1024:,.1f} KiB left"
    )

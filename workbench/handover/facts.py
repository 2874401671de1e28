"""What the files for a firmware engineer are made of, all of it read from the program."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.boards.board import Board
from workbench.boards.choosing import departures, placed
from workbench.boards.fit import Fit, of_program
from workbench.pte.description import Memory, describe, memory
from workbench.targets import target_of
from workbench.targets.ethos_u_memory import MemoryUse, memory_use

if TYPE_CHECKING:
    from workbench.project.model import Project, TargetChoice


@dataclass(frozen=True)
class Facts:
    """A program, what it needs, and the board it goes to.

    ``stem`` is the project's name as a C identifier; ``weights`` are the bytes of the .ptd, None
    where the weights lie in the program; ``kernels`` are those the runtime must link. ``kept`` are
    buffers that it remembers from one inference to the next; the last ``handed_on`` outputs are
    the last inputs of the next.
    """

    stem: str
    choice: TargetChoice
    program: bytes
    weights: bytes | None
    needs: Memory
    use: MemoryUse
    inputs: tuple[dict[str, Any], ...]
    outputs: tuple[dict[str, Any], ...]
    delegates: int
    kernels: tuple[str, ...]
    board: Board | None = None
    fit: Fit | None = None
    departures: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    handed_on: int = 0

    @property
    def where(self) -> str:
        """The board in one line, or the device where none was chosen."""
        return " ".join(self.board.title.split()) if self.board else self.choice.id


def gather(project: Project, folder: Path, program: bytes, weights: bytes | None) -> Facts:
    """Return the facts of a compiled program.

    Args:
        project: Names target and board.
        folder: Where its relative paths start.
        program: The .pte.
        weights: The .ptd, or None.

    Raises:
        WorkbenchError: the board or an own .ini cannot be read, or the bytes are no program.
    """
    choice = target_of(project.target.id).complete(project.target, folder)
    seen = describe(program)
    board = placed(project, folder)
    return Facts(
        stem=file_stem(project.name),
        choice=choice,
        program=program,
        weights=weights,
        needs=memory(program),
        use=memory_use(choice, folder),
        inputs=tuple(seen["inputs"]),
        outputs=tuple(seen["outputs"]),
        delegates=len(seen["delegates"]),
        kernels=tuple(seen["kernels"]),
        board=board[0] if board else None,
        fit=of_program(project, folder, program, len(weights or b"")),
        departures=tuple(departures(*board, folder)) if board else (),
    )


def file_stem(name: str) -> str:
    """Return a project's name as a C identifier and file name."""
    kept = "".join(c if c.isascii() and c.isalnum() else "_" for c in name).strip("_")
    return kept if kept and not kept[0].isdigit() else f"model_{kept}".rstrip("_")


def digest(data: bytes) -> str:
    """Return the sha256 of bytes."""
    return hashlib.sha256(data).hexdigest()

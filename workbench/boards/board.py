"""A board as its file describes it: NPUs, memories, and the source of every figure."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from workbench.errors import ErrorInfo, Place, WorkbenchError, failure
from workbench.project.board_files import board_file, listed
from workbench.project.frozen import Frozen

MemoryKind = Literal["sram", "flash", "dram"]
_MOST_BYTES = 1 << 20


class Npu(Frozen):
    """One NPU of a board, in the sizes it comes in, and how Vela is to be called for it.

    ``clock_hz`` is that of the NPU; None is not known. ``ini`` lies beside the board's file; empty
    is Vela's own. The first of ``memory_modes`` is the usual one.
    """

    devices: tuple[str, ...] = Field(min_length=1)
    clock_hz: int | None = Field(default=None, gt=0)
    system_config: str = Field(min_length=1)
    memory_modes: tuple[str, ...] = Field(min_length=1)
    ini: str = ""
    source: str = Field(min_length=1)
    confirmed: bool = False
    note: str = ""


class Memory(Frozen):
    """A memory that the NPU reaches; ``bytes`` None is a size nobody has confirmed or named."""

    name: str = Field(min_length=1)
    kind: MemoryKind
    bytes: int | None = Field(default=None, gt=0)
    address: str = ""
    source: str = Field(min_length=1)
    confirmed: bool = False


class Board(Frozen):
    """A board. ``zephyr`` is its name for ``west build``, where it has one."""

    title: str = Field(min_length=1)
    vendor: str = ""
    cpu: str = ""
    zephyr: str = ""
    npu: tuple[Npu, ...] = Field(min_length=1)
    memory: tuple[Memory, ...] = Field(min_length=1)
    notes: tuple[str, ...] = ()

    def npu_of(self, device: str) -> Npu | None:
        """Return the NPU of a device id; None when the board has no such."""
        return next((npu for npu in self.npu if device in npu.devices), None)

    def of_kind(self, kind: MemoryKind) -> list[Memory]:
        """Return the memories of a kind."""
        return [memory for memory in self.memory if memory.kind == kind]


def load(name: str, folder: Path) -> Board:
    """Return a board by id, or by a path relative to the project.

    Raises:
        WorkbenchError: there is none of that name, or its file is broken: every problem of it,
            with file and key.
    """
    return read(board_file(name, folder))


def read(path: Path) -> Board:
    """Return the board that a file describes.

    Raises:
        WorkbenchError: as for ``load``.
    """
    where = Place(kind="file", id=path.name)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise failure(f"{path.name} is too large to describe a board.", where=where)
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise failure(
            f"The board {path.name} cannot be read: {error.strerror or error}.",
            "Correct the path, or choose another board.", where,
        ) from error  # fmt: skip
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise failure(
            f"{path.name} is not TOML: {error}.",
            "A board of the program can be copied to begin with.", where,
        ) from None  # fmt: skip
    try:
        return Board.model_validate(raw)
    except ValidationError as error:
        raise WorkbenchError(_translated(path.name, each) for each in error.errors()) from None


def boards() -> dict[str, Board | WorkbenchError]:
    """Return every board that has an id; a broken file is there with its error."""
    found: dict[str, Board | WorkbenchError] = {}
    for name, path in listed().items():
        try:
            found[name] = read(path)
        except WorkbenchError as error:
            found[name] = error
    return found


def _translated(name: str, problem: object) -> ErrorInfo:
    assert isinstance(problem, dict)
    parts = [f"[{p}]" if isinstance(p, int) else f".{p}" for p in problem["loc"]]
    key = "".join(parts).lstrip(".") or "the file"
    hint = {
        "missing": "Every figure needs its source; a board of the program shows how.",
        "extra_forbidden": "Remove the key, or correct its name.",
    }.get(str(problem["type"]), "")
    if key.endswith("kind"):
        hint = "sram, flash (MRAM and RRAM too) or dram."
    return ErrorInfo(
        message=f"{name}, {key}: {problem['msg']}.", hint=hint, where=Place(kind="file", id=name)
    )

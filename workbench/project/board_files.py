"""Board files: shipped with the program, in the user's folder, or beside a project."""

from __future__ import annotations

from pathlib import Path

from workbench.errors import Place, failure
from workbench.installation import config_folder, resources
from workbench.project.sources import absolute

SHIPPED = resources() / "boards"
SUFFIX = ".toml"


def own_folder() -> Path:
    """Return the folder of the user's own boards; it may not exist."""
    return config_folder() / "boards"


def listed() -> dict[str, Path]:
    """Return the file of every board by id: shipped boards, then the user's own.

    A user's file overrides a shipped file of the same name.
    """
    files: dict[str, Path] = {}
    for folder in (SHIPPED, own_folder()):
        files |= {path.stem: path for path in sorted(folder.glob(f"*{SUFFIX}"))}
    return files


def board_file(name: str, folder: Path) -> Path:
    """Return the file of a board.

    Args:
        name: An id, or a path relative to the project that ends in .toml.
        folder: Where the project's relative paths start.

    Raises:
        WorkbenchError: no board has that id.
    """
    if name.endswith(SUFFIX):
        return absolute(folder, name)
    known = listed()
    if name not in known:
        raise failure(
            f"Unknown board {name!r}.",
            f"Known: {', '.join(known)}. Your own boards are in {own_folder()} or beside the project.",
            Place(kind="option", id="board"),
            code="board-unknown",
        )
    return known[name]

"""Arguments that several verbs share."""

from __future__ import annotations

import argparse
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.pipeline.cache import Cache, default_root
from workbench.project import store
from workbench.project.trust import TrustStore, demand

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from workbench.project.model import Project


def add_several(
    verb: argparse.ArgumentParser, flag: str, kind: type[int] | type[str] = str, **more: Any
) -> None:
    """Add an option that takes several values, apart by spaces, commas or both."""

    def split(text: str) -> list[int | str]:
        return [kind(word) for word in text.split(",") if word]

    split.__name__ = kind.__name__
    verb.add_argument(flag, nargs="+", action=_Several, type=split, **more)


class _Several(argparse.Action):
    """Join the lists that each word of an option became."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Put what the words name into the namespace, in one list."""
        setattr(namespace, self.dest, [value for part in values or () for value in part])


def add_project(verb: argparse.ArgumentParser) -> None:
    """Add the project file and ``--json``."""
    verb.add_argument("project", type=Path, metavar="PROJECT", help="a .qwb file")
    add_json(verb)


def add_json(verb: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    verb.add_argument("--json", action="store_true", help="print one JSON document on stdout")


def add_trust(verb: argparse.ArgumentParser) -> None:
    """Add ``--trust``."""
    verb.add_argument(
        "--trust", action="store_true", help="allow the Python code that the project names to run"
    )


def add_engine(verb: argparse.ArgumentParser) -> None:
    """Add what every verb that starts an engine takes."""
    add_trust(verb)
    verb.add_argument("--no-cache", action="store_true", help="compute everything anew")
    verb.add_argument(
        "--no-acceleration",
        action="store_true",
        help="use the toolchain exactly as installed (slower, same bytes)",
    )


def open_project(options: argparse.Namespace) -> tuple[Project, Path]:
    """Return the project and the folder its relative paths start from."""
    path: Path = options.project
    return store.load(path), path.absolute().parent


def check_trust(options: argparse.Namespace, project: Project, folder: Path) -> None:
    """Return if the project's code may run; ``--trust`` allows it for this run.

    Raises:
        TrustRequiredError: it may not.
    """
    if not options.trust:
        demand(project, folder, TrustStore())


@contextmanager
def opened_cache(options: argparse.Namespace) -> Iterator[Cache]:
    """Give the cache: the user's, or one that is gone afterwards."""
    if not getattr(options, "no_cache", False):
        yield Cache(default_root())
        return
    with tempfile.TemporaryDirectory(prefix="workbench-") as folder:
        yield Cache(Path(folder))

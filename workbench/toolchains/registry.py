"""The toolchains of this machine: interpreters by name, kept in the configuration folder."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from workbench import toolchain_versions
from workbench.errors import Place, WorkbenchError, failure, write_remedy
from workbench.files import is_open_to_others, locked, make_private_folder, read_limited, write_file
from workbench.installation import config_folder
from workbench.project.frozen import Frozen
from workbench.toolchains.probe import Probed, interpreter_in, probe, problems_of
from workbench.toolchains.versions import own_name, tool_versions

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_MOST_BYTES = 4 << 20
# What the program's own toolchain is called where a name is shown; nothing else has the name.
OWN_TITLE = "built-in"


class Toolchain(Frozen):
    """An interpreter with its packages as they were when it was asked last.

    Attributes:
        name: What projects call it.
        python: The path of the interpreter; a link of a virtual environment is kept.
        probed: What it has.
        created: Whether this program made the environment, and removes it with the name.
    """

    name: str
    python: str
    probed: Probed
    created: bool = False

    @property
    def title(self) -> str:
        """The main versions as text: "ExecuTorch 1.4.1, torch 2.13.0, Vela 5.1.0"."""
        return title_of(self.probed.versions)


class _Registry(Frozen):
    toolchains: tuple[Toolchain, ...] = ()


def title_of(versions: dict[str, str]) -> str:
    """Return the versions that name a toolchain: "ExecuTorch 1.4.1, torch 2.13.0, Vela 5.1.0".

    Args:
        versions: By package.
    """
    named = (("ExecuTorch", "executorch"), ("torch", "torch"), ("Vela", "ethos-u-vela"))
    known = ((title, versions.get(package, "none").partition("+")[0]) for title, package in named)
    return ", ".join(f"{title} {version}" for title, version in known if version != "none")


def toolchains() -> dict[str, Toolchain]:
    """Return the toolchains that were added, by name.

    Raises:
        WorkbenchError: The list is damaged, or other users can change it.
    """
    try:
        state = os.stat(_path())
    except OSError:
        return {}
    return dict(_read(str(_path()), state.st_mtime_ns, state.st_size))


@cache
def _read(path: str, time: int, size: int) -> dict[str, Toolchain]:
    del time, size
    if is_open_to_others(Path(path)) or is_open_to_others(Path(path).parent):
        raise _damaged("other users can change it", "Take the permission to write from others.")
    try:
        kept = _Registry.model_validate_json(read_limited(Path(path), _MOST_BYTES))
    except (OSError, ValidationError) as error:
        raise _damaged("it is damaged", "Remove the file, and add the toolchains again.") from error
    return {toolchain.name: toolchain for toolchain in kept.toolchains}


def toolchain_of(name: str) -> Toolchain:
    """Return a toolchain as it is now: it is asked again where packages have changed.

    Raises:
        WorkbenchError: There is none of this name, or it cannot be used any more.
    """
    known = toolchains().get(name)
    if known is None:
        raise unknown(name)
    if not os.path.exists(known.python):
        raise failure(
            f"The interpreter of the toolchain {name} is no longer there: {known.python}.",
            f"Restore it, or remove the toolchain: workbench toolchain remove {name}.",
            _where(name),
            code="toolchain-missing",
        )
    if known.probed.is_current:
        return known
    changed = known.model_copy(update={"probed": _asked(name, Path(known.python))})
    _change(lambda kept: {**kept, name: changed} if name in kept else kept)
    return changed


def unknown(name: str) -> WorkbenchError:
    """Return the problem of a name that no toolchain of this machine has."""
    names = ", ".join([OWN_TITLE, *toolchains()])
    return failure(
        f"This machine has no toolchain {name!r}.",
        f"It has: {names}. Add it with: workbench toolchain add.",
        _where(name),
        code="toolchain-missing",
    )


def tools_of(name: str) -> dict[str, str]:
    """Return the versions of the packages of a toolchain.

    Args:
        name: Its name; "" for the program's own. In an engine, that of the engine's toolchain
            gives the engine's own packages.

    Raises:
        WorkbenchError: It is not on this machine, or cannot be used any more.
    """
    return tool_versions() if name == own_name() else dict(toolchain_of(name).probed.versions)


def proof_versions(name: str) -> dict[str, str]:
    """Return the versions that a proof of the accelerations is for, of a toolchain.

    Args:
        name: As for ``tools_of``.

    Raises:
        WorkbenchError: It is not on this machine, or cannot be used any more.
    """
    if name == own_name():
        return toolchain_versions.versions()
    probed = toolchain_of(name).probed
    return {
        "python": probed.python,
        **{package: probed.versions[package].partition("+")[0] for package in toolchain_versions.PACKAGES},
    }


def add(name: str, python: Path, *, created: bool = False) -> Toolchain:
    """Add a toolchain.

    Args:
        name: A new name: letters, digits, dots, dashes.
        python: An interpreter, or the folder of its environment.
        created: Whether this program made the environment.

    Raises:
        WorkbenchError: The name is taken or invalid, the interpreter cannot be used, or the list
            cannot be written.
    """
    check_new(name)
    # Links stay: through its link, an interpreter finds its environment.
    path = Path(os.path.abspath(interpreter_in(python.expanduser())))
    toolchain = Toolchain(name=name, python=str(path), probed=_asked(name, path), created=created)
    _change(lambda kept: {**kept, name: toolchain})
    return toolchain


def check_new(name: str) -> None:
    """Check that a name can be given to a new toolchain.

    Raises:
        WorkbenchError: It is taken or invalid.
    """
    if not _NAME.fullmatch(name) or name == OWN_TITLE:
        raise failure(
            f"{name!r} cannot be the name of a toolchain.",
            f"Use letters, digits, dots and dashes; {OWN_TITLE} is the program's own.",
            _where(name),
            code="toolchain-name-invalid",
        )
    if name in toolchains():
        raise failure(
            f"There is a toolchain {name} already.",
            f"Choose another name, or remove it first: workbench toolchain remove {name}.",
            _where(name),
            code="toolchain-name-taken",
        )


def remove(name: str) -> Toolchain:
    """Remove a toolchain from the list, and return it; its environment stays.

    Raises:
        WorkbenchError: There is none of this name, or the list cannot be written.
    """
    known = toolchains().get(name)
    if known is None:
        raise unknown(name)
    _change(lambda kept: {key: value for key, value in kept.items() if key != name})
    return known


def _asked(name: str, python: Path) -> Probed:
    """Return what an interpreter has.

    Raises:
        WorkbenchError: Engines cannot run in it.
    """
    probed = probe(python)
    if problems := problems_of(probed):
        where = _where(name)
        raise WorkbenchError(
            [
                info.model_copy(update={"message": f"{python}: {info.message}", "where": where})
                for info in problems
            ]
        )
    return probed


def _change(change: Callable[[dict[str, Toolchain]], dict[str, Toolchain]]) -> None:
    try:
        make_private_folder(_path().parent)
        with locked(_path()):
            kept = _Registry(toolchains=tuple(change(toolchains()).values()))
            write_file(_path(), kept.model_dump_json(indent=2).encode(), mode=0o600)
    except OSError as error:
        raise failure(
            f"The list of toolchains cannot be written: {error.strerror or error}.",
            write_remedy(error, "Make the configuration folder writable."),
            Place(kind="file", id=_path().name),
            code="toolchains-unwritable",
        ) from error


def _path() -> Path:
    return config_folder() / "toolchains.json"


def _where(name: str) -> Place:
    return Place(kind="option", id=f"toolchain {name}" if name else "toolchain")


def _damaged(what: str, hint: str) -> WorkbenchError:
    return failure(
        f"The list of toolchains cannot be used: {what}.",
        hint,
        Place(kind="file", id=str(_path())),
        code="toolchains-damaged",
    )

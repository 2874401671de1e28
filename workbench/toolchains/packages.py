"""The folder that gives an engine this program, and what its environment lacks of it.

An engine of another environment finds the program by ``PYTHONPATH``. The folder of the program's
own packages cannot be named there: its torch would take the place of the environment's. So the
folder holds links to the program, and to those packages alone that the environment lacks.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from workbench import disk_cache
from workbench.errors import Place, failure
from workbench.files import is_open_to_others, make_private_folder

if TYPE_CHECKING:
    from workbench.toolchains.registry import Toolchain

_PACKAGE = Path(__file__).parents[1]
# A wheel carries the resources inside the package, a checkout beside it.
_RESOURCES = _PACKAGE.parent / "resources"
# Modules of a package that is installed under another name.
_DISTRIBUTIONS = {"re2": "google-re2", "_re2": "google-re2", "PIL": "pillow"}


def folder_for(toolchain: Toolchain) -> Path:
    """Return the folder for engines of a toolchain, which is made if it is not there.

    Raises:
        WorkbenchError: Packages are missing that the program cannot lend, because the environment
            has another Python; or the folder cannot be written.
    """
    links = {"workbench": _PACKAGE, **_lent(toolchain)}
    if _RESOURCES.is_dir():
        links["resources"] = _RESOURCES
    content = json.dumps({name: str(path) for name, path in sorted(links.items())})
    digest = hashlib.sha256(content.encode()).hexdigest()[:16]
    folder = disk_cache.folder() / "toolchains" / digest
    try:
        make_private_folder(folder)
        for name, path in links.items():
            _link(folder / name, path)
        is_open = any(map(is_open_to_others, (folder, folder.parent, folder.parent.parent)))
    except OSError as error:
        raise _unwritable(error.strerror or str(error)) from error
    if is_open:
        raise _unwritable("other users can change it")
    return folder


def _lent(toolchain: Toolchain) -> dict[str, Path]:
    """Return the program's own modules that an environment lacks, by name."""
    missing = toolchain.probed.missing
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if missing and toolchain.probed.python != own:
        names = " ".join(dict.fromkeys(_DISTRIBUTIONS.get(name, name) for name in missing))
        raise failure(
            f"The toolchain {toolchain.name} lacks packages that the engine needs.",
            f"Install them there: {toolchain.python} -m pip install {names}.",
            Place(kind="option", id=f"toolchain {toolchain.name}"),
            code="toolchain-unusable",
        )
    return {name: path for name in missing if (path := _origin(name)) is not None}


def _origin(name: str) -> Path | None:
    """Return the file or folder of a top-level module of this program; None if it has none."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin)


def _link(link: Path, target: Path) -> None:
    name = link.with_name(target.name) if target.is_file() else link
    if name.is_symlink() and os.readlink(name) == str(target):
        return
    name.unlink(missing_ok=True)
    try:
        name.symlink_to(target)
    except FileExistsError:
        # Another engine has just made it.
        return


def _unwritable(reason: str) -> Exception:
    return failure(
        f"The folder for engines of other toolchains cannot be used: {reason}.",
        "Free space, or set QUANTIZATION_WORKBENCH_CACHE to a folder of your own.",
        Place(kind="option", id="toolchain"),
        code="toolchain-folder-unusable",
    )

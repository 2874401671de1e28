"""Start of Python processes: no process of the program imports from the current folder.

Python puts the current folder first on its search path for ``-m`` and ``-c``, and for every empty
or relative entry of ``PYTHONPATH``. A file beside a project would then replace a module of the
standard library. This module imports nothing that is not already loaded when Python starts.
"""

from __future__ import annotations

import os
import sys

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_IS_CHECKOUT = os.path.isfile(os.path.join(_ROOT, "pyproject.toml"))


def leave_current_folder() -> None:
    """Remove the current folder from the search path, here and in all processes started later.

    Entry points call it before their other imports. The folder of a checkout stays.
    """
    current = _current_folder()
    own = {_ROOT} if _IS_CHECKOUT else set()
    given = {entry for entry in _search_path() if entry in sys.path}
    sys.path[:] = [
        entry for entry in sys.path if os.path.isabs(entry) and (entry != current or entry in own | given)
    ]
    os.environ.update(environment())


def open_closed_streams() -> None:
    """Let closed standard streams be the null device, before anything else gets their numbers."""
    for descriptor, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free number is this one: those below are open.
            os.open(os.devnull, mode)


def leave_deleted_folder() -> bool:
    """Go to the root of the disk if the current folder was deleted; return whether it was."""
    if _current_folder():
        return False
    os.chdir("/")
    return True


def _current_folder() -> str:
    """Return the current folder; "" if it was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def base() -> str:
    """Return the interpreter that the environment of this one was made with."""
    return getattr(sys, "_base_executable", None) or sys.executable


def command(module: str, *arguments: str, python: str = "") -> list[str]:
    """Return the command line that runs a module in a new interpreter; "" is this one."""
    return [python or sys.executable, "-P", "-m", module, *arguments]


def environment() -> dict[str, str]:
    """Return this process's environment for a new interpreter.

    Empty and relative entries of ``PYTHONPATH`` are left out. A checkout is added, so that the new
    process runs the same files.
    """
    path = _search_path()
    if _IS_CHECKOUT and _ROOT not in path:
        path.append(_ROOT)
    variables = {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(path)}
    if not path:
        del variables["PYTHONPATH"]
    return variables


def _search_path() -> list[str]:
    """Return the absolute entries of ``PYTHONPATH``."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [entry for entry in given if os.path.isabs(entry)]

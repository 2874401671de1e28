"""Calls of the user's Python code, with error messages that name file and line."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
import sysconfig
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.engine.user_code import code_import
from workbench.errors import ErrorInfo, Place, WorkbenchError, failure
from workbench.text import sentence

if TYPE_CHECKING:
    from collections.abc import Callable

    from workbench.project.sources import Reference


def load_callable(reference: Reference, option: str) -> Callable[..., Any]:
    """Import the reference's module and return the callable it names.

    Raises:
        WorkbenchError: no such file, module or name, or the import itself fails.
    """
    where = Place(kind="option", id=option)
    try:
        module = _import(reference)
    except WorkbenchError:
        raise
    except (Exception, SystemExit) as error:
        raise user_failure(error, "could not be imported", where, reference.path) from error
    function = getattr(module, reference.attribute, None)
    if function is None:
        names = [n for n in vars(module) if callable(getattr(module, n)) and not n.startswith("_")]
        raise failure(
            f"{_name(reference)} has no {reference.attribute}.",
            f"Available: {', '.join(names[:12])}." if names else "It defines no callable.",
            where,
            code="callable-missing",
        )
    if not callable(function):
        raise failure(
            f"{reference.attribute} in {_name(reference)} is not callable.",
            "Name a function or a class.",
            where=where,
            code="callable-invalid",
        )
    return function


def call(function: Callable[..., Any], reference: Reference, option: str) -> Any:
    """Call the user's callable without arguments.

    Raises:
        WorkbenchError: it raised an error; names file and line.
    """
    try:
        return function()
    except (Exception, SystemExit) as error:
        where = Place(kind="option", id=option)
        raise user_failure(error, "raised an error", where, reference.path) from error


def user_failure(error: BaseException, what: str, where: Place, path: Path | None) -> WorkbenchError:
    """Return the error for a failure in the user's file, with its line; ``where`` without one."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if path is not None and Path(f.filename).parent == path.parent]
    location = f" at {Path(own[-1].filename).name}, line {own[-1].lineno}" if own else ""
    name = path.name if path is not None else "The code"
    first = (str(error).strip().splitlines() or [""])[0]
    if isinstance(error, SyntaxError):
        location, first = f" at line {error.lineno}", error.msg
    line = (own[-1].filename, own[-1].lineno) if own else None
    if isinstance(error, SyntaxError) and error.filename and not error.filename.startswith("<"):
        line = (error.filename, error.lineno)
    if line is not None and line[1]:
        where = Place(kind="line", id=f"{line[0]}:{line[1]}")
    return WorkbenchError(
        [
            ErrorInfo(
                message=sentence(f"{name} {what}{location}: {type(error).__name__}: {first}"[:800]),
                hint="Correct the code and run again.",
                where=where,
                details="".join(traceback.format_exception(error)),
                code="user-code-failed",
            )
        ]
    )


_USER_LINE = re.compile(r'File "([^"]+)", line (\d+), in (\w+)\n\s*(.*)')


# Places of the standard library are not the user's.
_STANDARD_LIBRARY = sysconfig.get_path("stdlib") + os.sep


def line_in_user_code(error: BaseException) -> str:
    """Return "file.py, line 12, in forward: <source>" for an error of torch.export, or ""."""
    text = str(error)
    if "from user code" in text:
        text = text.rsplit("from user code", maxsplit=1)[-1]
    frames_seen = _USER_LINE.findall(text)
    if not frames_seen:
        frames = traceback.extract_tb(error.__traceback__)
        frames_seen = [
            (f.filename, str(f.lineno), f.name, f.line or "")
            for f in frames
            if "site-packages" not in f.filename
            and "/workbench/" not in f.filename
            and not f.filename.startswith(("<", _STANDARD_LIBRARY))
        ]
    frames_seen = [p for p in frames_seen if "site-packages" not in p[0]] or frames_seen
    if not frames_seen:
        return ""
    file, line, function, source = frames_seen[-1]
    return f"{Path(file).name}, line {line}, in {function}: {source.strip()}"


def line_of_definition(value: Any) -> str:
    """Return "file.py, line 12, in Name" for a class or function; "" if its source is unknown."""
    try:
        _, line = inspect.getsourcelines(value)
        file = inspect.getsourcefile(value)
    except (OSError, TypeError):
        return ""
    return f"{Path(file).name}, line {line}, in {value.__name__}" if file else ""


def _name(reference: Reference) -> str:
    return reference.path.name if reference.kind == "file" and reference.path else reference.module


def _import(reference: Reference) -> Any:
    if reference.kind == "package":
        code_import.require_named(reference.module, reference.attribute)
        return importlib.import_module(reference.module)
    path = reference.path
    if path is None or not os.path.isfile(path):
        raise failure(
            f"{path.name if path else 'The file'} does not exist.",
            "Correct the path in the project.",
            Place(kind="file", id=str(path)),
            code="source-file-missing",
        )
    code_import.forget()
    # After that: a neighbour of an earlier project's file may have had this file's name.
    return code_import.import_file(path, module_name(path))


def module_name(path: Path) -> str:
    """Return the import name of a user's file: its own name, since rules name its classes by it.

    Raises:
        WorkbenchError: an installed module of that name is already imported.
    """
    known = sys.modules.get(path.stem)
    if known is not None and not code_import.is_of_project(known):
        raise failure(
            f"The module name {path.stem} of {path.name} is already in use.",
            "Rename the file.",
            Place(kind="file", id=path.name),
            code="module-name-in-use",
        )
    return path.stem

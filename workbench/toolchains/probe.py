"""What another interpreter has: asked of itself, without an import of its packages."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from pathlib import Path
from typing import Any

from workbench.errors import ErrorInfo, Place, WorkbenchError, failure
from workbench.project.frozen import Frozen
from workbench.tool_output import tool_output
from workbench.toolchains.versions import PACKAGES

TIMEOUT_S = 20.0
SUPPORTED_PYTHONS = ("3.11", "3.12")
# What the engine imports and ExecuTorch does not bring, as top-level modules. The program's own
# ones are used where an environment lacks them.
ENGINE_MODULES = (
    "pydantic",
    "pydantic_core",
    "annotated_types",
    "typing_inspection",
    "typing_extensions",
    "platformdirs",
    "threadpoolctl",
    "safetensors",
    "re2",
    "_re2",
    "PIL",
    "optuna",
    "colorlog",
    "tqdm",
    # For the metric of detectors.
    "pycocotools",
)

# The answer lies between two marks: a file of the environment may print when Python starts.
_SCRIPT = """
import importlib.util, json, os, sys
try:
    from importlib import metadata
except ImportError:
    # Python before 3.8, which the answer says.
    metadata = None
packages, modules, mark = json.loads(sys.argv[1])
versions = {}
for package in packages:
    try:
        versions[package] = metadata.version(package)
    except (AttributeError, ImportError):
        versions[package] = "none"
answer = {
    "python": "%d.%d" % sys.version_info[:2],
    "versions": versions,
    "missing": [name for name in modules if importlib.util.find_spec(name) is None],
    "folders": [[path, os.stat(path).st_mtime_ns] for path in sys.path if os.path.isdir(path)],
}
os.write(1, (mark + json.dumps(answer) + mark).encode())
"""


class Probed(Frozen):
    """What an interpreter has.

    Attributes:
        python: Its version, as "3.11".
        versions: The version of every package of ``PACKAGES``; "none" if not installed.
        missing: The modules of ``ENGINE_MODULES`` that it does not have.
        asked: The modules that were asked for; a newer program asks for others.
        folders: The folders that it imports from, with the times of their last change [ns]: they
            change when a package is installed or removed.
    """

    python: str
    versions: dict[str, str]
    missing: tuple[str, ...]
    folders: tuple[tuple[str, int], ...]
    asked: tuple[str, ...] = ()

    @property
    def is_current(self) -> bool:
        """Whether no package was installed or removed since."""
        try:
            return self.asked == ENGINE_MODULES and all(
                os.stat(path).st_mtime_ns == time for path, time in self.folders
            )
        except OSError:
            return False


def interpreter_in(path: Path) -> Path:
    """Return the interpreter that a path names: itself, or that of an environment's folder."""
    if not path.is_dir():
        return path
    inner = ("Scripts/python.exe",) if os.name == "nt" else ("bin/python", "bin/python3")
    return next((path / name for name in inner if (path / name).exists()), path / inner[0])


def probe(python: Path, timeout_s: float = TIMEOUT_S) -> Probed:
    """Return what an interpreter has.

    Args:
        python: The interpreter.
        timeout_s: The time that it gets to answer [s].

    Raises:
        WorkbenchError: It does not exist, is no Python, or does not answer in time.
    """
    mark = secrets.token_hex(16)
    question = json.dumps([PACKAGES, ENGINE_MODULES, mark])
    try:
        output = tool_output([str(python), "-I", "-c", _SCRIPT, question], timeout_s, _variables())
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _unusable(f"{python} cannot be started: {reason}.", python) from error
    parts = output.text.split(mark)
    if len(parts) != 3:
        if output.code is None:
            raise _unusable(f"{python} did not answer within {timeout_s:g} s.", python)
        raise _unusable(f"{python} is no Python interpreter.", python, output.text[-2000:])
    try:
        return Probed.model_validate({**json.loads(parts[1]), "asked": ENGINE_MODULES})
    except ValueError as error:
        raise _unusable(f"{python} gave no sensible answer.", python, str(error)) from error


def problems_of(probed: Probed) -> list[ErrorInfo]:
    """Return why an engine cannot run in an environment; nothing where it can."""
    if probed.python not in SUPPORTED_PYTHONS:
        sentence = f"It has Python {probed.python}; engines need {' or '.join(SUPPORTED_PYTHONS)}."
        return [_problem(sentence, "Create the environment with another Python.")]
    needed = ("torch", "torchao", "executorch", "ethos-u-vela", "tosa-tools")
    absent = [package for package in needed if probed.versions.get(package) == "none"]
    if absent:
        sentence = f"It does not have {', '.join(absent)}."
        return [_problem(sentence, "Install executorch[ethos-u] there.")]
    return []


def _problem(message: str, hint: str) -> ErrorInfo:
    return ErrorInfo(message=message, hint=hint, code="toolchain-unusable")


def _unusable(message: str, python: Path, details: str = "") -> WorkbenchError:
    return failure(
        message,
        "Give the path of a Python interpreter, or the folder of its environment.",
        Place(kind="file", id=str(python)),
        details=details,
        code="toolchain-unusable",
    )


def _variables() -> dict[str, str]:
    """Return the environment without what changes where an interpreter imports from."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def variables_for(folder: Path, name_variable: tuple[str, str]) -> dict[str, Any]:
    """Return the environment of an engine that takes this program from ``folder`` alone."""
    name, value = name_variable
    return {
        **_variables(),
        "PYTHONSAFEPATH": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONPATH": str(folder),
        name: value,
    }

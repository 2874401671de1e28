"""A new environment for a toolchain, made with pip in the program's data folder."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from workbench import interpreter
from workbench.errors import Place, WorkbenchError, failure, write_remedy
from workbench.files import locked, make_private_folder
from workbench.installation import data_folder
from workbench.operating_system import end_group
from workbench.process_guard import guarded
from workbench.toolchains.probe import interpreter_in
from workbench.toolchains.registry import Toolchain, add, check_new
from workbench.toolchains.releases import created_with

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# A name with extras and a version; no option, path or address.
_REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*(\[[\w,.-]+\])?([=<>!~]=?[\w.*+!,<>=~-]+)?")
_EXECUTORCH = re.compile(r"executorch(\[[\w,.-]+\])?(==(?P<version>[\w.]+))?")
_LAST_LINES = 30
# What pip says for each kind of failure, in the order in which they are looked for.
_FAILURES = (
    ("No space left on device", "The disk is full.", "Free several GB there."),
    ("NewConnectionError", "The package index cannot be reached.", "Check the network."),
    ("Max retries exceeded", "The package index cannot be reached.", "Check the network."),
    ("name resolution", "The package index cannot be reached.", "Check the network."),
    (
        "No matching distribution",
        "The package index does not have it for this Python.",
        "Check the name and the version.",
    ),
    ("ResolutionImpossible", "The packages exclude one another.", "Ask for other versions."),
)


def requirements_of(spec: str) -> list[str]:
    """Return what pip is asked for, of a text such as "executorch==1.4.1 torch==2.13.0".

    ExecuTorch comes with the packages for Ethos-U, and with the release of torch that it is proven
    with if none is named.

    Raises:
        WorkbenchError: It names no ExecuTorch, or something that is no package with a version.
    """
    words = spec.split()
    named = next((match for word in words if (match := _EXECUTORCH.fullmatch(word))), None)
    if named is None or not all(_REQUIREMENT.fullmatch(word) for word in words):
        raise failure(
            f"{spec!r} does not name an ExecuTorch.",
            'Example: --create executorch==1.4.1, or --create "executorch==1.4.1 torch==2.13.0".',
            Place(kind="option", id="create"),
            code="toolchain-spec-invalid",
        )
    version = named["version"]
    release = f"executorch[ethos-u]{f'=={version}' if version else ''}"
    others = [word for word in words if not _EXECUTORCH.fullmatch(word)]
    if not any(re.match(r"torch([=<>!~\[]|$)", word) for word in others):
        others.insert(0, f"torch=={created_with(version or '')}")
    return [*others, release]


def create(name: str, spec: str, report: Callable[[str], None]) -> Toolchain:
    """Make an environment and add it as a toolchain; nothing stays if it fails or is cancelled.

    Args:
        name: A new name.
        spec: What it has, as ``requirements_of`` takes it.
        report: Called with what is done, a line at a time.

    Raises:
        WorkbenchError: The name or the text is invalid, or the packages cannot be installed.
    """
    check_new(name)
    wanted = requirements_of(spec)
    folder = data_folder() / "toolchains" / name
    try:
        make_private_folder(folder.parent)
        with locked(folder):
            # What a process left that was killed: no toolchain has the name.
            shutil.rmtree(folder, ignore_errors=True)
            return _created(name, wanted, folder, report)
    except OSError as error:
        raise _failed(f"{error.strerror or error}.", write_remedy(error, ""), str(error)) from error


def _created(name: str, packages: Sequence[str], folder: Path, report: Callable[[str], None]) -> Toolchain:
    try:
        report("making the environment")
        _run([interpreter.base(), "-I", "-m", "venv", str(folder)], report)
        python = interpreter_in(folder)
        report(f"installing {', '.join(packages)}")
        pip = [
            str(python),
            "-I",
            "-m",
            "pip",
            "install",
            "--no-input",
            "--progress-bar",
            "off",
            "--disable-pip-version-check",
            "--retries",
            "1",
        ]
        # torch first, and kept by the second call: its newest release may be another one.
        _run([*pip, *packages[:-1]], report)
        _run([*pip, *packages], report)
        return add(name, python, created=True)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def discard(toolchain: Toolchain) -> None:
    """Delete the environment of a toolchain that this program made; others are left alone."""
    folder = data_folder() / "toolchains" / toolchain.name
    if toolchain.created and Path(toolchain.python).is_relative_to(folder):
        shutil.rmtree(folder, ignore_errors=True)


def _run(command: Sequence[str], report: Callable[[str], None]) -> None:
    """Run a step and report its lines; the step ends with this process and with an exception."""
    last: list[str] = []
    with (
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process,
        guarded(process.pid),
    ):
        assert process.stdout is not None
        try:
            for line in process.stdout:
                last = [*last[1 - _LAST_LINES :], line.rstrip()]
                if line.startswith(("Collecting ", "Downloading ", "Installing ", "Processing ")):
                    report(line.strip()[:120])
        except BaseException:
            end_group(process.pid)
            raise
    if process.returncode != 0:
        text = "\n".join(last)
        for words, sentence, hint in _FAILURES:
            if words in text:
                raise _failed(sentence, hint, text)
        raise _failed(last[-1] if last else "pip gave no reason.", "", text)


def _failed(reason: str, hint: str, details: str) -> WorkbenchError:
    return failure(
        f"The environment could not be made: {reason}",
        hint,
        Place(kind="option", id="create"),
        details=details[-4000:],
        code="toolchain-not-created",
    )

"""FAILURES: what a build of a runner prints when it fails, why, and what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.errors import ErrorInfo, Place

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Failure:
    """A pattern of a line, with its cause and remedy."""

    pattern: re.Pattern[str]
    cause: str
    remedy: str


def _row(pattern: str, cause: str, remedy: str) -> Failure:
    return Failure(re.compile(pattern), cause, remedy)


# Words of CMake, the GNU linker and ExecuTorch's own scripts.
FAILURES: tuple[Failure, ...] = (
    _row(r"region `?'?(\w+)'? overflowed by (\d+) bytes",
         "The runner does not fit the memory of the simulated board.",
         "Its pools are too large for it: choose a smaller program, or a memory mode that keeps "
         "less in this memory."),
    _row(r"arm-(none|zephyr)-eabi-\S*:? (command )?not found|CMAKE_C(XX)?_COMPILER",
         "The Arm GNU toolchain was not found.",
         "Run examples/arm/setup.sh in the checkout, or put arm-none-eabi-gcc on the PATH."),
    _row(r"Missing .*(setup_path\.sh|arm_baremetal\.cmake)",
         "The checkout is not complete or its tools were not set up.",
         "Run: git submodule update --init --recursive, then examples/arm/setup.sh."),
    _row(r"No module named '?(\S+?)'?$|ModuleNotFoundError",
         "A Python package that ExecuTorch's code generation needs is missing.",
         "Install the checkout's requirements into this program's environment."),
    _row(r"No space left on device", "The disk is full.", "Make room and build again."),
    _row(r"CMake .*(\d+\.\d+) or higher is required",
         "CMake is too old.", "Install a newer CMake: pip install cmake."),
    _row(r"does not appear to contain CMakeLists|Cannot find source file|No such file or directory",
         "A file of the checkout is missing.",
         "Run: git submodule update --init --recursive; then examples/arm/setup.sh."),
    _row(r"^CMake Error|: error: |ld returned 1 exit status|undefined reference",
         "The build stopped with an error of its own.",
         "The checkout may be of another version: tag v1.5.1 fits this program."),
)  # fmt: skip


def diagnoses_of(lines: Sequence[str], log: Path, not_started: str = "") -> list[ErrorInfo]:
    """Return why a build failed: one sentence, then every cause that was recognised."""
    place = Place(kind="file", id=str(log))
    said = f"It could not be started: {not_started}." if not_started else f"Its log is {log}."
    whole = ErrorInfo(
        message="The runner could not be built.", hint=said, where=place,
        details="\n".join(lines[-20:]),
    )  # fmt: skip
    causes: dict[str, ErrorInfo] = {}
    for line in lines:
        row = next((row for row in FAILURES if row.pattern.search(line)), None)
        if row is not None and row.cause not in causes:
            causes[row.cause] = ErrorInfo(
                message=row.cause, hint=row.remedy, where=place, details=line
            )
    return [whole, *causes.values()]

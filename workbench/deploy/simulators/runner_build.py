"""Build of a runner from the user's ExecuTorch checkout, with pools sized for a program.

Source of the script's arguments, the CMake options and the runner's default pool sizes:
ExecuTorch, ``backends/arm/scripts/build_executor_runner.sh`` and
``examples/arm/executor_runner/CMakeLists.txt``.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from workbench.deploy.simulators.compatibility import POOL_OPTIONS, Program, RunnerElf, needs, read_runner
from workbench.deploy.simulators.process import Hooks, execute
from workbench.errors import Cancelled, ErrorInfo, Place, WorkbenchError, failure, not_written
from workbench.files import write_file


@dataclass(frozen=True)
class Failure:
    """A pattern of a line, with its cause and remedy."""

    pattern: re.Pattern[str]
    cause: str
    remedy: str


def _row(pattern: str, cause: str, remedy: str) -> Failure:
    return Failure(re.compile(pattern), cause, remedy)


# Messages of CMake, the GNU linker and ExecuTorch's scripts.
BUILD_FAILURES: tuple[Failure, ...] = (
    _row(
        r"region `?'?(\w+)'? overflowed by (\d+) bytes",
        "The runner does not fit the memory of the simulated board.",
        "Its pools are too large: choose a smaller program, or a memory mode that uses less of this memory.",
    ),
    _row(
        r"arm-(none|zephyr)-eabi-\S*:? (command )?not found|CMAKE_C(XX)?_COMPILER",
        "The Arm GNU toolchain was not found.",
        "Run examples/arm/setup.sh in the checkout, or put arm-none-eabi-gcc on the PATH.",
    ),
    _row(
        r"Missing .*(setup_path\.sh|arm_baremetal\.cmake)",
        "The checkout is incomplete, or its tools are not installed.",
        "Run: git submodule update --init --recursive, then examples/arm/setup.sh.",
    ),
    _row(
        r"No module named '?(\S+?)'?$|ModuleNotFoundError",
        "A Python package that ExecuTorch's code generation needs is missing.",
        "Install the checkout's requirements into this program's environment.",
    ),
    _row(r"No space left on device", "The disk is full.", "Free disk space and build again."),
    _row(
        r"CMake .*(\d+\.\d+) or higher is required",
        "CMake is too old.",
        "Install a newer CMake: pip install cmake.",
    ),
    _row(
        r"does not appear to contain CMakeLists|Cannot find source file|No such file or directory",
        "A file of the checkout is missing.",
        "Run: git submodule update --init --recursive; then examples/arm/setup.sh.",
    ),
    _row(
        r"^CMake Error|: error: |ld returned 1 exit status|undefined reference",
        "The build failed.",
        "Check the version of the checkout: this program fits tag v1.5.1.",
    ),
)


def diagnoses_of(lines: Sequence[str], log: Path, not_started: str = "") -> list[ErrorInfo]:
    """Return why a build failed: a summary, then every recognised cause."""
    place = Place(kind="file", id=str(log))
    hint = f"Could not start the build: {not_started}." if not_started else f"See {log}."
    whole = ErrorInfo(
        message="The runner could not be built.",
        hint=hint,
        where=place,
        details="\n".join(lines[-20:]),
        code="runner-build-failed",
    )
    causes: dict[str, ErrorInfo] = {}
    for line in lines:
        row = next((row for row in BUILD_FAILURES if row.pattern.search(line)), None)
        if row is not None and row.cause not in causes:
            causes[row.cause] = ErrorInfo(
                message=row.cause, hint=row.remedy, where=place, details=line, code="runner-build-cause"
            )
    return [whole, *causes.values()]


SCRIPT = Path("backends/arm/scripts/build_executor_runner.sh")
SETUP = Path("examples/arm/arm-scratch/setup_path.sh")
ELF = "arm_executor_runner"
ProgramSource = Literal["semihosting", "embedded", "address"]
# The last ones change what bash does before and while it reads the script.
_LEFT_OUT = {"PYTHONPATH", "PYTHONSAFEPATH", "BASH_ENV", "ENV", "CDPATH", "SHELLOPTS", "BASHOPTS"}
# The script and CMake split their arguments at spaces and semicolons, and expand $.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+-]{0,199}", re.ASCII)
_PATH = re.compile(r"[A-Za-z0-9_./+@~%,=-]+", re.ASCII)
_TIMEOUT_S = 3 * 3600.0
_PERCENT = re.compile(r"^\[\s*(\d{1,3})%\]")
_STEP = re.compile(r"^\[(\d{1,9})/(\d{1,9})\]")
_LINES_KEPT, _LONGEST = 40, 4000
# The runner's default pool sizes [bytes], the minimum for a runner that loads any program.
_DEFAULT_POOLS = {"method": 60 << 20, "files": 60 << 20, "scratch": 2 << 20}
_DEFAULT_DEDICATED = 64 << 20
_MARGIN, _STEP_BYTES = 1.25, 65536


@dataclass(frozen=True)
class Build:
    """The parameters of a runner build.

    ``program_source`` is the source of its program: a file at run time, built in, or at ``address``.
    ``npu`` is the device of a program without delegates, which names none.
    """

    checkout: Path
    program: Program
    program_source: ProgramSource = "semihosting"
    address: int = 0
    etdump: bool = False
    npu: str = ""

    def __post_init__(self) -> None:
        """Refuse names of the program that would become something else in a script.

        Raises:
            WorkbenchError: a name is invalid, or the program is damaged.
        """
        named = [self.program.system_config, self.program.memory_mode, *self.kernels]
        for name in named:
            if name and not _NAME.fullmatch(name):
                raise failure(
                    f"The program contains an invalid name: {name[:100]!r}.",
                    "Names have letters, digits and underscores. Compile the program again.",
                    Place(kind="file", id=self.program.name),
                    code="program-name-invalid",
                )

    @property
    def kernels(self) -> list[str]:
        """The names of the kernels that the program calls."""
        return [str(name) for name in self.program.description["kernels"]]

    @property
    def target(self) -> str:
        """The NPU that the program was compiled for.

        Raises:
            WorkbenchError: the program does not use an NPU.
        """
        for delegate in self.program.delegates:
            npu = delegate.get("npu", {})
            if npu.get("macs"):
                return f"{npu['family']}-{npu['macs']}"
        if self.npu:
            return self.npu
        raise failure(
            f"{self.program.name} does not name the Ethos-U it was compiled for.",
            "A runner is built for one NPU. Compile the program for an Ethos-U, or add --target.",
            Place(kind="file", id=self.program.name),
            code="program-npu-unknown",
        )

    @property
    def name(self) -> str:
        """A short name, unique per configuration."""
        parts = [self.target, self.program.memory_mode or "default", self.program_source]
        if self.program_source == "address":
            parts.append(f"{self.address:x}")
        if self.program_source == "embedded":
            parts.append(self.program.description["sha256"][:8])
        return "-".join([*parts, "etdump"] if self.etdump else parts).lower()

    @property
    def pools(self) -> dict[str, int]:
        """Sizes of the runner's pools [bytes], by their names in ``fit``.

        The program's need plus 25 %; a runner that reads programs from files has at least the
        default sizes.
        """
        given: dict[str, int] = {}
        if self.program_source == "semihosting":
            dedicated = self.program.memory_mode.startswith("Dedicated")
            given = {
                **_DEFAULT_POOLS,
                "scratch": _DEFAULT_DEDICATED if dedicated else _DEFAULT_POOLS["scratch"],
            }
        wanted = needs(self.program, sum(self.program.input_bytes))
        wanted["method"] = self.program.description["memory"]["method_pool_bytes"]
        # The build takes it from the memory mode.
        del wanted["fast scratch"]
        if self.program_source == "embedded":
            wanted["files"] = sum(self.program.input_bytes)
        if self.program_source == "address":
            del wanted["files"]
        rounded = {name: _rounded(size) for name, size in wanted.items() if size}
        return {name: max(size, given.get(name, size)) for name, size in rounded.items()}


@dataclass(frozen=True)
class Watching:
    """Callbacks of a build: output lines, progress in [0, 1], and cancellation."""

    live: Callable[[str], object] = lambda _: None
    progress: Callable[[float], object] = lambda _: None
    cancelled: Callable[[], bool] = lambda: False


_ODD_PATH = "the path has a space, a quote or another character that scripts interpret"


def check(build: Build) -> None:
    """Return if the checkout can be used.

    Raises:
        WorkbenchError: not a checkout, its tools are not installed, or its path is unusable.
    """
    script = build.checkout / SCRIPT
    if not os.path.isfile(script):
        raise _refused(
            f"{build.checkout} is not an ExecuTorch checkout: {SCRIPT} is missing.",
            "Choose the cloned folder. This program fits tag v1.5.1.",
            build.checkout,
            code="checkout-invalid",
        )
    if not os.path.isfile(build.checkout / SETUP):
        raise _refused(
            f"The Arm tools of the checkout {build.checkout} are not installed.",
            "Run examples/arm/setup.sh in it and accept Arm's licence. It downloads the "
            "Arm GNU toolchain and the NPU driver.",
            build.checkout,
            code="checkout-not-set-up",
        )
    if not _PATH.fullmatch(str(build.checkout)):
        raise _refused(
            f"ExecuTorch's build script fails in {str(build.checkout)!r}: {_ODD_PATH}.",
            "Move the checkout to a path of letters, digits and - _ .",
            build.checkout,
            code="checkout-path-invalid",
        )
    if build.checkout.resolve().name != "executorch":
        raise _refused(
            f"ExecuTorch's build needs a folder that is named executorch, not "
            f"{build.checkout.resolve().name}.",
            "Rename the checkout, or clone it without another name.",
            build.checkout,
            code="checkout-name-invalid",
        )
    for tool, why in (("bash", "runs the build script"), ("cmake", "configures the build")):
        if shutil.which(tool) is None:
            raise _refused(
                f"{tool} is not on the PATH; it {why}.",
                f"Install {tool}.",
                Path(tool),
                code="build-tool-missing",
            )


def arguments(build: Build, output: Path, program: Path) -> list[str]:
    """Return the build command; ``program`` is the file to build in, if any."""
    source = {"semihosting": "semihosting", "embedded": str(program), "address": f"{build.address:#010x}"}[
        build.program_source
    ]
    flags = [f"-D{POOL_OPTIONS[name]}={size}" for name, size in build.pools.items()]
    if build.program_source == "embedded":
        # Its inputs and outputs are also files, so that they can be compared.
        flags.append("-DSEMIHOSTING=ON")
    command = [
        "bash",
        str(build.checkout / SCRIPT),
        f"--pte={source}",
        f"--target={build.target}",
        "--build_type=Release",
        f"--output={output}",
        f"--extra_build_flags={' '.join(flags)}",
    ]
    for option, value in (
        ("system_config", build.program.system_config),
        ("memory_mode", build.program.memory_mode),
    ):
        if value:
            command.append(f"--{option}={value}")
    if build.kernels and build.program_source != "embedded":
        command.append(f"--select_ops_list={','.join(build.kernels)}")
    return [*command, "--etdump"] if build.etdump else command


def build_runner(build: Build, tree: Path, folder: Path, watching: Watching) -> RunnerElf:
    """Build and return the runner, which is stored in ``folder``.

    Args:
        build: The parameters.
        tree: Build folder, reused by later builds; its log is ``build.log``.
        folder: Where the runner is stored.
        watching: Callbacks.

    Raises:
        WorkbenchError: the build failed; lists the recognised causes.
        Cancelled: cancelled by the user; all processes are ended.
    """
    check(build)
    output, program = tree / "cmake-out", tree / "program.pte"
    _refuse_unusable(tree, output)
    try:
        output.mkdir(parents=True, exist_ok=True)
        write_file(program, build.program.data)
    except OSError as error:
        raise not_written(tree, error, code="build-folder-not-writable") from error
    follower = _Follower(watching)
    # The script's own Python code needs packages of this environment, and modules of its folder.
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    ending = execute(
        arguments(build, output, program),
        tree,
        {**{k: v for k, v in os.environ.items() if k not in _LEFT_OUT}, "PATH": paths},
        tree / "build.log",
        _TIMEOUT_S,
        Hooks(follower.feed, watching.cancelled),
    )
    if ending.by == "cancelled":
        raise Cancelled
    if ending.by != "itself" or ending.code != 0:
        raise WorkbenchError(diagnoses_of(follower.last, tree / "build.log", ending.error))
    return _stored_elf(build, output, folder, tree)


def _refuse_unusable(tree: Path, output: Path) -> None:
    """Refuse a build folder whose path scripts interpret, or that leads elsewhere."""
    if not _PATH.fullmatch(str(tree)):
        raise _refused(
            f"The runner cannot be built in {str(tree)!r}: {_ODD_PATH}.",
            "Choose another folder.",
            tree,
            code="build-folder-invalid",
        )
    if tree.is_symlink() or output.is_symlink():
        raise _refused(
            f"The build folder {tree} is or contains a link.",
            "Remove the link. Nothing was written.",
            tree,
            code="build-folder-linked",
        )


class _Follower:
    """Splits a build's output into lines, and parses its progress."""

    def __init__(self, watching: Watching) -> None:
        self._watching, self._rest = watching, ""
        self.last: list[str] = []

    def feed(self, text: str) -> None:
        """Parse a piece of text of any size."""
        *lines, rest = (self._rest + text).split("\n")
        self._rest = rest[:_LONGEST]
        for line in (raw.rstrip() for raw in lines):
            self.last = [*self.last[1 - _LINES_KEPT :], line]
            self._watching.live(line)
            if match := _PERCENT.match(line):
                self._watching.progress(min(1.0, int(match[1]) / 100))
            elif (match := _STEP.match(line)) and int(match[2]):
                self._watching.progress(min(1.0, int(match[1]) / int(match[2])))


def _stored_elf(build: Build, output: Path, folder: Path, tree: Path) -> RunnerElf:
    files = [path for path in output.rglob(ELF) if path.is_file() and not path.is_symlink()]
    elves = sorted(files, key=lambda path: path.stat().st_mtime)
    if not elves:
        raise _refused(
            f"The build finished without creating {ELF}.",
            f"See {tree / 'build.log'}.",
            output,
            code="build-output-missing",
        )
    runner = read_runner(elves[-1])
    family = build.target.split("-")[1]
    if runner.families and family not in runner.families:
        raise _refused(
            f"The build created a runner for {' or '.join(runner.families)}, not for {family}.",
            "Delete the build folder and build again.",
            tree,
            code="build-wrong-npu",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_file(folder / ELF, runner.data)
    except OSError as error:
        raise not_written(folder / ELF, error, code="runner-folder-not-writable") from error
    return read_runner(folder / ELF)


def _rounded(size: int) -> int:
    return -(-int(size * _MARGIN) // _STEP_BYTES) * _STEP_BYTES


def _refused(message: str, hint: str, folder: Path, code: str) -> WorkbenchError:
    return failure(message, hint, Place(kind="file", id=str(folder)), code=code)


def known_checkouts(named: str) -> Sequence[Path]:
    """Return the checkouts to search: the given one, else the usual one."""
    return [Path(named).expanduser().absolute()] if named else [Path.home() / "executorch"]

"""The shortest firmware that runs a program's delegates: its sources, and its build.

The sources are ours; Arm's driver and CMSIS are the user's checkouts, and stay where they are.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from workbench.deploy.emulation.npu_device import CORSTONE_300
from workbench.deploy.emulation.prover import delegates_of
from workbench.errors import Place, failure, not_written, reason_of
from workbench.files import MAX_TEXT_BYTES, make_output_folder, read_limited, write_file, write_together
from workbench.installation import resources
from workbench.tool_output import ToolOutput, tool_output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.deploy.emulation.npu_device import Delegate

COMPILER = "arm-none-eabi-gcc"
SETTINGS, ELF = "firmware.json", "firmware.elf"
_TEMPLATES = ("main.c", "mps3_an547.ld")
_CPU = ("-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard", "-O2", "-g", "-Wall")
_BUILD_S = 300
_MAX_ELF_BYTES = 256 << 20
_TARGET = re.compile(r"ethos-u(55|65|85)-[0-9]{1,5}")
_SRAM_BYTES = CORSTONE_300[0].size
_HEADER = """/* Generated: the delegates of {name}, for {target}, and their tensors in scratch. */
#include <stddef.h>
#include <stdint.h>

struct tensor {{
  uint32_t offset, bytes;
  const uint8_t *data;
}};
struct delegate {{
  const uint8_t *commands;
  size_t command_bytes;
  const uint8_t *constants;
  size_t constant_bytes, scratch_bytes;
  unsigned int inputs, outputs;
  const struct tensor *tensors; /* the inputs, then the outputs that they give */
}};

{declarations}

static const struct delegate delegates[] = {{
{rows}
}};
#define DELEGATES {count}u
#define SCRATCH_BYTES {scratch}u
#define FAST_BYTES {fast}u
"""


@dataclass(frozen=True)
class Sources:
    """The user's checkouts that firmware is built with."""

    driver: Path
    cmsis: Path

    @property
    def driver_version(self) -> str:
        """The version that the driver's header gives; "" if it gives none."""
        text = (self.driver / "include" / "ethosu_driver.h").read_text("utf-8", "replace")
        parts = [
            re.search(rf"ETHOSU_DRIVER_VERSION_{part}\s+(\d+)", text) for part in ("MAJOR", "MINOR", "PATCH")
        ]
        return ".".join(match[1] for match in parts if match)


def sources(driver: Path, cmsis: Path) -> Sources:
    """Return checkouts of Arm's driver and of CMSIS.

    Raises:
        WorkbenchError: a file that the build needs is missing.
    """
    if not (driver / "src" / "ethosu_driver.c").is_file():
        raise failure(
            f"{driver} has no src/ethosu_driver.c.",
            "Give a checkout of Arm's ethos-u-core-driver.",
            Place(kind="option", id="--driver"),
            code="driver-checkout-missing",
        )
    for folder in (cmsis, cmsis / "CMSIS" / "Core" / "Include"):
        if (folder / "cmsis_compiler.h").is_file():
            return Sources(driver.absolute(), folder.absolute())
    raise failure(
        f"{cmsis} has no CMSIS/Core/Include/cmsis_compiler.h.",
        "Give a checkout of CMSIS 5 or 6.",
        Place(kind="option", id="--cmsis"),
        code="cmsis-checkout-missing",
    )


def write_project(program: Path, folder: Path, *, seed: int = 1) -> list[Path]:
    """Write the sources of firmware for a program; return the files.

    Args:
        program: The program; operators on the CPU and conversions are left out.
        folder: Where the files are written; it is made.
        seed: Of the inputs, which are drawn.

    Raises:
        WorkbenchError: the program has no delegate, or the folder is a link or cannot be written.
    """
    delegates = delegates_of(program)
    target = delegates[0].target
    draw = np.random.default_rng(seed)
    parts = _Parts()
    rows = [parts.row(delegate, draw) for delegate in delegates]
    scratch = max(delegate.scratch_bytes for delegate in delegates)
    fast = max(1, *(delegate.fast_bytes for delegate in delegates))
    # A name may end the comment that it is written into.
    name = re.sub(r"[^\w. -]", "_", program.name)
    header = _HEADER.format(
        name=name,
        target=target,
        declarations="\n".join(parts.declarations),
        rows="\n".join(rows),
        count=len(rows),
        scratch=scratch,
        fast=fast,
    )
    memory = "SRAM" if scratch + fast + 64 <= _SRAM_BYTES else "DDR"
    for name in _TEMPLATES:
        text = (resources() / "firmware" / name).read_text("utf-8")
        parts.files[name] = text.replace("SCRATCH_MEMORY", memory).encode()
    parts.files["program.h"] = header.encode()
    parts.files["program.S"] = "".join(parts.sections).encode()
    settings = {"target": target, "program": str(program.absolute()), "scratch": memory}
    parts.files[SETTINGS] = json.dumps(settings, indent=1).encode()
    try:
        make_output_folder(folder)
        write_together({folder / name: data for name, data in parts.files.items()})
    except OSError as error:
        raise not_written(folder, error) from error
    return [folder / name for name in parts.files]


class _Parts:
    """The files of a project, and the lines that name their contents."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.declarations: list[str] = []
        self.sections: list[str] = []

    def row(self, delegate: Delegate, draw: np.random.Generator) -> str:
        """Add the blocks of a delegate and drawn inputs with their outputs; return its row."""
        machine, n = delegate.machine, delegate.index
        inputs = [draw.integers(0, 256, port.bytes, np.uint8) for port in machine.inputs]
        values = [*inputs, *machine.run(inputs).outputs]
        ports = [*machine.inputs, *machine.outputs]
        self._block(f"commands_{n}", delegate.payload)
        self._block(f"constants_{n}", delegate.weights)
        tensors = []
        for number, (port, value) in enumerate(zip(ports, values, strict=True)):
            self._block(f"tensor_{n}_{number}", value.tobytes())
            tensors.append(f"  {{{port.offset}u, {port.bytes}u, tensor_{n}_{number}}},")
        listed = "\n".join(tensors)
        self.declarations.append(f"static const struct tensor tensors_{n}[] = {{\n{listed}\n}};")
        return (
            f"  {{commands_{n}, {len(delegate.payload)}u, constants_{n}, "
            f"{len(delegate.weights)}u, {delegate.scratch_bytes}u, {len(machine.inputs)}u, "
            f"{len(machine.outputs)}u, tensors_{n}}},"
        )

    def _block(self, name: str, data: bytes) -> None:
        self.files[f"{name}.bin"] = data or b"\0"
        self.declarations.append(f"extern const uint8_t {name}[];")
        self.sections.append(
            f'.section .npu_constants.{name},"a"\n.balign 32\n.global {name}\n'
            f'.type {name}, %object\n{name}: .incbin "{name}.bin"\n.size {name}, .-{name}\n\n'
        )


def build_project(
    folder: Path, checkouts: Sources, *, cached: bool = False, flags: Sequence[str] = ()
) -> Path:
    """Compile and link a project's firmware; return the ELF file.

    Args:
        folder: What ``write_project`` made; its files may be changed.
        checkouts: Those of driver and CMSIS.
        cached: Whether the firmware switches the data cache on.
        flags: Further words for the compiler; they come last.

    Raises:
        WorkbenchError: the project or the compiler is missing, or the build fails.
    """
    target, place = _target(folder), Place(kind="file", id=str(folder))
    compiler = shutil.which(COMPILER)
    if compiler is None:
        raise failure(
            f"{COMPILER} was not found.", "Install it: apt-get install gcc-arm-none-eabi.",
            code="arm-compiler-missing",
        )  # fmt: skip
    words = _words(target, folder.absolute(), checkouts, cached=cached)
    done, linked = _run([compiler, *words], flags, place)
    if done.code:
        lines = done.text.splitlines()
        errors = [line for line in lines if "error" in line or "undefined" in line]
        first = (errors or lines or ["no message"])[0].strip()
        raise failure(
            f"The firmware could not be built: {first}", _remedy(done.text), place,
            done.text[-4000:], code="firmware-build-failed",
        )  # fmt: skip
    if done.code is None:
        text = f"The build did not end within {_BUILD_S} s."
        raise failure(text, "", place, code="firmware-build-failed")
    try:
        write_file(folder / ELF, linked)
    except OSError as error:
        raise not_written(folder / ELF, error, "Free its name.") from error
    return folder / ELF


def _run(words: Sequence[str], flags: Sequence[str], place: Place) -> tuple[ToolOutput, bytes]:
    """Return what the compiler printed, and the file that it linked.

    The file is made elsewhere: a linker writes into a pipe that has the name of its output.
    """
    with tempfile.TemporaryDirectory() as folder:
        linked = Path(folder, ELF)
        try:
            done = tool_output([*words, "-o", str(linked), *flags], _BUILD_S)
        except OSError as error:
            text = f"{words[0]} cannot be started: {reason_of(error)}"
            raise failure(text, "", place, code="arm-compiler-missing") from error
        try:
            return done, read_limited(linked, _MAX_ELF_BYTES) if done.code == 0 else b""
        except OSError as error:
            text = f"The linked firmware cannot be read: {reason_of(error)}."
            raise failure(text, "", place, code="firmware-build-failed") from error


def _remedy(text: str) -> str:
    if "nosys.specs" in text or "rdimon.specs" in text or "stdio.h" in text:
        return "The C library is missing: apt-get install libnewlib-arm-none-eabi."
    if "will not fit in region" in text or "overflowed" in text:
        return "The program is larger than the memories in mps3_an547.ld."
    return "The whole message is in the details (--json)."


def _words(target: str, folder: Path, checkouts: Sources, *, cached: bool) -> list[str]:
    _, family, macs = target.split("-")
    device = "ethosu_device_u85.c" if family == "u85" else "ethosu_device_u55_u65.c"
    names = ("ethosu_driver.c", "ethosu_pmu.c", device)
    included = (folder, checkouts.driver / "include", checkouts.driver / "src", checkouts.cmsis)
    files = [folder / "main.c", folder / "program.S", *(checkouts.driver / "src" / n for n in names)]
    return [
        *_CPU,
        f"-DETHOSU_ARCH={family}",
        f"-DETHOSU_MACS={macs}",
        f"-DETHOS{family.upper()}",
        "-DETHOSU_LOG_ENABLE=1",
        "-DETHOSU_LOG_SEVERITY=1",
        *(["-DDATA_CACHE"] if cached else []),
        *(f"-I{path}" for path in included),
        *_for_assembler("-I", str(folder)),
        *map(str, files),
        "-nostartfiles",
        "--specs=rdimon.specs",
        "-T",
        str(folder / "mps3_an547.ld"),
    ]


def _for_assembler(*words: str) -> list[str]:
    return [part for word in words for part in ("-Xassembler", word)]


def _target(folder: Path) -> str:
    """Return the NPU that a project was made for; its name becomes words for the compiler."""
    try:
        settings = json.loads(read_limited(folder / SETTINGS, MAX_TEXT_BYTES))
        target = settings.get("target") if isinstance(settings, dict) else None
        if isinstance(target, str) and _TARGET.fullmatch(target):
            return target
    except (OSError, ValueError, RecursionError):
        pass
    raise failure(
        f"{folder} is no firmware project.",
        "Make one: workbench firmware new FILE.pte --out DIR.",
        Place(kind="file", id=str(folder)),
        code="firmware-project-missing",
    )

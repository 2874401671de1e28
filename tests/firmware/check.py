"""Make deliverables of a real project, compile them for a Cortex-M55, and run them under QEMU.

Usage: python check.py FOLDER [EXECUTORCH]. Every step that cannot be made ends the check with an
error. EXECUTORCH is a checkout with its submodules flatbuffers, flatcc, gflags, json and FXdiv; it
must be named executorch. With it, ExecuTorch's runner is built by ``workbench fvp build``, with a
stand-in for the NPU's driver and platform where ``examples/arm/setup.sh`` was not run.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

import workbench.api as wb
from workbench.deploy.simulators.log_parser import UartReader
from workbench.pte.description import describe
from workbench.pte.program import decode

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NEEDED = ("arm-none-eabi-gcc", "qemu-system-arm", "cmake")
CPU = ["-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard", "-O2", "-Wall", "-Werror"]
QEMU = ["qemu-system-arm", "-M", "mps3-an547", "-nographic", "-semihosting", "-kernel"]


def run(*words: object, folder: Path) -> str:
    """Run a command and return what it prints; the check ends if it fails."""
    done = subprocess.run(
        [str(word) for word in words], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        raise SystemExit(f"{words[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def deliver(folder: Path) -> Path:
    """Return the deliverables of the digits network on pictures, with integer inputs."""
    shutil.copytree(ROOT / "resources" / "samples" / "digits", folder / "digits")
    (folder / "digits" / "pics").mkdir()
    samples = np.load(folder / "digits" / "calibration.npz")["x"]
    for index, sample in enumerate(samples[:64]):
        pixels = np.round(sample[0] / samples.max() * 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / "digits" / "pics" / f"{index:03}.png")
    opened = wb.set_settings(
        wb.open(folder / "digits" / "digits.qwb"),
        {
            "name": "model",
            "calibration": "pics",
            "target.options.integer_io": True,
            "calibration.preprocess": "size=8,layout=gray,fold=on",
        },
    )
    wb.run(opened, out=folder / "dist", trust=True).raise_for_errors()
    return folder / "dist"


def fnv(data: bytes) -> int:
    """Return the 32-bit FNV-1a hash, as main.c computes it."""
    value = 2166136261
    for byte in data:
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value


def deliver_float(folder: Path) -> Path:
    """Return the deliverables of the digits network in float: a program without a delegate."""
    shutil.copytree(ROOT / "resources" / "samples" / "digits", folder / "float")
    path = folder / "float" / "digits.qwb"
    opened = wb.open(path)
    for rule in opened.project.rules:
        opened = wb.remove_rule(opened, rule.id)
    wb.run(opened, out=folder / "float-dist", trust=True).raise_for_errors()
    return folder / "float-dist"


def prepared(checkout: Path) -> None:
    """Put the stand-in where the driver and platform of the NPU would be."""
    scratch = checkout / "examples" / "arm" / "arm-scratch"
    if (scratch / "setup_path.sh").exists() and not (scratch / "stand-in").exists():
        return
    scratch.mkdir(parents=True, exist_ok=True)
    (scratch / "stand-in").touch()
    stand_in = HERE / "stand_in"
    shutil.copy(stand_in / "setup_path.sh", scratch)
    for part in ("core_platform", "core_software"):
        shutil.copytree(stand_in / part, scratch / "ethos-u" / part, dirs_exist_ok=True)


def execute(runner: Path, program: Path, data: bytes, folder: Path) -> str:
    """Run a program on a runner under QEMU; outputs are in ``out-0.bin``."""
    folder.mkdir()
    shutil.copy(program, folder / "program.pte")
    (folder / "input.bin").write_bytes(data)
    words = ["executor_runner", "-m", "program.pte", "-i", "input.bin", "-o", "out"]
    given = ",".join(f"arg={word}" for word in words)
    command = [*QEMU[:4], "-semihosting-config", f"enable=on,target=native,{given}", "-kernel"]
    done = subprocess.run(
        [*command, str(runner)], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    return done.stdout + done.stderr


def check_runner(folder: Path, checkout: Path, delegated: Path) -> None:
    """Build ExecuTorch's runner, run a program without a delegate, and try one with one."""
    prepared(checkout)
    dist = deliver_float(folder)
    words = [
        sys.executable,
        "-m",
        "workbench",
        "fvp",
        "build",
        dist / "digits.pte",
        "--checkout",
        checkout,
        "--target",
        "ethos-u55-128",
        "--out",
        folder / "runner",
    ]
    done = subprocess.run(list(map(str, words)), cwd=ROOT, timeout=7200, check=False)
    if done.returncode:
        raise SystemExit("The runner was not built.")
    runner = folder / "runner" / "arm_executor_runner"
    case = decode((dist / "digits.bpte").read_bytes()).cases[0]
    said = execute(runner, dist / "digits.pte", bytes(case.inputs[0].data), folder / "plain")
    outputs = np.fromfile(folder / "plain" / "out-0.bin", np.float32)
    apart = np.abs(outputs - np.frombuffer(case.expected[0].data, np.float32)).max()
    reader = UartReader()
    reader.feed(said)
    pool = describe((dist / "digits.pte").read_bytes())["memory"]["method_pool_bytes"]
    used = reader.pools["method"].used or pool + 1
    if not reader.completed or apart > 1e-5 or used > pool:
        raise SystemExit(f"The runner differs by {apart}, uses {used} of {pool} bytes:\n{said}")
    print(f"ok  runner: outputs differ by {apart:.1g}, method pool {used} of {pool} bytes used")
    case = decode((delegated / "model.bpte").read_bytes()).cases[0]
    said = execute(runner, delegated / "model.pte", bytes(case.inputs[0].data), folder / "delegated")
    if "ethosu_reserve_driver_ex failed" in said:
        print("not built here: the NPU's driver; a program with a delegate ends where it is asked")


def main() -> None:
    """Make, compile and run; print one line for every deliverable that held."""
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        packages = "gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm cmake"
        raise SystemExit(f"Not checked: {', '.join(missing)} missing (apt install {packages}).")
    folder = Path(sys.argv[1]).absolute()
    dist = deliver(folder)
    program = (dist / "model.pte").read_bytes()
    pixels = (np.arange(64) * 7).astype(np.uint8)
    codes = (pixels.astype(int) - 128).astype(np.int8).tobytes()
    wanted = [f"program {fnv(program):08x} {len(program)} aligned 1", f"input {fnv(codes):08x}"]
    note = (dist / "model.md").read_text()
    placed = next(b for b in re.findall(r"```\n(.*?)```", note, re.DOTALL) if "KEEP(" in b)
    # The regions are names of the board; the simulated machine has one SRAM for all.
    (dist / "placement.ld").write_text(re.sub(r"> \w+", "> SRAM", placed))
    for kind, sources in (("model.S", ["model.S"]), ("model.h", ["-DFROM_HEADER"])):
        run("arm-none-eabi-gcc", *CPU, "-I.", "-nostartfiles", "--specs=rdimon.specs", "-L.",
            "-T", HERE / "an547.ld", HERE / "main.c", *sources, "-o", "check.elf",
            folder=dist)  # fmt: skip
        found = run(*QEMU, "check.elf", folder=dist).split("\n")
        if found[:2] != wanted:
            raise SystemExit(f"{kind}: {found} is not {wanted}")
        print(f"ok  {kind}, model_input.h, linker statements: cortex-m55, QEMU mps3-an547")
    project = folder / "cmake"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(check NONE)\n"
        'message(STATUS "pool ${ET_ARM_BAREMETAL_METHOD_ALLOCATOR_POOL_SIZE}")\n'
    )
    said = run("cmake", "-C", dist / "model.cmake", "-B", "build", folder=project)
    if not re.search(r"pool \d{3,}", said):
        raise SystemExit(f"model.cmake sets no pool:\n{said}")
    print("ok  model.cmake: read by CMake")
    print("not built here: model.conf (Zephyr), model.cproject.yml (CMSIS-Toolbox)")
    if len(sys.argv) > 2:
        check_runner(folder, Path(sys.argv[2]).absolute(), dist)
    else:
        print("not built here: a runner; name a checkout of ExecuTorch for it")


if __name__ == "__main__":
    main()

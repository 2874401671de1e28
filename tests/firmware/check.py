"""Make deliverables of a real project, compile them for a Cortex-M55, and run them under QEMU.

Usage: python check.py FOLDER [EXECUTORCH [DRIVER CMSIS]]. Every step that cannot be made ends the
check with an error. EXECUTORCH is a checkout with its submodules flatbuffers, flatcc, gflags and
FXdiv; it must be named executorch. With it, ExecuTorch's runner is built by ``workbench fvp build``,
with a stand-in for the platform where ``examples/arm/setup.sh`` was not run, and for the NPU's driver
where none is given. With DRIVER and CMSIS, the runner for each Ethos-U is proven on the emulated
board (``workbench firmware prove``): Arm's driver, ExecuTorch's runner, our firmware in neither.
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
TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
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


def deliver(folder: Path, target: str = "ethos-u55-128") -> Path:
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
            "target": target,
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


def prepared(checkout: Path, driver: Path | None, cmsis: Path | None) -> None:
    """Put the stand-in where the platform of the NPU would be, and the driver, or one without a device."""
    scratch = checkout / "examples" / "arm" / "arm-scratch"
    if (scratch / "setup_path.sh").exists() and not (scratch / "stand-in").exists():
        return
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    (scratch / "stand-in").touch()
    stand_in, sdk = HERE / "stand_in", scratch / "ethos-u"
    shutil.copy(stand_in / "setup_path.sh", scratch)
    shutil.copytree(stand_in / "core_platform", sdk / "core_platform")
    if driver is None or cmsis is None:
        shutil.copytree(stand_in / "core_software", sdk / "core_software")
    else:
        (sdk / "core_software").mkdir()
        (sdk / "core_software" / "core_driver").symlink_to(driver)
        (sdk / "core_software" / "cmsis_6").symlink_to(cmsis)


def workbench(*words: object) -> None:
    """Run the command line; the check ends if it fails."""
    command = [sys.executable, "-m", "workbench", *map(str, words)]
    if subprocess.run(command, cwd=ROOT, timeout=7200, check=False).returncode:
        raise SystemExit(f"workbench {words[0]} {words[1]} failed.")


def built(program: Path, checkout: Path, folder: Path, *words: object) -> Path:
    """Return ExecuTorch's runner for a program."""
    workbench("fvp", "build", program, "--checkout", checkout, "--out", folder, *words)
    return folder / "arm_executor_runner"


WORDS = ("executor_runner", "-m", "program.pte", "-i", "input.bin", "-o", "out")


def placed(program: Path, data: bytes, folder: Path) -> Path:
    """Write what a runner reads by semihosting; return the folder."""
    folder.mkdir()
    shutil.copy(program, folder / "program.pte")
    (folder / "input.bin").write_bytes(data)
    return folder


def check_without_delegate(folder: Path, checkout: Path) -> None:
    """Build ExecuTorch's runner, and run a program without a delegate."""
    dist = deliver_float(folder)
    runner = built(dist / "digits.pte", checkout, folder / "runner", "--target", "ethos-u55-128")
    case = decode((dist / "digits.bpte").read_bytes()).cases[0]
    place = placed(dist / "digits.pte", bytes(case.inputs[0].data), folder / "plain")
    semihosting = ",".join(["enable=on", "target=native", *(f"arg={word}" for word in WORDS)])
    command = [*QEMU[:4], "-semihosting-config", semihosting, "-kernel", str(runner)]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=300, check=False)
    said = done.stdout + done.stderr
    outputs = np.fromfile(place / "out-0.bin", np.float32)
    apart = np.abs(outputs - np.frombuffer(case.expected[0].data, np.float32)).max()
    reader = UartReader()
    reader.feed(said)
    pool = describe((dist / "digits.pte").read_bytes())["memory"]["method_pool_bytes"]
    used = reader.pools["method"].used or pool + 1
    if not reader.completed or apart > 1e-5 or used > pool:
        raise SystemExit(f"The runner differs by {apart}, uses {used} of {pool} bytes:\n{said}")
    print(f"ok  runner: outputs differ by {apart:.1g}, method pool {used} of {pool} bytes used")


def check_on_emulated_board(target: str, folder: Path, checkout: Path) -> None:
    """Build the runner of a device with Arm's driver; its firmware is proven, its outputs are equal."""
    folder.mkdir()
    dist = deliver(folder, target)
    program = dist / "model.pte"
    runner = built(program, checkout, folder / "runner")
    case = decode((dist / "model.bpte").read_bytes()).cases[0]
    place = placed(program, bytes(case.inputs[0].data), folder / "place")
    words = [f"--arg={word}" for word in WORDS]
    workbench("firmware", "prove", runner, program, "--folder", place, *words)
    np.save(place / "input.npy", np.frombuffer(case.inputs[0].data, np.int8).reshape(1, 1, 8, 8))
    workbench("simulate", program, "--inputs", place / "input.npy", "--out", place / "simulated.npz")
    simulated = np.load(place / "simulated.npz")["out0"].astype(np.int8)
    if (place / "out-0.bin").read_bytes() != simulated.tobytes():
        raise SystemExit(f"The outputs of ExecuTorch's runner for {target} are not those of the simulator.")
    print(f"ok  ExecuTorch's runner with Arm's driver, {target}: proven, output equal to every byte")


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
    if len(sys.argv) < 3:
        print("not built here: a runner; name a checkout of ExecuTorch for it")
        return
    checkout, *parts = (Path(word).absolute() for word in sys.argv[2:5])
    driver, cmsis = parts if len(parts) == 2 else (None, None)
    prepared(checkout, driver, cmsis)
    check_without_delegate(folder, checkout)
    for target in TARGETS if driver else ():
        check_on_emulated_board(target, folder / target, checkout)
    if not driver:
        print("not built here: the NPU's driver; name checkouts of it and of CMSIS")


if __name__ == "__main__":
    main()

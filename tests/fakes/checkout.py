"""A double of an ExecuTorch checkout: its build script checks its arguments and leaves a runner.

It prints what CMake and the real script print (``build_executor_runner.sh`` of ExecuTorch), and
refuses what the real one, CMake or the linker would refuse. ``BUILD_DOUBLE_FAIL`` names a way to
fail: one of ``FAILURES``.
"""

from __future__ import annotations

import os
import re
import sys
import time

from tests.fakes.fvp import facts, read, remembered, write
from tests.fakes.runner_elf import runner

FAILURES = {
    "toolchain": "CMake Error: CMAKE_C_COMPILER not set, after EnableLanguage",
    "overflow": "ld: region `DDR' overflowed by 123456 bytes",
    "python": "ModuleNotFoundError: No module named 'yaml'",
    "disk": "cc1: fatal error: write failed: No space left on device",
    "unknown": "something nobody has seen",
    "nothing": "",
    "hang": "",
}
OPTIONS = {
    "--pte": r"semihosting|0x[0-9a-fA-F]{1,16}|/\S+\.pte",
    "--target": r"ethos-u(55-(32|64|128|256)|65-(256|512)|85-(128|256|512|1024|2048))",
    "--build_type": "Release|Debug|RelWithDebInfo",
    "--system_config": r"Ethos_U\w+",
    "--memory_mode": r"Shared_Sram|Sram_Only|Dedicated_Sram(_\d+KB)?",
    "--output": r"/\S+",
    "--select_ops_list": r"[a-z_]+::\w+\.\w+(,[a-z_]+::\w+\.\w+)*",
    "--extra_build_flags": r"-D\w+=(\d+|ON)( -D\w+=(\d+|ON))*",
}
POOLS = {
    "ET_ARM_BAREMETAL_METHOD_ALLOCATOR_POOL_SIZE": "method",
    "ET_ARM_BAREMETAL_SCRATCH_TEMP_ALLOCATOR_POOL_SIZE": "scratch",
    "ET_ARM_BAREMETAL_SEMIHOSTING_FILE_ALLOCATOR_POOL_SIZE": "files",
    "ET_ARM_BAREMETAL_PLANNED_FAST_MEMORY_SIZE": "planned fast memory",
}


def make(folder):
    """Leave the checkout in a folder and return it."""
    import shlex
    import sysconfig
    from pathlib import Path

    script = folder / "backends" / "arm" / "scripts" / "build_executor_runner.sh"
    script.parent.mkdir(parents=True)
    places = os.pathsep.join([str(Path(__file__).parents[2]), sysconfig.get_path("purelib")])
    # Without the module site, whose search for packages takes longer than the double itself.
    code = f"import sys, {__name__} as double; sys.exit(double.main(sys.argv[1:]))"
    words = shlex.join([sys.executable, "-S", "-c", code])
    script.write_text(f'#!/usr/bin/env bash\nPYTHONPATH={shlex.quote(places)} {words} "$@"\n')
    setup = folder / "examples" / "arm" / "arm-scratch" / "setup_path.sh"
    setup.parent.mkdir(parents=True)
    setup.write_text("export PATH\n")
    return folder


def tools(folder):
    """Leave a CMake, which not every machine has, and return its folder; nothing starts it."""
    folder.mkdir()
    (folder / "cmake").write_text("#!/bin/sh\nexit 1\n")
    (folder / "cmake").chmod(0o755)
    return folder


def arguments(words):
    """Return the options; what the real script would take without a word is refused here."""
    values = {}
    for word in words:
        if word == "--etdump":
            values[word] = "ON"
            continue
        name, _, value = word.partition("=")
        if name not in OPTIONS or not re.fullmatch(OPTIONS[name], value):
            sys.exit(f"double: the argument {word!r} is not one of the build script")
        values[name] = value
    for name in ("--pte", "--target", "--output"):
        if name not in values:
            sys.exit(f"double: {name} is missing")
    return values


def say(line):
    print(line, flush=True)


def main(words):
    values = arguments(words)
    fail = os.environ.get("BUILD_DOUBLE_FAIL", "")
    output, placement = values["--output"], "bare"
    say(f"Build Arm arm-none-eabi executor_runner for {values['--target']} to '{output}'")
    flags = dict(f[2:].split("=") for f in values.get("--extra_build_flags", "").split())
    files, program = flags.pop("SEMIHOSTING", "") == "ON", b""
    kernels = values.get("--select_ops_list", "").split(",")
    if values["--pte"] == "semihosting":
        placement = "semihosting"
    elif not values["--pte"].startswith("0x"):
        placement = "embedded" if files else "bare"
        program = read(values["--pte"])
        kernels = remembered([b"facts", program], lambda: facts(program))["kernels"]
    say("-- Configuring done (1.2s)")
    if fail == "hang":
        time.sleep(3600)
    if fail:
        say(FAILURES[fail])
        return 0 if fail == "nothing" else 2
    for percent in (0, 25, 50, 100):
        say(f"[{percent:3d}%] Building CXX object kernels/portable/op_{percent}.cpp.obj")
    family = values["--target"].split("-")[1]
    pools = {POOLS[name]: int(value) for name, value in flags.items()}
    mode = values.get("--memory_mode", "")
    if mode.startswith("Dedicated"):
        pools["fast scratch"] = 1024 * int((re.search(r"(\d+)KB", mode) or [0, "384"])[1])
    os.makedirs(f"{output}/nested", exist_ok=True)
    write(
        f"{output}/nested/arm_executor_runner",
        runner(
            family, placement=placement, pools=pools, serves=placement == "semihosting",
            kernels=kernels, program=program, etdump="--etdump" in values,
        ),
    )  # fmt: skip
    say("[100%] Built target arm_executor_runner")
    return 0

"""The command line of a simulator. Source: ExecuTorch, ``run_fvp.sh`` and ``runner_utils.py``.

The working folder has short names of its own: the simulators cut the command line of a
semihosted program at 256 characters without a word, and some names would be read as parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.errors import Place, failure

if TYPE_CHECKING:
    from pathlib import Path

    from workbench.fvp.runner_elf import Placement
    from workbench.fvp.simulators import Device

PROGRAM_FILE, RUNNER_FILE, OUTPUT_STEM = "program.pte", "runner.elf", "out"
TRACE_FILE = "trace.gz"
LONGEST_COMMAND_LINE = 256


@dataclass(frozen=True)
class Run:
    """What is started. ``address`` is where the program is loaded, for runners that want that.

    ``trace`` has the NPU write when it read which command, as it computes in cycles.
    """

    device: Device
    placement: Placement
    inputs: int
    fast: bool = False
    trace: bool = False
    timelimit_s: int = 600
    serve: bool = False
    address: int | None = None


def input_file(index: int) -> str:
    """Return the name of an input's file in the working folder."""
    return f"i{index}.bin"


def output_file(index: int) -> str:
    """Return the name that the runner gives to an output's file."""
    return f"{OUTPUT_STEM}-{index}.bin"


def command(binary: Path, folder: Path, run: Run) -> list[str]:
    """Return the arguments of the process; no shell is involved.

    Raises:
        WorkbenchError: the program's own command line would be cut.
    """
    simulator = run.device.simulator
    settings = [f"{simulator.npu}.num_macs={run.device.macs}", *simulator.settings]
    extra = ["--fast"] if run.fast else []
    if run.trace:
        extra.append(f"--pmu-trace {TRACE_FILE}")
    if extra:
        settings.append(f"{simulator.npu}.extra_args='{' '.join(extra)}'")
    if run.placement in {"semihosting", "embedded", "unknown"} and run.address is None:
        settings += [
            f"{simulator.cpu}.semihosting-enable=1",
            f"{simulator.cpu}.semihosting-stack_base=0",
            f"{simulator.cpu}.semihosting-heap_limit=0",
            f"{simulator.cpu}.semihosting-cwd={folder}",
            f"{simulator.cpu}.semihosting-cmd_line='{_program_arguments(run)}'",
        ]
    arguments = [str(binary)]
    for setting in settings:
        arguments += ["-C", setting]
    arguments += ["-a", RUNNER_FILE]
    if run.address is not None:
        arguments += ["--data", f"{PROGRAM_FILE}@{run.address:#x}"]
    return [*arguments, "--timelimit", str(run.timelimit_s)]


def _program_arguments(run: Run) -> str:
    words = ["executor_runner"]
    if run.placement != "embedded":
        words += ["-m", PROGRAM_FILE]
    words += ["-o", OUTPUT_STEM]
    for index in range(run.inputs):
        words += ["-i", input_file(index)]
    if run.serve:
        words += ["--server_mode", "true"]
    line = " ".join(words)
    if len(line) > LONGEST_COMMAND_LINE:
        raise failure(
            f"The program has {run.inputs} inputs, more than fit the {LONGEST_COMMAND_LINE} "
            "characters that a simulator passes on.",
            "Use a runner with the program and its inputs built in.",
            Place(kind="tool", id="FVP"),
        )
    return line

"""FAILURES: lines that tell of a failure, with cause and remedy.

Source: ExecuTorch's runtime, Ethos-U backend and Arm runner; Fast Models; each pattern is the
constant part of the message in the source.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from workbench.results.simulation import Diagnosis


@dataclass(frozen=True)
class Failure:
    """One kind of line: what is in it, what causes it, what to do."""

    pattern: str
    cause: str
    remedy: str


_RELINK = "Build the runner with --select_ops_list naming it, or link the library that has it."
FAILURES: tuple[Failure, ...] = (
    Failure(
        r"Could not allocate memory for planned buffer.*SLOW_MEMORY_REGION",
        "The runner's method pool is too small for the program's planned buffers.",
        "Build the runner with a larger ET_ARM_BAREMETAL_METHOD_ALLOCATOR_POOL_SIZE.",
    ),
    Failure(
        r"ET_ARM_BAREMETAL_PLANNED_FAST_MEMORY_SIZE is not set",
        "The program plans buffers in fast memory and the runner has none.",
        "Build the runner with ET_ARM_BAREMETAL_PLANNED_FAST_MEMORY_SIZE.",
    ),
    Failure(
        r"Could not allocate memory for planned buffer",
        "The runner's fast memory is too small for the program's planned buffers.",
        "Build the runner with a larger ET_ARM_BAREMETAL_PLANNED_FAST_MEMORY_SIZE.",
    ),
    Failure(
        r"Failed to allocate scratch buffer",
        "The scratch pool is smaller than the scratch that the program's delegate needs.",
        "Build the runner with a larger ET_ARM_BAREMETAL_SCRATCH_TEMP_ALLOCATOR_POOL_SIZE.",
    ),
    Failure(
        r"Memory allocation failed: \d+\s*B requested",
        "One of the runner's pools is too small; the lines around it name which.",
        "Build the runner with larger pools; `workbench inspect` tells what the program needs.",
    ),
    Failure(
        r"kernel '[^']*' not found|Missing operator|don't have corresponding operator registered",
        "The program calls a kernel that is not linked into the runner.",
        _RELINK,
    ),
    Failure(
        r"Backend \S+ is not (?:registered|available)",
        "The runner was linked without the Ethos-U backend.",
        "Link executorch_delegate_ethos_u as a whole archive.",
    ),
    Failure(
        r"Malformed vela_bin_stream|Incorrect header in vela_bin_stream|not aligned to 16 bytes",
        "The delegate in the program is damaged or not aligned to 16 bytes.",
        "Make the .pte again with the delegate's data inline, and place it aligned to 16.",
    ),
    Failure(
        r"Failed to parse product config|ethosu_reserve_driver_ex failed"
        r"|Ethos-U invocation failed|NPU config mismatch",
        "The NPU is not the one the program was compiled for, or it cannot reach the memory.",
        "Give the simulator the program's MACs, and use a runner for its NPU and memory mode.",
    ),
    Failure(
        r"Init failed for backend",
        "The Ethos-U backend refused the program's delegate.",
        "The line before says why; compile for the NPU and memory mode of the runner.",
    ),
    Failure(
        r"Input \d+ expected|input size \(\d+\) and tensor size \(\d+\) mismatch",
        "An input file has another size or type than the program's input.",
        "Give raw little-endian data of the program's own input type and shape.",
    ),
    Failure(
        r"Could not open file|Not right number of parameters|Reading \S+.* from file .* failed",
        "The runner did not find its files or its command line.",
        "Check that the runner is built with SEMIHOSTING, and that its folder can be read.",
    ),
    Failure(
        r"Could not open output file|Failed to write whole output file",
        "The runner could not write an output: the disk is full or the folder is not writable.",
        "Make room in the folder for temporary files (TMPDIR names another).",
    ),
    Failure(
        r"time has been exceeded",
        "The simulation reached its time limit.",
        "Raise --timeout, or use --fast, which computes the same outputs without timing.",
    ),
    Failure(
        r"Test_result: FAIL|don't match expected BundleIO",
        "The outputs differ from the bundle's by more than the runner's tolerance.",
        "Compare in steps of the output's grid; the runner's 0.01 is below one step of many.",
    ),
    Failure(
        r"libpython3\S*: cannot open shared object",
        "The simulator does not find the Python library that is installed beside it.",
        "Start it from its own installation, or put its python/lib into LD_LIBRARY_PATH.",
    ),
    Failure(
        r"cannot enable executable stack",
        "This system forbids executable stacks, and a library of this simulator asks for one.",
        "Install a newer version of the simulator, 11.27 or later.",
    ),
    Failure(
        r"[Ll]icen[sc]e|LM_LICENSE|FLEXlm|UBL",
        "The simulator has no valid licence.",
        "Accept its licence or set up your licence server; Corstone-300 and -320 11.27 need none.",
    ),
    Failure(
        r"[Hh]ard ?[Ff]ault|Assertion",
        "The program on the simulated CPU stopped with a fault.",
        "Build the runner with --build_type=Debug and read the lines before it.",
    ),
    Failure(
        r"parameter|[Uu]nknown option|[Uu]nrecognis|[Uu]nrecogniz",
        "The simulator does not know one of its parameters.",
        "Its version differs from those supported (11.27); choose another, see `workbench doctor`.",
    ),
    Failure(
        r"Loading of method \S+ failed|Execution of method \S+ failed|Problem running model",
        "The runtime gave up on the program.",
        "The lines before say why.",
    ),
)
_ANY = re.compile("|".join(f"(?P<f{i}>{failure.pattern})" for i, failure in enumerate(FAILURES)))
_STATUS = re.compile(r"(?:status|backend \S+:) ?0x([0-9a-fA-F]+)")
# Source: ExecuTorch, runtime/core/error.h.
ERROR_CODES = {
    0x01: "internal error", 0x02: "invalid state", 0x10: "not supported",
    0x12: "invalid argument", 0x14: "operator missing", 0x20: "not found",
    0x21: "memory allocation failed", 0x22: "access failed", 0x23: "invalid program",
    0x25: "out of resources", 0x30: "delegate: invalid compatibility",
    0x31: "delegate: memory allocation failed", 0x32: "delegate: invalid handle",
}  # fmt: skip


def diagnose(line: str, message: str, *, known_only: bool = False) -> Diagnosis | None:
    """Return what a line tells of; a line of unknown kind is passed on as it is.

    Args:
        line: The whole line, for the reader.
        message: The part of it that is matched.
        known_only: Return None for a line of unknown kind.
    """
    match = _ANY.search(message)
    if match is None:
        if known_only:
            return None
        return Diagnosis(
            line=line, cause="The runner reported an error.", remedy="Read the lines around it."
        )
    failure = FAILURES[int(str(match.lastgroup)[1:])]
    cause = failure.cause
    status = _STATUS.search(message)
    if status is not None and int(status.group(1), 16) in ERROR_CODES:
        cause += f" The status means: {ERROR_CODES[int(status.group(1), 16)]}."
    return Diagnosis(line=line, cause=cause, remedy=failure.remedy)

"""Incremental parser of a runner's output: counters, pools, checks, failures. Bounded memory.

Source of the lines: ExecuTorch, ``arm_executor_runner.cpp``, ``arm_perf_monitor.cpp`` and the
runtime. Older runners omit parts, some C libraries print ``%zd`` literally, lines end with
carriage returns: only words are relied on. Counters are identified by their order in the list of
events, not by the number in their name.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from workbench.results.simulation import BundleCheck, Counter, Diagnosis, Measurement, Pool

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Failure:
    """One kind of line: pattern, cause and remedy."""

    pattern: str
    cause: str
    remedy: str


_RELINK = "Build the runner with --select_ops_list including it, or link the library that contains it."
FAILURES: tuple[Failure, ...] = (
    Failure(
        r"Could not allocate memory for planned buffer.*SLOW_MEMORY_REGION",
        "The runner's method pool is too small for the program's planned buffers.",
        "Build the runner with a larger ET_ARM_BAREMETAL_METHOD_ALLOCATOR_POOL_SIZE.",
    ),
    Failure(
        r"ET_ARM_BAREMETAL_PLANNED_FAST_MEMORY_SIZE is not set",
        "The program plans buffers in fast memory, but the runner has none.",
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
        "One of the runner's pools is too small; see the lines around it.",
        ("Build the runner with larger pools; `workbench inspect` shows the needed sizes."),
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
        ("Create the .pte again with the delegate's data inline, and align it to 16 bytes."),
    ),
    Failure(
        r"Failed to parse product config|ethosu_reserve_driver_ex failed"
        r"|Ethos-U invocation failed|NPU config mismatch",
        ("The program was compiled for another NPU, or the NPU cannot access the memory."),
        ("Set the simulator's MACs to the program's, and use a runner for its NPU and memory mode."),
    ),
    Failure(
        r"Init failed for backend",
        "The Ethos-U backend rejected the program's delegate.",
        "See the line before. Compile for the NPU and memory mode of the runner.",
    ),
    Failure(
        r"Input \d+ expected|input size \(\d+\) and tensor size \(\d+\) mismatch",
        "An input file has another size or type than the program's input.",
        "Use raw little-endian data of the input's type and shape.",
    ),
    Failure(
        r"Could not open file|Not right number of parameters|Reading \S+.* from file .* failed",
        "The runner did not find its files or its command line.",
        ("Check that the runner is built with SEMIHOSTING, and that its folder is readable."),
    ),
    Failure(
        r"Could not open output file|Failed to write whole output file",
        "The runner could not write an output: the disk is full or the folder is not writable.",
        "Free disk space, or set TMPDIR to another folder.",
    ),
    Failure(
        r"time has been exceeded",
        "The simulation reached its time limit.",
        ("Increase --timeout, or use --fast, which computes the same outputs without timing."),
    ),
    Failure(
        r"Test_result: FAIL|don't match expected BundleIO",
        "The outputs differ from the bundle's by more than the runner's tolerance.",
        ("Compare in steps of the output's grid; the default tolerance of 0.01 is often less than one step."),
    ),
    Failure(
        r"libpython3\S*: cannot open shared object",
        "The simulator does not find the Python library that is installed beside it.",
        ("Start it from its own installation, or add its python/lib to LD_LIBRARY_PATH."),
    ),
    Failure(
        r"cannot enable executable stack",
        ("This system forbids executable stacks, which a library of this simulator needs."),
        "Install a newer version of the simulator, 11.27 or later.",
    ),
    Failure(
        r"[Ll]icen[sc]e|LM_LICENSE|FLEXlm|UBL",
        "The simulator has no valid licence.",
        ("Accept its licence or set up your licence server; Corstone-300 and -320 11.27 need none."),
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
        "The runtime could not load or execute the program.",
        "See the lines before.",
    ),
)
_ANY = re.compile("|".join(f"(?P<f{i}>{failure.pattern})" for i, failure in enumerate(FAILURES)))
_STATUS = re.compile(r"(?:status|backend \S+:) ?0x([0-9a-fA-F]+)")
# Source: ExecuTorch 1.5.1, runtime/core/error.h.
ERROR_CODES = {
    0x01: "internal error",
    0x02: "invalid state",
    0x03: "end of method",
    0x04: "already loaded",
    0x10: "not supported",
    0x11: "not implemented",
    0x12: "invalid argument",
    0x13: "invalid type",
    0x14: "operator missing",
    0x15: "registration exceeding max kernels",
    0x16: "registration already registered",
    0x20: "not found",
    0x21: "memory allocation failed",
    0x22: "access failed",
    0x23: "invalid program",
    0x24: "invalid external data",
    0x25: "out of resources",
    0x30: "delegate: invalid compatibility",
    0x31: "delegate: memory allocation failed",
    0x32: "delegate: invalid handle",
}


def diagnose(line: str, message: str, *, known_only: bool) -> Diagnosis | None:
    """Return the diagnosis of a line; an unknown line is returned as it is.

    Args:
        line: The complete line.
        message: The part that is matched.
        known_only: Return None for an unknown line.
    """
    match = _ANY.search(message)
    if match is None:
        if known_only:
            return None
        return Diagnosis(line=line, cause="The runner reported an error.", remedy="See the lines around it.")
    failure = FAILURES[int(str(match.lastgroup)[1:])]
    cause = failure.cause
    status = _STATUS.search(message)
    if status is not None and int(status.group(1), 16) in ERROR_CODES:
        cause += f" The status means: {ERROR_CODES[int(status.group(1), 16)]}."
    return Diagnosis(line=line, cause=cause, remedy=failure.remedy)


Level = Literal["debug", "info", "warning", "error", "plain"]

# A line of the runner: level, source location, function in parentheses, message.
_PREFIX = re.compile(r"([DIEF])\s*\[executorch:[^\]]*\]\s*(.*)", re.DOTALL)
_NUMBER = re.compile(r"\d+")
_FRACTION = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_LEVELS: dict[str, Level] = {"D": "debug", "I": "info", "E": "error", "F": "error"}
_LONGEST, _KEPT_LINES, _KEPT_FAILURES, _KEPT_MEASUREMENTS = 2000, 40, 50, 100_000
_LOUD = re.compile(r"\s*(?:[EF][: ]|Error|Fatal|ERROR|\[critical\]|Hard ?[Ff]ault)|.*Assertion")
_ENDING = "Simulation is stopping"

_POOL_LINES = {
    "input_file_allocator_used": "files",
    "method_allocator_used": "method",
    "planned_fast_allocator": "planned fast memory",
    "temp_allocator": "scratch",
}


def level_of(line: str) -> Level:
    """Return the log level of a line."""
    match = _PREFIX.match(line)
    if match is not None:
        return _LEVELS[match.group(1)]
    if line.startswith(("Warning", "WARNING")):
        return "warning"
    return "error" if _LOUD.match(line) else "plain"


# An NPU has at most 8 counters.
_MAX_COUNTERS = 64


class UartReader:
    """Parses text in pieces of any size; results are in its attributes."""

    def __init__(self) -> None:
        self.lines = self.runner_lines = self.served = self.errors = 0
        self.completed = self.out_of_time = False
        self.model_ok: bool | None = None
        self.pools: dict[str, Pool] = {}
        self.bundle: list[BundleCheck] = []
        self.diagnoses: list[Diagnosis] = []
        self.last_lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._done: list[Measurement] = []
        self._open: Measurement | None = None
        self._counts: list[int] = []
        self._max_error: float | None = None
        self._rest = ""

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """All reports of the performance monitor so far; the last one may lack events."""
        return (*self._done, *([self._open] if self._open is not None else []))

    def feed(self, text: str) -> list[str]:
        """Parse a piece of text, and return the completed lines."""
        pieces = (self._rest + text).split("\n")
        self._rest = pieces.pop()
        if len(self._rest) > _LONGEST:
            pieces.append(self._rest)
            self._rest = ""
        for line in pieces:
            self._line(line)
        return pieces

    def close(self) -> None:
        """Parse the last, unterminated line."""
        self._line(self._rest)
        self._rest = ""

    def _line(self, line: str) -> None:
        text = line[:_LONGEST].strip()
        if not text:
            return
        self.lines += 1
        self.last_lines.append(text)
        if text.startswith("Output["):
            return
        match = _PREFIX.match(text)
        if match is None:
            if text.startswith("SERVER"):
                self._serving(text)
            if _ENDING in text:
                self.out_of_time = self.out_of_time or "time has been exceeded" in text
            if _LOUD.match(text) or _ENDING in text or "executor" in text:
                self._failure(text, text)
            return
        self.runner_lines += 1
        level, message = match.groups()
        handler = self._HANDLERS.get(message[:6])
        if handler is not None:
            handler(self, message)
        if level in "EF":
            self.errors += 1
            self._failure(text, message)
        elif "failed" in message or "not " in message:
            self._failure(text, message, known_only=True)

    def _failure(self, line: str, message: str, *, known_only: bool = False) -> None:
        if len(self.diagnoses) < _KEPT_FAILURES:
            info = diagnose(line, message, known_only=known_only)
            if info is not None:
                self.diagnoses.append(info)

    def _inferences(self, message: str) -> None:
        self._settle()
        count = _NUMBER.search(message)
        self._open = Measurement(inferences=int(count.group()) if count else 1)
        self._counts = []

    def _delegations(self, message: str) -> None:
        self._put("delegations", message)

    def _counter(self, message: str) -> None:
        name, _, value = message.partition(":")
        number = _NUMBER.search(value)
        if number is None:
            return
        if "cycle" in name:
            self._put("npu_cycles", value)
        elif "cntr" in name and len(self._counts) < _MAX_COUNTERS:
            self._counts.append(int(number.group()))

    def _events(self, message: str) -> None:
        if "Events" not in message:
            return
        listed = message.partition("[")[2].partition("]")[0]
        names = [name.strip().removeprefix("ETHOSU_PMU_") for name in listed.split(",")]
        pairs = zip((n for n in names if n), self._counts, strict=False)
        counters = tuple(Counter(event=event, total=total) for event, total in pairs)
        self._open = (self._open or Measurement()).model_copy(update={"counters": counters})
        self._settle()

    def _put(self, field: str, text: str) -> None:
        number = _NUMBER.search(text)
        if number is not None:
            update = {field: int(number.group())}
            self._open = (self._open or Measurement()).model_copy(update=update)

    def _settle(self) -> None:
        if self._open is not None and len(self._done) < _KEPT_MEASUREMENTS:
            self._done.append(self._open)
        self._open, self._counts = None, []

    def _pool(self, message: str) -> None:
        name, _, rest = message.partition(":")
        numbers = [int(n) for n in _NUMBER.findall(rest)[:2]]
        title = _POOL_LINES.get(name.strip())
        if title is None or not numbers:
            return
        if "/" in rest and len(numbers) == 2:
            self.pools[title] = Pool(name=title, used=numbers[0], given=numbers[1])
        elif title == "scratch":
            self.pools[title] = Pool(name=title, given=numbers[0])

    def _error_figure(self, message: str) -> None:
        number = _FRACTION.search(message.partition(":")[2])
        if number is not None:
            self._max_error = float(number.group())

    def _test(self, message: str) -> None:
        index = _NUMBER.search(message)
        check = BundleCheck(
            index=int(index.group()) if index else 0,
            passed="PASS" in message,
            max_absolute_error=self._max_error,
        )
        if len(self.bundle) < _KEPT_MEASUREMENTS:
            self.bundle.append(check)

    def _serving(self, message: str) -> None:
        if "INFERENCE_DONE" in message:
            self.served += 1

    def _complete(self, message: str) -> None:
        self.completed = self.completed or "complete" in message

    def _model(self, message: str) -> None:
        if message.startswith("Model run:"):
            self.model_ok = message.rstrip().endswith("1")

    # Handlers by the first six characters of a message.
    _HANDLERS: ClassVar[dict[str, Callable[[UartReader, str], None]]] = {
        "NPU In": _inferences,
        "NPU de": _delegations,
        "ethosu": _counter,
        "Ethos-": _events,
        "input_": _pool,
        "method": _pool,
        "planne": _pool,
        "temp_a": _pool,
        "max_ab": _error_figure,
        "TEST: ": _test,
        "SERVER": _serving,
        "Progra": _complete,
        "Model ": _model,
    }

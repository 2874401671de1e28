"""Random programs for the NPU: what Vela compiles must compute what the TOSA reference model does.

``python -m tests.npu_search --seed 1 --count 1000 [--minutes 30] [--keep FOLDER]`` draws programs
of one to five operations with random shapes, options, branches and outputs, compiles each for a
random device, executes the compiled program on the functional simulator and compares every output
element. A difference is reduced to the smallest program that still differs, and kept as ``.tosa``
and ``.json``. The exit code is 1 if there was a difference. The same seed draws the same programs.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from tests.npu_programs import DEVICES, NUMPY, Array, Case, Impossible, drawn, enlarged, program_of
from tests.stream_reader import reaches
from workbench.errors import WorkbenchError
from workbench.npu.program import load
from workbench.npu.state import Options
from workbench.pte import npu_commands, vela_stream

SAMPLES = 2
WRONG = ("differs", "raised", "finding", "reaches", "crashed")


def compiled(case: Case, program: bytes) -> bytes:
    """Return Vela's delegate.

    Raises:
        RuntimeError: Vela refuses the program.
    """
    from executorch.backends.arm.arm_vela import vela_compile

    system, memory = DEVICES[case.device]
    arguments = [
        f"--accelerator-config={case.device}",
        "--output-format=raw",
        "--config=Arm/vela.ini",
        f"--system-config={system}",
        f"--memory-mode={memory}",
    ]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return bytes(vela_compile(program, arguments).processed_bytes)
    except (Exception, SystemExit) as error:  # Vela raises whatever it meets
        raise RuntimeError(str(error).split("\n")[0] or type(error).__name__) from error


def outcome(case: Case) -> str:
    """Return "equal", or what else became of a program: a word, and details after a colon."""
    try:
        program = program_of(case)
    except Impossible as error:
        return f"impossible: {error}"
    try:
        samples, expected = reference(case, program)
    except ValueError as error:
        return f"invalid: {error}"
    try:
        blob = compiled(case, program)
    except RuntimeError as error:
        return f"refused: {error}"
    try:
        return difference(blob, samples, expected)
    except WorkbenchError as error:
        return f"raised: {error.infos[0].message}"


def reference(case: Case, program: bytes) -> tuple[list[Array], list[list[Array]]]:
    """Return random inputs, and for each what the reference model computes.

    Raises:
        ValueError: the reference model refuses the program.
    """
    import tosa_reference_model

    limits = np.iinfo(NUMPY[case.dtype])
    g = np.random.default_rng([case.seed, 2])
    samples = [
        g.integers(limits.min, limits.max, case.shape, NUMPY[case.dtype], endpoint=True)
        for _ in range(SAMPLES)
    ]
    expected = []
    for sample in samples:
        values, status = tosa_reference_model.run(
            program, [sample], verbosity="NONE", initialize_variable_tensor_from_numpy=True
        )
        if status != tosa_reference_model.GraphStatus.TOSA_VALID:
            raise ValueError(str(status))
        expected.append([np.array(value) for value in values])
    return samples, expected


def difference(blob: bytes, samples: list[Array], expected: list[list[Array]]) -> str:
    """Return "equal", or what is wrong with a delegate, with details after a colon."""
    machine = load(blob)
    known = reaches_of(blob)
    for sample, wanted in zip(samples, expected, strict=True):
        result = machine.run([sample], Options(check=True))
        if len(result.outputs) != len(wanted):
            return f"differs: {len(result.outputs)} of {len(wanted)} outputs are there"
        equal = total = 0
        for given, values in zip(result.outputs, wanted, strict=True):
            found = given.reshape(-1).view(values.dtype)
            if found.size != values.size:
                return f"differs: {found.size} elements in place of {values.size}"
            equal += int((found == values.reshape(-1)).sum())
            total += values.size
        if equal != total:
            return f"differs: {equal} of {total} elements equal"
        touched = {region: end for region, end in result.peak[0].items() if end}
        if touched != known:
            return f"reaches: {touched}, by the second reader {known}"
        if errors := [f for f in result.findings if f.severity == "error"]:
            return f"finding: {errors[0].code} at {errors[0].offset:#x}: {errors[0].message}"
    return "equal"


def reaches_of(blob: bytes) -> dict[int, int]:
    """Return how far a delegate reaches into each region, by the second reader of its commands.

    Inputs and outputs are touched as a whole, also where no command reads the end of one.
    """
    parts = vela_stream.blocks(blob)
    commands = bytes(vela_stream.commands(parts) or b"")
    known, _ = reaches(commands, npu_commands.decode(commands).family)
    for port in (port for side in ("inputs", "outputs") for port in vela_stream.ports(parts, side)):
        end = port.offset + port.item_bytes * math.prod(port.shape)
        known[port.region] = max(known.get(port.region, 0), end)
    return known


def smaller(case: Case) -> Iterator[Case]:
    """Yield programs that are a step smaller."""
    for index in range(len(case.operations)):
        kept = case.operations[:index] + case.operations[index + 1 :]
        if kept:
            yield replace(case, operations=kept)
    for axis in range(4):
        for size in {1, case.shape[axis] // 2, case.shape[axis] - 1}:
            if 0 < size < case.shape[axis]:
                shape = tuple(size if i == axis else n for i, n in enumerate(case.shape))
                yield replace(case, shape=shape)
    plain = {
        "kernel": [1, 1],
        "stride": [1, 1],
        "dilation": [1, 1],
        "pad": [0, 0],
        "channels": 1,
        "multiplier": 1,
        "density": 1.0,
        "per_channel": False,
        "rounding": 0,
        "broadcast": [],
        "amount": 0,
        "after": 0,
        "factor": 2,
        "half": False,
        "back": 0,
        "with": 0,
    }
    for index, (name, parameters) in enumerate(case.operations):
        for key, value in plain.items():
            if parameters.get(key, value) != value:
                changed = (name, {**parameters, key: value})
                operations = [*case.operations[:index], changed, *case.operations[index + 1 :]]
                yield replace(case, operations=tuple(operations))


class Isolated:
    """Finds outcomes in a process of its own: compiler and reference model may end theirs."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def __call__(self, case: Case) -> str:
        """Return the outcome of a case; "crashed" if the process ended."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, get_context("fork"))
        try:
            return self._pool.submit(outcome, case).result()
        except BrokenProcessPool:
            self._pool = None
            return "crashed: the process ended"


def minimised(case: Case, find: Callable[[Case], str], tries: int = 300) -> Case:
    """Return the smallest program found that ends in the same word."""
    word = find(case).split(":")[0]
    again = True
    while again and tries > 0:
        again = False
        for candidate in smaller(case):
            tries -= 1
            if find(candidate).split(":")[0] == word:
                case, again = candidate, True
                break
    return case


def _keep(folder: Path, case: Case) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    program = program_of(case)
    stem = folder / f"{case.device}-{case.seed}"
    stem.with_suffix(".tosa").write_bytes(program)
    stem.with_suffix(".json").write_text(case.as_json() + "\n")


def main(arguments: list[str] | None = None) -> int:
    """Draw, compile, execute and compare programs; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--large", action="store_true", help="large inputs, and strides up to 6")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args(arguments)
    find, outcomes = Isolated(), Counter[str]()
    begun = time.monotonic()
    seed = options.seed * 1_000_000
    while outcomes.total() < options.count and time.monotonic() - begun < 60 * options.minutes:
        case = enlarged(drawn(seed)) if options.large else drawn(seed)
        seed += 1
        word = find(case).split(":")[0]
        if word == "impossible":
            continue
        outcomes[word] += 1
        if word in WRONG:
            case = minimised(case, find)
            names = ", ".join(name for name, _ in case.operations)
            print(f"{case.seed} {case.device} {case.dtype} {case.shape}: {names}: {find(case)}", flush=True)
            if options.keep:
                _keep(options.keep, case)
    print(", ".join(f"{word} {count}" for word, count in outcomes.most_common()))
    return int(any(outcomes[word] for word in WRONG))


if __name__ == "__main__":
    sys.exit(main())

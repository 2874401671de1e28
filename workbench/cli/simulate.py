"""``simulate``: a compiled program on the functional simulator of the NPU."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from workbench.cli.arrays import read_jobs
from workbench.cli.output import (
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_USAGE,
    add_json,
    print_infos,
    print_json,
    print_table,
)
from workbench.errors import ErrorInfo, Place, WorkbenchError, failure, reason_of, write_remedy
from workbench.files import write_file
from workbench.npu.inputs import SEED, drawn_inputs, read_samples
from workbench.npu.tflite_reference import KERNELS, reference_outputs
from workbench.project.preprocessing import EXAMPLE
from workbench.text import plural

if TYPE_CHECKING:
    import argparse

    from workbench.npu.cpu import CpuOperators
    from workbench.npu.program import Program, Result
    from workbench.npu.state import Options


_Array = npt.NDArray[Any]

_KEYS = {"file", "inputs", "out", "reference"}
_MAX_PROGRAMS = 4
_REGIONS = {0: "constants", 1: "scratch", 2: "fast scratch"}
_SHOWN = (
    "macs",
    "read_bytes",
    "written_bytes",
    "weight_bytes",
    "zero_weights",
    "saturated",
    "accumulator_peak",
)


def add_simulate(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "simulate",
        help="compute a compiled program on a functional simulator: values, no timing",
        description="Execute a program for Ethos-U on the functional simulator: no device, no "
        "timing. Without --inputs the test vectors of a .bpte are used, else random values.",
    )
    verb.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help=".pte, .bpte, a .tflite that Vela compiled, or a raw delegate of Vela (.bin)",
    )
    verb.add_argument(
        "--reference",
        metavar="ORIGINAL.tflite",
        help="the .tflite before Vela, computed by LiteRT's reference kernels and compared",
    )
    _add_samples(verb)
    verb.add_argument("--method", default="", metavar="NAME", help="which one; else the first")
    verb.add_argument(
        "--counters",
        action="store_true",
        help="MACs, bytes, zero weights, saturated outputs and accumulators of each operation",
    )
    verb.add_argument(
        "--check",
        action="store_true",
        help="report reads of memory that nothing wrote, lost tables and missing waits",
    )
    verb.add_argument(
        "--batch",
        type=Path,
        metavar="JOBS.json",
        help='a list of {"file", "inputs", "out", "reference"}, done in one process',
    )
    add_json(verb)
    verb.set_defaults(perform=_simulate)


def _add_samples(verb: argparse.ArgumentParser) -> None:
    """Add where inputs come from, and outputs go."""
    verb.add_argument(
        "--inputs",
        metavar="SPEC",
        help="an .npz with in0, in1, ... or one array for each input in order; an .npy; or a "
        "folder of pictures. An axis of samples in front makes several inferences",
    )
    verb.add_argument(
        "--preprocess", default="", metavar="SETTINGS", help=f"for folders of pictures, as of new: {EXAMPLE}"
    )
    verb.add_argument(
        "--sequence",
        action="store_true",
        help="the samples are steps of one sequence, as of a decoder: buffers keep their contents, "
        "and last inputs without an axis of steps are the last outputs of the step before",
    )
    verb.add_argument(
        "--out", metavar="Y.npz", help="where out0, out1, ... go, of several samples with an axis in front"
    )


def _simulate(options: argparse.Namespace) -> int:
    from threadpoolctl import threadpool_limits

    from workbench.npu.operator_process import CpuOperatorProcess

    given = {key: getattr(options, key) for key in _KEYS if getattr(options, key) is not None}
    # The products are small: a second thread costs more than it gives.
    with threadpool_limits(limits=1, user_api="blas"), CpuOperatorProcess() as operators:
        bench = _Bench(options, operators)
        if options.batch is not None:
            return _batch(options, bench, given)
        if options.file is None:
            raise failure(
                "There is nothing to simulate.",
                "Name a FILE, or jobs with --batch.",
                Place(kind="option", id="file"),
                code="nothing-to-simulate",
            )
        return _single(options, bench, given)


def _single(options: argparse.Namespace, bench: _Bench, job: Mapping[str, Any]) -> int:
    if not os.path.isfile(job["file"]):
        raise failure(
            f"{job['file']} is not there.",
            "Correct the path.",
            where=Place(kind="option", id="file"),
            code="file-missing",
        )
    try:
        document = bench.job(job)
    except WorkbenchError as error:
        if options.json:
            print_json({"file": job["file"], **_refusal(error)})
        print_infos(error.infos)
        usage = all(info.where and info.where.kind == "option" for info in error.infos)
        return EXIT_USAGE if usage else EXIT_FAILED
    if options.json:
        print_json(document)
    else:
        _print(document)
    return _code([document])


def _batch(options: argparse.Namespace, bench: _Bench, defaults: Mapping[str, Any]) -> int:
    results: list[dict[str, Any]] = []
    for index, job in enumerate(read_jobs(options.batch)):
        try:
            result = bench.job({**defaults, **_checked(job)})
        except WorkbenchError as error:
            result = _refusal(error)
            print_infos(error.infos, f"error: job {index}")
        results.append({"index": index, **result})
    refused = sum("error" in result for result in results)
    if options.json:
        print_json({"results": results, "refused": refused})
    else:
        for result in results:
            if "error" not in result:
                _print(result)
    return EXIT_FAILED if refused else _code(results)


def _checked(job: Any) -> dict[str, Any]:
    place = Place(kind="option", id="batch")
    if not isinstance(job, dict) or not set(job) <= _KEYS:
        raise failure(
            "A job is not an object of file, inputs, out and reference.",
            'Write {"file": ..., "inputs": ..., "out": ...}.',
            place,
            code="batch-job-invalid",
        )
    if not all(isinstance(value, str) for value in job.values()):
        raise failure("A job has a path that is not a text.", where=place, code="batch-job-invalid")
    return job


def _refusal(error: WorkbenchError) -> dict[str, Any]:
    infos = [info.model_dump(mode="json") for info in error.infos]
    return {"error": error.infos[0].message, "infos": infos}


def _code(results: Sequence[Mapping[str, Any]]) -> int:
    errors = [f for r in results for f in r.get("findings", ()) if f["severity"] == "error"]
    infos = [
        ErrorInfo(
            message=f"{finding['command']} at {finding['offset']:#x} of delegate "
            f"{finding['delegate']}: {finding['message']}",
            hint="A device may compute other values.",
            where=Place(kind="file", id="program"),
            code="npu-finding",
        )
        for finding in errors
    ]
    print_infos(infos)
    return EXIT_FAILED if errors else EXIT_DONE


class _Bench:
    """Runs jobs; keeps the last few programs with their decoded weights."""

    def __init__(self, options: argparse.Namespace, operators: CpuOperators) -> None:
        self._options, self._operators = options, operators
        self._programs: dict[str, Program] = {}

    def job(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Run one job and return what it gives.

        Raises:
            WorkbenchError: it cannot be run.
        """
        if "file" not in job:
            raise failure(
                "A job names no file.", where=Place(kind="option", id="batch"), code="batch-job-invalid"
            )
        program = self._program(job["file"])
        if "inputs" not in job and "reference" not in job and program.cases:
            return self._vectors(job, program)
        samples = [drawn_inputs(program.inputs)]
        if "inputs" in job:
            samples = read_samples(
                Path(job["inputs"]), program.inputs, self._options.preprocess, sequence=self._options.sequence
            )
        results = self._results(program, samples)
        document = self._document(job, program, results)
        document["inputs"] = job.get("inputs", f"random, seed {SEED}")
        document["samples"] = len(samples)
        if "reference" in job:
            document["reference"] = self._reference(job["reference"], samples, results)
        sides = zip(*(result.outputs for result in results), strict=True)
        outputs = {
            f"out{index}": values[0] if len(values) == 1 else np.stack(values)
            for index, values in enumerate(sides)
        }
        return document | _write_outputs(job, outputs)

    def _vectors(self, job: Mapping[str, Any], program: Program) -> dict[str, Any]:
        """Run the test vectors of the program; compare with what they expect."""
        results = self._results(program, [case.inputs for case in program.cases])
        document = self._document(job, program, results)
        document["inputs"] = "test vectors of the program"
        document["test_vectors"] = [
            _differences(result.outputs, case.expected)
            for result, case in zip(results, program.cases, strict=True)
        ]
        outputs = {
            f"case{number}_out{index}": values
            for number, result in enumerate(results)
            for index, values in enumerate(result.outputs)
        }
        return document | _write_outputs(job, outputs)

    def _reference(
        self, name: str, samples: Sequence[Sequence[_Array]], results: Sequence[Result]
    ) -> dict[str, Any]:
        """Compare outputs with those of the network before Vela, by LiteRT's reference kernels."""
        expected = reference_outputs(Path(name), samples, results[0].outputs, self._operators)
        rows = [
            {
                "name": f"out{number}",
                **_differences(
                    [result.outputs[number] for result in results], [side[number] for side in expected]
                ),
            }
            for number in range(len(expected[0]))
        ]
        return {"file": name, "kernels": KERNELS, "outputs": rows}

    def _results(self, program: Program, samples: Sequence[Sequence[_Array]]) -> list[Result]:
        from workbench.npu.state import Options

        options = Options(counters=self._options.counters, check=self._options.check)
        if self._options.sequence:
            return _run_sequence(program, samples, options, self._operators)
        return [program.run(inputs, options, self._operators) for inputs in samples]

    def _program(self, name: str) -> Program:
        from workbench.npu.program import load

        if name not in self._programs:
            while len(self._programs) >= _MAX_PROGRAMS:
                del self._programs[next(iter(self._programs))]
            self._programs[name] = load(Path(name), self._options.method)
        return self._programs[name]

    def _document(
        self, job: Mapping[str, Any], program: Program, results: Sequence[Result]
    ) -> dict[str, Any]:
        from dataclasses import asdict

        from workbench.npu.counters import totals

        first = results[0]
        document: dict[str, Any] = {
            "file": job["file"],
            "executed": "functional simulator, no device, no timing",
            "devices": [str(machine.device) for machine in program.machines],
            "outputs": [
                {"name": f"out{index}", "dtype": str(values.dtype), "shape": list(values.shape)}
                for index, values in enumerate(first.outputs)
            ],
            "memory_peak_bytes": {
                str(delegate): {_REGIONS[region]: peak for region, peak in peaks.items()}
                for delegate, peaks in first.peak.items()
            },
            "findings": [asdict(finding) for result in results for finding in result.findings],
        }
        if self._options.counters:
            document["counters"] = {
                "totals": totals(first.counters),
                "operations": [one.as_dict() for one in first.counters],
            }
        return document


def _run_sequence(
    program: Program, steps: Sequence[Sequence[_Array]], options: Options, operators: CpuOperators
) -> list[Result]:
    """Return what each step of a sequence gives.

    Mutable buffers keep their contents from step to step. Inputs that a later step lacks are the
    last outputs of the step before, as of a program that hands its caches on.

    Args:
        program: The program.
        steps: For each step its inputs; all of them for the first one.
        options: How to run.
        operators: Computes CPU operators other than quantizing and dequantizing.

    Raises:
        WorkbenchError: outputs do not fit the inputs that are lacking; or as of ``Program.run``.
    """
    results: list[Result] = []
    state: Mapping[int, _Array] = {}
    for step in steps:
        carried = len(program.inputs) - len(step)
        inputs = list(step)
        if results and carried:
            _require_carried(program, carried)
            inputs += results[-1].outputs[-carried:]
        results.append(program.run(inputs, options, operators, state))
        state = results[-1].state
    return results


def _require_carried(program: Program, count: int) -> None:
    given = [(t.dtype, t.shape) for t in program.outputs[-count:]]
    taken = [(t.dtype, t.shape) for t in program.inputs[-count:]]
    if given != taken:
        raise failure(
            f"The last {count} outputs are not what the last {count} inputs take.",
            "Give the inputs for every step: an axis of steps in front.",
            Place(kind="option", id="inputs"),
            code="sequence-not-carried",
        )


def _differences(outputs: Sequence[_Array], expected: Sequence[_Array]) -> dict[str, Any]:
    pairs = [
        (a.astype(np.float64), b.astype(np.float64))
        for a, b in zip(outputs, expected, strict=False)
        if a.shape == b.shape
    ]
    finite = [(np.nan_to_num(a), np.nan_to_num(b)) for a, b in pairs]
    apart = [np.abs(a - b) for a, b in finite]
    return {
        "elements": int(sum(output.size for output in apart)),
        "equal": int(sum(np.count_nonzero(output == 0) for output in apart)),
        "max_abs_difference": float(max((output.max(initial=0.0) for output in apart), default=0.0)),
    }


def _write_outputs(job: Mapping[str, Any], outputs: Mapping[str, _Array]) -> dict[str, Any]:
    """Write the outputs where the job wants them."""
    if "out" not in job:
        return {}
    path = Path(job["out"])
    try:
        buffer = io.BytesIO()
        np.savez(buffer, **outputs)
        write_file(path, buffer.getvalue())
    except OSError as error:
        raise failure(
            f"{path} cannot be written: {reason_of(error)}.",
            write_remedy(error, "Choose another folder."),
            Place(kind="option", id="out"),
            code="file-not-writable",
        ) from error
    return {"out": job["out"]}


def _print(document: Mapping[str, Any]) -> None:
    on = ", ".join(dict.fromkeys(document["devices"])) or "the CPU only"
    print(f"{document['file']}: computed for {on} ({document['executed']})")
    count = document.get("samples", 1)
    several = f", {plural(count, 'sample')}" if count > 1 else ""
    print(f"  inputs   {document['inputs']}{several}")
    for output in document["outputs"]:
        shape = "x".join(map(str, output["shape"])) or "scalar"
        print(f"  {output['name']:<9}{output['dtype']} {shape}")
    if "out" in document:
        print(f"  written  {document['out']}")
    for number, case in enumerate(document.get("test_vectors", ())):
        print(
            f"  vector {number}: {case['equal']:,} of {case['elements']:,} elements equal, "
            f"largest difference {case['max_abs_difference']:.6g}"
        )
    for output in document.get("reference", {}).get("outputs", ()):
        print(
            f"  {output['name']:<9}{output['equal']:,} of {output['elements']:,} elements as "
            f"LiteRT computes them, largest difference {output['max_abs_difference']:.6g}"
        )
    for finding in document["findings"]:
        print(
            f"  {finding['severity']}: {finding['command']} at {finding['offset']:#x}: {finding['message']}"
        )
    if "counters" in document:
        _print_counters(document["counters"])


def _print_counters(counters: Mapping[str, Any]) -> None:
    print()
    rows = [
        (
            one["command"].removeprefix("NPU_OP_"),
            f"{one['offset']:#x}",
            "x".join(map(str, one["ofm"])),
            *(f"{one[name]:,}" for name in _SHOWN),
        )
        for one in counters["operations"]
    ]
    head = ("operation", "offset", "ofm", *(name.replace("_", " ") for name in _SHOWN))
    print_table(head, rows)
    sums = counters["totals"]
    print(
        f"\n{plural(sums['operations'], 'operation')}, {sums['macs']:,} MACs, "
        f"{sums['read_bytes']:,} bytes read, {sums['written_bytes']:,} written, "
        f"{sums['zero_weights']:,} of {sums['weights']:,} weights zero, "
        f"{sums['saturated']:,} outputs saturated"
    )

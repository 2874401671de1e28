"""``fvp``: run a program on Arm's simulators, and configure simulators and runners."""

from __future__ import annotations

import hashlib
import io
import math
import signal
import sys
import tempfile
from argparse import BooleanOptionalAction
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.cli.output import EXIT_DONE, EXIT_FAILED, add_json, print_json
from workbench.errors import Place, failure, not_written
from workbench.files import make_output_folder, write_file
from workbench.pipeline.cache import default_root

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from workbench.deploy.simulators.compatibility import Program
    from workbench.deploy.simulators.run import Job, Outcome
    from workbench.deploy.simulators.runner_build import ProgramSource
    from workbench.results.simulation import SimulationReport


_PLACEMENTS = ("semihosting", "embedded")


def add_build(parts: Any) -> None:
    """Add the action ``build``."""
    verb = parts.add_parser(
        "build",
        help="build a runner for a program from an ExecuTorch checkout",
        description="Pool sizes are computed from the program. A runner that reads programs from "
        "files has at least the default sizes. The runner is stored and used for "
        "projects.",
    )
    verb.add_argument("program", type=Path, metavar="FILE.pte")
    verb.add_argument(
        "--checkout", default="", metavar="DIR", help="ExecuTorch checkout; default: the one set by `fvp set`"
    )
    verb.add_argument(
        "--placement",
        default="semihosting",
        metavar="P",
        help="source of the program: semihosting (a file), embedded, or an address 0x...",
    )
    verb.add_argument("--etdump", action="store_true", help="record events (ETDump)")
    verb.add_argument("--target", default="", metavar="T", help="the device, for a program that uses no NPU")
    verb.add_argument("--out", type=Path, metavar="DIR", help="folder for the runner")
    verb.add_argument("--verbose", action="store_true", help="print the build log while building")
    add_json(verb)
    verb.set_defaults(perform=_fvp)


def _fvp(options: argparse.Namespace) -> int:
    from workbench.deploy.simulators.discovery import adopt_runner, device_of, load_settings, runners_folder
    from workbench.deploy.simulators.runner_build import Build, Watching, build_runner, known_checkouts

    wanted, address = _placement(options.placement)
    (checkout,) = known_checkouts(options.checkout or load_settings().executorch)
    build = Build(
        checkout.absolute(),
        read_program(options.program),
        wanted,
        address,
        options.etdump,
        device_of(options.target).target if options.target else "",
    )
    folder = options.out.absolute() if options.out else runners_folder() / build.name
    watching = Watching(_show_build if options.verbose else lambda _: None)
    with terminated_as_interrupted():
        runner = build_runner(build, default_root() / "builds" / build.name, folder, watching)
    adopt_runner(runner.path, address if wanted == "address" else None)
    document = {
        "runner": str(runner.path),
        "target": build.target,
        "placement": runner.placement,
        "memory_mode": build.program.memory_mode,
        "pools": runner.pools,
    }
    if options.json:
        print_json(document)
        return EXIT_DONE
    print(f"Runner       {runner.path}")
    print(f"For          {build.target}, {build.program.memory_mode}, {runner.placement}")
    for name, size in runner.pools.items():
        print(f"Pool         {name}: {size:,} bytes")
    return EXIT_DONE


def _placement(text: str) -> tuple[ProgramSource, int]:
    from workbench.errors import failure

    if text == "semihosting":
        return "semihosting", 0
    if text == "embedded":
        return "embedded", 0
    try:
        return "address", int(text, 16)
    except ValueError as error:
        raise failure(
            f"--placement must be {', '.join(_PLACEMENTS)} or an address such as 0x62000000, not {text!r}.",
            "Example: --placement 0x62000000",
            code="placement-invalid",
        ) from error


def _show_build(line: str) -> None:
    print(line, file=sys.stderr)


def print_report(report: SimulationReport, notes: Sequence[str], files: Sequence[dict[str, Any]]) -> None:
    """Print the exit reason, the measurements and the problems."""
    print(f"{'Done' if report.succeeded else 'Failed':<12} {report.exit_reason}")
    _print_measured(report)
    for pool in report.pools:
        used = f"{pool.used:,} of " if pool.used is not None else ""
        print(f"Pool         {pool.name}: {used}{pool.given:,} bytes")
    for check in report.bundle:
        verdict = "equal within the runner's tolerance" if check.passed else "different"
        print(f"Bundle       test {check.index}: {verdict}")
    for sentence in report.explanation:
        print(f"             {sentence}")
    for diagnosis in report.diagnoses:
        print(f"Failure      {diagnosis.line}")
        print(f"             {diagnosis.cause}")
        print(f"             {diagnosis.remedy}")
    for note in notes:
        print(f"Note         {note}")
    for file in files:
        print(f"Output       {file['path']}  {file['dtype']} {file['shape']}")
    if not report.succeeded and not report.diagnoses:
        for line in report.last_lines[-10:]:
            print(f"  {line}")


def _print_measured(report: SimulationReport) -> None:
    cycles = [m.cycles_per_inference for m in report.measurements]
    known = [c for c in cycles if c is not None]
    if not known or report.fast:
        return
    label = f"measured ({report.simulator} {report.version})".replace(" )", ")")
    spread = f", {min(known):,.0f} to {max(known):,.0f}" if len(set(known)) > 1 else ""
    mean = sum(known) / len(known)
    print(f"Cycles       {mean:,.0f} NPU cycles per inference{spread}, {label}")


def add_fvp(verbs: Any) -> None:
    """Add the verb with its actions."""
    verb = verbs.add_parser("fvp", help="run a program on an Arm simulator (FVP), build a runner")
    parts = verb.add_subparsers(dest="part", metavar="PART", required=True)
    _add_run(parts.add_parser("run", help="run a program once and print a report"))
    setting = parts.add_parser("set", help="set the paths of simulators and runners")
    setting.add_argument(
        "--simulator",
        action="append",
        default=[],
        metavar="FAMILY=PATH",
        help="simulator of u55, u65 or u85: the binary or its installation folder",
    )
    setting.add_argument(
        "--runner", action="append", default=[], metavar="ELF", help="a runner; replaces the stored ones"
    )
    setting.add_argument("--executorch", metavar="DIR", help="an ExecuTorch checkout")
    setting.add_argument(
        "--fast",
        action=BooleanOptionalAction,
        default=None,
        help="run projects functionally only, or with cycles",
    )
    setting.add_argument(
        "--trace",
        action=BooleanOptionalAction,
        default=None,
        help="trace the cycles of each operation of projects",
    )
    setting.add_argument("--timeout", type=float, metavar="S", help="time limit for runs of projects")
    add_json(setting)
    setting.set_defaults(perform=_set)
    add_build(parts)


def _add_run(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("program", type=Path, metavar="FILE.pte")
    verb.add_argument("--elf", type=Path, required=True, help="the runner, arm_executor_runner")
    verb.add_argument("--target", required=True, help="the NPU, e.g. ethos-u55-128")
    verb.add_argument(
        "--inputs",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help=".npy or raw .bin, one per input, or one .npz; several samples along the "
        "first axis; default: all ones",
    )
    verb.add_argument("--fast", action="store_true", help="functional only: faster, without cycles")
    verb.add_argument("--timeout", type=float, default=600.0, metavar="S",
                      help="time limit per start of the simulator, default 600")  # fmt: skip
    verb.add_argument("--fvp", default="", metavar="PATH", help="simulator to use")
    verb.add_argument("--address", type=lambda text: int(text, 0), metavar="0xADDR",
                      help="load address of the program, for a runner built with one")  # fmt: skip
    verb.add_argument("--out", type=Path, metavar="DIR", help="folder for outputs and the log")
    verb.add_argument("--verbose", action="store_true", help="print the log while running")
    verb.add_argument(
        "--remember",
        type=Path,
        nargs="?",
        const=Path(),
        metavar="PROJECT",
        help="keep the counted cycles for the board of this project, whose program FILE.pte is; "
        "without PROJECT for the board that the cached result of FILE.pte names",
    )
    add_json(verb)
    verb.set_defaults(perform=_run)


def _run(options: argparse.Namespace) -> int:
    from workbench.deploy.simulators.run import run

    job, notes = _job(options)
    if options.out:
        _make(options.out)
    with tempfile.TemporaryDirectory(prefix="fvp-log-") as folder, terminated_as_interrupted():
        log = (options.out or Path(folder)) / "uart.log"
        outcome = run(job, log, live=_show if options.verbose else lambda _: None)
    files = _write_outputs(outcome, options.out) if options.out else []
    kept = _remembered(options, outcome.report) if options.remember is not None else None
    notes = [*notes, *outcome.report.notes, *_keep_events(outcome, options.out)]
    if options.json:
        document = outcome.report.model_dump(mode="json")
        remembered = str(kept) if kept else None
        print_json({**document, "notes": notes, "outputs": files, "remembered": remembered})
    else:
        print_report(outcome.report, notes, files)
        if kept is not None:
            print(f"Remembered   {kept}")
    return EXIT_DONE if outcome.report.succeeded else EXIT_FAILED


def _remembered(options: argparse.Namespace, report: SimulationReport) -> Path:
    """Keep the counted cycles; return the user's file.

    Raises:
        WorkbenchError: the file is not the project's compiled program, or nothing was counted.
    """
    from workbench import api

    program = options.program.read_bytes()
    if options.remember == Path():
        return api.remember_program(program, options.program.stem, report)
    opened = api.open(options.remember)
    _, row = api.measured_row(opened, "this program")
    if row.program_sha256 != hashlib.sha256(program).hexdigest():
        raise failure(
            f"{options.program.name} is not the compiled program of {options.remember.name}.",
            "Run the project first, and run the .pte that it delivers.",
            code="silicon-other-program",
        )
    return api.remember_run(opened, report, kind="fvp")


def _no_time() -> Exception:
    text = "--timeout must be a number of seconds greater than 0."
    return failure(text, where=Place(kind="option", id="timeout"), code="timeout-invalid")


def _job(options: argparse.Namespace) -> tuple[Job, list[str]]:
    from workbench.deploy.simulators import discovery
    from workbench.deploy.simulators.compatibility import read_runner
    from workbench.deploy.simulators.discovery import device_of, load_settings
    from workbench.deploy.simulators.run import Job, ones, read_samples

    if not 0 < options.timeout < math.inf:
        raise _no_time()
    device, program = device_of(options.target), read_program(options.program)
    specs, notes = program.description["inputs"], list[str]()
    if options.inputs:
        samples = read_samples(options.inputs, specs)
    else:
        samples = [ones(specs)]
        notes.append("No inputs given: using all ones.")
    installed = discovery.find(device.simulator, load_settings(), options.fvp)
    if installed is None:
        raise failure(
            f"No simulator for {device.target}: {device.simulator.binary} was not found.",
            discovery.how_to_get(device.simulator),
            Place(kind="tool", id=device.simulator.binary),
            code="simulator-not-installed",
        )
    job = Job(
        installed,
        read_runner(options.elf),
        program,
        device,
        samples,
        fast=options.fast,
        timeout_s=options.timeout,
        address=options.address,
    )
    return job, notes


def read_program(path: Path) -> Program:
    """Return the program in a file.

    Raises:
        WorkbenchError: it is unreadable.
    """
    from workbench.deploy.simulators.compatibility import Program
    from workbench.pte.description import program_bytes

    try:
        return Program(path.name, program_bytes(path))
    except OSError as error:
        raise failure(
            f"{path} cannot be read: {error.strerror or error}.",
            "Correct the path, or set the file's permissions.",
            where=Place(kind="file", id=str(path)),
            code="file-unreadable",
        ) from error


@contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C, so that the simulator is ended too."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _show(lines: list[str]) -> None:
    for line in lines:
        print(line.rstrip(), file=sys.stderr)


def _make(folder: Path) -> None:
    try:
        make_output_folder(folder)
    except OSError as error:
        raise not_written(folder, error, code="folder-not-writable") from error


def _write(path: Path, data: bytes) -> None:
    try:
        write_file(path, data)
    except OSError as error:
        raise not_written(path, error) from error


def _write_outputs(outcome: Outcome, folder: Path) -> list[dict[str, Any]]:
    import numpy as np

    written = []
    for number, outputs in enumerate(outcome.outputs):
        for index, array in enumerate(outputs):
            if array is None:
                continue
            path = folder / f"sample{number}-output{index}.npy"
            buffer = io.BytesIO()
            np.save(buffer, array)
            _write(path, buffer.getvalue())
            written.append(
                {
                    "sample": number,
                    "output": index,
                    "dtype": str(array.dtype),
                    "shape": list(array.shape),
                    "path": str(path.absolute()),
                }
            )
    return written


def _keep_events(outcome: Outcome, folder: Path | None) -> list[str]:
    """Write the ETDump events beside the outputs; return notes."""
    from workbench.deploy.simulators.counters import FILE

    if not outcome.events:
        return []
    if folder is None:
        return ["The runner recorded events (ETDump). Use --out to save them."]
    path = folder / FILE
    _write(path, outcome.events)
    reader = "python -m executorch.devtools.inspector.inspector_cli --source_time_scale cycles"
    return [(f"Events: {path}. To read them: {reader} --target_time_scale cycles --etdump_path.")]


def _set(options: argparse.Namespace) -> int:
    from workbench.deploy.simulators.compatibility import read_runner
    from workbench.deploy.simulators.discovery import (
        SIMULATORS_BY_FAMILY,
        load_settings,
        save_settings,
        settings_path,
    )

    # As JSON has no such number, the settings could not be read again.
    if options.timeout is not None and not math.isfinite(options.timeout):
        raise _no_time()
    settings = load_settings()
    simulators = dict(settings.simulators)
    for text in options.simulator:
        family, _, path = text.partition("=")
        if family not in SIMULATORS_BY_FAMILY or not path:
            known = ", ".join(SIMULATORS_BY_FAMILY)
            raise failure(
                f"--simulator must be FAMILY=PATH with FAMILY one of {known}, not {text!r}.",
                "Example: --simulator corstone-300=/opt/FVP_Corstone_SSE-300_Ethos-U55",
                code="simulator-argument-invalid",
            )
        simulators[family] = str(Path(path).expanduser().absolute())
    runners = tuple(str(read_runner(Path(p).expanduser().absolute()).path) for p in options.runner)
    settings = settings.model_copy(
        update={
            "simulators": simulators,
            "runners": runners or settings.runners,
            "executorch": options.executorch or settings.executorch,
            "fast": settings.fast if options.fast is None else options.fast,
            "trace": settings.trace if options.trace is None else options.trace,
            "timeout_s": options.timeout if (options.timeout or 0) > 0 else settings.timeout_s,
        }
    )
    save_settings(settings)
    if options.json:
        print_json(settings.model_dump(mode="json"))
    else:
        print(f"Written to {settings_path()}.")
    return EXIT_DONE

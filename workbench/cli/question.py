"""Array jobs in a light engine process, without the toolchain."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import interpreter
from workbench.cli.output import EXIT_DONE, EXIT_FAILED, add_json, print_json
from workbench.errors import ErrorInfo, Place, WorkbenchError, failure
from workbench.files import MAX_TEXT_BYTES, read_limited
from workbench.process_guard import guarded

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping


def ask(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of an ``engine.array_jobs`` job, without the toolchain's imports.

    Raises:
        WorkbenchError: it was rejected, or the process ended without an answer.
    """
    with tempfile.TemporaryDirectory(prefix="workbench-") as folder:
        asked, answer = Path(folder) / "arguments.json", Path(folder) / "answer.json"
        asked.write_text(json.dumps(arguments), encoding="utf-8")
        command = interpreter.command("workbench.engine.jobs.array_jobs", name, str(asked), str(answer))
        environment = interpreter.environment()
        with subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=2, start_new_session=True
        ) as process:
            try:
                with guarded(process.pid):
                    code = process.wait()
            except KeyboardInterrupt:
                process.kill()
                raise
        if not answer.is_file():
            raise failure(
                f"The engine process ended with exit code {code} without a result.",
                "See its output above.",
                Place(kind="tool", id=f"engine.array_jobs.{name}"),
                code="engine-job-ended",
            )
        document: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    if "infos" in document:
        raise WorkbenchError(ErrorInfo.model_validate(info) for info in document["infos"])
    return document


def add_batch(verb: argparse.ArgumentParser) -> None:
    """Add ``--batch`` and ``--json``."""
    verb.add_argument(
        "--batch",
        type=Path,
        metavar="JOBS.json",
        help="a JSON list of objects with these options as keys, run in one process",
    )
    add_json(verb)


def perform(
    options: argparse.Namespace, job: Mapping[str, Any], ask_about: Callable[[list[Any]], dict[str, Any]]
) -> int:
    """Run one job, or those of ``--batch`` with the options as their defaults.

    Args:
        options: With ``batch`` and ``json``.
        job: Options by job key; None if not given.
        ask_about: Returns {"results": [...]} for a list of jobs.

    Raises:
        WorkbenchError: the only job was rejected, or the batch is not a list of jobs.
    """
    given = {key: value for key, value in job.items() if value is not None}
    if options.batch is None:
        (result,) = ask_about([given])["results"]
        if "error" in result:
            raise WorkbenchError(ErrorInfo.model_validate(info) for info in result["infos"])
        _show(options, {key: value for key, value in result.items() if key != "index"}, [result])
        return EXIT_DONE
    jobs = [{**given, **j} if isinstance(j, dict) else j for j in read_jobs(options.batch)]
    results = ask_about(jobs)["results"]
    for result in results:
        result.pop("infos", None)
    refused = sum("error" in result for result in results)
    _show(options, {"results": results, "refused": refused}, results)
    return EXIT_FAILED if refused else EXIT_DONE


def read_jobs(path: Path) -> list[Any]:
    """Return the jobs of a batch.

    Raises:
        WorkbenchError: the file cannot be read, or holds no list.
    """
    place = Place(kind="file", id=str(path))
    try:
        jobs = json.loads(read_limited(path, MAX_TEXT_BYTES))
    except OSError as error:
        raise failure(
            f"{path} cannot be read: {error.strerror}.", where=place, code="file-unreadable"
        ) from error
    except (ValueError, RecursionError) as error:
        raise failure(f"{path} is not JSON: {error}.", where=place, code="jobs-not-json") from error
    if not isinstance(jobs, list):
        raise failure(
            f"{path} is not a list of jobs.", "Example: [{...}, {...}].", place, code="jobs-not-list"
        )
    return jobs


def _show(options: argparse.Namespace, document: Any, results: list[dict[str, Any]]) -> None:
    for result in results:
        for sentence in result.get("warnings", ()):
            print(f"warning: {result['out']}: {sentence}", file=sys.stderr)
        if "error" in result and not options.json:
            print(f"error: job {result['index']}: {result['error']}", file=sys.stderr)
    if options.json:
        print_json(document)
        return
    for result in results:
        if "error" not in result:
            print(f"{result['out']}{_figures(result)}")


def _figures(result: Mapping[str, Any]) -> str:
    parts = []
    if "shape" in result:
        parts.append("x".join(map(str, result["shape"])) or "scalar")
    if result.get("scale") is not None:
        parts.append(f"scale {result['scale']:.9g}, zero point {result['zero_point']}")
    if result.get("sqnr_db") is not None:
        parts.append(f"SQNR {result['sqnr_db']:.2f} dB")
    return f": {', '.join(parts)}" if parts else ""

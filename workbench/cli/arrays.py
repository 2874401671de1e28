"""Arithmetic on arrays, in a process with torch: ``formats`` and ``nnpa``."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import interpreter
from workbench.cli.output import EXIT_DONE, EXIT_FAILED, add_json, print_json
from workbench.errors import ErrorInfo, Place, WorkbenchError, failure, reason_of
from workbench.files import MAX_TEXT_BYTES, read_limited
from workbench.process_guard import guarded
from workbench.targets.formats.parameters import ROLES, ParameterSpec
from workbench.targets.formats.schemes import SPECS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping


def add_formats(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser("formats", help="list number formats, or quantize an array")
    actions = verb.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="list every format, its parameters and the differences to MASE")
    add_json(listing)
    listing.set_defaults(perform=_list_formats)
    action = actions.add_parser("quantize", help="quantize an array to a number format")
    action.add_argument("--scheme", metavar="S", help="a format of `formats list`")
    action.add_argument(
        "--params", metavar="JSON", help='e.g. {"width": 8, "frac_width": 4}; also with MASE\'s names'
    )
    action.add_argument("--in", dest="in_", metavar="X.npy", help="float16, float32 or float64")
    action.add_argument("--out", metavar="Y.npy", help="output file, same shape and type")
    action.add_argument("--role", choices=ROLES, help="role of the array (default: data)")
    action.add_argument(
        "--mase-compatible",
        action="store_const",
        const=True,
        help="bit-exact as in MASE, instead of the textbook form",
    )
    add_batch(action)
    action.set_defaults(perform=_quantize_format)


def _quantize_format(options: argparse.Namespace) -> int:
    job = {
        "in": options.in_,
        "out": options.out,
        "scheme": options.scheme,
        "params": _params(options.params),
        "role": options.role,
        "mase_compatible": options.mase_compatible,
    }
    return perform(options, job, lambda jobs: ask("formats", {"jobs": jobs}))


def _params(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    place = Place(kind="option", id="params")
    try:
        params = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise failure(
            f"--params is not JSON: {reason_of(error)}.",
            'Example: {"width": 8, ...}.',
            where=place,
            code="params-not-json",
        ) from error
    if not isinstance(params, dict):
        raise failure(
            "--params is not an object.", 'Example: {"width": 8, ...}.', place, code="params-not-object"
        )
    return params


def _list_formats(options: argparse.Namespace) -> int:
    if options.json:
        print_json({"formats": [_described(spec) for spec in SPECS]})
        return EXIT_DONE
    for spec in SPECS:
        print(f"{spec.name}: {spec.title}")
        for parameter in spec.parameters:
            print(f"    {parameter.name:<20}{_limits(parameter):<28}{parameter.meaning}")
        if not spec.mase:
            print("  Not in MASE.")
        elif not spec.differences:
            print("  Same in MASE.")
        for difference in spec.differences:
            print(f"  mase: {difference}")
        print(f"  source: {spec.source}\n")
    return EXIT_DONE


def _limits(parameter: ParameterSpec) -> str:
    words: list[str] = [parameter.kind]
    if parameter.least is not None or parameter.most is not None:
        words.append(f"{parameter.least}..{'' if parameter.most is None else parameter.most}")
    words.append("required" if parameter.required else f"default {json.dumps(parameter.default)}")
    return " ".join(words)


def _described(spec: Any) -> dict[str, Any]:
    return {
        "name": spec.name,
        "title": spec.title,
        "family": spec.family,
        "block": spec.block,
        "mase": spec.mase,
        "aliases": list(spec.aliases),
        "source": spec.source,
        "differences": list(spec.differences),
        "parameters": [
            {
                "name": p.name,
                "kind": p.kind,
                "meaning": p.meaning,
                "required": p.required,
                "default": p.default,
                "optional": p.optional,
                "least": p.least,
                "most": p.most,
                "choices": list(p.choices),
                "aliases": list(p.aliases),
            }
            for p in spec.parameters
        ],
    }


_MODES = ("asym", "sym")


def add_nnpa(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser("nnpa", help="int8 arithmetic of IBM NNPA on arrays")
    actions = verb.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_quantize(actions)
    _add_matmul(actions)


def _add_quantize(actions: Any) -> None:
    action = actions.add_parser("quantize", help="print codes, scale and zero point of an array")
    action.add_argument("--mode", choices=_MODES)
    action.add_argument("--role", choices=("activation", "weight"), help="default: activation")
    action.add_argument("--in", dest="in_", metavar="X.npy")
    action.add_argument("--out", metavar="Q.npz", help="q (int8), scale, zero_point, reciprocal")
    add_batch(action)
    action.set_defaults(perform=_quantize_nnpa)


def _add_matmul(actions: Any) -> None:
    action = actions.add_parser("matmul", help="compute the quantized product of two arrays")
    action.add_argument("--mode", choices=_MODES, help="range of the activations")
    action.add_argument("--a", metavar="A.npy", help="activations")
    action.add_argument("--b", metavar="B.npy", help="constant weights, always symmetric")
    action.add_argument("--bias", metavar="C.npy")
    action.add_argument(
        "--numerics",
        choices=("document", "nnpa"),
        help="the documented equations, or a model of the accelerator with dlfloat16",
    )
    action.add_argument("--out", metavar="Y.npy", help="float32")
    add_batch(action)
    action.set_defaults(perform=_matmul)


def _quantize_nnpa(options: argparse.Namespace) -> int:
    job = {"in": options.in_, "out": options.out, "mode": options.mode, "role": options.role}
    return _ask_nnpa(options, "quantize", job)


def _matmul(options: argparse.Namespace) -> int:
    keys = ("a", "b", "bias", "out", "mode", "numerics")
    return _ask_nnpa(options, "matmul", {key: getattr(options, key) for key in keys})


def _ask_nnpa(options: argparse.Namespace, operation: str, job: dict[str, Any]) -> int:
    return perform(options, job, lambda jobs: ask("nnpa", {"operation": operation, "jobs": jobs}))


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
    named = {key: value for key, value in job.items() if value is not None}
    if options.batch is None:
        (result,) = ask_about([named])["results"]
        if "error" in result:
            raise WorkbenchError(ErrorInfo.model_validate(info) for info in result["infos"])
        _show(options, {key: value for key, value in result.items() if key != "index"}, [result])
        return EXIT_DONE
    jobs = [{**named, **j} if isinstance(j, dict) else j for j in read_jobs(options.batch)]
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
            f"{path} cannot be read: {error.strerror}.",
            "Correct the path, or set the file's permissions.",
            where=place,
            code="file-unreadable",
        ) from error
    except (ValueError, RecursionError) as error:
        raise failure(
            f"{path} is not JSON: {reason_of(error)}.",
            "Example: [{...}, {...}].",
            where=place,
            code="jobs-not-json",
        ) from error
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

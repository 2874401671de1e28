"""Run a case, and write the pages of the guide that tell the results.

``python -m tests.zoo.runs --write`` runs every case without a recorded result, records it in
``results.json`` and writes the pages. The results are outcomes, not times.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.zoo.cases import ARCHITECTURES, FAILURES, HERE
from workbench.analysis.gate import verdict
from workbench.guide import REFERENCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.zoo.cases import Case

RESULTS = HERE / "results.json"
_NOTE = "<!-- This page is generated from results: python -m tests.zoo.runs --write writes it. -->\n"


def outcome(engine: Any, case: Case) -> dict[str, Any]:
    """Run a case to the end of verification, and return what became of it."""
    from tests.engine.in_process import project

    made = project(f"{case.file}.py:{case.network}", case.config, case.device)
    if engine.run(made, "verify") != "done":
        return {"outcome": "refused", "code": engine.failure.code}
    verified, quality = engine.result(made, "verify"), engine.result(made, "evaluate")
    lowered = engine.result(made, "lower")
    told = verdict(made.gate, evaluated=quality, lowered=lowered, verified=verified)
    applied = (*lowered.corrections, *engine.result(made, "prepare").corrections)
    decibels = [round(o.sqnr_db, 1) for o in quality.outputs if o.sqnr_db is not None]
    return {
        "outcome": told.verdict,
        "npu": executed(verified.compiled),
        "lsb": verified.max_lsb,
        "db": min(decibels, default=None),
        "delegates": lowered.delegates,
        "cpu": sum(node.cause not in {"border", "conversion"} for node in lowered.cpu_nodes),
        "corrections": sorted(row.id for row in applied if row.places),
    }


def executed(compiled: Any) -> str:
    """Return how the compiled program compares with its TOSA on the functional simulator."""
    if compiled is None or compiled.refused:
        return "not executed"
    if compiled.equal < compiled.elements:
        return f"{compiled.elements - compiled.equal} of {compiled.elements} differ"
    errors = [finding for finding in compiled.findings if finding.severity == "error"]
    return errors[0].code if errors else "equal"


def recorded() -> dict[str, dict[str, Any]]:
    """Return the recorded results, by the id of their case."""
    text = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else "{}"
    found: dict[str, dict[str, Any]] = json.loads(text)
    return found


def engine_for(folder: Path) -> Any:
    """Return an engine in a folder with the files of all networks."""
    from tests.engine.in_process import Engine

    made = Engine(folder)
    for path in {HERE / f"{case.file}.py" for case in (*ARCHITECTURES, *FAILURES)}:
        shutil.copy(path, folder)
    return made


def pages() -> dict[str, str]:
    """Return the text of the pages, by the names of their files."""
    results = recorded()
    return {
        "architectures.md": "\n".join(
            _page(
                "Architectures",
                ARCHITECTURES,
                results,
                "Architectures that people deploy, at small widths and with random weights, taken "
                "from the model to the verified program. *Compiled program* compares what Vela "
                "compiled, executed on the [functional simulator](npu-simulator.md), with its TOSA on "
                "the reference model. Steps are the largest difference of an "
                "output element between the integer program and the quantized model, dB the SQNR of "
                "the quantized model against the float one, for the worst output. Random weights "
                "say little about the quality of trained ones.",
            )
        ),
        "reported-failures.md": "\n".join(
            _page(
                "Reported failures",
                FAILURES,
                results,
                "Failures of ExecuTorch's Arm backend, torchao and torch that were reported, and "
                "some without a report, each as a small network. Steps and dB are as in "
                "[Architectures](architectures.md).",
            )
        ),
    }


def _page(title: str, cases: Sequence[Case], results: dict[str, dict[str, Any]], about: str) -> Iterator[str]:
    yield from (f"# {title}", "", _NOTE, about, "")
    header = (
        "network",
        "config, device",
        "result",
        "compiled program",
        "steps",
        "dB",
        "NPU parts",
        "on the CPU",
        "corrections",
    )
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    for case in cases:
        found = results.get(case.id)
        if found is None:
            continue
        name = f"`{case.network}`"
        if case.link:
            parts = case.link.removeprefix("https://github.com/").split("/")
            name += f" ([{parts[0]}/{parts[1]} {parts[-1]}]({case.link}))"
        told = found.get("code", found["outcome"])
        cells = (found.get(key, "") for key in ("npu", "lsb", "db", "delegates", "cpu"))
        shown = ("" if cell is None else str(cell) for cell in cells)
        corrected = ", ".join(f"`{each}`" for each in found.get("corrections", ()))
        where = f"{case.config}, {case.device.removeprefix('ethos-')}"
        yield f"| {name} | {where} | {told} | {' | '.join(shown)} | {corrected} |"
    yield ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what has no result and write the pages."""
    parser = argparse.ArgumentParser(prog="python -m tests.zoo.runs", description=__doc__)
    parser.add_argument("--write", action="store_true", help="run cases and write the pages")
    parser.add_argument("--pages", action="store_true", help="write the pages only")
    parser.add_argument("--only", default="", help="run cases whose id contains this")
    asked = parser.parse_args(arguments)
    if asked.write:
        _run_missing(asked.only)
    for name, text in pages().items() if asked.write or asked.pages else ():
        (REFERENCE / name).write_text(text, encoding="utf-8")
    return 0


def _run_missing(only: str) -> None:
    results = recorded()
    with tempfile.TemporaryDirectory() as folder:
        engine = engine_for(Path(folder))
        try:
            for case in (*FAILURES, *ARCHITECTURES):
                if case.id in results or only not in case.id:
                    continue
                results[case.id] = outcome(engine, case)
                text = json.dumps(dict(sorted(results.items())), indent=1)
                RESULTS.write_text(f"{text}\n", encoding="utf-8")
                sys.stderr.write(f"CASE {case.id}: {results[case.id]}\n")
        finally:
            engine.close()


if __name__ == "__main__":
    sys.exit(main())

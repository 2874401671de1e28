"""How near the device's limit programs are, as their networks are written and as they are rewritten.

``python -m tests.efficiency_figures --write [--only TEXT]`` measures the samples and architectures
that have no figures, and writes ``tests/data/efficiency_figures.json`` and the page of the guide.
``--check`` measures those that have figures again, and ends with 1 where a program takes more cycles
than was kept; the nightly run does.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.zoo.cases import ARCHITECTURES
from workbench.guide import REFERENCE, table
from workbench.project import edits, store
from workbench.project.model import TargetChoice
from workbench.samples import SAMPLES, copy_sample
from workbench.targets.ethos_u.efficiency import CAUSES
from workbench.targets.ethos_u.rewrites import REWRITES

if TYPE_CHECKING:
    from workbench.project.model import Project

KEPT = Path(__file__).parent / "data" / "efficiency_figures.json"
PAGE = REFERENCE / "efficiency-figures.md"
# How many times the cycles that were kept a program may take, because Vela's searches have limits.
MOST_CYCLES = 1.02
Figures = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """A program: the name of its network, "sample" or the file of the network, config and device."""

    name: str
    source: str
    config: str
    device: str

    @property
    def key(self) -> str:
        """The row in the file of the figures."""
        return " ".join(filter(None, (self.source, self.name, self.config, self.device)))


ROWS: tuple[Row, ...] = (
    *(Row(sample.name, "sample", "", "") for sample in SAMPLES),
    *(Row(c.network, c.file, c.config, c.device) for c in ARCHITECTURES if c.config == "a8w8"),
)


def measured(row: Row, engine: Any) -> Figures:
    """Measure a program, and the one without rewrites where they change something.

    Args:
        row: What is measured.
        engine: ``tests.zoo.runs.engine_for``, for architectures.

    Returns:
        ``rewrites`` are the ids of those that apply, ``after`` has cycles, limit, efficiency and
        cause, ``before`` those without rewrites, None where they are the same; ``code`` alone is
        why the program was refused.
    """
    from tests.engine.in_process import Engine, project

    if row.source != "sample":
        return _figures(engine, project(f"{row.source}.py:{row.name}", row.config, row.device))
    sample = next(sample for sample in SAMPLES if sample.name == row.name)
    with tempfile.TemporaryDirectory() as folder, closing(Engine(Path(folder))) as own:
        # An engine of the tests has networks of its own in its folder.
        path = copy_sample(sample, Path(folder))
        shutil.copytree(path.parent, own.folder, dirs_exist_ok=True)
        return _figures(own, store.load(path))


def _figures(engine: Any, made: Project) -> Figures:
    if engine.run(made, "lower", "evaluate") != "done":
        return {"code": engine.failure.code}
    lowered = engine.result(made, "lower")
    applied = [rewrite.id for rewrite in lowered.rewrites if rewrite.places]
    before = None
    if applied:
        options = {**made.target.options, **{rewrite.id: False for rewrite in REWRITES}}
        plain = edits.set_target(made, TargetChoice(id=made.target.id, options=options))
        if engine.run(plain, "lower", "evaluate") != "done":
            before = {"code": engine.failure.code}
        else:
            before = _program(engine.result(plain, "lower"))
    return {"device": made.target.id, "rewrites": applied, "before": before, "after": _program(lowered)}


def _program(lowered: Any) -> Figures:
    """Return the figures of a program; its cause is that of the delegate with most cycles."""
    ideal = sum(report.ideal_cycles for report in lowered.vela)
    largest = max(lowered.vela, key=lambda report: report.cycles_total, default=None)
    return {
        "cycles": lowered.cycles,
        "ideal": ideal,
        "cause": largest.cause if largest is not None else "",
        "cpu": sum(node.cause not in {"border", "conversion"} for node in lowered.cpu_nodes),
    }


def kept() -> dict[str, Figures]:
    """Return the figures that were kept, by the keys of their rows."""
    found: dict[str, Figures] = json.loads(KEPT.read_text("utf-8")) if KEPT.exists() else {}
    return found


def page(figures: Mapping[str, Figures]) -> str:
    """Return the text of the page."""
    header = ("network", "device", "as written", "rewritten", "limit", "efficiency", "lost to", "rewrites")
    cells = [_cells(row, figures[row.key]) for row in ROWS if row.key in figures]
    lines = [
        "# Figures of the efficiency",
        "",
        "<!-- This page is generated from figures: python -m tests.efficiency_figures --write writes it. -->",
        "",
        "Cycles of the samples and of [architectures](architectures.md) in a8w8, estimated by Vela and "
        "corrected, as the networks are written and as they are [rewritten](rewrites.md); then the "
        "[limit](../user/faster.md) of the device for the products and weights of the rewritten program, "
        "the part of the cycles that it is, before and after, and what most of the others are lost to "
        "where that is below one half. The nightly run measures them again and fails where a program "
        "takes 2 % more cycles. Weights of architectures are random.",
        "",
        *table(header, cells),
    ]
    return "\n".join(lines)


def _cells(row: Row, found: Figures) -> list[str]:
    if "code" in found:
        return [f"`{row.name}`", row.device.removeprefix("ethos-"), f"refused: {found['code']}", *[""] * 5]
    before, after = found["before"], found["after"]
    written = after if before is None else before
    shares = [_efficiency(program) for program in ([before, after] if before else [after])]
    return [
        f"`{row.name}`",
        found["device"].removeprefix("ethos-"),
        f"refused: {written['code']}" if "code" in written else _cycles(written),
        _cycles(after) if before else "",
        f"{after['ideal']:,}",
        " → ".join(shares),
        CAUSES.get(after["cause"], ""),
        ", ".join(f"`{id_}`" for id_ in found["rewrites"]),
    ]


def _cycles(program: Figures) -> str:
    return f"{program['cycles']:,}" + (f", {program['cpu']} on the CPU" if program["cpu"] else "")


def slower(figures: Mapping[str, Figures]) -> set[str]:
    """Return the programs that rewrites make slower, with no operator on the CPU less."""
    both = {key: (found["before"], found["after"]) for key, found in figures.items() if found.get("before")}
    return {
        key
        for key, (before, after) in both.items()
        if "code" not in before and after["cpu"] >= before["cpu"] and after["cycles"] > before["cycles"]
    }


def _efficiency(program: Figures) -> str:
    cycles = program.get("cycles", 0)
    return f"{min(1.0, program['ideal'] / cycles):.0%}" if cycles else "none"


def complaint(before: Figures, now: Figures) -> str:
    """Return what is worse than was kept; "" for nothing."""
    if "code" in now:
        return "" if "code" in before else f"refused: {now['code']}"
    if "code" in before:
        return ""
    old, new = before["after"], now["after"]
    if new["cpu"] > old["cpu"]:
        return f"{new['cpu']} operators on the CPU, kept are {old['cpu']}"
    if new["cycles"] > MOST_CYCLES * old["cycles"]:
        return f"{new['cycles']:,} cycles, kept are {old['cycles']:,}"
    return ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what has no figures, or check what has."""
    parser = argparse.ArgumentParser(prog="python -m tests.efficiency_figures", description=__doc__)
    asked = parser.add_mutually_exclusive_group(required=True)
    asked.add_argument("--write", action="store_true", help="measure what has no figures, write the page")
    asked.add_argument("--check", action="store_true", help="measure what has figures again")
    parser.add_argument("--only", default="", help="rows whose key contains this")
    options = parser.parse_args(arguments)
    figures = kept()
    rows = [row for row in ROWS if options.only in row.key and (row.key in figures) == options.check]
    worse = 0
    for row, found in _each(rows):
        if options.check:
            told = complaint(figures[row.key], found)
            worse += bool(told)
            sys.stdout.write(f"{row.key}: {told}\n" if told else "")
        else:
            figures[row.key] = found
            text = json.dumps({r.key: figures[r.key] for r in ROWS if r.key in figures}, indent=1)
            KEPT.write_text(f"{text}\n", encoding="utf-8")
            sys.stderr.write(f"{row.key}: {found}\n")
    if options.write:
        PAGE.write_text(page(figures), encoding="utf-8")
    return int(worse > 0)


def _each(rows: Sequence[Row]) -> Iterator[tuple[Row, Figures]]:
    """Yield each row with its figures."""
    from tests.zoo.runs import engine_for

    with tempfile.TemporaryDirectory() as folder, closing(engine_for(Path(folder))) as engine:
        for row in rows:
            yield row, measured(row, engine)


if __name__ == "__main__":
    sys.exit(main())

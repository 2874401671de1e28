"""The networks of the corrections' tests in another toolchain, beside their kept figures.

``python -m tests.toolchain_networks NAME [--create SPEC] [--only TEXT] [--out FILE]`` measures each
network of ``tests.correction_figures`` with all corrections on in a toolchain of this machine. It
ends with 1 if a program is not what its quantized model is, or more than 1 dB worse on unseen
samples than in the program's own toolchain.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import correction_figures
from tests.engine.in_process import allowed
from workbench import api
from workbench.engine_process import EngineProcess
from workbench.pipeline.cache import Cache
from workbench.pipeline.plan import plan
from workbench.project import edits
from workbench.project.opened import OpenProject
from workbench.protocol import EngineExit, Event, JobFinished, Ready, RunUntil, StageFailed
from workbench.results import RESULTS, load_result
from workbench.toolchains.registry import title_of, toolchains, tools_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.correction_figures import Figures, Row
    from workbench.ids import StageId
    from workbench.project.model import Project

# What a program may lose against the program's own toolchain [dB].
MOST_DECIBEL = 1.0


class ToolchainEngine:
    """An engine of a toolchain, with the interface of ``tests.engine.in_process.Engine``.

    Args:
        toolchain: Its name; "" for the program's own.
        folder: Receives the networks and the cache.
    """

    def __init__(self, toolchain: str, folder: Path) -> None:
        self.folder, self.cache = folder, Cache(folder / "cache")
        self._toolchain, self._tools = toolchain, title_of(tools_of(toolchain))
        self._process: EngineProcess | None = None
        self._events: Iterator[Event] = iter(())
        self.problems: list[str] = []

    def _started(self) -> EngineProcess:
        if self._process is None:
            self._process = EngineProcess(self._toolchain)
            self._process.run_log(lambda _line: None)
            self._events = self._process.events()
            assert isinstance(next(self._events), Ready)
        return self._process

    def run(self, made: Project, until: StageId, *skip: StageId) -> str:
        """Run a job; return how it ended, "crashed" if the engine ended with it."""
        command = RunUntil(
            job="networks",
            project=self._chosen(made),
            folder=str(self.folder),
            until=until,
            skip=skip,
            cache_root=str(self.cache.root),
        )
        self.problems = []
        self._started().send(allowed(command))
        for event in self._events:
            if isinstance(event, StageFailed):
                self.problems += [f"{info.code}: {info.message}" for info in event.infos]
            if isinstance(event, JobFinished):
                return event.outcome
            if isinstance(event, EngineExit):
                break
        self._process = None
        return "crashed"

    def result(self, made: Project, stage: StageId) -> Any:
        """Return the result of a stage."""
        planned = plan(OpenProject(self._chosen(made), self.folder), self.cache)
        return load_result(RESULTS[stage], self.cache.folder(planned.key(stage)))

    def _chosen(self, made: Project) -> Project:
        return edits.set_toolchain(made, self._toolchain, self._tools if self._toolchain else "")

    def close(self) -> None:
        """End the engine."""
        if self._process is not None:
            self._process.stop()
            list(self._events)


def complaint(row: Row, here: Figures, kept: dict[str, Any]) -> str:
    """Return what is worse than in the program's own toolchain; "" if nothing is."""
    own = correction_figures.Figures(**kept[row.key]["with"])
    if here.outcome != own.outcome:
        return f"{here.outcome}, {own.outcome} in the program's own"
    if own.quality is None or here.quality is None:
        return ""
    lost = own.quality - here.quality
    return f"{lost:.1f} dB worse" if lost > MOST_DECIBEL else ""


def measured(toolchain: str, only: str) -> Iterator[tuple[Row, Figures, str]]:
    """Measure the networks, and yield each with its figures and why it was refused."""
    rows = {row.key.partition(" ")[2]: row for row in correction_figures.ROWS if only in row.key}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        correction_figures.place_networks(folder)
        with closing(ToolchainEngine(toolchain, folder)) as engine:
            for row in rows.values():
                figures = correction_figures.measured(engine, row, on=True)
                yield row, figures, "; ".join(engine.problems)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print each network; return 1 if one is worse."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("toolchain")
    parser.add_argument("--create", default="", metavar="SPEC", help="make it with pip if it is not there")
    parser.add_argument("--only", default="", help="rows whose keys contain this")
    parser.add_argument("--out", type=Path, help="receives the figures as JSON")
    chosen = parser.parse_args(arguments)
    if chosen.create and chosen.toolchain not in toolchains():
        api.create_toolchain(chosen.toolchain, chosen.create)
    kept = json.loads(correction_figures.KEPT.read_text("utf-8"))
    written, worse = {}, 0
    for row, figures, reason in measured(chosen.toolchain, chosen.only):
        problem = complaint(row, figures, kept)
        worse += bool(problem)
        written[row.key] = {**asdict(figures), "problem": problem, "reason": reason}
        print(f"{row.key}: {figures.outcome}, {figures.quality} dB. {problem} {reason}".rstrip(), flush=True)
        if chosen.out is not None:
            chosen.out.write_text(json.dumps(written, indent=1), encoding="utf-8")
    print(f"{len(written)} programs, {worse} worse than in the program's own toolchain.")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())

"""Mutation score: Cosmic Ray changes one place of the core at a time, and tests should notice.

``python -m tests.mutation --seed 1 --count 100 [--package graph]`` draws mutants of the part of
``workbench`` that does not import torch and runs for each the tests of the same package
(``tests/workbench/PACKAGE``, for a module at the top ``tests/workbench/test_*.py``) in a copy of
the sources. It prints the mutants that survive and the share that was killed, and ends with 1 if
that is less than ``LEAST_KILLED``. Some mutants change nothing that a test can notice, such as a
message or the size of the pieces of a computation: the score is to be compared with that of other
days.
"""

from __future__ import annotations

import argparse
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[1]
LEAST_KILLED = 0.7
COPIED = ("workbench", "ui", "tests", "resources", ".ci", "pyproject.toml", "README.md")
# Tested with real engines in tests/engine and tests/e2e, not by the tests of the core.
NOT_CORE = {"engine", "engine_process", "__main__", "__pycache__"}
TIMEOUT_S = 120.0
# Most of these change a union of types in an annotation.
OF_TYPES = "core/ReplaceBinaryOperator_BitOr_"
_CONFIG = """\
[cosmic-ray]
module-path = {modules}
timeout = {timeout}
excluded-modules = []
test-command = {command!r}
[cosmic-ray.distributor]
name = "local"
"""


def packages() -> dict[str, list[str]]:
    """Return the modules of the core by the package whose tests they have; "" is the top."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "workbench").iterdir()):
        if path.stem in NOT_CORE or not (path.is_dir() or path.suffix == ".py"):
            continue
        package = path.name if path.is_dir() else ""
        found.setdefault(package, []).append(f"workbench/{path.name}")
    return {name: paths for name, paths in found.items() if tests_of(name)}


def tests_of(package: str) -> list[str]:
    """Return the tests of a package."""
    folder = ROOT / "tests" / "workbench" / package
    files = [folder] if package else sorted(folder.glob("test_*.py"))
    return [path.relative_to(ROOT).as_posix() for path in files if path.exists()]


def prepare(copy: Path, package: str, modules: Sequence[str]) -> Path:
    """Let Cosmic Ray list the mutants of a package; return its session."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--hypothesis-seed=0",
        *tests_of(package),
    ]
    config, session = copy / f"{package or 'top'}.toml", copy / f"{package or 'top'}.sqlite"
    config.write_text(_CONFIG.format(modules=list(modules), timeout=TIMEOUT_S, command=shlex.join(command)))
    # Every mutant would be killed by tests that fail without one.
    _run(copy, "baseline", config)
    _run(copy, "init", config, session)
    return session


def _run(copy: Path, *arguments: Any) -> None:
    command = ["-m", "cosmic_ray.cli", *map(str, arguments)]
    subprocess.run([sys.executable, *command], cwd=copy, check=True)


def drawn(sessions: Sequence[Path], count: int, source: random.Random) -> None:
    """Leave so many mutants in the sessions, drawn from all."""
    from cosmic_ray.work_db import WorkDB, use_db

    items = []
    for session in sessions:
        with use_db(str(session), WorkDB.Mode.open) as work:
            items += [
                (session, item)
                for item in work.work_items
                if not item.mutations[0].operator_name.startswith(OF_TYPES)
            ]
    chosen = source.sample(items, min(count, len(items)))
    for session in sessions:
        with use_db(str(session), WorkDB.Mode.open) as work:
            work.clear()
            work.add_work_items(item for other, item in chosen if other == session)


def outcomes(session: Path) -> Iterator[tuple[str, bool, str]]:
    """Yield the place of each mutant of a session, whether it was killed, and its change."""
    from cosmic_ray.work_db import WorkDB, use_db

    with use_db(str(session), WorkDB.Mode.open) as work:
        results = dict(work.results)
        for item in work.work_items:
            (mutation,) = item.mutations
            result = results[item.job_id]
            place = f"{mutation.module_path}:{mutation.start_pos[0]} {mutation.operator_name}"
            yield place, result.is_killed, result.diff or ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw mutants, run their tests, print the survivors and the score."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--package", choices=sorted(packages()))
    options = parser.parse_args(arguments)
    wanted = {n: m for n, m in packages().items() if options.package in {None, n}}
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name)
        for source in (ROOT / part for part in COPIED):
            place = copy / source.name
            shutil.copytree(source, place) if source.is_dir() else shutil.copy(source, place)
        sessions = [prepare(copy, package, modules) for package, modules in wanted.items()]
        drawn(sessions, options.count, random.Random(options.seed))
        killed = []
        for session in sessions:
            _run(copy, "exec", session.with_suffix(".toml"), session)
            for place, is_killed, change in outcomes(session):
                killed.append(is_killed)
                if not is_killed:
                    print(f"survived: {place}\n{change}")
    score = sum(killed) / max(1, len(killed))
    print(f"{sum(killed)} of {len(killed)} mutants were killed: {score:.0%}")
    return 0 if score >= LEAST_KILLED else 1


if __name__ == "__main__":
    sys.exit(main())

"""Mutation check: change the core in one place and see whether the tests of its package notice.

``python -m tests.mutation --seed 1 --count 100 [--package graph] [--list]`` draws mutants of the
part of ``workbench`` that does not import torch, runs for each the tests of the same package
(``tests/workbench/<package>``, for a module at the top ``tests/workbench/test_*.py``) in a copy
of the sources, and prints which survived. The exit code is 1 if fewer than nine in ten were
killed. The same seed draws the same mutants of the same sources.

A mutant is one change of the kinds that ``_Finder`` lists: a comparison, an arithmetic or a
boolean operator, a number, a negated condition, a returned value. Limits of what is accepted
(constants named ``MOST``, ``MAX``, ``..._AT_MOST``) become zero: a unit more is as good a limit.
Not changed are annotations, decorators, docstrings and messages, ``strict=True`` of ``zip``,
durations (constants named ``..._S``: no test may measure time), versions of stages (each other
number is as good), and what ``tests/data/equivalent_mutants.json`` lists with a reason.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
LEAST_KILLED = 0.9
TIMEOUT_S = 300.0
# By file, what no test can notice: a reason, and by line as it is written the changes
# ("old -> new"), or "*" for every change of that line.
EQUIVALENT = ROOT / "tests" / "data" / "equivalent_mutants.json"
OPTIONS = (
    "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0",
    # The server has imported Hypothesis before pytest could look at it.
    "-W", "ignore::pytest.PytestAssertRewriteWarning",
)  # fmt: skip
COPIED = ("workbench", "ui", "tests", "resources", "pyproject.toml", "README.md")
# Tested with real engines in tests/engine and tests/e2e, not by the tests of the core.
NOT_CORE = ("workbench/engine", "workbench/engine_process.py", "workbench/__main__.py")

_DURATION = re.compile(r"_?[A-Z][A-Z_]*_S")
_LIMIT = re.compile(
    r"_?(MOST|MAX|LARGEST|LONGEST|KEPT)(_[A-Z_]+)?|[A-Z_]+_(AT_MOST|AT_LEAST|LIMIT_BYTES|KEPT)"
)

_COMPARE = {
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
}  # fmt: skip
_ARITHMETIC = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"), ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "*"), ast.Pow: ("**", "*"),
    ast.LShift: ("<<", ">>"), ast.RShift: (">>", "<<"), ast.BitAnd: ("&", "|"),
    ast.BitXor: ("^", "&"),
}  # fmt: skip
_BOOLEAN = {ast.And: ("and", "or"), ast.Or: ("or", "and")}


@dataclass(frozen=True, order=True)
class Mutant:
    """One change of one file: the bytes from ``start`` to ``end`` become ``new``."""

    file: str
    line: int
    start: int
    end: int
    new: str
    kind: str

    @property
    def package(self) -> str:
        """The folder below ``workbench``, or nothing for a module at the top."""
        parts = Path(self.file).parts
        return parts[1] if len(parts) > 2 else ""

    def apply(self, source: bytes) -> bytes:
        """Return the changed source."""
        return source[: self.start] + self.new.encode() + source[self.end :]


class _Finder:
    """Finds the places of one file that can be changed."""

    def __init__(self, file: str, source: bytes) -> None:
        self._file, self._source = file, source
        starts = [0]
        for line in source.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        self._starts = starts

    def find(self) -> Iterator[Mutant]:
        yield from self._below(ast.parse(self._source))

    def _below(self, node: ast.AST) -> Iterator[Mutant]:
        if _is_type_checking(node) or _is_named(node, _DURATION):
            return
        is_limit = _is_named(node, _LIMIT) or (isinstance(node, ast.keyword) and node.arg == "most")
        if is_limit and node.value is not None:
            yield self._mutant(node.value, "0", "constant")
            return
        if singles := _singles(node):
            for single in singles:
                yield from self._below(single)
            return
        if isinstance(node, ast.Constant):
            yield from self._constants(node)
        yield from self._changes(node)
        for child in self._children(node):
            yield from self._below(child)

    def _children(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield what is below a node and runs; positions in f-strings are wrong before 3.12."""
        if isinstance(node, ast.JoinedStr) or _is_strictness(node):
            return
        is_stage = isinstance(node, ast.Call) and ast.unparse(node.func) == "Stage"
        for name, value in ast.iter_fields(node):
            if name in {"annotation", "returns", "decorator_list", "type_comment", "bases"}:
                continue
            for child in value if isinstance(value, list) else [value]:
                is_version = is_stage and isinstance(child, ast.Constant)
                if isinstance(child, ast.AST) and not is_version:
                    yield child

    def _constants(self, node: ast.Constant) -> Iterator[Mutant]:
        if isinstance(node.value, bool):
            yield self._mutant(node, str(not node.value), "constant")
        elif isinstance(node.value, int | float):
            yield self._mutant(node, f"({node.value!r} + 1)", "constant")

    def _changes(self, node: ast.AST) -> Iterator[Mutant]:
        """Yield the changes of one node."""
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                yield self._between(left, right, _COMPARE[type(op)], "comparison")
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                if not _is_text(left) and not _is_text(right):
                    yield self._between(left, right, _ARITHMETIC[type(op)], "arithmetic")
            case ast.BoolOp(op=op, values=[left, right, *_]):
                yield self._between(left, right, _BOOLEAN[type(op)], "boolean")
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self._mutant(node, self._text(operand), "boolean")
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                yield self._mutant(test, f"(not ({self._text(test)}))", "condition")
            case ast.Return(value=ast.expr() as value):
                # A caller that asks for truth takes None as it takes False, "" and 0.
                if not (isinstance(value, ast.Constant) and not value.value):
                    yield self._mutant(value, "None", "return")

    def _between(
        self, left: ast.expr, right: ast.expr, change: tuple[str, str], kind: str
    ) -> Mutant:
        """Return the change of the operator that stands between two operands."""
        start, end = self._at(left)[1], self._at(right)[0]
        old, new = change
        words = r"\s+".join(re.escape(word) for word in old.split())
        found = re.search(words.encode(), self._source[start:end])
        assert found, (self._file, left.lineno)
        start, end = start + found.start(), start + found.end()
        return Mutant(self._file, left.lineno, start, end, new, kind)

    def _mutant(self, node: ast.AST, new: str, kind: str) -> Mutant:
        start, end = self._at(node)
        return Mutant(self._file, self._source.count(b"\n", 0, start) + 1, start, end, new, kind)

    def _text(self, node: ast.AST) -> str:
        start, end = self._at(node)
        return self._source[start:end].decode()

    def _at(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _is_strictness(node: ast.AST) -> bool:
    """Return whether a node is ``strict=True`` of ``zip``: an assertion that always holds."""
    return isinstance(node, ast.keyword) and node.arg == "strict"


def _singles(node: ast.AST) -> list[ast.Assign]:
    """Return the assignments that one of several values to as many names stands for."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            pairs = zip(names, values, strict=False)
            return [ast.Assign(targets=[name], value=value) for name, value in pairs]
    return []


def _is_named(node: ast.AST, pattern: re.Pattern[str]) -> TypeGuard[ast.Assign | ast.AnnAssign]:
    """Return whether constants are set whose names all match a pattern."""
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        return False
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = [name for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
    return bool(names) and all(pattern.fullmatch(name.id) for name in names)


def _is_text(node: ast.AST) -> bool:
    """Return whether an operand is text: a message, or a type in quotes."""
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | None)
    )


def core(root: Path) -> list[Path]:
    """Return the files that are changed."""
    return [
        path
        for path in sorted((root / "workbench").rglob("*.py"))
        if not path.relative_to(root).as_posix().startswith(NOT_CORE)
    ]


def mutants(root: Path, package: str | None = None) -> list[Mutant]:
    """Return every mutant of the core, or of one package, except those that are equivalent."""
    found, equivalent = [], equivalents()
    for path in core(root):
        source, file = path.read_bytes(), path.relative_to(root).as_posix()
        lines = source.decode().splitlines()
        for mutant in sorted(set(_Finder(file, source).find())):
            line = lines[mutant.line - 1].strip()
            known = equivalent.get((file, line), frozenset())
            is_known = "*" in known or describe(mutant, source) in known
            if not is_known and package in {None, mutant.package}:
                found.append(mutant)
    return found


def equivalents() -> dict[tuple[str, str], frozenset[str]]:
    """Return the changes that no test can notice, by file and line."""
    rows = json.loads(EQUIVALENT.read_text())
    found: dict[tuple[str, str], set[str]] = {}
    for file, groups in rows.items():
        for group in groups:
            for line, changes in group["lines"].items():
                found.setdefault((file, line), set()).update(changes)
    return {place: frozenset(changes) for place, changes in found.items()}


def describe(mutant: Mutant, source: bytes) -> str:
    """Return a change as ``old -> new``."""
    old = " ".join(source[mutant.start : mutant.end].decode().split())
    return f"{old} -> {' '.join(mutant.new.split())}"


def tests_of(mutant: Mutant, root: Path) -> list[str]:
    """Return the test files of a mutant's package, those that name its module first."""
    folder = root / "tests" / "workbench"
    paths = sorted((folder / mutant.package).rglob("test_*.py") if mutant.package else
                   folder.glob("test_*.py"))  # fmt: skip
    module = Path(mutant.file).with_suffix("").as_posix().replace("/", ".")
    parent, _, stem = module.removesuffix(".__init__").rpartition(".")
    named = re.compile(rf"{re.escape(parent)}(\.| import [^\n]*\b){stem}\b|\b{stem}\b")
    paths.sort(key=lambda path: not named.search(path.read_text()))
    return [path.relative_to(root).as_posix() for path in paths]


class Copy:
    """A copy of the sources that mutants are tried in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns(".*"))
            else:
                shutil.copy(source, folder / name)
        environment = {**os.environ, "PYTHONPATH": str(folder), "QT_QPA_PLATFORM": "offscreen"}
        self._server = subprocess.Popen(
            [sys.executable, "-c", "from tests.mutation import serve; serve()"], text=True,
            cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def survives(self, mutant: Mutant) -> bool:
        """Return whether the tests pass although the file is changed."""
        path = self.folder / mutant.file
        source = path.read_bytes()
        path.write_bytes(mutant.apply(source))
        self._forget(path)
        try:
            return self.passes(tests_of(mutant, self.folder))
        finally:
            path.write_bytes(source)
            self._forget(path)

    def _forget(self, path: Path) -> None:
        """Remove what was compiled: a change within a second, of equal length, looks like none."""
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()

    def passes(self, paths: list[str]) -> bool:
        """Return whether the tests of some files pass, if any; one that never ends does not."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        if not paths:
            return True
        self._server.stdin.write(json.dumps([*OPTIONS, *paths]) + "\n")
        self._server.stdin.flush()
        code = int(self._server.stdout.readline())
        if code == 5:
            raise SystemExit(f"No test in {paths}.")
        return code == 0

    def close(self) -> None:
        """End the process that starts the tests."""
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()


def serve() -> None:
    """Run the tests that each line of the input names, each time in a fork of this process.

    The libraries are imported once; the sources that change are imported by the fork.
    """
    import hypothesis
    import numpy
    import pytest

    assert all((hypothesis, numpy))
    for line in sys.stdin:
        child = os.fork()
        if not child:
            with open(os.devnull, "r+b") as nowhere:
                for descriptor in (0, 1, 2):
                    os.dup2(nowhere.fileno(), descriptor)
            os.setpgid(0, 0)
            os._exit(pytest.main(json.loads(line)))
        print(_ending(child), flush=True)


def _ending(child: int) -> int:
    """Return the exit code of a child; one that takes too long is killed with its children."""
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -signal.SIGKILL


def check(drawn: list[Mutant]) -> float:
    """Try mutants one after the other, print each, and return the share that was killed."""
    killed = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Copy(Path(folder))
        for package in sorted({mutant.package for mutant in drawn}):
            first = next(mutant for mutant in drawn if mutant.package == package)
            paths = tests_of(first, copy.folder)
            if not copy.passes(paths) and not copy.passes(paths):
                raise SystemExit(f"The tests of {package or 'the top'} fail without any change.")
        for mutant in drawn:
            survived = copy.survives(mutant)
            killed += not survived
            show("SURVIVED" if survived else "killed", mutant)
        copy.close()
    return killed / len(drawn)


def show(outcome: str, mutant: Mutant) -> None:
    """Print one mutant with the line it changes."""
    source = (ROOT / mutant.file).read_bytes()
    line = source.decode().splitlines()[mutant.line - 1].strip()
    place = f"{mutant.file}:{mutant.line}"
    print(f"{outcome:9}{place}  {describe(mutant, source)}    | {line}", flush=True)


def main() -> int:
    """Draw, try and count."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--package", help="a folder below workbench (default: all of the core)")
    parser.add_argument("--list", action="store_true", help="only print what would be tried")
    options = parser.parse_args()
    known = mutants(ROOT, options.package)
    if not known:
        parser.error(f"There is no package {options.package!r} in the core.")
    drawn = random.Random(options.seed).sample(known, min(options.count, len(known)))
    if options.list:
        for mutant in drawn:
            show("", mutant)
        return 0
    share = check(drawn)
    print(f"{share:.0%} of {len(drawn)} mutants were killed (of {len(known)} possible).")
    return 0 if share >= LEAST_KILLED else 1


if __name__ == "__main__":
    sys.exit(main())

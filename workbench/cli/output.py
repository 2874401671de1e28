"""What verbs print: results, problems, tables, progress of jobs; and options that verbs share."""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shlex
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from workbench import api
from workbench.api import JSON_VERSION
from workbench.errors import ErrorInfo
from workbench.escaping import for_terminal, one_line
from workbench.pipeline.cache import Cache, default_root
from workbench.pipeline.stages import title_of_job
from workbench.protocol import (
    Event,
    LogLine,
    StageFailed,
    StageFinished,
    StageProgress,
    StageSkipped,
    StageStarted,
    StudyProgress,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


EXIT_DONE, EXIT_FAILED, EXIT_USAGE, EXIT_TRUST, EXIT_DIFFERS = 0, 1, 2, 3, 4
EXIT_CANCELLED = 130
# The pause between two lines of progress where stderr is no terminal.
PLAIN_PERIOD_S = 5.0
_COLUMNS = 80


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON document on stdout, with the version of its form."""
    document = {"version": JSON_VERSION, **value}
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    print(_UNPRINTABLE.sub(_escaped, text))


# Controls of a terminal, and of the direction of text; JSON itself has no others than line ends.
_UNPRINTABLE = re.compile("[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def print_problems(infos: Iterable[ErrorInfo], code: int) -> None:
    """Print the problems that ended a verb as the JSON document of its failure."""
    listed = [info.model_dump(mode="json") for info in infos]
    print_json({"error": listed[0] if listed else None, "errors": listed, "exit_code": code})


def print_infos(infos: Iterable[ErrorInfo], label: str = "error") -> None:
    """Print problems on stderr, each with its location and hint."""
    style = "yellow" if label == "warning" else "bold red"
    for info in infos:
        _print_styled([(f"{label}:", style), (f" {info}", "")], sys.stderr)


def is_terminal(stream: TextIO) -> bool:
    """Return whether a stream is a terminal that moves its cursor: not a file, pipe or dumb one."""
    return stream.isatty() and os.environ.get("TERM") not in {"dumb", "unknown"}


def columns(stream: TextIO) -> int:
    """Return the width of a terminal [characters]; ``COLUMNS`` overrides it; 80 if unknown.

    ``shutil.get_terminal_size`` asks the stream that Python started with, which is replaced here.
    """
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or _COLUMNS
    except (OSError, ValueError, AttributeError):
        return _COLUMNS


def _print_styled(parts: Sequence[tuple[str, str]], stream: TextIO) -> None:
    """Print a line of texts, each in a style of rich on a terminal; styles change no character."""
    if not is_terminal(stream):
        print(for_terminal("".join(text for text, _ in parts)), file=stream)
        return
    # Imported where there is a terminal: it takes a tenth of a second.
    from rich.text import Text

    line = Text()
    for text, style in parts:
        line.append(for_terminal(text), style)
    _show(line, stream, is_wrapped=False)


def _show(what: Any, stream: TextIO, *, is_wrapped: bool) -> None:
    """Write what rich draws; ``NO_COLOR`` leaves out all styles."""
    from rich.console import Console

    drawn = io.StringIO()
    console = Console(
        file=drawn,
        force_terminal=True,
        width=columns(stream),
        color_system=None if os.environ.get("NO_COLOR") else "standard",
        highlight=False,
    )
    console.print(what, soft_wrap=not is_wrapped)
    control = getattr(stream, "control", stream.write)
    control(drawn.getvalue())


# The words of a line's first column in a summary.
_LABEL = re.compile(r"(?P<label>[A-Z][a-z]+ *)(?P<rest>.*)", re.DOTALL)
_GOOD = re.compile(r"(Compiled program correct|accurate enough)")
_BAD = re.compile(r"(FAILED|differs|not accurate|LOW:|not correct)")


def print_labelled(line: str) -> None:
    """Print a line of a summary: its label is bold on a terminal, a verdict has a colour."""
    match = _LABEL.match(line) if line[:1].isupper() else None
    label, rest = (match["label"], match["rest"]) if match else ("", line)
    style = "bold red" if _BAD.search(rest) else "green" if _GOOD.search(rest) else ""
    _print_styled([(label, "bold"), (rest, style)], sys.stdout)


def shown_path(path: str | Path) -> str:
    """Return a path for people: relative to the current folder if it is below it, quoted."""
    absolute = Path(os.path.abspath(path))
    try:
        short = absolute.relative_to(Path.cwd())
    except (ValueError, OSError):
        short = absolute
    return shlex.quote(str(short))


def print_next(*commands: str) -> None:
    """Print what to do next, a command on each line."""
    for number, command in enumerate(commands):
        print_labelled(f"Next         {command}" if not number else f"             {command}")


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows with aligned columns; on a terminal they are folded to its width."""
    cells = [list(header), *([one_line(str(cell)) for cell in row] for row in rows)]
    if is_terminal(sys.stdout):
        from rich import box
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
        for name in header:
            table.add_column(Text(name), overflow="fold")
        for row in cells[1:]:
            table.add_row(*map(Text, row))
        _show(table, sys.stdout, is_wrapped=True)
        return
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    for row in cells:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print(line.rstrip())


class Progress:
    """A progress bar on a terminal, plain lines otherwise; always on stderr."""

    def __init__(self) -> None:
        self._terminal = is_terminal(sys.stderr)
        self._open = False
        self._begun = time.monotonic()
        self._last_shown = self._begun

    def line(self, text: str) -> None:
        """Print one line, above the bar if there is one."""
        self.clear()
        self._last_shown = time.monotonic()
        print(for_terminal(text), file=sys.stderr)

    def update(self, stage: str, fraction: float | None, message: str) -> None:
        """Show the progress of a stage; as a line every few seconds where there is no terminal."""
        if not self._terminal:
            if time.monotonic() - self._last_shown >= PLAIN_PERIOD_S:
                share = "" if fraction is None else f"{fraction:4.0%}  "
                self.line(f"{stage:>12}  {share}{message or 'running'}")
            return
        filled = int(24 * (fraction or 0.0))
        bar = "…"
        if fraction is not None:
            bar = "█" * filled + "·" * (24 - filled) + f" {fraction:4.0%}"
        elapsed = f"({time.monotonic() - self._begun:.0f} s)"
        room = columns(sys.stderr) - len(f"{stage:>12} {bar}  {elapsed}") - 1
        self.clear()
        sys.stderr.write(f"{stage:>12} {bar} {one_line(message[: max(room, 0)])} {elapsed}")
        sys.stderr.flush()
        self._open = True

    def clear(self) -> None:
        """Remove the bar."""
        if self._open:
            control = getattr(sys.stderr, "control", sys.stderr.write)
            control("\r\x1b[2K")
            self._open = False


def add_several(
    verb: argparse.ArgumentParser, flag: str, kind: type[int] | type[str] = str, **more: Any
) -> None:
    """Add an option with several values, separated by spaces, commas or both."""

    def split(text: str) -> list[int | str]:
        return [kind(word) for word in text.split(",") if word]

    split.__name__ = kind.__name__
    verb.add_argument(flag, nargs="+", action=_Several, type=split, **more)


class _Several(argparse.Action):
    """Joins the lists of all values of an option."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        """Store the values in the namespace as one list."""
        setattr(namespace, self.dest, [value for part in values or () for value in part])


def add_project(verb: argparse.ArgumentParser) -> None:
    """Add the project file and ``--json``."""
    verb.add_argument("project", type=Path, metavar="PROJECT", help="a .qwb file")
    add_json(verb)


def add_json(verb: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    verb.add_argument("--json", action="store_true", help="print one JSON document on stdout")


def add_trust(verb: argparse.ArgumentParser) -> None:
    """Add ``--trust``."""
    verb.add_argument("--trust", action="store_true", help="allow the project's Python code to run")


def add_engine(verb: argparse.ArgumentParser) -> None:
    """Add the arguments of verbs that start an engine."""
    add_trust(verb)
    verb.add_argument("--no-cache", action="store_true", help="ignore cached results")
    verb.add_argument(
        "--no-acceleration", action="store_true", help="disable the toolchain patches (slower, same bytes)"
    )


@contextmanager
def opened_cache(options: argparse.Namespace) -> Iterator[Cache]:
    """Yield the cache: the user's, or a temporary one."""
    if not getattr(options, "no_cache", False):
        yield Cache(default_root())
        return
    with tempfile.TemporaryDirectory(prefix="workbench-") as folder:
        yield Cache(Path(folder))


class ProgressPrinter:
    """Prints the events of a job on stderr."""

    def __init__(self, *, verbose: bool = False) -> None:
        self._progress = Progress()
        self._verbose = verbose

    def starting(self) -> None:
        """Show that the engine starts, which takes seconds and sends no events."""
        self._progress.line(f"{'Engine':>12}  starting")

    def warning(self, info: ErrorInfo) -> None:
        """Print a warning of the project."""
        self._progress.line(f"warning: {info}")

    def output(self, line: str) -> None:
        """Print a line of the toolchain, if the user asked for them."""
        if self._verbose:
            print(line, file=sys.stderr)

    def event(self, event: Event) -> None:
        """Print an event, if it says something for people."""
        match event:
            case StageStarted():
                self._progress.update(title_of_job(event.stage), None, "")
            case StageProgress():
                self._progress.update(title_of_job(event.stage), event.fraction, event.message)
            case StudyProgress():
                share = event.done / event.total if event.total else None
                self._progress.update(event.study, share, event.message)
            case StageFinished():
                state = "cached" if event.cached else "done"
                self._progress.line(f"{title_of_job(event.stage):>12}  {state:<7} {event.elapsed_s:7.2f} s")
            case StageSkipped():
                self._progress.line(f"{title_of_job(event.stage):>12}  skipped  {event.reason}")
            case StageFailed():
                self._progress.line(f"{title_of_job(event.stage):>12}  failed  {event.elapsed_s:7.2f} s")
            case LogLine() if event.level in {"warning", "error"} or self._verbose:
                self._progress.line(f"{event.level}: {event.text}")
            case _:
                pass


def job_options(options: argparse.Namespace, cache: Cache) -> api.JobOptions:
    """Return how a study of a verb runs, with its progress on stderr."""
    printer = ProgressPrinter()
    printer.starting()
    return {
        "trust": options.trust,
        "cache": cache,
        "accelerate": not options.no_acceleration,
        "on_event": printer.event,
    }

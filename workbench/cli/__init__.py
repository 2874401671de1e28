"""The verbs of ``workbench``: one table of them, one file for each noun."""

from __future__ import annotations

import argparse
import sys
import textwrap
import traceback
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from workbench import logs
from workbench.api import JobFailedError
from workbench.cli import (
    arrays,
    boards,
    firmware,
    fvp,
    generate,
    installation,
    programs,
    project,
    rules,
    run,
    runs,
    search,
    simulate,
    studies,
    tflite,
    trust,
    weights,
)
from workbench.cli.output import (
    EXIT_CANCELLED,
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_TRUST,
    EXIT_USAGE,
    Progress,
    columns,
    print_infos,
    print_problems,
)
from workbench.cli.streams import OutputError, print_fault
from workbench.errors import (
    Cancelled,
    ErrorInfo,
    Place,
    TrustRequiredError,
    WorkbenchError,
    reason_of,
    refused_by_system,
)
from workbench.files import DigestWatch, is_text, remove_parts, watching_digests
from workbench.installation import config_folder, version
from workbench.pipeline.cache import default_root
from workbench.project import store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# What adds the verbs, by task, in the order of the help.
GROUPS = (
    (
        "Make and change a project",
        (
            project.add_project_verbs,
            project.add_settings,
            rules.add_rules,
            rules.add_ranges,
            project.add_samples,
            trust.add_plugins,
            trust.add_trust,
        ),
    ),
    (
        "Run it, and see the results",
        (run.add_run, runs.add_suggest, runs.add_runs, runs.add_compare, runs.add_report),
    ),
    (
        "Find a better one",
        (
            studies.add_sensitivity,
            search.add_search,
            weights.add_improve,
            weights.add_compress,
            weights.add_train,
            studies.add_placement,
            studies.add_blame,
            search.add_sweep,
            studies.add_matrix,
        ),
    ),
    (
        "Look into programs, use other tools",
        (
            programs.add_inspect,
            simulate.add_simulate,
            generate.add_generate,
            tflite.add_tflite,
            programs.add_script,
            programs.add_overlays,
            programs.add_etdump,
            programs.add_decoders,
        ),
    ),
    (
        "Boards, simulators and firmware",
        (boards.add_boards, boards.add_board, fvp.add_fvp, firmware.add_firmware, boards.add_silicon),
    ),
    ("Arithmetic on arrays", (arrays.add_formats, arrays.add_nnpa)),
    ("This installation", (installation.add_doctor, installation.add_toolchain, installation.add_completion)),
)

# Shown in the help instead of the path on this machine.
LOG_DEFAULT = "workbench.log in the user's log folder"

_EPILOG = """exit codes: 0 done; 1 a stage failed; 2 usage or an invalid project;
3 the project names code to run and --trust was not given;
4 all stages ran, but the program is not compiled correctly or not accurate enough; 130 cancelled"""


def _versions() -> str:
    """Return the program's version and those of the toolchain, a line each."""
    from workbench.toolchains.versions import tool_versions

    tools = "\n".join(f"{name} {number}" for name, number in tool_versions().items())
    return f"workbench {version()}\n{tools}"


class _UsageError(WorkbenchError):
    """The command line is wrong; ``usage`` is that of the verb."""

    def __init__(self, message: str, usage: str) -> None:
        super().__init__([ErrorInfo(message=message, code="usage-invalid")])
        self.usage = usage


class _Parser(argparse.ArgumentParser):
    """A parser that raises what is wrong with the command line."""

    def error(self, message: str) -> NoReturn:
        """Raise the problem of a command line.

        Raises:
            _UsageError: Always.
        """
        raise _UsageError(f"{message[:1].upper()}{message[1:]}.", self.format_usage())


class _Root(_Parser):
    """The parser of all verbs, whose help lists them by task."""

    tasks: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = ()
    verbs: Mapping[str, argparse.ArgumentParser] = {}

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Return the options of a command line.

        Raises:
            _UsageError: The command line is wrong, with the usage of its verb.
        """
        options, rest = self.parse_known_args(arguments)
        if rest:
            self.verbs[options.verb].error(f"unrecognized arguments: {' '.join(rest)}")
        return options

    def format_help(self) -> str:
        """Return usage, verbs with a line each, options and exit codes."""
        width_of_text = min(columns(sys.stdout), 100)
        width = max(len(name) for _, verbs in self.tasks for name, _ in verbs) + 4
        about = textwrap.wrap(self.description or "", width_of_text)
        lines = [f"usage: {self.prog} VERB ...", "", *about]
        for title, verbs in self.tasks:
            lines += ["", f"{title}:"]
            for name, words in verbs:
                lines += textwrap.wrap(
                    words,
                    max(width_of_text, 2 * width),
                    initial_indent=f"  {name}".ljust(width),
                    subsequent_indent=" " * width,
                )
        formatter = self._get_formatter()
        formatter.start_section("options")
        formatter.add_arguments([a for a in self._actions if a.option_strings])
        formatter.end_section()
        lines += ["", formatter.format_help().rstrip()]
        lines += ["", "Help on a verb: workbench VERB --help", "", self.epilog or ""]
        return "\n".join(lines) + "\n"


def _refuse_undecodable(arguments: Sequence[str]) -> None:
    """Refuse names that are no text: they cannot be sent to an engine or kept in a project.

    Raises:
        _UsageError: An argument holds bytes that are not of the file system's encoding.
    """
    for argument in arguments:
        if not is_text(argument):
            encoding = sys.getfilesystemencoding()
            shown = argument.encode(errors="backslashreplace").decode()
            raise _UsageError(
                f"{shown} is not a name in {encoding}. Rename the file or folder"
                + (", or set LC_ALL=C.UTF-8" if encoding != "utf-8" else "")
                + ".",
                "",
            )


@cache
def parser() -> _Root:
    """Return the parser with every verb; built once, it is not changed."""
    root = _Root(
        prog="workbench",
        description="Quantize PyTorch models for NPUs, verified, without a window.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        # Else an option of a verb that begins one of these, such as --log, counts as ambiguous.
        allow_abbrev=False,
    )
    root.add_argument("--version", action="version", version=_versions())
    root.add_argument(
        "-v",
        dest="verbosity",
        action="count",
        default=0,
        help="also print the log on stderr; -vv prints the toolchain's output too",
    )
    root.add_argument("--log-level", choices=logs.LEVELS, default="info", help="lowest level in the log file")
    root.add_argument("--log-file", type=Path, metavar="FILE", help=f"the log file; by default {LOG_DEFAULT}")
    root.set_defaults(edits=False, root=root)
    verbs = root.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=_Parser)
    tasks = []
    for title, adders in GROUPS:
        known = len(verbs._choices_actions)  # noqa: SLF001 - the only place of the helps
        for add in adders:
            add(verbs)
        added = verbs._choices_actions[known:]  # noqa: SLF001
        tasks.append((title, tuple((row.dest, row.help or "") for row in added)))
    root.tasks, root.verbs = tuple(tasks), verbs.choices
    return root


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        options = parser().read(given)
        _refuse_undecodable(given)
    except _UsageError as error:
        print(error.usage, end="", file=sys.stderr)
        print_infos(error.infos)
        if "--json" in given:
            print_problems(error.infos, EXIT_USAGE)
        return EXIT_USAGE
    echo = ("", "info", "debug")[min(options.verbosity, 2)]
    log_file = logs.configure(options.log_level, options.log_file, echo=echo)
    if log_file is None and options.log_file is not None:
        print(f"note: No log: {options.log_file} cannot be written.", file=sys.stderr)
    logs.log.info("workbench %s: %s", version(), options.verb)
    for folder in (default_root(), config_folder()):
        remove_parts(folder)
    try:
        code = _perform(options)
    except OutputError as error:
        print_fault(error)
        return EXIT_FAILED
    logs.log.info("%s ended with exit code %d", options.verb, code)
    if code not in {EXIT_DONE, EXIT_CANCELLED} and log_file is not None:
        print(f"Log: {log_file}", file=sys.stderr)
    return code


def _show_digest(progress: Progress) -> DigestWatch:
    def show(path: Path, done: int, size: int) -> None:
        if size:
            progress.update("reading", min(1.0, done / size), path.name)
            if done >= size:
                progress.clear()

    return show


_CANCELLED = ErrorInfo(message="Cancelled.", code="cancelled")


def _perform(options: argparse.Namespace) -> int:
    """Run the verb; a problem that ends it is printed, with --json as a document too."""
    try:
        with (
            store.editing(options.project) if options.edits else nullcontext(),
            watching_digests(_show_digest(Progress())),
        ):
            return int(options.perform(options))
    except WorkbenchError as error:
        code = _code_of(error)
        label = "failed" if code == EXIT_FAILED else "error"
        print_infos(error.infos, label)
        for info in error.infos:
            logs.log.error("%s [%s] %s", info, info.code, info.details)
        infos = error.infos
    except (KeyboardInterrupt, Cancelled):
        print(_CANCELLED, file=sys.stderr)
        code, infos = EXIT_CANCELLED, (_CANCELLED,)
    except OutputError as error:
        print_fault(error)
        return EXIT_FAILED
    except BrokenPipeError:
        return EXIT_FAILED
    except Exception as error:  # noqa: BLE001 - nobody shall see a traceback
        code, infos = EXIT_FAILED, (_unforeseen(error),)
        print_infos(infos)
        logs.log.error("%s", infos[0].details)
    if getattr(options, "json", False):
        print_problems(infos, code)
    return code


def _unforeseen(error: Exception) -> ErrorInfo:
    """Return the problem for an exception that no verb expects; the log gets the traceback."""
    if isinstance(error, MemoryError):
        return ErrorInfo(
            message="There is not enough memory.",
            hint="Close other programs, or raise the limit of memory (ulimit -v).",
            code="memory-missing",
        )
    if refused := refused_by_system(error):
        return refused.model_copy(update={"details": "".join(traceback.format_exception(error))})
    if isinstance(error, OSError) and isinstance(error.filename, str):
        return ErrorInfo(
            message=f"{error.filename} cannot be used: {reason_of(error)}.",
            hint="Check the path, and that you may read and write there.",
            where=Place(kind="file", id=error.filename),
            details="".join(traceback.format_exception(error)),
            code="file-unusable",
        )
    what = str(error).split("\n")[0] or type(error).__name__
    return ErrorInfo(
        message=f"{what} ({type(error).__name__})"[:400],
        hint="The log names the place in the program.",
        details="".join(traceback.format_exception(error)),
        code="unexpected",
    )


def _code_of(error: WorkbenchError) -> int:
    if isinstance(error, TrustRequiredError):
        return EXIT_TRUST
    return EXIT_FAILED if isinstance(error, JobFailedError) else EXIT_USAGE

"""The verbs of ``workbench``: one table of them, one file for each group."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from workbench.cli import (
    blame,
    boards,
    doctor,
    formats,
    fvp,
    improve,
    inspect,
    matrix,
    nnpa,
    placement,
    plugins,
    project_verbs,
    ranges,
    report,
    rules,
    run,
    runs,
    script,
    search,
    sensitivity,
    simulate,
    sweep,
    target,
    train,
)
from workbench.cli.output import EXIT_CANCELLED, EXIT_FAILED, EXIT_TRUST, EXIT_USAGE, print_infos
from workbench.errors import Cancelled, TrustRequiredError, WorkbenchError

if TYPE_CHECKING:
    from collections.abc import Sequence

VERBS = (
    project_verbs,
    boards,
    run,
    runs,
    sensitivity,
    search,
    improve,
    rules,
    plugins,
    target,
    ranges,
    placement,
    blame,
    sweep,
    matrix,
    train,
    inspect,
    simulate,
    report,
    fvp,
    script,
    formats,
    nnpa,
    doctor,
)

_EPILOG = """exit codes: 0 done; 1 a stage failed; 2 usage or an invalid project;
3 the project names code to run and --trust was not given; 130 cancelled"""


def parser() -> argparse.ArgumentParser:
    """Return the parser with every verb."""
    made = argparse.ArgumentParser(
        prog="workbench",
        description="Quantize PyTorch models for NPUs, verified, without a window.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = made.add_subparsers(dest="verb", metavar="VERB", required=True)
    for group in VERBS:
        group.add(verbs)
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit code."""
    options = parser().parse_args(arguments)
    try:
        return int(options.perform(options))
    except TrustRequiredError as error:
        print_infos(error.infos)
        return EXIT_TRUST
    except WorkbenchError as error:
        print_infos(error.infos)
        return EXIT_USAGE
    except (KeyboardInterrupt, Cancelled):
        print("Cancelled.", file=sys.stderr)
        return EXIT_CANCELLED
    except BrokenPipeError:
        return EXIT_FAILED

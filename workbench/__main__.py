"""The command line: everything the window does, without the window."""

from __future__ import annotations

import gc
import sys

from workbench import system_limits
from workbench.interpreter import leave_current_folder, leave_deleted_folder, open_closed_streams


def main() -> int:
    """Prepare the process, then run one verb; return the exit code.

    Most runs need an engine, which takes longer to import its packages than the command line.
    """
    open_closed_streams()
    deleted = leave_deleted_folder()
    leave_current_folder()
    if sys.argv[1:2] != ["run"]:
        return _run(deleted=deleted)
    try:
        from workbench.engine_start import end_early, start_early
    except (ImportError, MemoryError, OSError):
        # The command line says what is missing.
        return _run(deleted=deleted)
    start_early(sys.argv[1:])
    try:
        return _run(deleted=deleted)
    finally:
        end_early()


def _run(*, deleted: bool) -> int:
    """Run one verb; return the exit code."""
    gc.disable()
    try:
        from workbench import cli
        from workbench.cli import streams
        from workbench.cli.output import EXIT_FAILED
    except (ImportError, MemoryError, OSError) as error:
        # A broken installation needs its traceback; a limit of the shell does not.
        if not (remedy := system_limits.remedy()):
            raise
        print(f"error: The program cannot start ({type(error).__name__}).\n  {remedy}", file=sys.stderr)
        return 1

    # What was imported lives as long as the process: no collection looks at it, also not the last one.
    gc.freeze()
    gc.enable()
    streams.make_safe()
    if deleted:
        print("note: The current folder was deleted. Relative paths start at /.", file=sys.stderr)
    try:
        code = cli.main()
    except SystemExit as end:
        # After --help and --version.
        code = end.code if isinstance(end.code, int) else 0
    except streams.OutputError as error:
        streams.print_fault(error)
        code = EXIT_FAILED
    return streams.finish(code, EXIT_FAILED)


if __name__ == "__main__":
    sys.exit(main())

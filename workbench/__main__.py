"""The command line: everything the window does, without the window."""

from __future__ import annotations

import sys

from workbench.interpreter import leave_current_folder


def main() -> int:
    """Leave the current folder out of the search path, then run one verb; return the exit code."""
    leave_current_folder()
    from workbench import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())

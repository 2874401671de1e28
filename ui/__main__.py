"""Entry point of the window: ``quantization-workbench [FILE]``, a project or a program.

Imports at module level stay light: children of the fork server import this module again.
"""

from __future__ import annotations

import gc
import os
import sys

from workbench import system_limits
from workbench.interpreter import leave_current_folder


def has_screen() -> bool:
    """Return whether a display is available."""
    if not sys.platform.startswith("linux"):
        return True
    return any(os.environ.get(v) for v in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"))


def main(arguments: list[str] | None = None) -> int:
    """Open the window; return the exit code."""
    leave_current_folder()
    given = sys.argv[1:] if arguments is None else arguments
    if given == ["--version"]:
        from workbench.installation import version

        sys.stdout.write(f"quantization-workbench {version()}\n")
        return 0
    projects = [word for word in given if not word.startswith("-")]
    if len(projects) != len(given) or len(projects) > 1:
        sys.stderr.write("Usage: quantization-workbench [--version] [PROJECT.qwb | PROGRAM.pte]\n")
        return 0 if given in (["-h"], ["--help"]) else 2
    if not has_screen():
        file = projects[0] if projects else "PROJECT"
        is_program = file.endswith((".pte", ".bpte", ".tflite"))
        verb = f"inspect {file}" if is_program else f"run {file} --out dist"
        sys.stderr.write(f"No display available; `workbench {verb}` runs the same job without a window.\n")
        return 2
    if remedy := system_limits.remedy():
        # Libraries in C++ end the process without a word where memory is missing.
        sys.stderr.write(f"note: The window may end at any time. {remedy}\n")
    # Pydantic's search for plug-ins in all installed packages takes longer than the start.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    gc.disable()
    from ui.shell.start import run

    return run(projects[0] if projects else None)


if __name__ == "__main__":
    sys.exit(main())

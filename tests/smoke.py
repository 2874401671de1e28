"""Tries an installation on any system: ``python -m tests.smoke``.

Compiles, verifies and packs the sample digits, executes the program, ends a running engine, and opens
the window for some seconds. Prints a line for each step, and ends with 1 at the first that fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORKBENCH = [sys.executable, "-m", "workbench"]
WINDOW_S = 20.0


def step(title: str, command: list[str], *, expected: tuple[int, ...] = (0,)) -> str:
    """Run a command; return what it printed, or end with its last lines."""
    done = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", errors="replace", check=False
    )
    if done.returncode not in expected:
        print(f"FAILED  {title}: exit code {done.returncode}\n{(done.stdout + done.stderr)[-4000:]}")
        raise SystemExit(1)
    print(f"passed  {title}", flush=True)
    return done.stdout


def cancelled(project: Path) -> None:
    """Kill a run in its middle; what it started must end with it."""
    command = [*WORKBENCH, "run", str(project), "--trust", "--no-cache", "--json"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        time.sleep(8.0)
        running.kill()
    print("passed  a run is killed (look for python processes that stay)", flush=True)


def window(project: Path) -> None:
    """Open the window; it must stay open until it is ended."""
    start = "from workbench.open_window import main; raise SystemExit(main())"
    command = [sys.executable, "-c", start, str(project)]
    environment = {"QT_QPA_PLATFORM": "offscreen"} if sys.platform.startswith("linux") else {}
    with subprocess.Popen(command, env={**os.environ, **environment}) as opened:
        try:
            code = opened.wait(WINDOW_S)
        except subprocess.TimeoutExpired:
            opened.kill()
            print("passed  the window opens and stays open", flush=True)
            return
    print(f"FAILED  the window ended with exit code {code}")
    raise SystemExit(1)


def main() -> None:
    """Run all steps."""
    print(f"{sys.platform}, Python {sys.version.split()[0]}, {ROOT}")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        os.environ["QUANTIZATION_WORKBENCH_CONFIG"] = str(folder / "config")
        os.environ["QUANTIZATION_WORKBENCH_CACHE"] = str(folder / "cache")
        step("doctor", [*WORKBENCH, "doctor"], expected=(0, 1))
        step("the sample is copied", [*WORKBENCH, "samples", "digits", "--to", str(folder)])
        project = next(folder.rglob("digits.qwb"))
        out = folder / "dist"
        text = step("all stages", [*WORKBENCH, "run", str(project), "--trust", "--json", "--out", str(out)])
        document = json.loads(text)
        if document["gate"]["verdict"] != "right":
            print(f"FAILED  the verdict is {document['gate']['verdict']}")
            raise SystemExit(1)
        print("passed  the program is right", flush=True)
        program = next(out.glob("*.pte"))
        step("the program is executed", [*WORKBENCH, "simulate", str(program)])
        step("toolchains are listed", [*WORKBENCH, "toolchain", "list"])
        own = [*WORKBENCH, "toolchain", "add", "same", "--python", sys.executable]
        step("an engine of another toolchain is added", own)
        step("and runs", [*WORKBENCH, "toolchain", "compare", str(project), "--with", "same", "--trust"])
        cancelled(project)
        window(project)
    print("All steps passed.")


if __name__ == "__main__":
    main()

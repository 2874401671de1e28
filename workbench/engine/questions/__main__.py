"""Answers one question in a process of its own: ``NAME ARGUMENTS.json ANSWER.json``.

Only what the question imports is imported: arithmetic needs torch, not the toolchain. A refusal
is written to the answer as ``{"infos": [...]}``, and the exit code is 1.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

from workbench.errors import WorkbenchError


def main(name: str, arguments: Path, to: Path) -> int:
    """Answer, and return the exit code."""
    os.dup2(2, 1)
    module = importlib.import_module(f"workbench.engine.questions.{name}")
    try:
        module.answer(json.loads(arguments.read_text(encoding="utf-8")), to)
    except WorkbenchError as error:
        infos = [info.model_dump() for info in error.infos]
        to.write_text(json.dumps({"infos": infos}), encoding="utf-8")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])))

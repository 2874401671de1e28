"""``inspect``: what is inside a ``.pte``."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.cli.arguments import add_json
from workbench.cli.job import Job
from workbench.cli.output import EXIT_DONE, print_json
from workbench.errors import WorkbenchError, failure
from workbench.protocol import Ask, StageFailed

if TYPE_CHECKING:
    import argparse


def add(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser("inspect", help="open any .pte")
    verb.add_argument("program", type=Path, metavar="FILE.pte")
    add_json(verb)
    verb.set_defaults(perform=_inspect)


def _inspect(options: argparse.Namespace) -> int:
    path: Path = options.program
    if not path.is_file():
        raise failure(f"{path} is not there.")
    description = _ask(path)
    if options.json:
        print_json(description)
    else:
        _print(path, description)
    return EXIT_DONE


def _ask(path: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="workbench-") as folder:
        answer = Path(folder) / "answer.json"
        job = Job()
        command = Ask(
            job="inspect",
            question="inspect",
            arguments={"path": str(path.absolute())},
            answer=str(answer),
        )
        if job.run(command) != "done":
            infos = [i for e in job.events if isinstance(e, StageFailed) for i in e.infos]
            raise WorkbenchError(infos)
        found: dict[str, Any] = json.loads(answer.read_text())
        return found


def _print(path: Path, found: dict[str, Any]) -> None:
    print(f"{path.name}: {found['bytes']:,} bytes, methods {', '.join(found['methods'])}")
    for side in ("inputs", "outputs"):
        for tensor in found[side]:
            print(
                f"  {side[:-1]:<9}{tensor.get('dtype', tensor['type'])} {tensor.get('shape', '')}"
            )
    for delegate in found["delegates"]:
        name, size = delegate["backend"], delegate["bytes"]
        print(f"  delegate {delegate['index']}: {name}, {size:,} bytes")
        for name, size in delegate.get("vela_blocks", {}).items():
            print(f"    {name:<14}{size:>12,} bytes")
        if "scratch_bytes" in delegate:
            print(f"    scratch needed {delegate['scratch_bytes']:,} bytes")
    memory = found["memory"]
    print(f"  planned buffers {memory['planned_bytes']} bytes")
    print(f"  method pool     {memory['method_pool_bytes']:,} bytes")
    print(f"  scratch pool    {memory['scratch_pool_bytes']:,} bytes")
    print(f"  kernels         {', '.join(found['kernels']) or 'none'}")

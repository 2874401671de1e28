"""``script``: export a stand-alone Python script that creates the same program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.analysis.ranges import RangeTaker, needs_calibration, read_chosen
from workbench.cli.output import EXIT_DONE, add_project, open_project, print_json
from workbench.errors import Place, WorkbenchError, failure
from workbench.files import write_file
from workbench.pipeline.cache import Cache, default_root
from workbench.pipeline.plan import plan
from workbench.pipeline.resolution import problems
from workbench.results import ExportResult, ImportResult, WeightsTaken, load_result
from workbench.script import script
from workbench.script.aot_arm_compiler import give_command

if TYPE_CHECKING:
    import argparse

    from workbench.project.model import Project


def add(verbs: Any) -> None:
    """Add the verb."""
    verb = verbs.add_parser(
        "script",
        help="write a plain ExecuTorch script that creates the same .pte",
        description="Range methods are exported as their resulting ranges.",
    )
    add_project(verb)
    verb.add_argument("--out", type=Path, required=True, metavar="FILE.py")
    verb.add_argument(
        "--aot",
        action="store_true",
        help=("write the model for ExecuTorch's aot_arm_compiler instead, and print its command"),
    )
    verb.set_defaults(perform=_script)


def _ranges(project: Project, folder: Path) -> dict[str, tuple[float, float]]:
    """Return the ranges that the project sets.

    Raises:
        WorkbenchError: range methods need a calibration, and there is none.
    """
    cache = Cache(default_root())
    stage = plan(project, folder, cache).of("calibrate")
    if needs_calibration(project) and stage.state != "cached":
        raise failure(
            "The script contains calibrated ranges, and there is no calibration for the "
            "current project.",
            "Run: workbench run PROJECT --until calibrate",
            Place(kind="stage", id="calibrate"),
            code="calibration-outdated",
        )
    return read_chosen(project, cache.folder(stage.key), RangeTaker())[0]


def _has_branches(project: Project, folder: Path) -> bool:
    """Return whether the program has branches; True if it has not been exported."""
    cache = Cache(default_root())
    stage = plan(project, folder, cache).of("export")
    known = stage.state == "cached"
    return not known or bool(load_result(ExportResult, cache.folder(stage.key)).branches)


def _weights(project: Project, folder: Path) -> WeightsTaken | None:
    """Return where the weights were found; None if the model has not been imported."""
    cache = Cache(default_root())
    stage = plan(project, folder, cache).of("import_model")
    known = stage.state == "cached"
    return load_result(ImportResult, cache.folder(stage.key)).weights if known else None


def _script(options: argparse.Namespace) -> int:
    project, folder = open_project(options)
    errors = [p.info for p in problems(project, folder, None) if p.level == "error"]
    if errors:
        raise WorkbenchError(errors)
    commands: list[str] = []
    if options.aot:
        commands, text = give_command(project, folder, options.out)
    else:
        ranges, branches = _ranges(project, folder), _has_branches(project, folder)
        weights = _weights(project, folder)
        text = script(project, folder, options.out, ranges, branches=branches, weights=weights)
        commands = [f"python {options.out}"]
    try:
        write_file(options.out, text.encode())
    except OSError as error:
        raise failure(
            f"{options.out} cannot be written: {error.strerror}.", code="file-not-writable"
        ) from error
    if options.json:
        print_json({"script": str(options.out), "commands": commands})
        return EXIT_DONE
    print(f"Wrote {options.out}. Run{f' in {options.out.parent}' if options.aot else ''}:")
    for command in commands:
        print(f"  {command}")
    return EXIT_DONE

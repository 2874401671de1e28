"""Runner study: build a runner for the project's program from an ExecuTorch checkout."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from workbench.deploy.simulators.compatibility import Program
from workbench.deploy.simulators.discovery import adopt_runner, load_settings, runners_folder
from workbench.deploy.simulators.runner_build import (
    Build,
    ProgramSource,
    Watching,
    build_runner,
    known_checkouts,
)
from workbench.errors import Place, failure

if TYPE_CHECKING:
    from workbench.engine.studies.study import StudyContext

_WHOLE = 100


def run(study: StudyContext) -> None:
    """Build and store a runner, and add it to this machine's settings.

    Raises:
        WorkbenchError: there is no checkout, or the build failed.
        Cancelled: cancelled by the user.
    """
    context = study.stage
    (checkout,) = known_checkouts(str(study.options.get("checkout") or load_settings().executorch))
    wanted = cast("ProgramSource", study.options.get("wanted", "semihosting"))
    address = int(str(study.options.get("address") or "0"), 0)
    if wanted == "address" and not address:
        raise failure(
            "A runner that loads the program from memory needs an address.",
            "Give an address such as 0x62000000, in a memory that is large enough for the program.",
            Place(kind="option", id="address"),
            code="runner-address-missing",
        )
    data = (context.path("lower") / "program.pte").read_bytes()
    build = Build(checkout, Program("program.pte", data), wanted, address, bool(study.options.get("etdump")))
    tree = context.cache.root / "builds" / build.name
    study.report(0, _WHOLE, "configuring")

    def progress(share: float) -> None:
        study.report(round(share * _WHOLE), _WHOLE, "compiling")

    watching = Watching(context.log, progress, context.cancelled.is_set)
    runner = build_runner(build, tree, runners_folder() / build.name, watching)
    adopt_runner(runner.path, address if wanted == "address" else None)
    study.report(_WHOLE, _WHOLE, f"the runner is {runner.path}")

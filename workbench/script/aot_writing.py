"""A project as a command line of ExecuTorch's ``aot_arm_compiler``, where there is an equal one."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import ErrorInfo, Place, WorkbenchError
from workbench.project.qconfig import A8W8
from workbench.script import demand_arm
from workbench.script.data_part import data_part
from workbench.script.model_part import model_part
from workbench.targets import target_of
from workbench.targets.ethos_u_extras import CPU_KERNELS
from workbench.targets.vela_ini import OPTION as OWN_INI_OPTION

if TYPE_CHECKING:
    from workbench.project.model import Project

_MOST_SAMPLES = 1000
_HEAD = '''"""The model of {name} for aot_arm_compiler; run, it writes calibration samples."""

import sys
from pathlib import Path

import numpy as np
import torch

HERE = (Path(__file__).parent / {base!r}).resolve()
'''
_TAIL = """
program, ModelInputs = load_model()
input_names = [str(name) for name in program.graph_signature.user_inputs]
ModelUnderTest = program.module(check_guards=False)
ModelUnderTest.eval = lambda: ModelUnderTest  # it was in eval when it was exported

if __name__ == "__main__":
    folder = Path(__file__).parent / {samples!r}
    folder.mkdir(exist_ok=True)
    for number, sample in enumerate(samples(ModelInputs)):
        torch.save(tuple(sample), folder / f"{{number:05d}}.pt")
"""


def give_command(project: Project, folder: Path, out: Path) -> tuple[list[str], str]:
    """Return the commands that compile a project with ExecuTorch's own tool, and a Python file.

    Args:
        project: What to compile.
        folder: Where the project's relative paths start.
        out: Where the Python file will lie, which the commands name.

    Raises:
        WorkbenchError: there is no equal command; every reason.
    """
    demand_arm(project)
    reasons = list(_differences(project))
    if reasons:
        raise WorkbenchError([
            ErrorInfo(
                message=f"aot_arm_compiler cannot do what the project does: {reason}.",
                hint="workbench script writes a plain Python script that does.",
                where=Place(kind="option", id="aot"),
            )
            for reason in reasons
        ])  # fmt: skip
    target = target_of(project.target.id).complete(project.target)
    samples = f"{out.stem}_samples"
    words = [
        "python", "-m", "executorch.backends.arm.scripts.aot_arm_compiler",
        f"--model_name={out.name}", "--delegate", "--quantize", f"--target={target.id}",
        f"--system_config={target.options['system_config']}",
        f"--memory_mode={target.options['memory_mode']}",
    ]  # fmt: skip
    commands = []
    if project.calibration is not None:
        commands.append(f"python {shlex.quote(out.name)}")
        words.append(f"--calibration_data={samples}")
    if target.options.get("separate_io_regions"):
        words.append("--direct_drive")
    if not project.model.strict_export:
        words.append("--non_strict_export")
    commands.append(shlex.join([*words, f"--output={project.name}.pte"]))
    base = os.path.relpath(folder, out.absolute().parent)
    parts = [
        _HEAD.format(name=project.name, base=base), model_part(project, folder, branches=False),
        data_part(project, folder), _TAIL.format(samples=samples),
    ]  # fmt: skip
    return commands, "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _differences(project: Project) -> Iterator[str]:
    """Yield what the project says and the compiler's command line cannot."""
    options = target_of(project.target.id).complete(project.target).options
    rules = [rule for rule in project.rules if rule.enabled]
    plain = [rule for rule in rules if rule.kind == "global" and not rule.keeps_off]
    if len(rules) != 1 or len(plain) != 1 or project.config_of(plain[0]) != A8W8:
        yield "it has one config for everything, a8w8 per channel with histograms"
    if project.ranges or project.range_methods:
        yield "it takes ranges as calibration gives them"
    if project.improvers:
        yield "it has no improvers"
    usual = {"optimise": "Performance", "arena_cache_bytes": None, "extra_flags": "",
             "integer_io": False}  # fmt: skip
    both = {"cop_format": "COP2", "separate_io_regions": True}
    for name, value in options.items():
        if name in {"system_config", "memory_mode"} or usual.get(name, "?") == value:
            continue
        # Its kernels at the border are cortex_m's, save where it drives the NPU directly.
        if (name, value) == (CPU_KERNELS, "cortex_m") and not options.get("separate_io_regions"):
            continue
        if not (name in both and all(options.get(k) == v for k, v in both.items())):
            said = "an own .ini" if name == OWN_INI_OPTION else f"the option {name}"
            yield f"it cannot be given {said}"
    limit = project.calibration.limit if project.calibration else None
    if project.calibration is not None and (limit is None or limit > _MOST_SAMPLES):
        yield f"it reads {_MOST_SAMPLES} calibration samples at most, the project has no such limit"

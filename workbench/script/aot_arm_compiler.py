"""Import and export of command lines of ExecuTorch's ``aot_arm_compiler``.

Source: ExecuTorch 1.5.1, ``backends/arm/scripts/aot_arm_compiler.py`` (options, model and
calibration sample lookup) and ``backends/arm/ethosu/compile_spec.py`` (its defaults).
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from workbench.deploy.firmware_files import file_stem
from workbench.errors import ErrorInfo, Place, WorkbenchError, failure
from workbench.escaping import in_python_docstring
from workbench.project import edits
from workbench.project.configs import A8W8
from workbench.project.model import DataSource, ModelSource, Project, TargetChoice
from workbench.project.opened import OpenProject
from workbench.project.store import save_new
from workbench.script import demand_arm
from workbench.script.model_and_data import data_part, model_part, tensor_outputs_part
from workbench.targets import target_of
from workbench.targets.ethos_u.devices import family_of
from workbench.targets.ethos_u.options import CPU_KERNELS
from workbench.targets.ethos_u.vela_ini import OPTION as OWN_INI_OPTION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue


_TOOL = "aot_arm_compiler"
_VELAS_OWN = "Arm/vela.ini"
# ExecuTorch's defaults per family; those of the workbench differ on U85.
_DEFAULTS = {
    "u55": ("Ethos_U55_High_End_Embedded", "Shared_Sram"),
    "u65": ("Ethos_U65_High_End", "Dedicated_Sram_384KB"),
    "u85": ("Ethos_U85_SYS_DRAM_Mid", "Sram_Only"),
}
_LEFT_OUT = {
    "etrecord": "--etrecord has no equivalent: the window shows the graph and its lineage.",
    "intermediates": "--intermediates has no equivalent: results of every stage are stored.",
    "enable_debug_mode": "--enable_debug_mode is not needed: Vela's tables are always read.",
    "evaluate": "--evaluate is ignored by the compiler itself.",
    "evaluate_config": "--evaluate_config is ignored by the compiler itself.",
    "debug": "--debug has no equivalent: see the log.",
    "bundleio": "--bundleio is not needed: every package has a bundled program.",
    "enable_qdq_fusion_pass": "--enable_qdq_fusion_pass does nothing in ExecuTorch 1.5.1.",
}


@dataclass(frozen=True)
class Taken:
    """The project, the Python files it needs beside it, and notes on unsupported options."""

    project: Project
    files: Mapping[str, str]
    notes: tuple[str, ...]


def take_command(command: str, folder: Path, name: str) -> Taken:
    """Return the project that is equivalent to a command line.

    Args:
        command: The command line, with or without ``python -m``; line continuations are allowed.
        folder: Folder of the project; relative paths of the project and the command start there.
        name: The project's name.

    Raises:
        WorkbenchError: not such a command, or it uses an unsupported option.
    """
    options = _parsed(command)
    for wrong, hint in _refusals(options):
        raise failure(wrong, hint, Place(kind="option", id="command"), code="aot-option-not-supported")
    stem = f"{name}_model"
    project = Project(
        name=name,
        model=ModelSource(spec=f"{stem}.py:model", strict_export=options.strict_export),
        calibration=(DataSource(spec=f"{stem}.py:calibration") if options.calibration_data else None),
        target=_target(options),
    )
    if options.quantize:
        project = edits.assign(project, "global", "", "a8w8")
    return Taken(project, {f"{stem}.py": _code(options, folder)}, tuple(_notes(options)))


# The longest command that Linux passes to a program.
_MOST_CHARACTERS = 128 << 10


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise an error instead of exiting."""
        raise failure(
            f"The command cannot be read: {message}.",
            f"Paste the complete line, starting with python -m ...{_TOOL}.",
            Place(kind="option", id="command"),
            code="aot-command-invalid",
        )


def _parsed(command: str) -> argparse.Namespace:
    if len(command) > _MOST_CHARACTERS:
        raise failure(
            f"The command is longer than {_MOST_CHARACTERS} characters.",
            f"Paste one line, starting with python -m ...{_TOOL}.",
            Place(kind="option", id="command"),
            code="aot-command-too-long",
        )
    try:
        words = shlex.split(command.replace("\\\n", " ").replace("\n", " "))
    except ValueError as error:
        raise failure(f"The command cannot be read: {error}.", code="aot-command-unreadable") from error
    tools = [at for at, word in enumerate(words) if _TOOL in word]
    if not tools:
        raise failure(
            f"Not a command line of {_TOOL}.",
            f"Paste the complete line, starting with python -m ...{_TOOL}.",
            Place(kind="option", id="command"),
            code="aot-command-other-tool",
        )
    parser = _Parser(prog=_TOOL, add_help=False)
    parser.add_argument("-m", "--model_name", required=True)
    parser.add_argument("-t", "--target", default="ethos-u55-128")
    parser.add_argument("-e", "--evaluate", nargs="?", const="generic")
    parser.add_argument("-c", "--evaluate_config")
    parser.add_argument("--config", default=_VELAS_OWN)
    parser.add_argument("--non_strict_export", dest="strict_export", action="store_false")
    for flags in (["-i", "--intermediates"], ["-o", "--output"], ["-s", "--so_library"],
                  ["--model_input"], ["--calibration_data"], ["--system_config"],
                  ["--memory_mode"], ["--enable_debug_mode"]):  # fmt: skip
        parser.add_argument(*flags)
    for flags in (["-d", "--delegate"], ["-q", "--quantize"], ["--bundleio"], ["--etrecord"],
                  ["--debug"], ["--enable_qdq_fusion_pass"], ["--direct_drive"],
                  ["--cortex-m-explicit-layout"]):  # fmt: skip
        parser.add_argument(*flags, action="store_true")
    return parser.parse_args(words[tools[-1] + 1 :])


def _refusals(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    if options.target.rpartition("-")[0] not in {f"ethos-{name}" for name in _DEFAULTS}:
        yield (f"The workbench does not compile for {options.target}.", "Ethos-U targets are supported.")
    if options.so_library:
        yield "Operators from a shared library (-s) are not supported.", "Leave -s out."
    if options.calibration_data and not options.quantize:
        yield "--calibration_data needs --quantize.", f"{_TOOL} rejects it as well."
    serialized = options.model_name.endswith((".pt", ".pth"))
    if serialized and not options.model_input:
        yield f"{options.model_name} needs --model_input.", f"{_TOOL} rejects it as well."


def _target(options: argparse.Namespace) -> TargetChoice:
    target = target_of(options.target)
    config, mode = _DEFAULTS[family_of(options.target).name]
    given: dict[str, JsonValue] = {
        "system_config": options.system_config or config,
        "memory_mode": options.memory_mode or mode,
    }
    if options.config != _VELAS_OWN:
        given[OWN_INI_OPTION] = options.config
    if options.direct_drive:
        given |= {"cop_format": "COP2", "separate_io_regions": True}
    else:
        given[CPU_KERNELS] = "cortex_m"
    return target.complete(TargetChoice(id=options.target, options=given))


def _notes(options: argparse.Namespace) -> Iterator[str]:
    if not options.quantize:
        yield "Without --quantize nothing is quantized: the project has no rules."
    if not options.delegate:
        yield (
            "Without --delegate nothing would run on the NPU; the project delegates all supported operators."
        )
    if options.quantize and not options.calibration_data:
        yield "Without --calibration_data ranges come from the example input only."
    if options.output:
        yield f"The output {options.output} is ignored: a package has fixed file names."
    for name, note in _LEFT_OUT.items():
        if getattr(options, name):
            yield note


def _code(options: argparse.Namespace, folder: Path) -> str:
    """Return the Python file with the model, and with the samples if the command has some."""
    parts = [
        f'"""The model of an {_TOOL} command line, and its calibration samples."""\n\n'
        "from pathlib import Path\n\nimport torch\n\nHERE = Path(__file__).parent\n",
        _model_code(options, folder),
    ]
    if options.calibration_data:
        parts.append(_SAMPLES.format(path=_relative(options.calibration_data, folder)))
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _model_code(options: argparse.Namespace, folder: Path) -> str:
    name, given = str(options.model_name), "inputs"
    if options.model_input:
        given = f"torch.load(HERE / {_relative(options.model_input, folder)!r}, weights_only=True)"
    if name.endswith(".py"):
        file = Path(_relative(name, folder))
        if file.parent != Path() or not file.stem.isidentifier():
            raise failure(
                f"The model file {name} is not in the project's folder.",
                f"Save the project in {Path(name).parent}, so that the file is trusted with it.",
                Place(kind="option", id="command"),
                code="aot-model-not-beside-project",
            )
        body = f"    from {file.stem} import ModelInputs as inputs\n"
        body += f"    from {file.stem} import ModelUnderTest\n\n"
        return f"def model():\n{body}    return ModelUnderTest, {given}\n"
    if name.endswith((".pt", ".pth")):
        body = f"    made = torch.load(HERE / {_relative(name, folder)!r}, weights_only=False)\n"
        return f"def model():\n{body}    return made, {given}\n"
    return _REGISTERED.format(name=name, given=given)


_REGISTERED = """
def model():
    from executorch.examples.models import MODEL_NAME_TO_MODEL
    from executorch.examples.models.model_factory import EagerModelFactory

    made, inputs, *_ = EagerModelFactory.create_model(*MODEL_NAME_TO_MODEL[{name!r}])
    return made, {given}
"""
_SAMPLES = '''
def calibration():
    """Yield the samples in the order in which the compiler reads them."""
    named = HERE / {path!r}
    found = sorted(str(p) for p in named.rglob("*") if p.suffix.lower() in {{".pt", ".pth"}})
    for path in found[:1000] if named.is_dir() else [named]:
        sample = torch.load(path, weights_only=True)
        sample = sample["pixel_values"] if isinstance(sample, dict) else sample
        yield tuple(sample) if isinstance(sample, (list, tuple)) else (sample,)
'''


def _relative(path: Any, folder: Path) -> str:
    """Return a path of the command relative to the project's folder."""
    text = str(path)
    return os.path.relpath(text, folder) if os.path.isabs(text) else text


def write_taken(taken: Taken, project: Path, *, overwrite: bool = False) -> None:
    """Write a project and its files.

    Args:
        taken: The imported project.
        project: The project file; other files are written beside it.
        overwrite: Whether existing files may be replaced.

    Raises:
        WorkbenchError: a file exists or cannot be written.
    """
    files = {project.parent / name: text.encode() for name, text in taken.files.items()}
    save_new(taken.project, project, files, overwrite=overwrite)


_MOST_SAMPLES = 1000
_HEAD = '''"""The model of {name} for aot_arm_compiler; run, it writes calibration samples."""

import random
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


def give_command(opened: OpenProject, out: Path) -> tuple[list[str], str]:
    """Return the ``aot_arm_compiler`` commands that compile a project, and a Python file.

    Args:
        opened: The project.
        out: Path of the Python file that the commands refer to.

    Raises:
        WorkbenchError: there are no equivalent commands; lists every reason.
    """
    project = opened.project
    demand_arm(project)
    reasons = list(_differences(project))
    if reasons:
        raise WorkbenchError([_not_supported(reason) for reason in reasons])
    target = target_of(project.target.id).complete(project.target)
    samples = f"{out.stem}_samples"
    words = [
        "python",
        "-m",
        "executorch.backends.arm.scripts.aot_arm_compiler",
        f"--model_name={out.name}",
        "--delegate",
        "--quantize",
        f"--target={target.id}",
        f"--system_config={target.options['system_config']}",
        f"--memory_mode={target.options['memory_mode']}",
    ]
    commands = []
    if project.calibration is not None:
        commands.append(f"python {shlex.quote(out.name)}")
        words.append(f"--calibration_data={samples}")
    if target.options.get("separate_io_regions"):
        words.append("--direct_drive")
    if not project.model.strict_export:
        words.append("--non_strict_export")
    commands.append(shlex.join([*words, f"--output={file_stem(project.name)}.pte"]))
    base = os.path.relpath(opened.folder, out.absolute().parent)
    parts = [
        _HEAD.format(name=in_python_docstring(project.name), base=base),
        tensor_outputs_part(),
        model_part(opened, branches=False),
        data_part(opened),
        _TAIL.format(samples=samples),
    ]
    return commands, "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _not_supported(reason: str) -> ErrorInfo:
    return ErrorInfo(
        message=f"aot_arm_compiler cannot express this project: {reason}.",
        hint="Use workbench script to export a plain Python script.",
        where=Place(kind="option", id="aot"),
        code="aot-not-supported",
    )


def _differences(project: Project) -> Iterator[str]:
    """Yield the settings of the project that the command line cannot express."""
    options = target_of(project.target.id).complete(project.target).options
    rules = [rule for rule in project.rules if rule.enabled]
    plain = [rule for rule in rules if rule.kind == "global" and not rule.keeps_off]
    if len(rules) != 1 or len(plain) != 1 or project.config_of(plain[0]) != A8W8:
        yield "it has one config for all modules, a8w8 per channel with histograms"
    if project.ranges or project.range_methods:
        yield "it has no pinned ranges and range methods"
    if project.improvers:
        yield "it has no improvers"
    usual = {"optimise": "Performance", "arena_cache_bytes": None, "extra_flags": "", "integer_io": False}
    both = {"cop_format": "COP2", "separate_io_regions": True}
    for name, value in options.items():
        if name in {"system_config", "memory_mode"} or usual.get(name, "?") == value:
            continue
        # Its border kernels are those of cortex_m, except for direct drive.
        if (name, value) == (CPU_KERNELS, "cortex_m") and not options.get("separate_io_regions"):
            continue
        if not (name in both and all(options.get(k) == v for k, v in both.items())):
            setting = "an own .ini" if name == OWN_INI_OPTION else f"the option {name}"
            yield f"it has no equivalent of {setting}"
    limit = project.calibration.limit if project.calibration else None
    if project.calibration is not None and (limit is None or limit > _MOST_SAMPLES):
        yield (f"it reads at most {_MOST_SAMPLES} calibration samples, the project has no such limit")

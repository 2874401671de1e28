"""A project taken over from aot_arm_compiler's command line gives the NPU what that gives it."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest
import torch

from tests.engine.in_process import Engine, project
from workbench.errors import WorkbenchError
from workbench.project import edits, store
from workbench.project.model import DataSource, TargetChoice
from workbench.project.opened import OpenProject
from workbench.pte import program, vela_stream
from workbench.script.aot_arm_compiler import give_command, take_command, write_taken

pytestmark = pytest.mark.engine
NET = """
import torch

torch.manual_seed(0)
ModelUnderTest = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
    torch.nn.Flatten(), torch.nn.Linear(8, 4),
).eval()
ModelInputs = (torch.randn(1, 3, 8, 8),)
"""


def blocks(data):
    (delegate,) = program.decode(data).methods[0].delegates
    found = vela_stream.blocks(delegate.data)
    return {name: bytes(found[name].data) for name in ("cmd_data", "weight_data")}


def whole(data):
    """Return all of a program but the notes of how its delegates were made."""
    from executorch.exir._serialize._program import deserialize_pte_binary

    made = deserialize_pte_binary(data).program
    for delegate in made.execution_plan[0].delegates:
        delegate.compile_specs = []
    return made


@pytest.fixture
def engine(tmp_path):
    made = Engine(tmp_path)
    yield made
    made.close()


@pytest.mark.slow
def test_that_both_give_the_npu_the_same_commands_and_weights(engine, tmp_path):
    (tmp_path / "net.py").write_text(NET)
    samples = tmp_path / "samples"
    samples.mkdir()
    generator = torch.Generator().manual_seed(1)
    for number in range(3):
        torch.save(torch.randn(1, 3, 8, 8, generator=generator), samples / f"{number}.pt")
    words = [
        "-m",
        "net.py",
        "-d",
        "-q",
        "-t",
        "ethos-u55-64",
        "--calibration_data",
        "samples",
        "--memory_mode",
        "Shared_Sram",
        "-o",
        str(tmp_path / "stock.pte"),
    ]
    tool = ["-m", "executorch.backends.arm.scripts.aot_arm_compiler"]
    done = subprocess.run(
        [sys.executable, *tool, *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    taken = take_command(f"python {' '.join(tool)} {' '.join(words)}", tmp_path, "mine")
    write_taken(taken, tmp_path / "mine.qwb")
    made = store.load(tmp_path / "mine.qwb")
    assert engine.run(made, "lower", "evaluate") == "done", engine.failure
    ours = (engine.path(made, "lower") / "program.pte").read_bytes()
    assert whole(ours) == whole((tmp_path / "stock.pte").read_bytes())


@pytest.mark.slow
def test_that_the_command_that_is_written_gives_the_npu_the_same(engine, tmp_path):
    made = project("small", calibration=DataSource(spec="networks.py:samples", limit=4))
    commands, text = give_command(OpenProject(made, tmp_path), tmp_path / "given.py")
    (tmp_path / "given.py").write_text(text)
    for command in commands:
        words = [sys.executable, *shlex.split(command)[1:]]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
    assert engine.run(made, "lower", "evaluate") == "done", engine.failure
    ours = (engine.path(made, "lower") / "program.pte").read_bytes()
    assert blocks(ours) == blocks((tmp_path / "small.pte").read_bytes())


def test_that_a_project_without_an_equal_command_says_every_reason(tmp_path):
    made = edits.assign(project("small"), "module_name", "fc", "a16w8")
    made = edits.fix_range(made, "relu", 0.0, 1.0)
    options = {"optimise": "Size", "cop_format": "COP2"}
    made = edits.set_target(made, TargetChoice(id="ethos-u55-128", options=options))
    with pytest.raises(WorkbenchError) as caught:
        give_command(OpenProject(made, tmp_path), tmp_path / "x.py")
    said = [info.message for info in caught.value.infos]
    assert len(said) == 4
    assert any("one config for all modules" in message for message in said)
    assert any("option optimise" in message for message in said)
    assert any("option cop_format" in message for message in said)
    commands = give_command(OpenProject(project("small"), tmp_path), tmp_path / "x.py")[0]
    assert len(commands) == 1
    assert "--non_strict_export" in commands[0]

"""Models as people write them: parameters, outputs of other types, data beside the model."""

import subprocess
import sys

import pytest

from workbench import api
from workbench.api import OpenProject
from workbench.project.model import DataSource

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("warm_engines")]
MODEL = """
from dataclasses import dataclass
import torch
from torch import nn
{imports}

@dataclass
class Output:
    logits: torch.Tensor
    hidden: torch.Tensor | None = None

torch.export.register_dataclass(Output, serialized_type_name="test_loading.Output")

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.linear = nn.Linear(8, 4)

    def forward(self, x):
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        return {output}

def net():
    torch.manual_seed(0)
    return Net(), torch.randn(1, 3, 8)
"""
DATA = """
import torch

def samples():
    generator = torch.Generator().manual_seed(1)
    for _ in range(8):
        yield torch.randn(1, 3, 8, generator=generator)
"""
OUTPUTS = {
    "tensor": "self.linear(x)",
    "dataclass": "Output(self.linear(x), x)",
    "nested": "{'a': [self.linear(x), (x,)]}",
}


def project(folder, output, imports="", data="net_data.py:samples"):
    (folder / "net_model.py").write_text(MODEL.format(output=OUTPUTS[output], imports=imports))
    (folder / "net_data.py").write_text(DATA)
    calibration = DataSource(spec=data)
    return api.new("net_model.py:net", "ethos-u85-256", folder=folder, config="a8w8", calibration=calibration)


@pytest.mark.slow
@pytest.mark.parametrize(
    "output", [pytest.param(o, marks=[pytest.mark.slow] * (o != "dataclass")) for o in OUTPUTS]
)
def test_that_a_learned_token_converts_and_outputs_of_any_type_load_in_a_fresh_engine(tmp_path, output):
    opened = project(tmp_path, output)
    api.run(opened, "export", trust=True).raise_for_errors()
    result = api.run(opened, "evaluate", trust=True).raise_for_errors()
    assert result.evaluated.sqnr_db > 20


@pytest.mark.slow
def test_that_data_may_come_from_a_file_that_the_model_imports(tmp_path):
    opened = project(tmp_path, "tensor", imports="import net_data")
    api.run(opened, "calibrate", trust=True).raise_for_errors()


@pytest.mark.slow
def test_that_a_file_named_as_an_installed_module_is_refused(tmp_path):
    (tmp_path / "json.py").write_text(DATA)
    opened = project(tmp_path, "tensor", data="json.py:samples")
    result = api.run(OpenProject(opened.project, tmp_path), "calibrate", trust=True)
    assert not result.succeeded
    assert "json.py" in result.errors[0].message


@pytest.mark.slow
def test_that_a_script_outside_the_program_may_load_the_frozen_program(tmp_path):
    opened = project(tmp_path, "dataclass")
    result = api.run(opened, "export", trust=True).raise_for_errors()
    program = result.folders["export"] / "program.pt2"
    code = f"import torch; torch.export.load({str(program)!r})"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

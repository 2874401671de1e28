"""Forms of a model that are refused by name, and what their remedies give."""

import warnings

import pytest
import torch
from torch import nn

from tests.engine.in_process import project
from tests.engine.remedies import follow
from workbench.engine.loading.forms import refuse_form
from workbench.errors import WorkbenchError
from workbench.project import edits
from workbench.project.model import ModelSource

pytestmark = pytest.mark.engine


def plain():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).eval()


def scripted():
    return torch.jit.script(plain())


def traced_part():
    return nn.Sequential(nn.ReLU(), torch.jit.trace(plain(), torch.ones(1, 8)))


def dynamic():
    return torch.ao.quantization.quantize_dynamic(plain(), {nn.Linear})


def weight_only():
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    model = plain()
    quantize_(model, Int8WeightOnlyConfig())
    return model


def half():
    return plain().half()


def bfloat_buffer():
    model = plain()
    model.register_buffer("scale", torch.ones(1, dtype=torch.bfloat16))
    return model


FORMS = [
    (scripted, "model-scripted"),
    (traced_part, "model-scripted"),
    (dynamic, "model-quantized"),
    (weight_only, "model-quantized"),
    (half, "model-half-precision"),
    (bfloat_buffer, "model-half-precision"),
]


@pytest.mark.parametrize(("make", "code"), FORMS)
def test_that_a_form_is_refused_by_name(make, code):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = make()
    with pytest.raises(WorkbenchError) as caught:
        refuse_form(module)
    assert caught.value.codes == (code,)
    refuse_form(half().float())
    refuse_form(plain())


def quantized():
    """Return what ExecuTorch's own flow makes of the network."""
    from executorch.backends.arm.ethosu import EthosUCompileSpec
    from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    inputs = (torch.randn(1, 8),)
    quantizer = EthosUQuantizer(EthosUCompileSpec("ethos-u55-128"))
    quantizer.set_global(get_symmetric_quantization_config())
    prepared = prepare_pt2e(torch.export.export(plain(), inputs).module(), quantizer)
    prepared(*inputs)
    return torch.export.export(convert_pt2e(prepared), inputs)


@pytest.mark.slow
def test_that_a_program_with_ranges_of_its_own_is_not_quantized_again(engine):
    torch.export.save(quantized(), str(engine.folder / "quantized.pt2"))
    made = edits.set_model(project("small"), ModelSource(spec="quantized.pt2"))
    torch.export.save(torch.export.export(plain(), (torch.randn(1, 8),)), str(engine.folder / "plain.pt2"))
    before = edits.set_model(made, ModelSource(spec="plain.pt2"))
    follow(engine, "program-quantized", made, before)


VALUES = [
    ("x[x > 0]", "size-from-data"),
    ("x.nonzero()", "size-from-data"),
    ("x * x.max().item()", "number-from-data"),
]
NETWORK = """
import torch
from torch import nn
class Net(nn.Module):
    def forward(self, x):
        return {value}
def net():
    return Net(), (torch.randn(1, 8),)
"""
REMEDIES = ["x * (x > 0)", "torch.where(x > 0, x, 0.0)", "x * x.max()"]


def test_that_values_that_depend_on_the_data_are_refused_with_their_line(engine):
    for number, (value, code) in enumerate(VALUES):
        (engine.folder / f"values{number}.py").write_text(NETWORK.format(value=value))
        assert engine.run(project(f"values{number}.py:net"), "export") == "failed"
        assert engine.failure.code == code, value
        assert f"values{number}.py:6" in engine.failure.message


@pytest.mark.slow
def test_that_the_remedies_lead_to_a_program(engine):
    for number, value in enumerate(REMEDIES):
        (engine.folder / f"remedy{number}.py").write_text(NETWORK.format(value=value))
        assert engine.run(project(f"remedy{number}.py:net"), "package") == "done", engine.failure


ORDINARY = """
import torch
from torch import nn
class Own(torch.Tensor):
    pass
class Caught(nn.Module):
    def forward(self, x):
        try:
            return x.view(7)
        except RuntimeError:
            return x * 2
def caught():
    return nn.Sequential(nn.Linear(8, 4), Caught()).eval(), (torch.randn(1, 8),)
def own_input():
    return nn.Linear(8, 4), (torch.randn(1, 8).as_subclass(Own),)
def own_weight():
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    model[0].weight = model[1].weight = nn.Parameter(torch.randn(8, 8).as_subclass(Own))
    return model.eval(), (torch.randn(1, 8),)
def inference_mode():
    with torch.inference_mode():
        model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
    return model.eval(), (torch.randn(1, 8),)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["caught", "own_input", "own_weight", "inference_mode"])
def test_that_an_error_that_is_caught_and_classes_of_tensors_lead_to_a_program(engine, name):
    (engine.folder / "ordinary.py").write_text(ORDINARY)
    assert engine.verified(project(f"ordinary.py:{name}")).max_lsb <= 1


MODES = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 4)
    def forward(self, x):
        with torch.no_grad():
            y = self.first(x).relu()
        with torch.autocast("cpu", enabled=False):
            return self.second(y)
def net():
    return Net().eval(), (torch.randn(1, 8),)
"""


@pytest.mark.slow
def test_that_what_a_mode_surrounds_runs_on_the_npu(engine):
    (engine.folder / "modes.py").write_text(MODES)
    names = {}
    exec(compile(MODES, "modes.py", "exec"), names)
    program = torch.export.export(*names["net"]())
    torch.export.save(program, engine.folder / "modes.pt2")
    for spec in ("modes.py:net", "modes.pt2"):
        made = edits.set_model(project("small"), ModelSource(spec=spec))
        lowered = engine.lowered(made)
        assert {node.cause for node in lowered.cpu_nodes} == {"border"}
        assert lowered.delegates == 1

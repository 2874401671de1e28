"""Models in every form a project may name, and in every form that is refused."""

import re

import numpy as np
import pytest
import torch

from tests.engine import networks
from tests.engine.in_process import project
from workbench import api
from workbench.errors import WorkbenchError
from workbench.project import edits, pt2
from workbench.project.model import DataSource, ModelSource

pytestmark = pytest.mark.engine


def with_model(**fields):
    return edits.set_model(project("small"), ModelSource(**fields))


def test_that_an_exported_program_is_taken_as_it_is(engine):
    model, inputs = networks.small()
    program = torch.export.export(model, inputs)
    torch.export.save(program, str(engine.folder / "small.pt2"))
    assert pt2.risks(engine.folder / "small.pt2") == []
    assert engine.run(with_model(spec="small.pt2"), "convert") == "done"


def test_that_an_installed_packages_callable_is_found(engine):
    spec = "executorch.examples.models.mlperf_tiny.resnet8:ResNet8"
    made = with_model(spec=spec, input_shapes=((1, 3, 32, 32),))
    assert engine.run(made, "export") == "done"
    assert engine.result(made, "import_model").model_class == "ResNet8"


@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_that_weights_come_from_safetensors_and_state_dicts(engine, suffix):
    from safetensors.torch import save_file

    torch.manual_seed(5)
    state = networks.Small().state_dict()
    path = engine.folder / f"weights{suffix}"
    if suffix == ".pt":
        torch.save(state, path)
    else:
        save_file(state, path)
    made = with_model(spec="networks.py:small", weights=path.name)
    assert engine.run(made, "export") == "done"
    program = torch.export.load(str(engine.path(made, "export") / "program.pt2"))
    assert torch.equal(program.state_dict["fc.weight"], state["fc.weight"])


REFUSED = [
    ({"spec": "networks.py:nothing"}, "callable-missing"),
    ({"spec": "networks.py:NOT_CALLABLE"}, "callable-invalid"),
    ({"spec": "networks.py:raising"}, "user-code-failed"),
    ({"spec": "networks.py:not_a_model"}, "model-not-module"),
    ({"spec": "networks.py:small_module_only"}, "model-inputs-missing"),
    ({"spec": "broken.py:net"}, "user-code-failed"),
    ({"spec": "empty.pt2"}, "model-file-unreadable"),
    ({"spec": "cut.pt2"}, "model-file-unreadable"),
    ({"spec": "networks.py:small", "weights": "other.pt"}, "weights-unfit"),
    ({"spec": "networks.py:small", "inputs": "bad.npz"}, "model-inputs-unreadable"),
]


@pytest.mark.parametrize(("fields", "code"), REFUSED, ids=[str(f) for f, _ in REFUSED])
def test_that_a_model_that_is_none_is_refused_in_a_sentence(engine, fields, code):
    folder = engine.folder
    (folder / "broken.py").write_text("def net(:\n")
    (folder / "empty.pt2").write_bytes(b"")
    (folder / "bad.npz").write_bytes(b"PK")
    model, inputs = networks.small()
    torch.export.save(torch.export.export(model, inputs), str(folder / "whole.pt2"))
    (folder / "cut.pt2").write_bytes((folder / "whole.pt2").read_bytes()[:3000])
    torch.save({"a": torch.zeros(1)}, folder / "other.pt")
    assert engine.run(with_model(**fields), "export") == "failed"
    assert engine.failure.code == code
    assert "Traceback" not in engine.failure.message


GENERATOR = """import numpy as np
def samples():
    yield np.zeros((1, 3, 8, 8), np.float32), 2
"""


@pytest.mark.parametrize("spec", ["own.npz", "own.py:samples"])
def test_that_shapes_missing_in_the_model_are_proposed_from_the_calibration_data(engine, spec):
    # Labels are no input.
    np.savez(engine.folder / "own.npz", x=np.zeros((4, 3, 8, 8), np.float32), y=np.arange(4))
    (engine.folder / "own.py").write_text(GENERATOR)
    data = DataSource(spec=spec)
    made = edits.revise(with_model(spec="networks.py:small_module_only"), calibration=data)
    assert engine.run(made, "import_model") == "failed"
    (proposed,) = re.findall(r"model\.input_shapes=(\S+)", engine.failure.hint)
    opened = api.set_settings(api.OpenProject(made, engine.folder), {"model.input_shapes": proposed})
    assert engine.run(opened.project, "export") == "done"


def test_that_shapes_are_not_proposed_for_tokens(engine):
    np.savez(engine.folder / "own.npz", x=np.zeros((4, 7), np.int64))
    data = DataSource(spec="own.npz")
    made = edits.revise(with_model(spec="networks.py:small_module_only"), calibration=data)
    assert engine.run(made, "import_model") == "failed"
    assert not re.search(r"input_shapes=", engine.failure.hint)
    assert "model.inputs" in engine.failure.hint


def test_that_a_model_that_does_not_export_is_placed_in_file_and_line(engine):
    assert engine.run(project("untraceable"), "export") == "failed"
    assert "networks.py, line" in engine.failure.message
    assert "x.sum() > 0" in engine.failure.message


def test_that_free_sizes_are_refused_by_input_and_dimension(engine):
    model, inputs = networks.small()
    sizes = ({0: torch.export.Dim("batch", min=1, max=8)},)
    program = torch.export.export(model, (torch.cat([inputs[0]] * 2),), dynamic_shapes=sizes)
    torch.export.save(program, str(engine.folder / "dynamic.pt2"))
    assert engine.run(with_model(spec="dynamic.pt2"), "export") == "failed"
    assert engine.failure.code == "dynamic-shape-not-supported"


def test_that_errors_of_the_users_code_carry_their_kind_and_details(engine):
    assert engine.run(with_model(spec="networks.py:raising"), "import_model") == "failed"
    assert "ValueError: no weights today" in engine.failure.message
    assert "Traceback" in engine.failure.details


def test_that_a_mistaken_spec_is_refused_before_anything_runs(engine):
    from workbench.project.sources import model_reference

    for spec in ("model", "model.py", "a b:c", "x.py:1"):
        with pytest.raises(WorkbenchError):
            model_reference(spec, engine.folder)


def test_that_an_edited_file_and_a_file_of_the_same_name_elsewhere_are_read_anew(tmp_path):
    from workbench.engine.loading.models import load_model

    text = (
        "import torch\nfrom layers import WIDTH\nclass Net(torch.nn.Linear):\n    pass\n"
        "def net():\n    return Net(WIDTH, 2), torch.zeros(1, WIDTH)\n"
    )
    widths = []
    for folder, width in (("a", 3), ("b", 5), ("b", 7), ("a", 3)):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "same.py").write_text(text)
        (tmp_path / folder / "layers.py").write_text(f"WIDTH = {width}  # {'x' * width}\n")
        loaded = load_model(ModelSource(spec="same.py:net"), tmp_path / folder)
        widths.append(loaded.module.in_features)
        assert f"{type(loaded.module).__module__}.{type(loaded.module).__qualname__}" == "same.Net"
    assert widths == [3, 5, 7, 3]


def test_that_a_file_named_like_a_module_in_use_is_refused(engine):
    (engine.folder / "json.py").write_text("def net(): ...\n")
    assert engine.run(with_model(spec="json.py:net"), "import_model") == "failed"
    assert engine.failure.code == "module-name-in-use"


NAMED = """
import torch
from torch import nn

class Masked(nn.Module):
    def __init__(self, **told):
        super().__init__()
        layer = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
        self.body, self.told = nn.TransformerDecoder(layer, 1), told
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(4))

    def forward(self, x):
        return self.body(x, x, tgt_mask=self.mask, **self.told)

def masked():
    return Masked().eval(), (torch.randn(1, 4, 8),)

def told():
    return Masked(tgt_is_causal=True).eval(), (torch.randn(1, 4, 8),)

class Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(6, 8, batch_first=True)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        return self.rnn(packed)[1][0]

class Padded(Packed):
    def forward(self, x, lengths):
        y = self.rnn(x)[0]
        return y * (torch.arange(y.shape[1])[None, :, None] < lengths[:, None, None])

def packed():
    return Packed().eval(), (torch.randn(1, 12, 6), torch.tensor([9]))

def padded():
    return Padded().eval(), (torch.randn(1, 12, 6), torch.tensor([9]))
"""


POLICY = """
import torch
from torch.distributions import Categorical, Normal

class Policy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 6)

    def forward(self, x):
        mean, spread = self.layer(x).chunk(2, -1)
        actions = Normal(mean, spread.exp())
        return actions.mean + actions.stddev, Categorical(logits=mean).entropy()

def policy():
    return Policy().eval(), (torch.randn(1, 4),)
"""


def test_that_distributions_are_exported_without_the_checks_of_their_values(engine, monkeypatch):
    # Exported scripts that ran in this process turn them off for good.
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)
    (engine.folder / "policies.py").write_text(POLICY)
    assert engine.run(with_model(spec="policies.py:policy"), "convert") == "done", engine.failure
    assert torch.distributions.Distribution._validate_args


def test_that_torch_need_not_look_into_a_mask_to_find_out_whether_it_is_causal(engine):
    (engine.folder / "named.py").write_text(NAMED)
    for name in ("masked", "told"):
        assert engine.run(with_model(spec=f"named.py:{name}"), "convert") == "done", engine.failure


def test_that_packed_sequences_have_a_remedy_that_helps(engine):
    (engine.folder / "named.py").write_text(NAMED)
    assert engine.run(with_model(spec="named.py:packed"), "export") == "failed"
    assert "torch.arange(y.shape[1])[None, :, None]" in engine.failure.hint
    assert engine.run(with_model(spec="named.py:padded"), "export") == "done"


OUTPUTS = """
import torch
from torch import nn

class Found:
    __slots__ = ("boxes",)

    def __init__(self, boxes):
        self.boxes = boxes

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return Found(self.fc(x))

def net():
    return Net().eval(), (torch.randn(1, 4),)
"""


def test_that_an_output_of_an_unknown_class_has_a_remedy_that_helps(engine):
    (engine.folder / "outputs.py").write_text(OUTPUTS)
    assert engine.run(with_model(spec="outputs.py:net"), "export") == "failed"
    assert engine.failure.code == "export-failed"
    assert "outputs.py, line 5" in engine.failure.message
    remedy = OUTPUTS.replace("return Found(", "return (").replace("fc(x))", "fc(x),)")
    (engine.folder / "outputs.py").write_text(remedy)
    assert engine.run(with_model(spec="outputs.py:net"), "export") == "done", engine.failure


def test_that_outputs_that_are_no_tensors_are_left_out_of_the_program(engine):
    made = project("odd_outputs")
    result = engine.verified(made)
    assert (result.max_lsb, result.compiled.equal) == (0, result.compiled.elements)
    exported = engine.result(made, "export")
    assert [output.dtype for output in exported.outputs] == ["float32", "bool"]
    assert len(exported.warnings) == 3
    assert engine.run(made, "package") == "done", engine.failure


def test_that_values_of_types_that_cannot_be_quantized_are_refused_by_name(engine):
    for name, stage, code in (
        ("in_float64", "prepare", "float64-not-quantized"),
        ("in_bfloat16", "import_model", "model-half-precision"),
    ):
        assert engine.run(project(name), stage) == "failed", name
        assert engine.failure.code == code


MISFIT = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x) + torch.ones(3)

def net():
    return Net().eval(), (torch.randn(1, 4),)
"""


def test_that_a_model_that_fails_by_itself_is_told_so(engine):
    (engine.folder / "misfit.py").write_text(MISFIT)
    assert engine.run(with_model(spec="misfit.py:net"), "export") == "failed"
    assert engine.failure.code == "export-failed"
    assert "misfit.py, line 11" in engine.failure.message
    assert "fails without torch.export too" in engine.failure.hint


WRITING = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        with torch.no_grad():
            self.fc.weight.div_(2)
        return self.fc(x)

def net():
    return Net().eval(), (torch.randn(1, 4),)
"""


def test_that_a_model_that_changes_a_parameter_is_refused_by_name(engine):
    (engine.folder / "writing.py").write_text(WRITING)
    assert engine.run(with_model(spec="writing.py:net"), "export") == "failed"
    assert engine.failure.code == "parameter-written"
    assert engine.failure.where.id == "fc"


FOREIGN = """
import torch
from torch import nn

@torch.library.custom_op("fromelsewhere::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2

@twice.register_fake
def _(x):
    return torch.empty_like(x)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return twice(self.fc(x))

def net():
    return Net().eval(), (torch.randn(1, 4),)
"""


def test_that_an_operator_of_another_library_without_a_kernel_is_refused_by_name(engine):
    (engine.folder / "foreign.py").write_text(FOREIGN)
    assert engine.run(with_model(spec="foreign.py:net"), "lower") == "failed"
    assert engine.failure.code == "operator-without-kernel"
    assert engine.failure.where.id == "twice"

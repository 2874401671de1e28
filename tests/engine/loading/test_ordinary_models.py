"""Models of ordinary code whose types, names and outputs a program cannot have as they are."""

import pytest
import torch
from torch import nn

from tests.engine.in_process import project
from tests.for_each import for_each
from workbench.engine.fx import programs
from workbench.engine.fx.chosen_rows import with_all_rows
from workbench.engine.fx.functional_writes import with_functional_writes
from workbench.engine.fx.plain_regions import with_plain_regions
from workbench.engine.fx.usual_forms import with_float32, with_free_names, with_instance_norms
from workbench.project import edits
from workbench.project.model import DataSource, ModelSource

pytestmark = pytest.mark.engine

TYPES = """
import torch
from torch import nn
class Half(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 4)
        self.register_buffer("gain", torch.linspace(0.5, 1.5, 8).double())
    def forward(self, x):
        y = self.first(x).half() + torch.tensor([0.1], dtype=torch.half)
        y.mul_(2)
        with torch.autocast("cpu", torch.bfloat16):
            z = self.first(x).relu()
        mask = torch.zeros(8, dtype=torch.half)
        mask[1] = -torch.inf
        y = torch.softmax(y + mask, -1, dtype=torch.float32)
        return self.second(y + (z.double() * self.gain).to(x.dtype))
def net():
    torch.manual_seed(0)
    return Half().eval(), (torch.randn(1, 8),)
"""


def written(engine, text, name="own.py"):
    """Put a model into the folder; return its project and what its code defines."""
    (engine.folder / name).write_text(text)
    names = {"__name__": "own_model"}
    exec(compile(text, name, "exec"), names)
    return project(f"{name}:net"), names


def exported(engine, made):
    return programs.load(engine.path(made, "export")).module()


def test_that_what_is_half_or_double_is_computed_in_float32_on_the_npu(engine):
    made, names = written(engine, TYPES)
    lowered = engine.lowered(made)
    assert {node.cause for node in lowered.cpu_nodes} == {"border"}
    result = engine.result(made, "export")
    assert result.precision == "bfloat16"
    assert [("own.py" in warning, kind in warning) for kind, warning in zip(
        ("float16", "bfloat16", "float64"), result.warnings, strict=True
    )] == [(True, True)] * 3  # fmt: skip
    model, (x,) = names["net"]()
    # One part in 128 is a step of bfloat16.
    torch.testing.assert_close(exported(engine, made)(x), model(x), rtol=0.02, atol=0.02)


def test_that_constants_keep_the_type_that_the_model_computes_them_in():
    class Net(nn.Module):
        def forward(self, x):
            return x.half() + torch.arange(3, dtype=torch.half) / 3

    program = torch.export.export(Net(), (torch.zeros(3),))
    value = with_float32(program).module()(torch.zeros(3))
    assert value.dtype == torch.float32
    assert torch.equal(value, (torch.arange(3, dtype=torch.half) / 3).float())


@pytest.mark.slow
def test_that_weights_of_double_precision_become_float32(engine):
    text = TYPES.replace("return Half().eval()", "return Half().double().eval()")
    text = (
        text.replace("(x)", "(x.double())")
        .replace(".to(x.dtype)", "")
        .replace("second(y", "second(y.double()")
    )
    made, names = written(engine, text)
    lowered = engine.lowered(made)
    assert {node.cause for node in lowered.cpu_nodes} == {"border"}
    state = programs.load(engine.path(made, "export")).state_dict
    assert {value.dtype for value in state.values()} == {torch.float32}
    model, (x,) = names["net"]()
    value = exported(engine, made)(x)
    torch.testing.assert_close(value, model(x).float(), rtol=0.02, atol=0.02)


NAMES = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.code = nn.Conv2d(2, 4, 3)
        self.graph = nn.Parameter(torch.randn(1, 4, 1, 1))
        self.register_buffer("meta", torch.randn(4), persistent=False)
        self.code_ = nn.Linear(4, 4)
    def forward(self, x):
        return self.code_((self.code(x) * self.graph).mean((2, 3)) + self.meta)
def net():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(1, 2, 6, 6),)
"""


@pytest.mark.slow
def test_that_parts_with_names_that_programs_have_lead_to_a_program(engine):
    made, names = written(engine, NAMES)
    assert engine.verified(made).max_lsb <= 1
    model, (x,) = names["net"]()
    torch.testing.assert_close(exported(engine, made)(x), model(x))


def test_that_a_renamed_part_is_found_and_written_under_its_name():
    names = {}
    exec(NAMES, names)
    model, (x,) = names["net"]()
    expected = model(x)
    with_free_names(model)
    assert [name for name, _ in model.named_children()] == ["code__", "code_"]
    assert {name for name, _ in model.named_buffers()} == {"meta_"}
    assert "meta_" not in model.state_dict()
    assert torch.equal(model(x), expected)
    model.meta = torch.zeros(4)
    assert not dict(model.named_buffers())["meta_"].any()


OUTPUTS = """
from dataclasses import dataclass
import torch
from torch import nn
@dataclass
class Boxes:
    corners: torch.Tensor
    labels: list
@dataclass
class Found:
    scores: torch.Tensor
    boxes: Boxes
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
    def forward(self, x):
        y = self.fc(x)
        return Found(y, Boxes(y * 2, [y + 1]))
def net():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(1, 4),)
"""


@pytest.mark.slow
def test_that_tensors_in_dataclasses_are_outputs_in_order(engine):
    made, names = written(engine, OUTPUTS)
    assert engine.verified(made).max_lsb <= 1
    model, (x,) = names["net"]()
    found = model(x)
    expected = (found.scores, found.boxes.corners, found.boxes.labels[0])
    for value, output in zip(exported(engine, made)(x), expected, strict=True):
        torch.testing.assert_close(value, output)


OBJECTS = """
from collections import OrderedDict
import torch
from torch import nn
class Output(OrderedDict):
    def __getattr__(self, name):
        return self[name]
class Levels(list):
    pass
class Boxes:
    def __init__(self, corners, levels):
        self.corners, self.levels, self.size = corners, levels, 3
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({"class": nn.Linear(4, 2), "in": nn.BatchNorm1d(4)})
        self.register_parameter("lambda", nn.Parameter(torch.tensor(0.5)))
    def forward(self, x):
        y = self.heads["class"](self.heads["in"](x)) * getattr(self, "lambda")
        return Output(scores=y, boxes=Boxes(y * 2, Levels([y + 1, y - 1])))
def net():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(3, 4),)
"""


@pytest.mark.slow
def test_that_tensors_in_objects_are_outputs_and_parts_may_be_named_as_words_of_python(engine):
    made, names = written(engine, OBJECTS)
    assert engine.verified(made).max_lsb <= 1
    state = programs.load(engine.path(made, "export")).state_dict
    assert {"heads.class_.weight", "lambda_"} <= state.keys()
    model, (x,) = names["net"]()
    expected = model(x)
    tensors = (expected.scores, expected.boxes.corners, *expected.boxes.levels)
    for value, output in zip(exported(engine, made)(x), tensors, strict=True):
        torch.testing.assert_close(value, output)


def test_that_a_program_whose_parts_are_named_as_words_of_python_is_taken(engine):
    _, names = written(
        engine, OBJECTS.replace("Output(scores=y, boxes=Boxes(y * 2, Levels([y + 1, y - 1])))", "y")
    )
    model, inputs = names["net"]()
    torch.export.save(torch.export.export(model, inputs), engine.folder / "words.pt2")
    made = edits.set_model(project("small"), ModelSource(spec="words.pt2"))
    assert engine.verified(made).max_lsb <= 1


BATCH = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4, track_running_stats=False)
        self.layer = nn.Linear(4, 3)
        self.last = nn.BatchNorm1d(3, track_running_stats=False, affine=False)
        nn.init.normal_(self.norm.weight)
    def forward(self, x):
        y = self.norm(self.conv(x)).relu().mean((2, 3))
        return self.last(self.layer(y)) if len(x) > 1 else y
def net():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn({batch}, 2, 6, 6),)
"""


@pytest.mark.slow
def test_that_batch_norms_without_running_statistics_are_those_of_the_batch(engine):
    for batch in (1, 6):
        made, names = written(engine, BATCH.replace("{batch}", str(batch)), f"batch{batch}.py")
        lowered = engine.lowered(made)
        assert {node.cause for node in lowered.cpu_nodes} == {"border"}
        model, (x,) = names["net"]()
        torch.testing.assert_close(exported(engine, made)(x), model(x), rtol=1e-4, atol=1e-5)


ROWS = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.experts = nn.ModuleList(
            [nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8)) for _ in range(2)]
        )
    def forward(self, x):
        y = self.layer(x)
        y[y < 0] = y[y < 0] * 0.1 - 0.2
        chosen = (x[:, 1] > 0).long()
        mixed = torch.zeros_like(x)
        for index, expert in enumerate(self.experts):
            mixed[chosen == index] = expert(x[chosen == index])
        rows = x[:, 0] > -9
        return y, mixed, y[rows].mean(0), (y[rows] ** 2).mean(), torch.sigmoid(y[rows]).sum()
def net():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(6, 8),)
"""


@pytest.mark.slow
def test_that_what_works_on_chosen_elements_or_rows_works_on_all(engine):
    made, names = written(engine, ROWS)
    assert engine.run(made, "lower", "evaluate") == "done", engine.failure
    model, _ = names["net"]()
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(6, 8)
        expected = model(x.clone())
        for value, output in zip(exported(engine, made)(x.clone()), expected, strict=True):
            torch.testing.assert_close(value, output, rtol=1e-4, atol=1e-5)


DOMAINS = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
    def forward(self, x):
        y = self.layer(x)
        large = y > 0.1
        y[large] = torch.log(y[large]).abs().sqrt() + 1 / y[large].clamp(0, 4) ** 0.5
        return y, torch.rsqrt(x[x > 0.2]).mean()
def net():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(6, 8),)
"""


def test_that_functions_of_chosen_elements_see_no_others(engine):
    """The logarithm of an element that was not chosen would be no number, and end calibration."""
    made, names = written(engine, DOMAINS)
    assert engine.run(made, "calibrate") == "done", engine.failure
    model, _ = names["net"]()
    for seed in range(3):
        torch.manual_seed(seed)
        x = torch.randn(6, 8)
        for value, output in zip(exported(engine, made)(x.clone()), model(x.clone()), strict=True):
            torch.testing.assert_close(value, output, rtol=1e-4, atol=1e-5)


MIXING = ROWS.replace("expert(x[chosen == index])", "expert(x[chosen == index]).cumsum(0)")


def test_that_chosen_rows_that_depend_on_each_other_are_refused(engine):
    made, _ = written(engine, MIXING)
    assert engine.run(made, "export") == "failed"
    assert engine.failure.code == "size-from-data"


PIECES = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
    def forward(self, x):
        first, *_ = torch.tensor([[1.0, 0.0, 2.0, 3.0]]).expand(x.shape[0], -1).unbind(-1)
        return self.layer(x) * first + first
def net():
    torch.manual_seed(0)
    return Net().eval(), (torch.randn(1, 4),)
def samples():
    return (torch.randn(4, 1).mT for _ in range(4))
"""


def test_that_a_single_number_of_a_longer_constant_is_calibrated(engine):
    made, _ = written(engine, PIECES)
    made = edits.set_calibration(made, DataSource(spec="own.py:samples"))
    assert engine.run(made, "verify") == "done", engine.failure


def written_into(x):
    y = x * 2
    y[:, :2] = 0.5
    return y


def chosen(x):
    y = x * 2
    y[y < 0] = y[y < 0] * 0.1
    return y


def half(x):
    return (x.half() * 2).float()


def of_the_batch(x):
    return nn.functional.batch_norm(x, None, None, training=True)


def without_gradients(x):
    with torch.no_grad():
        return x * 2


@for_each(
    ("function", "change"),
    [
        (written_into, with_functional_writes),
        (chosen, with_all_rows),
        (half, with_float32),
        (of_the_batch, with_instance_norms),
        (without_gradients, with_plain_regions),
    ],
)
def test_that_an_input_may_have_the_name_of_a_function_of_python(function, change):
    """torch.fx names a copy of it ``input_1``; parts of nn.Sequential have this name, and many models."""

    class Net(nn.Module):
        def forward(self, input):  # noqa: A002 - what is tested
            return function(input)

    torch.manual_seed(0)
    x = torch.randn(3, 4)
    changed = change(torch.export.export(Net(), (x,)))
    assert changed.graph_signature.user_inputs == ("input",)
    torch.testing.assert_close(changed.module()(x.clone()), function(x.clone()), rtol=1e-3, atol=1e-3)

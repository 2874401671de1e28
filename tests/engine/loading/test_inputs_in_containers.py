"""Models whose inputs lie in dictionaries, lists and classes, or are given by name."""

import runpy

import pytest
import torch

from tests.engine.in_process import project
from tests.for_each import for_each
from workbench.engine.fx import programs
from workbench.engine.fx.flat_inputs import sample_at, with_flat_inputs
from workbench.project import edits
from workbench.project.model import DataSource

pytestmark = pytest.mark.engine

FORMS = """
from dataclasses import dataclass
from typing import NamedTuple
import torch
from torch import nn
class Batch(NamedTuple):
    image: torch.Tensor
    mask: torch.Tensor
@dataclass
class State:
    hidden: torch.Tensor
    cell: torch.Tensor | None = None
class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.code = nn.Linear(4, 4), nn.Linear(4, 2)
    def run(self, x, y):
        return self.code(torch.relu(self.first(x)) * y)
class ByName(Layers):
    def forward(self, *, image, mask, scale=1.0):
        return self.run(image, mask) * scale
class OfDictionary(Layers):
    def forward(self, batch):
        return self.run(batch["image"], batch["mask"])
class Nested(Layers):
    def forward(self, x, state, flag=None):
        hidden, (cell,) = state
        return self.run(x + hidden, cell), [cell * 2]
class OfClasses(Layers):
    def forward(self, batch, state, gain):
        return self.run(batch.image, batch.mask) + state.hidden.mean() * gain
class Various(Layers):
    def forward(self, *images, **options):
        return self.run(images[0], images[1]) * options["class"].mean()
def tensor():
    return torch.randn(1, 4)
def by_name():
    return ByName().eval(), {"mask": tensor(), "image": tensor()}
def dictionary():
    return OfDictionary().eval(), ({"mask": tensor(), "image": tensor()},)
def nested():
    return Nested().eval(), (tensor(), (tensor(), [tensor()]), None)
def classes():
    return OfClasses().eval(), (Batch(tensor(), tensor()), State(tensor()), 3)
def various():
    return Various().eval(), (tensor(), tensor()), {"class": tensor()}
def labelled_samples():
    for number in range(8):
        yield {"image": tensor(), "mask": 5 * tensor()}, number % 2
def dictionaries():
    for _ in range(8):
        yield {"image": tensor(), "mask": 5 * tensor()}
def tuples():
    for _ in range(8):
        yield 5 * tensor(), tensor()
def states():
    for _ in range(8):
        yield tensor(), (5 * tensor(), [tensor()]), None
"""
NAMES = {
    "by_name": ("mask", "image"),
    "dictionary": ("batch_mask", "batch_image"),
    "nested": ("x", "state_0", "state_1_0"),
    "classes": ("batch_image", "batch_mask", "state_hidden"),
    "various": ("args_0", "args_1", "input_class"),
}


def of(engine, network, samples=""):
    """Put the models into the folder; return a project of one, and what their code defines."""
    (engine.folder / "own.py").write_text(FORMS)
    data = DataSource(spec=f"own.py:{samples}") if samples else None
    return project(f"own.py:{network}", calibration=data), runpy.run_path(str(engine.folder / "own.py"))


@pytest.mark.slow
@for_each("network", NAMES)
def test_that_a_program_takes_one_by_one_the_tensors_that_a_model_takes_in_containers(engine, network):
    made, code = of(engine, network)
    assert engine.verified(made).max_lsb <= 1
    assert tuple(spec.name for spec in engine.result(made, "export").inputs) == NAMES[network]
    torch.manual_seed(0)
    model, inputs, *named = code[network]()
    named = inputs if isinstance(inputs, dict) else dict(*named)
    tensors = torch.utils._pytree.tree_leaves((() if isinstance(inputs, dict) else inputs, named))
    if network == "classes":
        tensors = [*inputs[0], inputs[1].hidden]
    tensors = [value for value in tensors if isinstance(value, torch.Tensor)]
    expected = model(*(() if isinstance(inputs, dict) else inputs), **named)
    value = programs.load(engine.path(made, "export")).module()(*tensors)
    torch.testing.assert_close(value, expected)


@pytest.mark.slow
@for_each("network", NAMES)
def test_that_a_strict_export_takes_them_too(engine, network):
    made, _ = of(engine, network)
    made = edits.set_model(made, made.model.model_copy(update={"strict_export": True}))
    assert engine.run(made, "export") == "done", engine.failure
    assert tuple(spec.name for spec in engine.result(made, "export").inputs) == NAMES[network]


def test_that_a_fixed_number_is_named(engine):
    made, _ = of(engine, "classes")
    assert engine.run(made, "import_model") == "done"
    (warning,) = engine.result(made, "import_model").warnings
    assert "2 = 3" in warning


@pytest.mark.slow
@for_each(
    ("network", "samples", "large"),
    [
        ("by_name", "labelled_samples", "mask"),
        ("dictionary", "dictionaries", "batch_mask"),
        ("dictionary", "tuples", "batch_mask"),
        ("nested", "states", "state_0"),
    ],
)
def test_that_samples_in_the_form_of_the_example_inputs_reach_their_inputs(engine, network, samples, large):
    made, _ = of(engine, network, samples)
    assert engine.run(made, "calibrate") == "done", engine.failure
    names = {spec.name for spec in engine.result(made, "export").inputs}
    ranges = [row for row in engine.result(made, "calibrate").ranges if row.node in names]
    assert len(ranges) == len(names)
    assert max(ranges, key=lambda row: row.maximum).node == large


def test_that_a_state_is_not_taken_for_a_label():
    places = [(0,), (1, 0), (1, 1)]
    x, hidden, cell = torch.zeros(1), torch.ones(1), torch.ones(1) * 2
    assert sample_at((x, (hidden, cell)), places) == ((x, hidden, cell), None)
    assert sample_at(((x, (hidden, cell)), "cat"), places) == ((x, hidden, cell), "cat")
    assert sample_at((x, hidden), places) is None


@pytest.mark.slow
def test_that_an_exported_program_with_inputs_by_name_takes_its_tensors_one_by_one(engine):
    made, code = of(engine, "by_name", "labelled_samples")
    model, named = code["by_name"]()
    model.last = model.__dict__["_modules"].pop("code")
    model.run = lambda x, y: model.last(torch.relu(model.first(x)) * y)
    program = torch.export.export(model, (), {**named, "scale": 2.0})
    torch.export.save(program, engine.folder / "named.pt2")
    made = made.model_copy(update={"model": made.model.model_copy(update={"spec": "named.pt2"})})
    assert engine.verified(made).max_lsb <= 1
    value = programs.load(engine.path(made, "export")).module()(*named.values())
    torch.testing.assert_close(value, model(**named, scale=2.0))


def test_that_a_model_that_takes_tensors_alone_stays_what_it_is():
    model, inputs = torch.nn.Linear(2, 2), (torch.zeros(1, 2),)
    assert with_flat_inputs(model, inputs, {}) == (inputs, [])
    assert type(model) is torch.nn.Linear

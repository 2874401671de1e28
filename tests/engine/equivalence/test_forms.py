"""Every form of a network against the user's model, executed as it was loaded."""

import os
import time
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from tests.engine.in_process import CALIBRATED, Engine, project
from tests.engine.remedies import follow
from workbench.engine.equivalence import forms
from workbench.engine.equivalence.comparison import CHANGE, Comparison, is_rounding
from workbench.engine.loading.eager import EagerModel, Request, Step, example_request
from workbench.engine.stages import calibrate, convert, export
from workbench.errors import Cancelled, WorkbenchError
from workbench.project import edits
from workbench.project.model import DataSource

pytestmark = pytest.mark.engine


def nothing():
    """No cancellation."""


def eager_of(module):
    return EagerModel(module, [*module.parameters(), *module.buffers()])


def answer(module, *inputs, **options):
    eager = eager_of(module)
    return eager.answer(Request(((Step(inputs),),), **options), nothing)


class Counting(nn.Module):
    """Writes its input, a buffer and an attribute at each call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(2))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        self.total += x
        x *= 2
        return x + self.total + self.calls


def test_that_each_run_finds_the_model_as_it_was_loaded():
    model, x = Counting(), torch.tensor([1.0, 2.0])
    eager = eager_of(model)
    expected = torch.tensor([4.0, 7.0])
    model(torch.ones(2))
    for _ in range(2):
        outputs = eager.answer(example_request([x]), nothing).outputs
        assert all(torch.equal(output, expected) for (output,) in outputs)
    assert torch.equal(x, torch.tensor([1.0, 2.0]))


def test_that_the_steps_of_a_run_keep_the_state():
    class Adding(nn.Module):
        def forward(self, x, state):
            return x, state + x

    step = Step((torch.ones(1), torch.zeros(1)), carried=1)
    run = Request(((step, step), (step,)))
    outputs = eager_of(Adding()).answer(run, nothing).outputs
    assert [float(state) for _, state in outputs] == [1.0, 2.0, 1.0]


def test_that_a_model_that_fails_or_ends_its_process_is_an_error():
    class Failing(nn.Module):
        def forward(self, x):
            if x[0] > 0:
                os._exit(3)
            raise ValueError("too small")

    eager = eager_of(Failing())
    for value in (0.0, 1.0):
        with pytest.raises(WorkbenchError) as caught:
            eager.answer(Request(((Step((torch.tensor([value]),)),),)), nothing)
        assert caught.value.codes == ("model-fails",)


def test_that_an_endless_model_is_left_when_the_user_cancels():
    class Endless(nn.Module):
        def forward(self, x):
            while True:
                time.sleep(0.01)

    def cancel():
        raise Cancelled

    eager = eager_of(Endless())
    with pytest.raises(Cancelled):
        eager.answer(Request(((Step((torch.ones(1),)),),)), cancel)


def test_that_every_form_is_compared(engine):
    made = project("small", calibration={"spec": "networks.py:samples"})
    assert engine.run(made, "convert") == "done"
    stages = ("export", "calibrate", "convert")
    found = [row.form for stage in stages for row in engine.result(made, stage).compared]
    assert found == ["exported", "exported", "prepared", "converted"]
    converted = engine.result(made, "convert").compared[0]
    assert converted.max_abs_error == 0.0


def negated(program):
    """Negate what the first convolution of a form returns."""
    graph = program.graph
    conv = next(node for node in graph.nodes if str(node.target) == "aten.conv2d.default")
    with graph.inserting_after(conv):
        negative = graph.call_function(torch.ops.aten.neg.default, (conv,))
    conv.replace_all_uses_with(negative, lambda user: user is not negative)
    negative.meta = dict(conv.meta)
    getattr(program, "graph_module", program).recompile()
    return program


def test_that_an_exported_program_of_another_function_stops_the_export(engine, monkeypatch):
    monkeypatch.setattr(export, "_without_writes", negated)
    assert engine.run(project("small"), "export") == "failed"
    assert engine.failure.code == "exported-program-differs"
    assert "networks.py" in engine.failure.message
    assert "neg" in engine.failure.where.id


def test_that_a_prepared_program_of_another_function_stops_the_calibration(engine, monkeypatch):
    made = project("softmax")
    assert engine.run(made, "prepare") == "done"
    compare = calibrate.compare_prepared
    monkeypatch.setattr(
        calibrate,
        "compare_prepared",
        lambda context, samples, prepared: compare(context, samples, negated(prepared)),
    )
    assert engine.run(made, "calibrate") == "failed"
    assert engine.failure.code == "prepared-program-differs"
    assert "networks.py" in engine.failure.message


def test_that_a_converted_program_of_another_function_stops_the_conversion(engine, monkeypatch):
    stock = convert._convert

    def wrong(module, function):
        converted = stock(module, function)
        for node in converted.graph.nodes:
            if str(node.target) == "aten.relu.default":
                node.target = torch.ops.aten.neg.default
        converted.recompile()
        return converted

    monkeypatch.setattr(convert, "_convert", wrong)
    made = project("small")
    assert engine.run(made, "convert") == "failed"
    assert engine.failure.code == "converted-program-differs"
    assert "relu" in engine.failure.message


RANDOM = """
import random
import numpy as np
import torch
from torch import nn
class Noisy(nn.Module):
    def forward(self, x):
        return torch.relu(x) + {noise}
def net():
    return Noisy(), (torch.zeros(1, 4),)
"""


@pytest.mark.parametrize("noise", ["torch.randn(4)", "random.random()", "float(np.random.rand())"])
def test_that_random_outputs_are_refused(engine, noise):
    (engine.folder / "noisy.py").write_text(RANDOM.replace("{noise}", noise))
    assert engine.run(project("noisy.py:net"), "export") == "failed"
    assert engine.failure.code == "model-outputs-random"


DRAWN = """
import random
import numpy as np
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.tensor(np.random.rand(4), dtype=torch.float32))
        self.shift = torch.full((4,), random.random())
        self.last = torch.tensor(np.{last}, dtype=torch.float32)
        self.end = nn.Parameter(self.last)
    def forward(self, x):
        return torch.relu(self.first(x)) * self.scale + self.shift + self.end
def net():
    return Net(), (torch.ones(1, 4),)
def samples():
    for number in range(4):
        yield torch.full((1, 4), number / 4)
"""


def calibrated_before(engine, name, source):
    """Calibrate a model, and return its project with fewer samples, for which it is loaded again."""
    (engine.folder / f"{name}.py").write_text(source)
    data = {"spec": f"{name}.py:samples"}
    assert engine.run(project(f"{name}.py:net", calibration=data), "calibrate") == "done"
    return project(f"{name}.py:net", calibration={**data, "limit": 3})


def test_that_a_model_with_random_weights_has_the_same_when_it_is_loaded_again(engine):
    source = DRAWN.replace("{last}", "random.rand(4)")
    fewer = calibrated_before(engine, "drawn", source)
    other = Engine(engine.folder)
    try:
        assert other.run(fewer, "calibrate") == "done", other.failure
    finally:
        other.close()


@pytest.mark.slow
def test_that_weights_that_are_others_each_time_are_refused_by_name(engine):
    fewer = []
    for name, seed in (("entropy", ""), ("seeded", "0")):
        source = DRAWN.replace("{last}", f"random.default_rng({seed}).random(4)")
        fewer.append(calibrated_before(engine, name, source))
    other = Engine(engine.folder)
    try:
        failure = follow(other, "model-weights-random", *fewer)
    finally:
        other.close()
    assert "end" in failure.message


def test_that_masks_of_infinity_may_become_finite():
    reference = torch.tensor([1.0, -2.0, torch.finfo(torch.float32).min, -torch.inf])
    clamped = torch.tensor([1.0, -2.0, -255.0, -255.0])
    wrong = torch.tensor([1.0, -2.0, 255.0, -255.0])
    assert not Comparison("prepared", 1e-3).add([reference], [clamped])
    assert Comparison("prepared", 1e-3).add([reference], [wrong])
    assert Comparison("prepared", 1e-3).add([reference], [torch.full((4,), torch.nan)])


def test_that_only_roundings_excuse_a_difference():
    class Steep(nn.Module):
        def forward(self, x):
            return (x * 1e6).round() % 7

    x = torch.linspace(-1, 1, 64)
    changed = [answer(Steep(), x, change=CHANGE, seed=seed).outputs[0] for seed in range(3)]
    reference = answer(Steep(), x).outputs[0]
    rounded = [Steep()(x * (1 + 1e-7))]
    assert is_rounding(reference, rounded, changed)
    assert not is_rounding(reference, [reference[0] + 100], changed)


def test_that_infinities_and_nan_in_other_places_are_no_rounding():
    reference, other = torch.tensor([1.0, torch.nan, torch.inf, -torch.inf]), torch.tensor([torch.nan] * 4)
    assert not is_rounding([reference], [other], [[reference], [reference * (1 + CHANGE)]])
    assert not is_rounding([reference], [reference.nan_to_num(0.0)], [[reference]])
    assert is_rounding([reference], [other], [[reference], [torch.tensor([1.0, 2.0, 3.0, 4.0])]])


def test_that_a_stateful_sequence_is_one_run():
    steps = [SimpleNamespace(inputs=(i,), carried=1, begins=i in {0, 2}) for i in range(4)]
    runs = forms._runs(steps, continues=True)
    assert [[step.inputs[0] for step in run] for run in runs] == [[0, 1], [2, 3]]
    assert len(list(forms._runs(steps, continues=False))) == 4


def test_that_an_edit_of_a_config_compares_the_prepared_program_once(engine, monkeypatch):
    compare, compared = calibrate.compare_prepared, []
    monkeypatch.setattr(
        calibrate, "compare_prepared", lambda *given: compared.append(given) or compare(*given)
    )
    made = project("small", **CALIBRATED)
    assert engine.run(made, "calibrate") == "done"
    first = engine.result(made, "calibrate").compared
    edited = edits.assign(made, "module_name", "conv", "a16w8")
    assert engine.path(edited, "calibrate") != engine.path(made, "calibrate")
    assert engine.run(edited, "calibrate") == "done"
    assert engine.result(edited, "calibrate").compared == first
    assert len(compared) == 1
    other = edited.model_copy(update={"calibration": DataSource(spec="networks.py:unseeded_samples")})
    assert engine.run(other, "calibrate") == "done"
    assert len(compared) == 2

"""The written script makes the workbench's bytes, for every kind of project it must express."""

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.engine import networks
from tests.engine.in_process import CALIBRATED, project
from tests.problems import refused
from workbench.analysis.ranges import MethodRanges, read_chosen
from workbench.engine.runtime.accelerated import accelerated
from workbench.project import edits
from workbench.project.configs import Activation, Observer, QuantConfig
from workbench.project.model import DataSource, ModelSource, Preprocess, TargetChoice, Tokenization
from workbench.project.opened import OpenProject
from workbench.script import KnownResults, script
from workbench.script.quantizer import copied_corrections

PLUGIN = Path(__file__).parents[2] / "resources" / "plugins" / "example.py"
pytestmark = pytest.mark.engine


def observed(kind, **fields):
    return QuantConfig(activation=Activation(observer=Observer(kind=kind, **fields)))


def own_observers_and_integer_io(folder):
    del folder
    made = project("small", observed("percentile", percentile=99.5), **CALIBRATED)
    made = edits.assign(made, "module_name", "fc", observed("fixed", minimum=-4.0, maximum=4.0))
    made = edits.assign(made, "module_type", "torch.nn.modules.activation.ReLU", observed("moving_average"))
    made = edits.assign(made, "io", "", observed("minmax"))
    made = edits.compress(edits.compress(made, "conv", channels=6), "", clusters=15)
    options = {
        "integer_io": True,
        "optimise": "Size",
        "tensor_allocator": "Greedy",
        "softmax": "STABLE",
        "positive_infinity": 200.0,
    }
    return edits.set_target(made, TargetChoice(id="ethos-u55-64", options=options))


def compressed_and_trained(folder):
    """Weights as training leaves them: every tensor of the compressed program, changed a little."""
    from safetensors.torch import save_file

    model, _ = networks.small()
    state = {k: v for k, v in model.state_dict().items() if v.is_floating_point()}
    narrow = {k: v[:6] if len(v) == 8 else v[:, :6] for k, v in state.items() if k != "fc.bias"}
    save_file({k: 1.1 * v.contiguous() for k, v in narrow.items()}, folder / "trained.safetensors")
    made = edits.compress(project("small", **CALIBRATED), "conv", channels=6)
    made = edits.compress(made, "fc", clusters=15)
    return edits.use_trained(made, "trained.safetensors")


def program_and_arrays(folder):
    model, inputs = networks.small()
    torch.export.save(torch.export.export(model, inputs), str(folder / "small.pt2"))
    data = np.random.default_rng(0).normal(size=(9, 3, 8, 8)).astype(np.float32)
    np.savez(folder / "data.npz", x=data, labels=np.arange(9))
    made = project("small", calibration=DataSource(spec="data.npz", limit=5, dropped=(1,)))
    made = edits.set_model(made, ModelSource(spec="small.pt2"))
    made = edits.choose_method(made, "all", "", "mse")
    made = edits.fix_range(made, "relu", 0.0, 1.25)
    made = edits.fix_range(made, "x", -2.5, 3.0)
    made = edits.assign(made, "node_target", "aten.conv2d.default", "a8w4")
    made = edits.assign(made, "node_target", "aten.relu.default", "cpu")
    return edits.assign(made, "node_name", "linear", "a16w8")


OWN_INI = """[System_Config.Mine]
core_clock=400e6
axi0_port=Sram
axi1_port=OffChipFlash
Sram_clock_scale=0.5
OffChipFlash_clock_scale=0.1
[Memory_Mode.Flash]
const_mem_area=Axi1
arena_mem_area=Axi0
cache_mem_area=Axi0
"""


def pictures_and_own_ini(folder):
    from PIL import Image

    (folder / "pictures").mkdir()
    generator = np.random.default_rng(1)
    for index in range(4):
        pixels = generator.integers(0, 256, (20, 24, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "pictures" / f"{index}.png")
    settings = Preprocess(size=(8, 8), mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.4))
    made = project("small", calibration=DataSource(spec="pictures", preprocess=settings))
    (folder / "own dir").mkdir()
    (folder / "own dir" / "mine.ini").write_text(OWN_INI)
    options = {
        "config_ini": "own dir/mine.ini",
        "system_config": "Mine",
        "memory_mode": "Flash",
        "external_weights": True,
    }
    return edits.set_target(made, TargetChoice(id="ethos-u55-64", options=options))


def condition(folder):
    del folder
    made = project("branching", target="ethos-u85-256", **CALIBRATED)
    return edits.assign(made, "module_name", "b", observed("minmax"))


def cmsis_nn(folder):
    del folder
    made = project("wide_networks.py:mixed", calibration=DataSource(spec="wide_networks.py:samples"))
    options = {"cpu_kernels": "cmsis_nn", "integer_io": True}
    return edits.set_target(made, TargetChoice(id="ethos-u55-128", options=options))


def corrections(folder):
    shutil.copy(Path(__file__).with_name("corrected_networks.py"), folder)
    return project("corrected_networks.py:joined_and_scaled")


def corrections_in_16_bits(folder):
    shutil.copy(Path(__file__).with_name("corrected_networks.py"), folder)
    return project("corrected_networks.py:every_correction", "a16w8")


def shared_weights(folder):
    shutil.copy(Path(__file__).with_name("corrected_networks.py"), folder)
    return project("corrected_networks.py:called_twice")


NAMED = """
import torch
from torch import nn
class Output(dict):
    pass
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({"class": nn.Linear(4, 2)})
    def forward(self, *, image, mask, scale):
        return Output(scores=self.heads["class"](image * mask["rows"]) * scale)
def sample(factor=1.0):
    return {"mask": {"rows": torch.rand(1, 4)}, "image": torch.randn(1, 4) * factor, "scale": 2.0}
def net():
    return Net().eval(), sample()
def samples():
    torch.manual_seed(1)
    return ((sample(3.0), number) for number in range(9))
"""


def inputs_by_name(folder):
    (folder / "named.py").write_text(NAMED)
    return project("named.py:net", calibration=DataSource(spec="named.py:samples"))


def odd_outputs(folder):
    del folder
    return project("odd_outputs")


def one_correction(folder):
    options = {"keep_relu_clamps": False}
    return edits.set_target(corrections(folder), TargetChoice(id="ethos-u55-128", options=options))


def in_float(made, *modules):
    for module in modules:
        made = edits.assign(made, "module_name", module, "float")
    return made


def linear_in_float(folder):
    del folder
    return in_float(project("small", **CALIBRATED), "fc")


def several_in_float(folder):
    del folder
    made = in_float(project("small", "a8w4", "ethos-u85-256", **CALIBRATED), "conv", "fc")
    return edits.set_target(made, TargetChoice(id="ethos-u85-256", options={"fine_steps": False}))


def io_and_linear_in_float(folder):
    del folder
    return edits.assign(in_float(project("small", **CALIBRATED), "fc"), "io", "", "float")


def type_in_float(folder):
    del folder
    made = project("small", calibration=DataSource(spec="networks.py:many_samples"))
    return edits.assign(made, "module_type", "torch.nn.modules.linear.Linear", "float")


def program_with_float(folder):
    model, inputs = networks.small()
    torch.export.save(torch.export.export(model, inputs), str(folder / "small.pt2"))
    made = edits.set_model(project("small", **CALIBRATED), ModelSource(spec="small.pt2"))
    return edits.assign(made, "node_target", "aten.linear.default", "float")


def written_with_float(folder):
    shutil.copy(Path(__file__).with_name("written_networks.py"), folder)
    data = DataSource(spec="written_networks.py:samples")
    return in_float(project("written_networks.py:scaled_slice", calibration=data), "d")


def batch_with_float(folder):
    shutil.copy(Path(__file__).with_name("case_networks.py"), folder)
    data = DataSource(spec="case_networks.py:samples_of_cpu_pool_batch")
    return in_float(project("case_networks.py:cpu_pool_batch", calibration=data), "6")


def without_out_variant(folder):
    shutil.copy(Path(__file__).with_name("corrected_networks.py"), folder)
    return edits.assign(project("corrected_networks.py:padded"), "module_name", "pad", "float")


def rules_for_nodes(folder):
    del folder
    made = project("wide_networks.py:relating")
    made = edits.assign(made, "node_name", "softmax", "a16w8")
    made = edits.assign(made, "node_target", "aten.matmul.default", "a8w8-per-tensor")
    made = edits.assign(made, "module_type", "LayerNorm", "a8w8-per-tensor")
    return edits.assign(made, "node_name", "layer_norm", "cpu")


def plugin(folder):
    shutil.copy(PLUGIN, folder / "example.py")
    made = project("small", observed("plugin", plugin="example.py:Headroom"), **CALIBRATED)
    made = edits.assign(made, "quantizer", "", "example.py:SymmetricLinears")
    return edits.assign(made, "finder", "example.py:FirstLayer", "example.py:sixbit_weights")


def decoder(folder, model, config, **source):
    shutil.copy(Path(__file__).with_name("decoders.py"), folder / "decoders.py")
    (folder / "text.txt").write_text("the cat sat on the mat and sang")
    data = DataSource(spec="text.txt", **source)
    return project(f"decoders.py:{model}", config, "ethos-u85-256", calibration=data)


def caches_in_buffers(folder):
    made = decoder(folder, "adding", "a8w8", tokens=Tokenization(length=8), dropped=(20,))
    return edits.fix_range(made, "linear", -1.5, 1.5)


def caches_handed_on(folder):
    tokens = Tokenization(length=6, tokenizer="decoders.py:letters")
    made = decoder(folder, "carried", "a16w8", tokens=tokens, limit=15)
    options = {"optimise": "Size", "negative_infinity": -32}
    return edits.set_target(made, TargetChoice(id="ethos-u85-256", options=options))


def write_script(engine, wanted, form="plain"):
    """Run a project until it is lowered and write its script; return the script's path."""
    engine.lowered(wanted)
    path = engine.folder / "scripts" / "make.py"
    for file, text in copied_corrections().items():
        (path.parent / file).parent.mkdir(parents=True, exist_ok=True)
        (path.parent / file).write_text(text)
    numbers, _ = read_chosen(wanted, engine.path(wanted, "calibrate"), MethodRanges())
    rewrites = engine.result(wanted, "prepare").rewrites
    known = KnownResults(
        branches=wanted.model.spec.endswith("branching"),
        as_written={row.id: row.as_written for row in rewrites if row.as_written},
    )
    path.write_text(script(OpenProject(wanted, engine.folder), path, numbers, known, form))
    return path


PARTS = DataSource(spec="joining_networks.py:samples")


def parts_of_an_output(folder):
    """Operators of single elements, and an offset of each channel, behind the join."""
    return edits.split_outputs(project("joining_networks.py:behind", calibration=PARTS), (0,))


def parts_by_factors(folder):
    return edits.split_outputs(project("joining_networks.py:factors", calibration=PARTS), (0,))


def test_that_the_script_of_a_small_project_makes_the_same_bytes(engine, monkeypatch):
    """In this process, with the accelerated toolchain; the slow ones take the plain one."""
    wanted = project("small", **CALIBRATED)
    path, program = write_script(engine, wanted), engine.folder / "script.pte"
    monkeypatch.setattr(sys, "argv", [str(path), str(program)])
    monkeypatch.setattr(sys, "path", [str(path.parent), *sys.path])
    # The script imports a module of this name; it is gone after the test.
    monkeypatch.setitem(sys.modules, "networks", networks)
    with accelerated():
        runpy.run_path(str(path), run_name="__main__")
    assert program.read_bytes() == (engine.path(wanted, "lower") / "program.pte").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    "made", [own_observers_and_integer_io, program_and_arrays, rules_for_nodes, linear_in_float, cmsis_nn]
)
def test_that_a_script_in_the_form_of_a_recipe_makes_the_same_bytes(engine, made):
    wanted = made(engine.folder)
    path, program = write_script(engine, wanted, "recipe"), engine.folder / "script.pte"
    assert "ExportRecipe.get_recipe(ArmRecipeType." in path.read_text()
    done = subprocess.run([sys.executable, path, program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert program.read_bytes() == (engine.path(wanted, "lower") / "program.pte").read_bytes()


def test_that_a_text_cannot_be_calibrated_by_a_recipe(tmp_path):
    made = project("small", calibration=DataSource(spec="text.txt"))
    with refused("script-form-not-supported"):
        script(OpenProject(made, tmp_path), tmp_path / "made.py", form="recipe")


@pytest.mark.parametrize(
    "made",
    [
        # The script of the digits is proven in tests/engine/test_digits.py.
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in (
                own_observers_and_integer_io,
                compressed_and_trained,
                program_and_arrays,
                corrections,
                corrections_in_16_bits,
                without_out_variant,
                pictures_and_own_ini,
                shared_weights,
                odd_outputs,
                inputs_by_name,
                linear_in_float,
                several_in_float,
                io_and_linear_in_float,
                type_in_float,
                program_with_float,
                written_with_float,
                batch_with_float,
                parts_of_an_output,
                parts_by_factors,
                condition,
                rules_for_nodes,
                plugin,
                cmsis_nn,
                one_correction,
                caches_in_buffers,
            )
        ),
        # It takes half a minute.
        pytest.param(caches_handed_on, marks=pytest.mark.benchmark),
    ],
)
def test_that_the_script_makes_the_same_bytes(engine, made):
    wanted = made(engine.folder)
    path = write_script(engine, wanted)
    program = engine.folder / "script.pte"
    # Where Python does not look beside the script.
    safe = {**os.environ, "PYTHONSAFEPATH": "1"}
    command = [sys.executable, path, program]
    done = subprocess.run(command, capture_output=True, check=False, env=safe)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    ours = (engine.path(wanted, "lower") / "program.pte").read_bytes()
    assert program.read_bytes() == ours
    apart = program.with_name("weights.ptd")
    assert apart.exists() == bool(wanted.target.options.get("external_weights"))
    if apart.exists():
        assert apart.read_bytes() == (engine.path(wanted, "lower") / "weights.ptd").read_bytes()
    # The program keeps Vela's flags; nothing of this machine may be among them.
    for trace in (str(engine.folder), "mine.ini", "tmp/"):
        assert trace.encode() not in ours

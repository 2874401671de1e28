"""Weights in the shapes that people keep them in, and what is said when they do not fit."""

import argparse
import copy
import json
import pickle
import random
import sys
from collections import OrderedDict, namedtuple
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils import prune

from tests.problems import refused
from workbench import api
from workbench.engine.loading.checkpoints import load_weights
from workbench.engine.loading.models import load_model
from workbench.errors import WorkbenchError
from workbench.project.checkpoints import form_of
from workbench.project.model import ModelSource
from workbench.project.opened import OpenProject
from workbench.project.project_code import code_used
from workbench.project.sources import model_reference
from workbench.script.model_and_data import functional_writes_part, model_part, tensor_outputs_part

pytestmark = pytest.mark.engine


class Net(nn.Module):
    """A body with batch norm, and a head."""

    def __init__(self, classes=4, channels=3):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(channels, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        self.head = nn.Linear(4, classes)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


class Lit(nn.Module):
    """A training module around the net, as Lightning has it."""

    def __init__(self, net):
        super().__init__()
        self.model = net
        self.loss = nn.CrossEntropyLoss(weight=torch.ones(4))


def net(seed=0, **fields):
    torch.manual_seed(seed)
    made = Net(**fields).eval()
    made.body[1].running_mean.uniform_()
    return made


def scripted(trained, path):
    torch.jit.script(trained).save(str(path))


def traced(trained, path):
    torch.jit.trace(trained, torch.zeros(1, 3, 8, 8)).save(str(path))


def legacy(trained, path):
    torch.save(trained.state_dict(), path, _use_new_zipfile_serialization=False)


def sharded(trained, path):
    state = trained.state_dict()
    names = {name: f"part-{'body' in name}.safetensors" for name in state}
    for file in set(names.values()):
        save_file({n: state[n] for n in state if names[n] == file}, path.parent / file)
    path.write_text(json.dumps({"metadata": {}, "weight_map": names}))


def bin_shards(trained, path):
    state = trained.state_dict()
    names = {name: f"part-{'body' in name}.bin" for name in state}
    for file in set(names.values()):
        torch.save({n: state[n] for n in state if names[n] == file}, path.parent / file)
    path.write_text(json.dumps({"weight_map": names}))


def folder_of_safetensors(trained, path):
    path.mkdir()
    save_file(trained.state_dict(), path / "model.safetensors")


def renamed(trained, change):
    return {change(name): value for name, value in trained.state_dict().items()}


def averaged(trained):
    return torch.optim.swa_utils.AveragedModel(trained).state_dict()


Odd = namedtuple("Odd", "a")


def training_state(trained):
    """Return what training scripts save beside the weights."""
    optimizer = torch.optim.Adam(trained.parameters())
    trained(torch.zeros(1, 3, 8, 8)).sum().backward()
    optimizer.step()
    return {
        "epoch": 3,
        "arch": "net",
        "best_acc1": np.float64(0.5),
        "path": Path("runs"),
        "date": np.datetime64("2024-01-01"),
        "args": argparse.Namespace(lr=0.1),
        "optimizer": optimizer.state_dict(),
        "odd": Odd(1),
        "rng": np.random.default_rng(0).bit_generator.state,
    }


def saver(make):
    return lambda trained, path: torch.save(make(trained), path)


STATE = "state_dict"
SHAPES = {
    "plain.pt": saver(lambda n: n.state_dict()),
    "legacy.pth": legacy,
    "parameters.pt": saver(lambda n: OrderedDict(n.state_dict(keep_vars=True))),
    "state_dict.tar": saver(lambda n: {STATE: n.state_dict(), "epoch": 7}),
    "model.pth": saver(lambda n: {"model": n.state_dict(), "epoch": 7}),
    "model_state_dict.pt": saver(lambda n: {"model_state_dict": n.state_dict(), "loss": 0.1}),
    "nested.pt": saver(lambda n: {"checkpoint": {"net": {STATE: n.state_dict()}}}),
    "with_training.pt": saver(lambda n: {STATE: copy.deepcopy(n.state_dict()), **training_state(n)}),
    "data_parallel.pt": saver(lambda n: nn.DataParallel(n).state_dict()),
    "compiled.pt": saver(lambda n: renamed(n, "_orig_mod.{}".format)),
    "compiled_parallel.pt": saver(lambda n: {STATE: renamed(n, "module._orig_mod.{}".format)}),
    "wrapped_inside.pt": saver(lambda n: renamed(n, lambda k: k.replace("body.", "body._orig_mod."))),
    "lightning.ckpt": saver(
        lambda n: {STATE: Lit(n).state_dict(), "hyper_parameters": argparse.Namespace(a=1)}
    ),
    "backbone.pt": saver(lambda n: renamed(n, "net.backbone.{}".format)),
    "averaged.pt": saver(averaged),
    "by_parts.pt": saver(lambda n: {"body": n.body.state_dict(), "head": n.head.state_dict(), "step": 1}),
    "average_beside_trained.pt": saver(
        lambda n: (
            renamed(n, "ema_model.{}".format)
            | {f"online_model.{k}": torch.zeros_like(v) for k, v in n.state_dict().items()}
        )
    ),
    "average_in_module.pt": saver(
        lambda n: {"model": net(9).state_dict(), "model_ema": {"module": n.state_dict()}}
    ),
    "parallel_inside.pt": saver(lambda n: {"net": renamed(n, "module.{}".format), "acc": 91.2}),
    "model_in_state.pt": saver(lambda n: {"model": {STATE: n.state_dict(), "name": "net"}}),
    "optimizer_beside.pt": saver(lambda n: {**n.state_dict(), "optimizer": {}, "lr": 0.1}),
    "half.pt": saver(lambda n: {k: v.half() for k, v in n.state_dict().items()}),
    "module.pt": saver(lambda n: n),
    "module_inside.pt": saver(lambda n: {"model": n, "epoch": 1}),
    "legacy_module.pt": lambda n, p: torch.save(n, p, _use_new_zipfile_serialization=False),
    "scripted.pt": scripted,
    "traced.ts": traced,
    "plain.safetensors": lambda n, p: save_file(n.state_dict(), p),
    "prefixed.safetensors": lambda n, p: save_file(renamed(n, "model.{}".format), p),
    "model.safetensors.index.json": sharded,
    "pytorch_model.bin.index.json": bin_shards,
    "folder": folder_of_safetensors,
    "arrays.npz": lambda n, p: np.savez(p, **{k: v.numpy() for k, v in n.state_dict().items()}),
    "arrays.pkl": lambda n, p: p.write_bytes(pickle.dumps({k: v.numpy() for k, v in n.state_dict().items()})),
    "tensors.pkl": lambda n, p: p.write_bytes(pickle.dumps({STATE: n.state_dict()})),
    "no_counters.safetensors": lambda n, p: save_file(
        {k: v for k, v in n.state_dict().items() if "num_batches" not in k}, p
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_that_weights_are_found_in_every_shape_of_file(tmp_path, name):
    trained, mine = net(1), net(2)
    wanted = {k: v.clone() for k, v in trained.state_dict().items()}
    SHAPES[name](trained, tmp_path / name)
    load_weights(mine, tmp_path / name)
    for key, value in mine.state_dict().items():
        if "num_batches" not in key:
            tolerance = 1e-2 if name == "half.pt" else 0
            torch.testing.assert_close(value, wanted[key], atol=tolerance, rtol=tolerance)


# One for each reader of files and each way in which names differ.
SCRIPTED = {
    "plain.pt",
    "legacy.pth",
    "with_training.pt",
    "compiled_parallel.pt",
    "lightning.ckpt",
    "averaged.pt",
    "by_parts.pt",
    "average_in_module.pt",
    "module_inside.pt",
    "scripted.pt",
    "model.safetensors.index.json",
    "folder",
    "arrays.npz",
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in SCRIPTED else pytest.mark.slow)
        for name in SHAPES
        if not name.endswith(".pkl")
    ],
)
def test_that_the_script_loads_the_same_weights(tmp_path, name):
    SHAPES[name](net(1), tmp_path / name)
    mine = net(2)
    taken = load_weights(mine, tmp_path / name)
    code = "from tests.engine.loading.test_checkpoints import net\nimport torch\n"
    (tmp_path / "model.py").write_text(f"{code}def build(): return net(3), torch.zeros(1, 3, 8, 8)\n")
    opened = api.new("model.py:build", "ethos-u55-128", folder=tmp_path)
    project = api.set_settings(opened, {"model.weights": name}).project
    names = {"HERE": tmp_path, "np": np, "random": random, "torch": torch, "sys": sys}
    exec(tensor_outputs_part(), names)
    exec(functional_writes_part(), names)
    exec(model_part(OpenProject(project, tmp_path), branches=False, taken=taken), names)
    program, _ = names["load_model"]()
    for key, value in program.state_dict.items():
        if "num_batches" not in key:
            assert torch.equal(value, mine.state_dict()[key])


def test_that_a_model_that_wraps_the_trained_one_takes_its_weights(tmp_path):
    trained = net(1)
    torch.save(trained.state_dict(), tmp_path / "w.pt")
    outer = nn.Sequential(OrderedDict(model=net(2), softmax=nn.Softmax(-1)))
    assert load_weights(outer, tmp_path / "w.pt").added == "model."
    assert torch.equal(outer.model.head.weight, trained.head.weight)


def test_that_a_model_that_renames_what_it_loads_takes_weights_with_former_names(tmp_path):
    def rename(module, state, prefix, *_):
        for name in [n for n in state if n.startswith(f"{prefix}neck.")]:
            state[name.replace("neck.", "head.")] = state.pop(name)

    trained, mine = net(1), net(2)
    mine.register_load_state_dict_pre_hook(rename)
    state = {name.replace("head.", "neck."): v for name, v in trained.state_dict().items()}
    torch.save(state, tmp_path / "w.pt")
    assert not load_weights(mine, tmp_path / "w.pt").unwrapped
    assert torch.equal(mine.head.weight, trained.head.weight)


def test_that_averaged_weights_go_before_others_and_both_are_told(tmp_path):
    plain, ema, mine = net(1), net(2), net(3)
    both = {"model": plain.state_dict(), "model_ema": renamed(ema, "module.{}".format)}
    torch.save(both, tmp_path / "w.pt")
    taken = load_weights(mine, tmp_path / "w.pt")
    assert torch.equal(mine.head.weight, ema.head.weight)
    assert (taken.entry, taken.others) == (("model_ema",), ("model",))


def test_that_tied_weights_may_be_stored_once(tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
            self.b.weight = self.a.weight

    trained, mine = Tied(), Tied()
    save_file({"a.weight": trained.a.weight.detach()}, tmp_path / "w.safetensors")
    load_weights(mine, tmp_path / "w.safetensors")
    assert torch.equal(mine.b.weight, trained.a.weight)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (lambda: net(classes=1000).state_dict(), ("1000 classes", "the model 4")),
        (lambda: net(channels=1).state_dict(), ("1 input channels", "3 in the model")),
        (lambda: renamed(net(), lambda k: k.replace("head.", "heads.")), ("heads.weight",)),
        (lambda: {**net().state_dict(), "aux.weight": torch.ones(2)}, ("aux", "remove them")),
        (lambda: {"conv.weight": torch.ones(3)}, ("different model",)),
        (
            lambda: {STATE: {k: v for k, v in net().state_dict().items() if "head" not in k}},
            ("no weights for head",),
        ),
    ],
)
def test_that_weights_that_do_not_fit_say_what_would(tmp_path, state, words):
    torch.save(state(), tmp_path / "w.pt")
    before = copy.deepcopy(net().state_dict())
    mine = net()
    with refused("weights-unfit") as caught:
        load_weights(mine, tmp_path / "w.pt")
    info = caught.value.infos[0]
    assert all(word in f"{info.message} {info.hint}" for word in words)
    assert all(torch.equal(before[k], v) for k, v in mine.state_dict().items())


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("gone.pt", None, "weights-missing"),
        ("half.pt", b"PK\x03\x04 half", "weights-unreadable"),
        ("text.pt", b"hello", "weights-unreadable"),
        ("empty.pt", b"", "weights-unreadable"),
        ("none.pkl", pickle.dumps({"epoch": 1}), "weights-not-state-dict"),
        ("list.pkl", pickle.dumps([1, 2]), "weights-not-state-dict"),
        ("net.onnx", b"\x08\x07\x12", "weights-form-onnx"),
        ("net.tflite", b"\x1c\0\0\0TFL3" + b"\0" * 9, "weights-form-tflite"),
        ("net.h5", b"\x89HDF\r\n\x1a\n", "weights-form-hdf5"),
        ("net.gguf", b"GGUF" + b"\0" * 20, "weights-form-gguf"),
        ("a.index.json", b"{}", "weights-unreadable"),
        ("b.index.json", b'{"weight_map": {"w": "gone.safetensors"}}', "weights-shard-missing"),
        ("c.index.json", b'{"weight_map": {"w": "../../../etc/passwd"}}', "weights-shard-missing"),
    ],
)
def test_that_files_without_weights_are_named(tmp_path, name, content, code):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with refused(code):
        load_weights(net(), tmp_path / name)


class Malicious:
    """Runs code when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("save", [torch.save, lambda v, p: p.write_bytes(pickle.dumps(v))])
def test_that_no_code_of_a_checkpoint_runs(tmp_path, save):
    trained, mine = net(1), net(2)
    content = {STATE: trained.state_dict(), "args": Malicious(tmp_path / "ran")}
    save(content, tmp_path / "w.pt")
    load_weights(mine, tmp_path / "w.pt")
    assert torch.equal(mine.head.weight, trained.head.weight)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["module.pt", "legacy_module.pt", "module_inside.pt"])
def test_that_a_pickled_module_needs_trust_and_its_recipe_is_told(tmp_path, name):
    SHAPES[name](net(), tmp_path / name)
    (tmp_path / "model.py").write_text("def build(): ...\n")
    model = api.OpenProject
    opened = api.new("model.py:build", "ethos-u55-128", folder=tmp_path)
    assert [use.option for use in code_used(OpenProject(opened.project, tmp_path))] == ["model.spec"]
    opened = api.set_settings(opened, {"model.weights": name})
    uses = code_used(OpenProject(opened.project, tmp_path))
    assert isinstance(opened, model)
    assert [use.option for use in uses] == ["model.spec", "model.weights"]
    assert "torch.save(model.state_dict()" in uses[1].instead


@pytest.mark.parametrize("name", ["plain.pt", "with_training.pt", "scripted.pt", "tensors.pkl"])
def test_that_weights_without_a_module_need_no_trust(tmp_path, name):
    SHAPES[name](net(), tmp_path / name)
    assert form_of(tmp_path / name) in {"pickle", "torchscript"}


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("net.tflite", "model-form-tflite"),
        ("scripted.pt", "model-form-torchscript"),
        ("plain.pt", "model-form-pickle"),
        ("plain.safetensors", "model-form-safetensors"),
        ("module.pt", "model-form-module"),
    ],
)
def test_that_a_file_that_is_no_model_gets_the_sentence_that_helps(tmp_path, name, code):
    if name in SHAPES:
        SHAPES[name](net(), tmp_path / name)
    else:
        (tmp_path / name).write_bytes(b"\x1c\0\0\0TFL3" + b"\0" * 9)
    with pytest.raises(WorkbenchError) as caught:
        model_reference(name, tmp_path)
    assert caught.value.codes == (code,)
    assert caught.value.infos[0].hint


def quantized(trained):
    state = trained.state_dict()
    head = torch.ao.nn.quantized.Linear(4, 4).weight()
    return state | {"head.weight": head}


def adapted(trained):
    state = trained.state_dict()
    state["head.base_layer.weight"] = state.pop("head.weight")
    return state | {"head.lora_A.weight": torch.zeros(2, 4)}


def masked(trained):
    prune.l1_unstructured(trained.head, "weight", 0.5)
    return trained.state_dict()


@pytest.mark.parametrize(
    ("make", "code", "words"),
    [
        (quantized, "weights-quantized", "dequantize"),
        (adapted, "weights-unfit", "merge_and_unload"),
        (masked, "weights-unfit", "prune.remove"),
        (lambda n: (3, n.state_dict()), "weights-not-state-dict", "element 1"),
        (lambda n: n.body.state_dict(prefix="body."), "weights-unfit", "no weights for head"),
        (lambda n: {"state": {0: {"step": torch.ones(1)}}}, "weights-unfit", "optimizer"),
    ],
)
def test_that_weights_of_other_tools_get_the_call_that_helps(tmp_path, make, code, words):
    torch.save(make(net(1)), tmp_path / "w.pt")
    with refused(code) as caught:
        load_weights(net(2), tmp_path / "w.pt")
    assert words in caught.value.infos[0].hint


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b"<!DOCTYPE html><html>Sign in</html>", "web page"),
        (b"\x1f\x8b\x08\x00", "gunzip"),
    ],
)
def test_that_downloads_that_are_no_weights_are_told_by_their_begin(tmp_path, content, word):
    (tmp_path / "w.pt").write_bytes(content)
    with refused("weights-unreadable") as caught:
        load_weights(net(2), tmp_path / "w.pt")
    assert word in caught.value.infos[0].hint


@pytest.mark.parametrize("name", ["head.weight", "body.1.running_var"])
def test_that_nan_in_a_file_of_weights_is_refused_with_the_name_of_the_weight(tmp_path, name):
    stem = f"diverged_{name.replace('.', '_')}"
    (tmp_path / f"{stem}.py").write_text(f"from {__name__} import net\n")
    state = net().state_dict()
    state[name][0] = torch.nan
    torch.save(state, tmp_path / "w.pt")
    source = ModelSource(spec=f"{stem}.py:net", weights="w.pt", input_shapes=((1, 3, 8, 8),))
    with refused("weight-not-finite") as caught:
        load_model(source, tmp_path)
    info = caught.value.infos[0]
    assert name in info.message
    assert info.where.id == "model.weights"

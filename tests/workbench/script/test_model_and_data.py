"""The part of a script that loads model and data, executed with doubles of torch and of files."""

import importlib
import json
import pickle
import random
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from tests.fakes.projects import make_project
from tests.for_each import for_each
from workbench.project import edits
from workbench.project.model import DataSource, ModelSource, Preprocess, Tokenization
from workbench.project.opened import OpenProject
from workbench.results import WeightsTaken
from workbench.script.model_and_data import (
    data_part,
    load_callable,
    model_part,
    remembering_parts,
    steps_part,
)


class Tensor(np.ndarray):
    """An array that answers to the few names of a tensor that a script uses."""

    def to(self, dtype):
        return self.astype(dtype)

    def detach(self):
        return self

    def cpu(self):
        return self


def tensor(values):
    return np.asarray(values).view(Tensor)


class Model:
    """A model that remembers what it was given."""

    def __init__(self):
        self.state, self.strict, self.mode = None, None, "train"

    def load_state_dict(self, state, strict):
        self.state, self.strict = dict(state), strict

    def eval(self):
        self.mode = "eval"
        return self

    def requires_grad_(self, needed):
        self.needs_gradients = needed
        return self


def fake_torch(loaded=None, exported=None):
    """Return a double of torch that hands out ``loaded`` and keeps what was exported."""
    return SimpleNamespace(
        Tensor=Tensor,
        as_tensor=tensor,
        from_numpy=tensor,
        load=lambda path, **options: loaded(path, options),
        jit=SimpleNamespace(
            load=lambda path, **options: SimpleNamespace(state_dict=lambda: loaded(path, options))
        ),
        manual_seed=lambda seed: seed,
        no_grad=lambda: importlib.import_module("contextlib").nullcontext(),
        randn=lambda shape, generator: tensor(np.full(shape, generator, np.float32)),
        Generator=lambda: SimpleNamespace(manual_seed=lambda seed: seed),
        distributions=SimpleNamespace(
            Distribution=SimpleNamespace(set_default_validate_args=lambda checks: None)
        ),
        export=SimpleNamespace(
            load=lambda path: SimpleNamespace(example_inputs=[[tensor([1.0])]], path=path, parameters=tuple)
        ),
    )


def executed(text, folder, **names):
    same = {
        "with_tensor_outputs": lambda program: program,
        "with_free_names": lambda model: None,
        "with_free_weights": lambda program: program,
        "arguments_of": lambda inputs: (inputs, {}),
        "with_flat_inputs": lambda model, args, named: (args, []),
        "with_flat_signature": lambda program: (program.example_inputs[0], []),
        "input_places": [],
    }
    scope = {"HERE": folder, "np": np, "random": random, "sys": sys, **same, **names}
    exec(compile(text, "part.py", "exec"), scope)
    return scope


def samples(project, folder, inputs, names=("x",), loaded=None):
    """Return what the written function yields."""
    scope = executed(
        data_part(OpenProject(project, folder)),
        folder,
        torch=fake_torch(loaded),
        input_names=names,
        importlib=importlib,
        from_file=lambda file, name: lambda: loaded(file, name),
    )
    return list(scope["samples"](inputs))


def with_data(spec, **options):
    return edits.set_calibration(make_project(), DataSource(spec=spec, **options))


def test_that_without_data_the_example_is_the_sample(tmp_path):
    project = edits.set_calibration(make_project(), None)
    assert samples(project, tmp_path, ("example",)) == [("example",)]


@for_each(
    ("options", "rows"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"limit": 2}, [0, 1]),
        ({"dropped": (0, 2)}, [1, 3, 4]),
        ({"dropped": (1,), "limit": 3}, [0, 2, 3]),
    ],
)
def test_that_arrays_are_read_row_by_row(tmp_path, options, rows):
    values = np.arange(10, dtype=np.float64).reshape(5, 2)
    np.save(tmp_path / "data.npy", values)
    found = samples(with_data("data.npy", **options), tmp_path, (tensor(np.zeros((1, 2), "f")),))
    assert [step[0].tolist() for step in found] == [[values[row].tolist()] for row in rows]
    assert all(step[0].dtype == np.float32 for step in found)


@for_each(
    ("count", "kept"),
    [
        (31, list(range(31))),
        (32, [n for n in range(32) if n % 4 != 3]),
        (33, [n for n in range(33) if n % 4 != 3]),
    ],
)
def test_that_every_fourth_of_32_samples_is_kept_for_evaluation(tmp_path, count, kept):
    np.save(tmp_path / "data.npy", np.arange(count, dtype=np.float32).reshape(count, 1))
    project, inputs = with_data("data.npy"), (tensor(np.zeros((1, 1), "f")),)

    def found(of):
        return [int(step[0].item()) for step in samples(of, tmp_path, inputs)]

    assert found(project) == kept
    own = project.evaluation.model_copy(update={"data": DataSource(spec="data.npy")})
    off = project.evaluation.model_copy(update={"hold_out": False})
    for evaluation in (own, off):
        assert found(project.model_copy(update={"evaluation": evaluation})) == list(range(count))


def test_that_arrays_are_taken_by_the_names_of_the_inputs_and_labels_left_out(tmp_path):
    one = (tensor(np.zeros(1, np.float32)),)
    np.savez(tmp_path / "d.npz", labels=np.arange(3), other=np.zeros(3), x=np.ones(3))
    assert [s[0].tolist() for s in samples(with_data("d.npz"), tmp_path, one)] == [[1.0]] * 3
    np.savez(tmp_path / "e.npz", y=np.arange(3), values=np.full(3, 7.0))
    assert [s[0].tolist() for s in samples(with_data("e.npz"), tmp_path, one)] == [[7.0]] * 3


@for_each("value", [{"a": np.ones((2, 1))}, [np.ones((2, 1))], (np.ones((2, 1)),), np.ones((2, 1))])
def test_that_a_file_of_tensors_may_be_a_dictionary_a_list_or_one(tmp_path, value):
    (tmp_path / "d.pt").write_bytes(b"")
    asked = []

    def loaded(path, options):
        asked.append((path.name, options["weights_only"]))
        return value if not isinstance(value, np.ndarray) else tensor(value)

    found = samples(with_data("d.pt"), tmp_path, (tensor(np.zeros(1, "f")),), loaded=loaded)
    assert [step[0].tolist() for step in found] == [[1.0], [1.0]]
    assert set(asked) == {("d.pt", True)}


@for_each(
    "items", [[(np.ones(2), 3), (np.ones(2), 4)], [np.ones(2), np.ones(2)], [(np.ones(2),), [np.ones(2)]]]
)
def test_that_the_items_of_a_callable_may_have_labels(tmp_path, items):
    (tmp_path / "mine.py").write_text("def data(): ...\n")
    found = samples(
        with_data("mine.py:data"),
        tmp_path,
        (tensor(np.zeros(2, "f")),),
        loaded=lambda file, name: items if (file, name) == ("mine.py", "data") else None,
    )
    assert [step[0].tolist() for step in found] == [[1.0, 1.0], [1.0, 1.0]]


def pictures(folder, **settings):
    """Return the first sample of a folder with one picture whose left half is (10, 20, 30)."""
    (folder / "p").mkdir()
    pixels = np.full((8, 16, 3), 200, np.uint8)
    pixels[:, :8] = (10, 20, 30)
    Image.fromarray(pixels).save(folder / "p" / "b.png")
    (folder / "p" / "notes.txt").write_text("no picture")
    shape = settings.pop("shape", (1, 3, 8, 8))
    settings.setdefault("size", shape[2:] if shape[1] in {1, 3} else shape[1:3])
    project = with_data("p", preprocess=Preprocess(**settings))
    ((sample,),) = samples(project, folder, (tensor(np.zeros(shape, "f")),))
    return np.asarray(sample)[0]


def test_that_pictures_are_resized_and_normalized(tmp_path):
    x = pictures(tmp_path, scale=100.0, mean=(0.1,), std=(0.5,), filter="nearest")
    assert x.shape == (3, 8, 8)
    assert x[:, 0, 0] == pytest.approx([0.0, 0.2, 0.4])
    assert x[:, 0, 7] == pytest.approx([3.8] * 3)


def test_that_each_channel_has_its_own_mean(tmp_path):
    x = pictures(tmp_path, mean=(0.1, 0.2, 0.3), std=(1.0, 2.0, 4.0), filter="nearest")
    expected = [(10 / 255 - 0.1), (20 / 255 - 0.2) / 2, (30 / 255 - 0.3) / 4]
    assert x[:, 0, 0] == pytest.approx(expected, abs=1e-6)


@for_each(
    ("settings", "corner"),
    [
        ({"dtype": "uint8"}, [10, 20, 30]),
        ({"dtype": "int8"}, [-118, -108, -98]),
        ({"dtype": "uint8", "layout": "bgr"}, [30, 20, 10]),
        ({"dtype": "uint8", "layout": "rgb"}, [10, 20, 30]),
    ],
)
def test_that_pixels_are_taken_as_they_are(tmp_path, settings, corner):
    assert pictures(tmp_path, filter="nearest", **settings)[:, 0, 0].tolist() == corner


@for_each("settings", [{"shape": (1, 1, 8, 8)}, {"layout": "gray"}])
def test_that_gray_pictures_have_one_channel(tmp_path, settings):
    settings.setdefault("shape", (1, 1, 8, 8))
    x = pictures(tmp_path, dtype="uint8", filter="nearest", **settings)
    assert x[:, 0, 0].tolist() == [round(0.299 * 10 + 0.587 * 20 + 0.114 * 30)]


@for_each(
    ("settings", "place"),
    [
        ({"shape": (1, 8, 8, 3)}, (0, 0, slice(None))),
        ({"shape": (1, 8, 8, 3), "order": "last"}, (0, 0, slice(None))),
        ({"shape": (1, 3, 8, 8), "order": "first"}, (slice(None), 0, 0)),
    ],
)
def test_that_channels_come_where_the_input_has_them(tmp_path, settings, place):
    x = pictures(tmp_path, dtype="uint8", filter="nearest", **settings)
    assert x[place].tolist() == [10, 20, 30]


def test_that_the_centre_of_a_picture_is_cut_out(tmp_path):
    # 8 x 16 covers 4 x 4 as 4 x 8; the centre of two columns has both halves.
    x = pictures(tmp_path, shape=(1, 3, 2, 2), size=(4, 4), crop=(2, 2), dtype="uint8", filter="nearest")
    assert x[0].tolist() == [[10, 200], [10, 200]]


def model(project, folder, loaded=None, **options):
    """Return the model and inputs of a written ``load_model``, and how they were exported."""
    made, exported = Model(), []
    text = model_part(OpenProject(project, folder), branches=False, **options)
    (folder / "mine.py").write_text("def net(): ...\n")
    scope = executed(text, folder, torch=fake_torch(loaded, exported))
    scope["from_file"] = lambda file, name: lambda: (made, tensor([1.0]))
    scope["exported_program"] = lambda *what, strict: exported.append((*what, strict)) or "made"
    program, inputs = scope["load_model"]()
    return made, exported, program, inputs


def mine(**fields):
    return edits.set_model(make_project(), ModelSource(spec="mine.py:net", **fields))


def test_that_a_model_is_set_to_evaluation_and_exported(tmp_path):
    made, exported, program, inputs = model(mine(strict_export=True), tmp_path)
    assert (made.mode, made.needs_gradients, program) == ("eval", False, "made")
    assert exported == [(made, inputs, True)]
    assert model(mine(), tmp_path)[1][0][2] is False
    assert made.state is None


def test_that_an_exported_program_is_loaded(tmp_path):
    (tmp_path / "net.pt2").write_bytes(b"")
    _, exported, program, inputs = model(make_project(), tmp_path)
    assert program.path == str(tmp_path / "net.pt2")
    assert exported == []
    assert [v.tolist() for v in inputs] == [[1.0]]


def test_that_inputs_come_from_arrays_or_shapes(tmp_path):
    np.savez(tmp_path / "in.npz", b=np.full(2, 2.0), a=np.full(1, 1.0))
    inputs = model(mine(inputs="in.npz"), tmp_path)[3]
    assert [v.tolist() for v in inputs] == [[2.0, 2.0], [1.0]]
    inputs = model(mine(input_shapes=((1, 2), (3,))), tmp_path)[3]
    assert [v.shape for v in inputs] == [(1, 2), (3,)]


STATE = {"conv.weight": 1, "conv.bias": 2}


@for_each(
    ("content", "taken", "state"),
    [
        (STATE, WeightsTaken(form="pickle"), STATE),
        ({"model": {"ema": STATE}}, WeightsTaken(form="pickle", entry=("model", "ema")), STATE),
        (
            {"a": {"x": 1}, "b": {"y": 2}, "epoch": 3},
            WeightsTaken(form="pickle", joined=True),
            {"a.x": 1, "b.y": 2},
        ),
        (
            {"module.conv.weight": 1, "_orig_mod.conv.bias": 2},
            WeightsTaken(form="pickle", unwrapped=True),
            STATE,
        ),
        (
            {"net.conv.weight": 1, "net.conv.bias": 2, "head.x": 3},
            WeightsTaken(form="pickle", prefix="net."),
            STATE,
        ),
        ({"weight": 1, "bias": 2}, WeightsTaken(form="pickle", added="conv."), STATE),
    ],
)
def test_that_weights_are_found_where_they_were_found_before(tmp_path, content, taken, state):
    path = tmp_path / "w.pt"
    path.write_bytes(b"\x80")
    asked = []

    def loaded(file, options):
        asked.append((file.name, options["weights_only"]))
        return content

    made = model(mine(weights="w.pt"), tmp_path, loaded, taken=taken)[0]
    assert made.state == state
    assert made.strict is False
    # Wrapped state dicts may hold other objects.
    assert asked == [("w.pt", not taken.entry)]


def test_that_arrays_and_torchscript_are_read_as_weights(tmp_path):
    np.savez(tmp_path / "w.npz", a=np.ones(1))
    assert model(mine(weights="w.npz"), tmp_path)[0].state["a"].tolist() == [1.0]
    import zipfile

    with zipfile.ZipFile(tmp_path / "w.ts", "w") as archive:
        archive.writestr("w/constants.pkl", b"")
    made = model(mine(weights="w.ts"), tmp_path, lambda path, options: STATE)[0]
    assert made.state == STATE


def steps(folder, loaded=None, text=b"abcdefg", holds_out=True, **options):
    at_once = options.pop("at_once", 1)
    project_data = DataSource(
        spec="t.txt", tokens=Tokenization(length=options.pop("length", 3), **options.pop("t", {})), **options
    )
    (folder / "t.txt").write_bytes(text)
    integer = SimpleNamespace(
        is_floating_point=lambda: False, numel=lambda: at_once, dtype="int32", shape=(1, at_once)
    )
    torch = SimpleNamespace(tensor=np.array)
    part = steps_part(project_data, folder, holds_out=holds_out)
    scope = executed(
        f"importlib = __import__('importlib')\n{part}",
        folder,
        torch=torch,
        from_file=lambda file, name: loaded,
    )
    given = scope["samples"]((integer, integer))
    return [(begins, tuple(i.ravel().tolist() for i in step)) for begins, step in given]


def first(step):
    """Return the first token of a step."""
    return step[1][0][0]


def test_that_a_text_is_read_token_by_token_in_sequences(tmp_path):
    letters = [ord(c) for c in "abcdef"]
    assert steps(tmp_path) == [
        (place % 3 == 0, ([letter], [place % 3])) for place, letter in enumerate(letters)
    ]


def test_that_steps_are_left_out_and_limited(tmp_path):
    assert [first(s) for s in steps(tmp_path, limit=2)] == [ord("a"), ord("b")]
    assert [first(s) for s in steps(tmp_path, dropped=(4,))] == [ord(c) for c in "abcd"]
    assert [first(s) for s in steps(tmp_path, dropped=(1,))] == [ord(c) for c in "adef"]


def test_that_several_tokens_are_read_at_once(tmp_path):
    found = steps(tmp_path, at_once=2, length=5, text=b"abcdefghij")
    assert [(begins, bytes(tokens), places) for begins, (tokens, places) in found] == [
        (True, b"ab", [0, 1]),
        (False, b"cd", [2, 3]),
        (True, b"fg", [0, 1]),
        (False, b"hi", [2, 3]),
    ]


def test_that_every_fourth_of_32_sequences_is_kept_for_evaluation(tmp_path):
    text = bytes(letter for letter in range(64, 96) for _ in range(3)) + b"i"
    found = [first(s) for s in steps(tmp_path, text=text)]
    assert found == [letter for place, letter in enumerate(text[:96]) if place // 3 % 4 != 3]
    assert [s[0] for s in steps(tmp_path, text=text)] == [True, False, False] * 24
    assert len(steps(tmp_path, text=text, holds_out=False)) == 96
    assert len(steps(tmp_path, text=text[:95])) == 94 - 22
    assert len(steps(tmp_path, text=text[:94])) == 93


def test_that_a_tokenizer_of_the_user_is_called(tmp_path):
    (tmp_path / "tok.py").write_text("def encode(text): ...\n")
    found = steps(tmp_path, t={"tokenizer": "tok.py:encode"}, loaded=lambda text: [7, 8, len(text)])
    assert [first(s) for s in found] == [7, 8]


def test_that_a_callable_of_an_installed_package_is_imported_from_it(tmp_path):
    text = load_callable("json.decoder:JSONDecoder", tmp_path, "model.spec")
    assert eval(text, {"importlib": importlib}) is json.JSONDecoder


@for_each("entry", [(), ("ema",), ("ema", "model")])
def test_that_a_pickled_module_gives_its_weights_also_below_a_key(tmp_path, entry):
    fields = {"_parameters": 1, "_buffers": 2, "_modules": 3}
    (tmp_path / "w.pt").write_bytes(pickle.dumps(SimpleNamespace(**fields)))
    content = SimpleNamespace(state_dict=lambda: STATE)
    for key in reversed(entry):
        content = {key: content}
    asked = []

    def loaded(file, options):
        asked.append(options["weights_only"])
        return content

    taken = WeightsTaken(form="module", entry=entry)
    assert model(mine(weights="w.pt"), tmp_path, loaded, taken=taken)[0].state == STATE
    assert asked == [False]


def test_that_tensors_of_safetensors_are_read_as_weights(tmp_path):
    header = b'{"a": 1}'
    (tmp_path / "w.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"0")
    reader = SimpleNamespace(load_file=lambda path: {path.name: 1})
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "safetensors.torch", reader)
        assert model(mine(weights="w.safetensors"), tmp_path)[0].state == {"w.safetensors": 1}


def test_that_shards_of_an_index_lie_beside_it(tmp_path):
    (tmp_path / "sub").mkdir()
    header = b'{"a": 1}'
    for name in ("m-1.safetensors", "m-2.safetensors"):
        (tmp_path / "sub" / name).write_bytes(len(header).to_bytes(8, "little") + header + b"0")
    index = {"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}}
    name = "sub/m.safetensors.index.json"
    (tmp_path / name).write_text(json.dumps(index))
    reader = SimpleNamespace(load_file=lambda path: {str(path.relative_to(tmp_path)): 1})
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "safetensors.torch", reader)
        found = model(mine(weights=name), tmp_path)[0].state
    assert found == {"sub/m-1.safetensors": 1, "sub/m-2.safetensors": 1}


@for_each(
    ("spec", "kind", "branches", "named"),
    [
        ("net.pt2", "module_name", True, "name_modules(program, None)"),
        ("mine.py:net", "module_type", True, "name_modules(program, model)"),
        ("net.pt2", "module_name", False, ""),
        ("net.pt2", "node_name", True, ""),
    ],
)
def test_that_operators_of_branches_get_the_modules_that_rules_name(tmp_path, spec, kind, branches, named):
    (tmp_path / "mine.py").write_text("def net(): ...\n")
    project = edits.set_model(make_project(), ModelSource(spec=spec))
    text = model_part(OpenProject(edits.assign(project, kind, "body", "a8w8"), tmp_path), branches=branches)
    assert named in text
    assert ("name_modules(" in text) == bool(named)


def test_that_a_tokenizer_file_is_read_by_its_library(tmp_path):
    def from_file(path):
        assert path == str(tmp_path / "tok.json")
        return SimpleNamespace(encode=lambda text: SimpleNamespace(ids=[5, len(text)]))

    library = SimpleNamespace(Tokenizer=SimpleNamespace(from_file=from_file))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "tokenizers", library)
        assert [first(s) for s in steps(tmp_path, length=1, t={"tokenizer": "tok.json"})] == [5]


def test_that_runners_know_the_length_of_a_sequence():
    given = DataSource(spec="t.txt", tokens=Tokenization(length=77))
    _, runners = remembering_parts(given)
    assert "77" in runners
    _, usual = remembering_parts(DataSource(spec="t.txt"))
    assert usual == runners.replace("77", "64")

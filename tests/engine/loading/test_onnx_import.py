"""ONNX files become modules that compute what onnxruntime does, or are refused by name."""

import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
import torch

from tests.engine import onnx_files
from tests.engine.in_process import project
from tests.engine.onnx_files import FLOAT, INT64, constant, model, picture, save, weight
from tests.problems import refused
from workbench.engine.loading import onnx_import
from workbench.engine.loading.onnx_import import proof
from workbench.errors import WorkbenchError
from workbench.graph.snapshot import GraphSnapshot
from workbench.pipeline.cache import Cache
from workbench.pipeline.plan import plan
from workbench.project import edits
from workbench.project.model import DataSource, ModelSource
from workbench.project.opened import OpenProject
from workbench.project.trust import named_code
from workbench.results import GRAPH_FILE
from workbench.script import script
from workbench.script.quantizer import copied_corrections

pytestmark = pytest.mark.engine


def samples(inputs, count=3):
    generator = torch.Generator().manual_seed(1)
    for _ in range(count):
        yield tuple(
            torch.randn(v.shape, generator=generator)
            if v.is_floating_point()
            else torch.randint(0, 3, v.shape, generator=generator, dtype=v.dtype)
            for v in inputs
        )


def checked(path):
    module, inputs = onnx_import.load(path, None, "")
    return module, proof.prove(path, module, samples(inputs), lambda: None)


def test_that_hand_made_files_compute_what_onnxruntime_does(tmp_path):
    for name, make in onnx_files.HAND_MADE.items():
        _, check = checked(save(make(), tmp_path / "net.onnx"))
        assert check.samples == 3, name
        assert check.relative_error < 1e-5, name


def test_that_exported_files_keep_the_names_and_kinds_of_modules(tmp_path):
    net = onnx_files.exported(onnx_files.convolutional, tmp_path / "net.onnx", dynamo=False)
    module, check = checked(tmp_path / "net.onnx")
    assert check.relative_error < 1e-5
    kinds = {name: type(part) for name, part in module.named_modules()}
    assert kinds["0"] is torch.nn.Conv2d
    assert kinds["4"] is torch.nn.ConvTranspose2d
    assert kinds["9"] is torch.nn.Linear
    x = torch.randn(1, 3, 8, 8)
    assert torch.allclose(module(x), net(x), atol=1e-5)


@pytest.mark.slow
def test_that_both_exporters_of_torch_are_read(tmp_path):
    for name, make in onnx_files.EXPORTED.items():
        for dynamo in (False, True):
            onnx_files.exported(make, tmp_path / "net.onnx", dynamo=dynamo)
            _, check = checked(tmp_path / "net.onnx")
            assert check.relative_error < 1e-5, (name, dynamo)


def test_that_a_wrong_conversion_is_found(tmp_path):
    path = save(model([("MatMul", "x w", "y")], [weight("w", 4, 3)]), tmp_path / "net.onnx")
    module, inputs = onnx_import.load(path, None, "")
    with torch.no_grad():
        next(module.parameters())[0] += 0.01
    with refused("onnx-conversion-differs") as caught:
        proof.prove(path, module, samples(inputs), lambda: None)
    assert "output y" in caught.value.infos[0].message


def _nan():
    values = np.array([[1, np.nan], [0, 1], [0, 0], [0, 0]], np.float32)
    return model([("MatMul", "x w", "y")], [onnx.numpy_helper.from_array(values, "w")])


def _filled(*sizes):
    return model(
        [("ConstantOfShape", "s", "a"), ("ReduceSum", "a", "b", {"keepdims": 0}), ("Add", "x b", "y")],
        [constant("s", sizes)],
    )


REFUSED = {
    "quantized": (
        lambda: model(
            [("QuantizeLinear", "x s", "a"), ("DequantizeLinear", "a s", "y")],
            [constant("s", 0.1, np.float32)],
        ),
        "model-quantized",
    ),
    "operators": (
        lambda: model([("com.acme.Fancy", "x", "a"), ("NonZero", "a", "y")], domains=[("com.acme", 1)]),
        "onnx-operator-unsupported",
    ),
    "operator set": (lambda: model([("Relu", "x", "y")], opset=99), "onnx-opset-too-new"),
    "NaN": (_nan, "weights-not-finite"),
    "half": (
        lambda: model([("MatMul", "x w", "y")], [constant("w", [[1]] * 4, np.float16)]),
        "model-half-precision",
    ),
    "open sizes": (
        lambda: model([("Relu", "x", "y")], inputs=(("x", FLOAT, ["N", 3, "H"]),)),
        "model-inputs-missing",
    ),
    "order": (lambda: model([("Relu", "a", "y"), ("Neg", "x", "a")]), "onnx-not-converted"),
    "condition of the data": (
        lambda: model(
            [
                ("ReduceSum", "x", "s", {"keepdims": 0}),
                ("Cast", "s", "c", {"to": 9}),
                ("If", "c", "y", {"then_branch": onnx.GraphProto(), "else_branch": onnx.GraphProto()}),
            ]
        ),
        "onnx-not-converted",
    ),
    "huge constant": (lambda: _filled(10**6, 10**6), "onnx-not-converted"),
    "huge sum": (
        lambda: model(
            [("Transpose", "x", "t"), ("Add", "x t", "a"), ("ReduceMax", "a", "y")], inputs=picture(1, 10**6)
        ),
        "onnx-not-converted",
    ),
    "constant output": (
        lambda: model([("Relu", "x", "y"), ("Identity", "w", "k")], [weight("w", 2)], outputs=("y", "k")),
        "onnx-not-converted",
    ),
}


def test_that_what_cannot_be_converted_is_refused_by_name(tmp_path):
    for name, (make, code) in REFUSED.items():
        path = save(make(), tmp_path / f"{name}.onnx")
        with refused(code) as caught:
            onnx_import.load(path, None, "Set the shapes.")
        assert caught.value.infos[0].hint, name


def test_that_the_operators_are_named(tmp_path):
    path = save(REFUSED["operators"][0](), tmp_path / "net.onnx")
    with refused("onnx-operator-unsupported") as caught:
        onnx_import.load(path, None, "")
    assert "NonZero, com.acme.Fancy" in caught.value.infos[0].message


def test_that_damaged_files_are_refused(tmp_path):
    whole = onnx_files.HAND_MADE["same padding"]().SerializeToString()
    for data in (b"", b"version https://git-lfs.github.com/spec/v1\n", b"no model", whole[:900]):
        (tmp_path / "net.onnx").write_bytes(data)
        with refused("model-file-unreadable"):
            onnx_import.load(tmp_path / "net.onnx", None, "")
    with refused("model-file-missing"):
        onnx_import.load(tmp_path / "none.onnx", None, "")


@pytest.fixture
def with_data(tmp_path):
    """A model whose weight is in ``net.data``."""
    made = model([("MatMul", "x w", "y")], [weight("w", 4, 32)])
    onnx.save(
        made, str(tmp_path / "net.onnx"), save_as_external_data=True, location="net.data", size_threshold=0
    )
    return tmp_path / "net.onnx"


def moved_to(path, location, **fields):
    """Write another location, or other fields, of the weight's data into a model."""
    made = onnx.load(str(path), load_external_data=False)
    for entry in made.graph.initializer[0].external_data:
        entry.value = {"location": location, **fields}.get(entry.key, entry.value)
    path.with_name("moved.onnx").write_bytes(made.SerializeToString())
    return path.with_name("moved.onnx")


def test_that_weights_beside_the_model_are_read(with_data):
    assert checked(with_data)[1].relative_error < 1e-5


def test_that_no_weight_is_read_outside_of_the_models_folder(with_data, tmp_path):
    secret = tmp_path.parent / "secret.data"
    secret.write_bytes(bytes(512))
    os.symlink(secret, tmp_path / "link.data")
    os.symlink(tmp_path.parent, tmp_path / "sub")
    for location in ("../secret.data", str(secret), "link.data", "sub/secret.data", "", "a\\b"):
        with refused("onnx-data-outside"):
            onnx_import.load(moved_to(with_data, location), None, "")


def test_that_weights_are_read_only_inside_of_their_file(with_data):
    for location, fields in (
        ("none.data", {}),
        ("net.data", {"offset": "-4"}),
        ("net.data", {"length": "9999999"}),
        ("net.data", {"length": "x"}),
    ):
        with refused("onnx-data-unreadable"):
            onnx_import.load(moved_to(with_data, location, **fields), None, "")


def test_that_the_key_of_a_model_depends_on_its_data_and_on_the_samples(with_data, tmp_path):
    np.save(tmp_path / "data.npy", np.zeros((4, 4), np.float32))
    made = edits.set_model(
        project("small", calibration=DataSource(spec="data.npy")), ModelSource(spec="net.onnx")
    )

    def key():
        return plan(OpenProject(made, tmp_path), Cache(tmp_path / "cache")).key("import_model")

    keys = [key()]
    (tmp_path / "net.data").write_bytes((tmp_path / "net.data").read_bytes()[::-1])
    keys.append(key())
    np.save(tmp_path / "data.npy", np.ones((4, 4), np.float32))
    keys.append(key())
    assert len(set(keys)) == 3


def classifier_project(folder):
    save(onnx_files.HAND_MADE["classifier"](), folder / "net.onnx")
    data = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    np.save(folder / "data.npy", data)
    made = project("small", calibration=DataSource(spec="data.npy"))
    return edits.set_model(made, ModelSource(spec="net.onnx"))


def test_that_an_onnx_file_needs_no_trust_and_is_checked_on_the_samples(engine):
    made = classifier_project(engine.folder)
    assert not named_code(OpenProject(made, engine.folder)).digest
    assert engine.run(made, "export") == "done", engine.failure
    check = engine.result(made, "import_model").conversion
    assert (check.samples, check.elements) == (32, 32 * 4)
    assert check.executor.startswith("onnxruntime")
    exported = engine.result(made, "export")
    assert [output.shape for output in exported.outputs] == [(1,), (1, 3)]


def test_that_samples_are_taken_by_the_names_of_the_graph(engine):
    sizes = (("input", FLOAT, [1, 4]), ("in.b", FLOAT, [1, 4]))
    made = model([("Sub", "input in.b", "y")], inputs=sizes)
    save(made, engine.folder / "net.onnx")
    one, other = np.zeros((5, 4), np.float32), np.full((5, 4), 9, np.float32)
    np.savez(engine.folder / "data.npz", **{"in.b": other, "input": one})
    run = project("small", calibration=DataSource(spec="data.npz"))
    run = edits.set_model(run, ModelSource(spec="net.onnx"))
    assert engine.run(run, "calibrate") == "done", engine.failure
    ranges = {entry.node: entry for entry in engine.result(run, "calibrate").ranges}
    assert {(r.minimum, r.maximum) for r in ranges.values()} >= {(0.0, 0.0), (-9.0, -9.0)}


def test_that_given_shapes_fix_open_ones(engine):
    sizes = (("x", FLOAT, ["N", 3, "H", "W"]), ("i", INT64, [1, "T"]))
    made = model(
        [("GlobalMaxPool", "x", "y"), ("Cast", "i", "j", {"to": 1})], inputs=sizes, outputs=("y", "j")
    )
    save(made, engine.folder / "net.onnx")
    shapes = ((1, 3, 6, 6), (1, 5))
    run = edits.set_model(project("small"), ModelSource(spec="net.onnx", input_shapes=shapes))
    assert engine.run(run, "export") == "done", engine.failure
    found = engine.result(run, "import_model").inputs
    assert [(spec.shape, spec.dtype) for spec in found] == [((1, 3, 6, 6), "float32"), ((1, 5), "int64")]
    wrong = edits.set_model(run, ModelSource(spec="net.onnx", input_shapes=((1, 4, 6, 6), (1, 5))))
    assert engine.run(wrong, "import_model") == "failed"
    assert engine.failure.code == "model-inputs-invalid"


@pytest.mark.slow
def test_that_the_program_and_its_script_compute_what_the_file_does(engine):
    made = classifier_project(engine.folder)
    assert engine.run(made, "verify") == "done", engine.failure
    assert engine.result(made, "evaluate").sqnr_db > 20
    path = engine.folder / "made.py"
    path.write_text(script(OpenProject(made, engine.folder), path))
    for file, text in copied_corrections().items():
        (engine.folder / file).parent.mkdir(parents=True, exist_ok=True)
        (engine.folder / file).write_text(text)
    subprocess.run(
        [sys.executable, str(path), str(engine.folder / "made.pte")],
        check=True,
        capture_output=True,
        cwd=engine.folder,
    )
    key = plan(OpenProject(made, engine.folder), engine.cache).key("lower")
    assert (engine.folder / "made.pte").read_bytes() == (
        engine.cache.folder(key) / "program.pte"
    ).read_bytes()


def test_that_results_name_the_node_as_source(engine):
    made = classifier_project(engine.folder)
    assert engine.run(made, "export") == "done", engine.failure
    key = plan(OpenProject(made, engine.folder), engine.cache).key("export")
    graph = GraphSnapshot.load(engine.cache.folder(key) / GRAPH_FILE)
    lines = {node.op: node.source for node in graph.nodes if "linear" in node.op}
    assert all(line.startswith("net.onnx:") for line in lines.values())
    assert lines


@pytest.mark.slow
def test_that_mutated_files_are_read_or_refused_with_a_code(tmp_path):
    generator = np.random.default_rng(0)
    whole = [make().SerializeToString() for make in onnx_files.HAND_MADE.values()]
    path = tmp_path / "net.onnx"
    refusals = 0
    for number in range(1500):
        data = bytearray(whole[number % len(whole)])
        for place in generator.integers(len(data), size=generator.choice([1, 2, 8])):
            data[place] = generator.integers(256)
        path.write_bytes(data)
        try:
            onnx_import.load(path, None, "")
        except WorkbenchError as error:
            refusals += bool(error.codes[0])
    assert refusals > 500

"""The ONNX file for NNPA: rewritten, checked, run in ONNX Runtime, and shown to a compiler."""

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.engine.in_process import Engine
from tests.engine.nnpa import networks
from tests.engine.nnpa.test_target import ruled
from workbench.engine.nnpa import compiler, lowering
from workbench.engine.nnpa.onnx_export import rewrite_gemms
from workbench.engine.nnpa.quantization import options_of
from workbench.project import edits, store
from workbench.project.opened import OpenProject
from workbench.protocol import Cancel, JobFinished, RunStudy, RunUntil, decode_event
from workbench.report import page
from workbench.results import ExportedModel, VerifyResult

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]

FAKE = Path(__file__).parents[2] / "fakes" / "onnx_mlir.py"


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine without a compiler; ``install`` puts one into its folder."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    return tmp_path


@pytest.fixture
def lane(engine, machine):
    """An engine on a machine without a compiler."""
    shutil.copy(networks.__file__, engine.folder / "nets.py")
    return engine


@dataclass(frozen=True)
class Packed:
    """What a machine without a compiler makes of a project."""

    model: onnx.ModelProto
    data: bytes
    exported: ExportedModel
    verified: VerifyResult
    page: str


@pytest.fixture(scope="module")
def packed(tmp_path_factory, shared_results):
    """The transformer in int8, packed once for the tests that look at one fact of it."""
    folder = tmp_path_factory.mktemp("packed")
    engine = Engine(folder, shared_results)
    made = ruled("nets.py:transformer", "sentences")
    with pytest.MonkeyPatch.context() as patch:
        shutil.copy(networks.__file__, folder / "nets.py")
        patch.setenv("PATH", str(folder / "bin"))
        model, told = exported(engine, made, "package")
        store.save(made, folder / "t.qwb")
        yield Packed(
            model,
            (engine.path(made, "lower") / "model.onnx").read_bytes(),
            told,
            engine.result(made, "verify"),
            page(OpenProject(made, folder, folder / "t.qwb"), engine.cache),
        )
    engine.close()


def install(folder, name="onnx-mlir", text=""):
    path = folder / "bin" / name
    path.write_text(text or f'#!/bin/sh\nexec {sys.executable} {FAKE} "$@"\n')
    path.chmod(0o755)


def exported(lane, made, until="lower"):
    assert lane.run(made, until) == "done", lane.failure
    model = onnx.load(lane.path(made, "lower") / "model.onnx")
    return model, lane.result(made, "lower").exported


def test_that_the_file_is_what_the_compiler_can_read_and_quantize(packed):
    model, told = packed.model, packed.exported
    onnx.checker.check_model(model, full_check=True)
    assert (model.ir_version, model.opset_import[0].version) == (10, 20)
    gemms = [n for n in model.graph.node if n.op_type == "Gemm"]
    assert [a.i for n in gemms for a in n.attribute if a.name == "transB"] == [0]
    assert told.rewritten == 1
    assert told.quantized == 5
    assert {p.origin for p in told.products if not p.quantized} == {"scaled_dot_product_attention"}
    names = [node.name for node in model.graph.node]
    assert len(set(names)) == len(names)
    assert "/head/linear_4/" in names


@pytest.mark.slow
def test_that_the_file_tells_nothing_of_this_machine_and_is_the_same_twice(lane, packed):
    made = ruled("nets.py:transformer", "sentences")
    exported(lane, made)
    data = (lane.path(made, "lower") / "model.onnx").read_bytes()
    assert str(lane.folder).encode() not in data
    assert b"nets.py" not in data
    assert data == packed.data


@pytest.mark.slow
def test_that_a_gemm_stays_where_rewriting_is_off(lane):
    model, told = exported(lane, ruled("nets.py:mlp", "vectors", rewrite_gemm=False))
    assert told.rewritten == 0
    assert told.quantized == 0
    assert all(product.cause == "gemm-transposed" for product in told.products)
    assert all(a.i == 1 for n in model.graph.node for a in n.attribute if a.name == "transB")


def test_that_onnx_runtime_computes_the_model_and_stands_beside_both_readings(packed):
    result = packed.verified
    assert result.runtime.startswith("ONNX Runtime")
    assert result.max_abs_error < 1e-5
    readings = {each.id: each for each in result.readings}
    assert list(readings) == ["onnxruntime", "nnpa", "document", "onnxruntime-dynamic"]
    assert readings["onnxruntime"].sqnr_db > 100
    # Both compute per tensor in int8 with ranges of each call, from the same float model.
    document, dynamic = readings["document"].sqnr_db, readings["onnxruntime-dynamic"].sqnr_db
    assert document == pytest.approx(dynamic, abs=1.0)
    assert result.samples == 8


@pytest.mark.shared_results(False)
def test_that_a_file_which_computes_something_else_fails_the_stage(lane, monkeypatch):
    def damaging(model):
        done = rewrite_gemms(model)
        weight = next(i for i in model.graph.initializer if i.name.endswith("_transposed"))
        value = onnx.numpy_helper.to_array(weight) * np.float32(1.01)
        weight.CopyFrom(onnx.numpy_helper.from_array(value, weight.name))
        return done

    monkeypatch.setattr(lowering, "rewrite_gemms", damaging)
    made = ruled("nets.py:mlp", "vectors")
    assert lane.run(made, "verify") == "failed"
    assert lane.failure.code == "onnx-differs"


def test_that_the_deliverables_are_complete_and_the_same_twice(lane):
    made = edits.assign(ruled("nets.py:mlp", "vectors"), "module_name", "first", "float")
    assert lane.run(made, "package") == "done", lane.failure
    folder = lane.path(made, "package")
    files = {file.name for file in lane.result(made, "package").files}
    assert files == {"n.onnx", "n.json", "n.commands.sh", "n.vectors.npz", "manifest.json"}
    script = (folder / "n.commands.sh").read_text()
    assert "--config-file=n.json -o n n.onnx" in script
    assert "zDLC 5.0.1 cannot" in script
    manifest = json.loads((folder / "manifest.json").read_text())
    assert "nothing ran on NNPA" in manifest["numbers"]
    with np.load(folder / "n.vectors.npz") as vectors:
        assert vectors["0/float0"].shape == vectors["3/emulated0"].shape == (1, 4)
    first = {name: (folder / name).read_bytes() for name in files}
    shutil.rmtree(folder)
    assert lane.run(made, "package") == "done"
    assert {name: (folder / name).read_bytes() for name in files} == first


def test_that_rules_become_the_compilers_exclusions(lane):
    made = edits.assign(ruled("nets.py:mlp", "vectors"), "module_name", "first", "float")
    # What was quantized without the second rule is not taken.
    assert lane.run(made, "prepare") == "done", lane.failure
    made = edits.assign(made, "module_name", "last", "cpu")
    _, told = exported(lane, made)
    entries = [e["pattern"] for e in json.loads(told.config)["nnpa_ops_config"]]
    assert [(e["match"]["onnx_node_name"], e["rewrite"]) for e in entries] == [
        (".*/last/linear_1/.*", {"device": "cpu", "quantize": False}),
        (".*/first/linear/.*", {"quantize": False}),
    ]
    assert told.quantized == 0


def test_that_the_what_if_is_said_to_compile_to_a_float_program(lane):
    _, told = exported(lane, ruled("nets.py:mlp", "vectors", weights="asym"))
    assert told.quantized == 0
    assert "asymActivation,asymWeight" in told.commands[0][1]
    assert any("for comparison only" in note for note in told.notes)


def test_that_trained_weights_are_those_in_the_file(lane):
    import torch
    from safetensors.torch import save_file

    model, _ = networks.mlp()
    state = {name: value * 0.5 for name, value in model.state_dict().items()}
    save_file(state, lane.folder / "w.safetensors")
    made = edits.use_trained(ruled("nets.py:mlp", "vectors"), "w.safetensors")
    file, _ = exported(lane, made)
    held = {i.name: onnx.numpy_helper.to_array(i) for i in file.graph.initializer}
    assert torch.equal(torch.from_numpy(held["first.weight_transposed"].T.copy()), state["first.weight"])
    assert lane.run(made, "verify") == "done", lane.failure


def test_that_a_machine_without_a_compiler_is_told_plainly(packed):
    assert packed.exported.check.quantized is None
    assert "Neither onnx-mlir nor docker is installed" in packed.exported.check.sentence


def test_that_the_compiler_is_asked_where_it_is_and_agrees(lane, tmp_path):
    made = edits.assign(ruled("nets.py:mlp", "vectors"), "module_name", "first", "float")
    _, told = exported(lane, made)
    assert told.check.quantized is None
    install(tmp_path)
    _, told = exported(lane, made)
    assert told.check.quantized == 1
    assert told.check.sentence == "onnx-mlir 0.5.1.0 creates 1 int8 product, as predicted."
    assert "--EmitZHighIR" in told.check.command


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"op_types": "Conv"}, {"rewrite_gemm": False}, {"weights": "asym"}])
def test_that_the_compiler_agrees_where_nothing_is_quantized(lane, tmp_path, options):
    install(tmp_path)
    _, told = exported(lane, ruled("nets.py:mlp", "vectors", **options))
    assert told.check.quantized == told.quantized == 0


def checked(packed):
    """Return what the installed compiler says of the packed file, of which 5 products are int8."""
    assert packed.exported.quantized == 5
    options = options_of(ruled("nets.py:transformer", "sentences"))
    return compiler.check(packed.data, packed.exported.config, options, 5, lambda: None)


def test_that_a_compiler_that_fails_or_differs_is_told_and_stops_nothing(packed, machine):
    version = '[ "$1" = --version ] && echo "onnx-mlir version 9.9" && exit 0'
    for script, words in (
        ("echo no such pass >&2; exit 4", "ended with 4: no such pass"),
        ("exit 0", "wrote nothing: no output"),
        ("echo x > model.onnx.mlir", "creates 0 int8 products, but 5 were predicted"),
    ):
        install(machine, text=f"#!/bin/sh\n{version}\n{script}\n")
        sentence = checked(packed).sentence
        assert words in sentence
        assert "9.9" in sentence


def test_that_docker_is_used_only_with_the_image_there(packed, machine):
    install(machine, "docker", "#!/bin/sh\nexit 1\n")
    assert "docker pull ghcr.io/onnxmlir/onnx-mlir" in checked(packed).sentence
    # A docker that has the image runs what stands behind the image's name.
    shell = (
        '#!/bin/sh\n[ "$1" = image ] && echo sha256:1 && exit 0\n'
        'while [ "$1" != ghcr.io/onnxmlir/onnx-mlir ]; do shift; done; shift\n'
        f'exec {sys.executable} {FAKE} "$@"\n'
    )
    install(machine, "docker", shell)
    told = checked(packed)
    assert told.quantized == 5
    assert "ghcr.io/onnxmlir/onnx-mlir 0.5.1.0" in told.sentence


def test_that_the_double_refuses_flags_it_does_not_know(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"")
    for flag in ("--nnpa-quant-dynamics=x", "--per-channel", "-march=z18"):
        done = subprocess.run(
            [sys.executable, FAKE, flag, str(path)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ},
        )
        assert done.returncode == 1
        assert "Unknown command line argument" in done.stderr


def test_that_studies_of_cost_are_refused_with_a_sentence(lane):
    for study in ("sweep", "search", "blame", "budget"):
        lane.events.clear()
        lane.send(
            RunStudy(
                job="test",
                study=study,
                project=ruled("nets.py:mlp", "vectors"),
                folder=str(lane.folder),
                options={},
                cache_root=str(lane.cache.root),
            )
        )
        assert lane.follow() == "failed"
        assert lane.failure.code == "target-without-estimator"


def test_that_the_report_tells_readings_products_and_commands(packed):
    for words in (
        "nothing ran on NNPA",
        "NNPA model (main)",
        "ONNX Runtime, dynamic",
        "5 of 7",
        "--nnpa-quant-dynamic=asymActivation,symWeight",
        "second operand is computed",
    ):
        assert words in packed.page
    for words in ("Vela", "LSB", "method pool", "TOSA"):
        assert words not in packed.page.partition("<h2>Versions")[0]


def test_that_the_file_and_the_emulated_graph_agree_on_every_product():
    import torch

    from tests.engine.nnpa.test_target import CASES, emulated
    from workbench.engine.nnpa.onnx_export import exported as export_program
    from workbench.engine.nnpa.onnx_export import file_products, origins, tidy

    class Every(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = torch.nn.ModuleList(model for model, _, _ in CASES.values())

        def forward(self, *inputs):
            return tuple(part(x) for part, x in zip(self.parts, inputs, strict=True))

    inputs = tuple(torch.randn(shape) for _, shape, _ in CASES.values())
    model = Every().eval()
    _, notes = emulated(model, *inputs)
    file = export_program(torch.export.export(model, inputs), inputs)
    known = origins(file)
    tidy(file)
    found = {known[node.name][1]: product.why_float for node, product in file_products(file)}
    assert len(found) == len(CASES)
    causes = {name: why.cause if why else "" for name, why in found.items()}
    assert causes == {name: notes[name].cause for name in found}


def test_that_cancelling_ends_the_compiler(lane, tmp_path):
    told = tmp_path / "pid"
    version = '[ "$1" = --version ] && echo 1.0 && exit 0'
    install(tmp_path, text=f"#!/bin/sh\n{version}\necho $$ > {told}\nexec /bin/sleep 60\n")
    made = ruled("nets.py:mlp", "vectors")
    lane.send(
        RunUntil(
            job="test", project=made, folder=str(lane.folder), until="lower", cache_root=str(lane.cache.root)
        )
    )
    asked = False
    for line in lane._lines:
        event = decode_event(line)
        if not asked and "running the compiler" in str(event):
            asked = True
            while not told.exists() or not told.read_text().strip():
                time.sleep(0.02)
            lane.send(Cancel(job="test"))
        if isinstance(event, JobFinished):
            assert event.outcome == "cancelled"
            break
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()), 0)


def test_that_channels_are_not_removed_for_nnpa_and_alike_weights_are_exported(lane):
    made = ruled("nets.py:mlp", "vectors")
    assert lane.run(made, "export") == "done", lane.failure
    layers = lane.result(made, "export").layers
    layer = next(layer for layer in layers if not layer.fixed and layer.channels > 1)
    narrow = edits.compress(made, layer.module, channels=layer.channels - 1)
    assert lane.run(narrow, "lower") == "failed"
    assert lane.failure.code == "channels-not-supported"
    model, _ = exported(lane, edits.compress(made, "", clusters=3))
    weights = [onnx.numpy_helper.to_array(t) for t in model.graph.initializer if len(t.dims) == 2]

    def distinct(weight, axis):
        largest = np.maximum(np.abs(weight).max(axis, keepdims=True), 1e-9)
        return len(np.unique(np.round(weight / largest, 3)))

    assert any(min(distinct(w, 0), distinct(w, 1)) <= 3 for w in weights)

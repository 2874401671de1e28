"""Training with quantization in view: what it wins, that it goes on, and how it refuses."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save

from tests.engine import networks, norm_networks
from tests.engine.in_process import ALL_SAMPLES, CALIBRATED, project
from tests.for_each import for_each
from workbench.graph.snapshot import GraphSnapshot
from workbench.project import edits
from workbench.project.configs import Activation, Observer, QuantConfig
from workbench.project.model import DataSource
from workbench.project.opened import OpenProject
from workbench.protocol import RunStudy, StudyProgress
from workbench.results import GRAPH_FILE
from workbench.studies.documents import load_study, study_folder, study_key
from workbench.studies.training import TrainingResult, keep_weights

pytestmark = pytest.mark.engine


def start(engine, made, **options):
    command = RunStudy(
        job="test",
        study="training",
        project=made,
        folder=str(engine.folder),
        options=options,
        cache_root=str(engine.cache.root),
    )
    engine.events = []
    engine.send(command)
    return engine.follow()


def place(engine, made, **options):
    return study_folder(
        engine.cache, study_key("training", OpenProject(made, engine.folder), engine.cache, options)
    )


def found(engine, made, **options):
    return load_study(TrainingResult, place(engine, made, **options))


def trained(engine, made, **options):
    assert start(engine, made, **options) == "done", engine.events
    result = found(engine, made, **options)
    name = keep_weights(result, place(engine, made, **options), engine.folder)
    return result, edits.use_trained(made, name)


def qat_model_of(model, inputs):
    from workbench.engine.ethos_u.toolchain import training_quantizer
    from workbench.engine.ethos_u.trained_norms import prepare_norms
    from workbench.engine.training.model import QatModel

    floating = torch.export.export(getattr(networks, model)()[0], inputs).module(check_guards=False)
    return QatModel(floating, training_quantizer(OpenProject(project(model), Path())), prepare_norms)


def sqnr(engine, made):
    assert engine.run(made, "evaluate") == "done", engine.events
    return engine.result(made, "evaluate").sqnr_db


@pytest.mark.slow
def test_that_training_wins_back_what_four_bits_lost_and_all_stays_on_the_npu(engine):
    plain = project("careful", "a8w4", **CALIBRATED)
    before = sqnr(engine, plain)
    result, better = trained(engine, plain, epochs=15, learning_rate=0.003)
    assert sqnr(engine, better) > before + 3
    assert abs(result.start_db - before) < 2
    assert abs(result.best_db - sqnr(engine, better)) < 2
    assert edits.use_trained(better, None) == plain
    # The convolution has no bias, and a batch norm behind it: both stay on the NPU.
    assert engine.run(better, "verify") == "done", engine.events
    lowered = engine.result(better, "lower")
    assert lowered.delegates == 1
    assert all("quantize" in node.op for node in lowered.cpu_nodes)
    assert engine.result(better, "verify").max_lsb <= 1


@pytest.mark.slow
def test_that_a_linear_with_a_batch_norm_is_trained_as_the_device_will_have_it(engine):
    plain = project("wide_networks.py:tabular", "a8w4", **ALL_SAMPLES)
    before = sqnr(engine, plain)
    result, better = trained(engine, plain, epochs=12, learning_rate=0.003)
    assert abs(result.start_db - before) < 2
    assert sqnr(engine, better) > before + 0.5
    assert engine.run(better, "verify") == "done", engine.events
    assert engine.result(better, "lower").delegates == 1
    assert engine.result(better, "verify").max_lsb <= 1


def heavy_tailed(shape, count):
    """Return samples with outliers, for which extremes are a bad range."""
    torch.manual_seed(3)
    return [torch.randn(shape) ** 3 for _ in range(count)]


def test_that_training_rounds_as_calibration_does():
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from workbench.engine.ethos_u.quantization import quantizer

    made, inputs = networks.careful()
    samples = heavy_tailed(inputs[0].shape, 12)
    module = torch.export.export(made, inputs).module(check_guards=False)
    prepared = prepare_pt2e(module, quantizer(OpenProject(project("careful"), Path())))
    qat_model = qat_model_of("careful", inputs)
    with torch.no_grad():
        for sample in samples:
            prepared(sample)
        qat_model.see((sample,) for sample in samples)
        qat_model.switch(normalizes=False)
        converted = convert_pt2e(prepared)
        errors = [
            sum((program(sample) - made(sample)).square().sum() for sample in samples)
            for program in (qat_model.module, converted)
        ]
    assert errors[0] < 1.3 * errors[1]


@pytest.mark.slow
def test_that_training_starts_from_what_calibration_leaves_with_every_observer(engine):
    """A moving average depends on how many samples come at once: calibration takes one by one."""
    config = QuantConfig(activation=Activation(observer=Observer(kind="moving_average")))
    plain = edits.assign(project("careful", **ALL_SAMPLES), "global", "", config)
    before = sqnr(engine, plain)
    assert start(engine, plain, epochs=1) == "done", engine.events
    assert abs(found(engine, plain, epochs=1).start_db - before) < 1


@pytest.mark.slow
def test_that_batch_norms_learn_only_while_they_may():
    made, inputs = networks.careful()
    qat_model = qat_model_of("careful", inputs)
    for learns in (False, True):
        qat_model.switch(normalizes=learns)
        qat_model.module(*inputs)
        unchanged = torch.equal(qat_model.weights()["bn.running_mean"], made.bn.running_mean)
        assert unchanged != learns


@pytest.mark.parametrize("model", ["careful", pytest.param("overwriting", marks=pytest.mark.slow)])
def test_that_the_student_without_rounding_is_the_float_model(model):
    made, inputs = getattr(networks, model)()
    told = torch.export.export(made, inputs).module()(*inputs)
    qat_model = qat_model_of(model, inputs)
    with torch.no_grad():
        assert torch.allclose(qat_model.run_in_float(*inputs), told, rtol=1e-4, atol=1e-4)
    assert set(qat_model.parameters) == set(dict(made.named_parameters()))


def assert_norms_are_those_of_the_model(name):
    """Compare the graph that is trained, without fake quantization, with the model."""
    from workbench.engine.ethos_u.toolchain import training_quantizer
    from workbench.engine.ethos_u.trained_norms import prepare_norms
    from workbench.engine.fx.usual_forms import with_instance_norms
    from workbench.engine.training.model import QatModel
    from workbench.engine.training.weights import put_weights

    model, inputs = norm_networks.made(name)

    def exported():
        program = with_instance_norms(torch.export.export(model, inputs))
        return program.module(check_guards=False)

    floating = exported()
    qat_model = QatModel(floating, training_quantizer(OpenProject(project("small"), Path())), prepare_norms)
    with torch.no_grad():
        given, expected = qat_model.run_in_float(*inputs), model(*inputs)
    assert torch.allclose(given, expected, rtol=1e-4, atol=1e-4)
    assert set(qat_model.parameters) <= set(dict(model.named_parameters()))
    trained_model = exported()
    put_weights(trained_model, qat_model.weights())
    with torch.no_grad():
        assert torch.allclose(trained_model(*inputs), expected, rtol=1e-3, atol=1e-3)


def test_that_a_batch_norm_without_weights_is_trained_as_it_is():
    assert_norms_are_those_of_the_model("images")


@pytest.mark.slow
@for_each("name", [name for name in norm_networks.TRAINED if name != "images"])
def test_that_every_norm_is_trained_as_it_is(name):
    assert_norms_are_those_of_the_model(name)


def norm_project(engine, name):
    shutil.copy(norm_networks.__file__, engine.folder)
    data = DataSource(spec=f"norm_networks.py:samples_of_{name}")
    return project(f"norm_networks.py:{name}", "a8w4", calibration=data)


@pytest.mark.slow
@for_each("name", ["images", "two", "first", "volumes", "linears_without_bias"])
def test_that_networks_with_every_norm_are_trained(engine, name):
    plain = norm_project(engine, name)
    assert start(engine, plain, epochs=2, batch_norm=2) == "done", engine.events
    assert len(found(engine, plain, epochs=2, batch_norm=2).epochs) == 2


@pytest.mark.slow
@for_each("name", list(norm_networks.REFUSED))
def test_that_a_batch_norm_of_the_present_batch_is_refused_by_name(engine, name):
    made = norm_project(engine, name)
    assert start(engine, made, epochs=1) == "failed"
    assert engine.failure.code == "batch-norm-without-statistics"
    assert engine.failure.where.id == "batch_norm"
    assert "module 1" in engine.failure.message


@pytest.mark.slow
def test_that_training_goes_on_exactly_where_it_was_left(engine):
    plain = project("careful", "a8w4", **CALIBRATED)
    options = {"halve_after": 1, "learning_rate": 0.03}
    assert start(engine, plain, epochs=2, **options) == "done"
    assert start(engine, plain, epochs=4, **options) == "done"
    told = [e.done for e in engine.events if isinstance(e, StudyProgress) and "epoch" in e.message]
    assert min(told) >= 2
    whole = found(engine, plain, **options)
    assert len(whole.epochs) == 4
    assert whole.epochs[-1].learning_rate < 0.03
    (place(engine, plain, **options) / "study.json").unlink()
    (place(engine, plain, **options) / "checkpoint.safetensors").write_bytes(b"half")
    assert start(engine, plain, epochs=4, **options) == "done"
    assert found(engine, plain, **options) == whole


@pytest.mark.slow
def test_that_training_stops_early_where_nothing_gets_better(engine):
    plain = project("careful", **CALIBRATED)
    options = {"epochs": 50, "patience": 3, "learning_rate": 1.0, "optimizer": "sgd"}
    assert start(engine, plain, **options) == "done"
    assert len(found(engine, plain, **options).epochs) == 3


@pytest.mark.slow
def test_that_a_program_of_one_sample_trains_one_by_one(engine):
    options = {"optimizer": "adamw", "loss": "kl"}
    for model in ("sideways", "normed"):
        plain = project(model, "a8w8", "ethos-u85-256", **CALIBRATED)
        assert start(engine, plain, epochs=2, **options) == "done", engine.events
        assert found(engine, plain, **options).one_by_one == (model == "sideways")


@pytest.mark.slow
def test_that_training_starts_from_improved_weights(engine):
    made = edits.set_improver(project("uneven", "a8w8-per-tensor", **CALIBRATED), "equalize", on=True)
    plain = edits.set_improver(made, "equalize", on=False)
    for each in (made, plain):
        assert start(engine, each, epochs=1) == "done", engine.events
    assert found(engine, made).start_db > found(engine, plain).start_db + 1


def test_that_the_users_own_function_trains(engine):
    plain = edits.train_by(project("clamped", "a8w4", **CALIBRATED), "networks.py:teach")
    result, _ = trained(engine, plain, epochs=4)
    assert result.best_db > result.start_db


@pytest.mark.slow
def test_that_a_function_that_fails_is_named(engine):
    for function, code in (
        ("teach_wrongly", "user-code-failed"),
        ("teach_nothing", "training-loss-invalid"),
        ("teach_never", "callable-missing"),
    ):
        made = edits.train_by(project("careful", **CALIBRATED), f"networks.py:{function}")
        assert start(engine, made, epochs=2) == "failed"
        assert engine.failure.code == code, engine.failure


def test_that_a_loss_that_is_no_number_ends_training_and_keeps_the_best_weights(engine):
    made = edits.train_by(project("clamped", "a8w4", **CALIBRATED), "networks.py:teach_twice")
    assert start(engine, made, epochs=9) == "failed"
    assert "epoch 3" in engine.failure.message
    result = found(engine, made)
    assert result.best
    assert f"epoch {result.best} " in engine.failure.hint
    assert load_file(place(engine, made) / result.weights)


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (project("careful"), "training-data-missing"),
        (project("clamped", "float", **CALIBRATED), "training-nothing-quantized"),
        pytest.param(
            project("careful", "float", "formats", **CALIBRATED),
            "training-nothing-quantized",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            project("branching", target="ethos-u85-256", **CALIBRATED),
            "training-branches-not-supported",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_that_what_cannot_be_trained_is_refused_in_a_sentence(engine, made, code):
    assert start(engine, made, epochs=1) == "failed"
    assert engine.failure.code == code


def test_that_a_model_without_weights_cannot_be_trained(engine):
    rows = "import torch\n\n\ndef rows():\n    yield torch.ones(1, 8, 16)\n"
    (engine.folder / "rows.py").write_text(rows)
    data = DataSource(spec="rows.py:rows")
    made = project("wide_networks.py:related", calibration=data)
    assert start(engine, made, epochs=1) == "failed"
    assert engine.failure.code == "training-without-weights"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (None, "stage-blocked"),
        (b"half", "trained-weights-unreadable"),
        (save({"conv.weight": torch.zeros(1)}), "trained-weights-unfit"),
        (save({"stem.weight": torch.zeros(1)}), "trained-weights-unfit"),
    ],
)
def test_that_weights_that_do_not_serve_are_named(engine, content, code):
    made = edits.use_trained(project("careful"), "trained.safetensors")
    if content is not None:
        (engine.folder / "trained.safetensors").write_bytes(content)
    assert engine.run(made, "prepare") == "failed"
    assert engine.failure.code == code


@pytest.mark.slow
def test_that_training_restores_what_compression_lost(engine):
    plain = project("small", **CALIBRATED)
    small = edits.compress(edits.compress(plain, "conv", channels=5), "", clusters=7)
    before = sqnr(engine, small)
    result, better = trained(engine, small, epochs=6, learning_rate=0.003)
    assert sqnr(engine, better) > before + 3
    # What is trained is what is measured: the same channels, and weights as much alike.
    assert abs(result.best_db - sqnr(engine, better)) < 2
    layers = {layer.module: layer for layer in engine.result(better, "prepare").compressed}
    assert layers["conv"].channels == (8, 5)
    assert layers["conv"].clusters[1] <= 7
    assert layers["fc"].clusters[1] <= 7
    weights = load_file(engine.folder / better.trained_weights)
    assert weights["conv.weight"].shape == (5, 3, 3, 3)
    # The graph shows the channels that are left.
    shapes = {
        level: GraphSnapshot.load(engine.path(better, level) / GRAPH_FILE)
        .nodes_by_id["conv2d"]
        .outputs[0]
        .shape
        for level in ("export", "prepare")
    }
    assert [tuple(shape)[1] for shape in shapes.values()] == [8, 5]
    assert engine.run(edits.compress(better, "conv", channels=6), "prepare") == "failed"
    assert engine.failure.code == "trained-weights-unfit"


def test_that_a_size_that_a_layer_cannot_have_is_refused_by_name(engine):
    made = project("small", **CALIBRATED)
    assert engine.run(edits.compress(made, "fc", channels=2), "prepare") == "failed"
    assert engine.failure.code == "channels-not-compressible"
    assert engine.failure.where.id == "fc"
    assert engine.run(edits.compress(made, "bn", clusters=15), "prepare") == "failed"
    assert engine.failure.code == "clusters-not-compressible"

"""The program beside the same network in TensorFlow Lite: real Vela, LiteRT as second opinion."""

import csv
import math
import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests import tflite_models as ops
from tests.engine import twin_networks
from tests.engine.in_process import project
from tests.engine.twin_networks import twin, twin_samples, twin_tflite
from tests.litert_search import compiled
from workbench.engine.ethos_u.litert import compute_tflite
from workbench.errors import WorkbenchError
from workbench.project import edits
from workbench.project.model import DataSource, Evaluation, TargetChoice
from workbench.protocol import RunStudy, StudyProgress
from workbench.pte.tflite_model import read_tflite
from workbench.studies.documents import load_study, study_folder
from workbench.studies.tflite import TfliteComparison, tflite_options

pytestmark = [pytest.mark.engine, pytest.mark.shared_results]
FILE = Path(twin_networks.__file__)
DEVICE = "ethos-u55-128"


def twin_project(device=DEVICE):
    return project(
        "twin_networks.py:twin",
        target=device,
        calibration=DataSource(spec="twin_networks.py:twin_samples"),
        evaluation=Evaluation(hold_out=False),
    )


def asked(engine, made, file):
    shutil.copy(FILE, engine.folder)
    command = RunStudy(
        job="test",
        study="tflite",
        project=made,
        folder=str(engine.folder),
        options=tflite_options(file),
        cache_root=str(engine.cache.root),
    )
    engine.events = []
    engine.send(command)
    return engine.follow()


def compared(engine, made, file):
    assert asked(engine, made, file) == "done", engine.failure
    key = [event for event in engine.events if isinstance(event, StudyProgress)][-1].key
    return load_study(TfliteComparison, study_folder(engine.cache, key))


def written(folder, content, name="net.tflite"):
    (folder / name).write_bytes(content)
    return folder / name


def sqnr(reference, values):
    noise = float(((reference - values) ** 2).sum())
    return 10 * math.log10(float((reference**2).sum()) / noise)


def litert_db(content):
    """Return how near LiteRT's kernels are to the module, by the grids that LiteRT reports."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=content)
    (into,), (out,) = interpreter.get_input_details(), interpreter.get_output_details()
    module, _ = twin()
    pairs = []
    for (x,) in twin_samples()[:8]:
        scale, zero = into["quantization"]
        codes = np.clip(np.round(x.numpy().transpose(0, 2, 3, 1) / scale) + zero, -128, 127).astype(np.int8)
        (given,) = compute_tflite("tflite::whole", [np.frombuffer(content, np.uint8), codes])
        scale, zero = out["quantization"]
        with torch.no_grad():
            pairs.append((module(x).numpy(), (given.astype(float) - zero) * scale))
    return sqnr(np.stack([a for a, _ in pairs]), np.stack([b for _, b in pairs]))


def vela_total(file, folder):
    """Return the cycles that the command ``vela`` writes into its summary."""
    vela = Path(sys.executable).with_name("vela")
    options = ["--config=Arm/vela.ini", "--system-config=Ethos_U55_High_End_Embedded"]
    command = [vela, file, f"--accelerator-config={DEVICE}", "--memory-mode=Shared_Sram", *options]
    subprocess.run([*command, "--output-dir", folder], check=True, capture_output=True)
    (summary,) = folder.glob("*_summary_*.csv")
    (row,) = csv.DictReader(summary.open())
    return int(float(row["cycles_total"]))


@pytest.mark.slow
def test_that_layers_are_matched_and_causes_add_up_to_the_difference(engine, tmp_path):
    content = twin_tflite()
    file = written(tmp_path, content)
    result = compared(engine, twin_project(), file)
    pairs = [
        (layer.ours.name, layer.theirs.output_shape)
        for layer in result.layers
        if layer.ours is not None and layer.theirs is not None
    ]
    names = [name for name, _ in pairs]
    assert [n for n in names if n] == [n for n in ("stem", "depthwise", "pointwise", *names[3:]) if n]
    assert {"stem", "depthwise", "pointwise", "classes"} <= set(names)
    more = result.program.cycles - result.tflite.cycles
    assert sum(layer.difference for layer in result.layers) == more
    assert sum(cycles for _, cycles, _ in result.causes()) == more
    assert result.tflite.cycles_vela == vela_total(file, tmp_path / "vela")
    (output,) = result.outputs
    assert (result.samples, output.elements) == (8, 5)
    assert output.tflite_db == pytest.approx(litert_db(content), abs=0.5)
    assert min(output.program_db, output.tflite_db, output.between_db) > 25


@pytest.mark.slow
def test_that_an_operation_that_one_side_has_is_the_cause_of_its_cycles(engine, tmp_path):
    files = [written(tmp_path, twin_tflite(rescaled=more), f"{more}.tflite") for more in (False, True)]
    plain, rescaled = (compared(engine, twin_project(), file) for file in files)
    cost = rescaled.tflite.cycles - plain.tflite.cycles
    assert cost > 0
    causes = [{cause: cycles for cause, cycles, _ in one.causes()} for one in (plain, rescaled)]
    assert causes[1]["rescale"] == causes[0].get("rescale", 0) - cost


@pytest.mark.slow
def test_that_a_file_that_vela_compiled_is_compared_by_limits(engine, tmp_path):
    content = twin_tflite()
    _, made = compiled(content, DEVICE, tmp_path, "net")
    result = compared(engine, twin_project(), made)
    assert not result.compiled_here
    assert result.tflite.inference_ms is None
    assert result.tflite.cycles_vela is None
    assert sum(layer.difference for layer in result.layers) == result.program.cycles - result.tflite.cycles
    matched = {layer.ours.name for layer in result.layers if layer.ours and layer.theirs}
    assert {"stem", "depthwise", "pointwise", "classes"} <= matched
    (output,) = result.outputs
    assert output.tflite_db == pytest.approx(litert_db(content), abs=0.5)
    # MACs over those of a cycle, and every byte once, cannot be more than what Vela estimates.
    estimated = compared(engine, twin_project(), written(tmp_path, content))
    assert 0 < result.tflite.cycles < estimated.tflite.cycles


def float_network():
    w = ops.Writer(0)
    x = w.tensor((1, 15, 15, 3), "float32")
    w._graph.inputs.append(x.index)
    return w.done(w.call("RELU", [x], [w.tensor((1, 15, 15, 3), "float32")], None))


def on_cpu_network():
    w = ops.Writer(0, "int16")
    x = w.input(1, 15, 15, 3)
    return w.done(w.call("SIN", [x], [w.activation(x.shape)], None))


def other_sizes():
    """A network with the inputs and outputs of the twin, and nothing else in common."""
    w = ops.Writer(0)
    x = ops.convolution(w, w.input(1, 15, 15, 3), 64, 5)
    x = ops.convolution(w, x, 64, 5)
    x = ops.pool(w, "AVERAGE_POOL_2D", x, 15, 1)
    return w.done(ops.fully_connected(w, ops.reshaped(w, x, (1, 64)), 5))


@pytest.mark.slow
def test_that_each_file_that_cannot_be_compared_has_its_reason(engine, tmp_path):
    content = twin_tflite()
    _, other_device = compiled(content, "ethos-u85-256", tmp_path, "net")
    another = ops.Writer(0)
    small = another.done(ops.requantized(another, another.input(1, 4)))
    files = {
        "tflite-float": written(tmp_path, float_network(), "float.tflite"),
        "tflite-all-on-cpu": written(tmp_path, on_cpu_network(), "cpu.tflite"),
        "tflite-other-device": other_device,
        "tflite-other-network": written(tmp_path, small, "small.tflite"),
        "program-damaged": written(tmp_path, content[: len(content) // 2], "cut.tflite"),
    }
    for code, file in files.items():
        assert asked(engine, twin_project(), file) == "failed", code
        assert (engine.failure.code, bool(engine.failure.hint)) == (code, True)
    assert asked(engine, twin_project(), written(tmp_path, other_sizes(), "sizes.tflite")) == "failed"
    assert engine.failure.code == "tflite-other-network"


def test_that_a_file_of_another_kind_is_named_before_anything_runs(tmp_path):
    with pytest.raises(WorkbenchError) as refused:
        tflite_options(written(tmp_path, b"PK\3\4 no model at all", "zip.tflite"))
    (info,) = refused.value.infos
    assert (info.code, info.where.id) == ("tflite-not-a-model", "zip.tflite")


@pytest.mark.slow
def test_that_a_file_that_ends_vela_is_one_sentence_and_the_engine_lives(engine, tmp_path):
    # A convolution of the file reads a tensor of no dimensions: Vela 5.1.0 ends with a signal.
    content = bytearray(twin_tflite())
    generator = random.Random(1)
    for _ in range(400):
        damaged = bytearray(content)
        for _ in range(3):
            damaged[generator.randrange(8, 3000)] = generator.randrange(256)
        if is_fatal(bytes(damaged), tmp_path):
            break
    else:
        pytest.fail("no damaged file ended Vela")
    assert asked(engine, twin_project(), written(tmp_path, bytes(damaged), "damaged.tflite")) == "failed"
    assert engine.failure.code == "tflite-vela-ended"
    assert compared(engine, twin_project(), written(tmp_path, bytes(content))).outputs


def is_fatal(content, folder):
    """Return whether our reader takes a file that ends the command ``vela`` with a signal."""
    try:
        read_tflite(content)
    except WorkbenchError:
        return False
    vela = Path(sys.executable).with_name("vela")
    file = written(folder, content, "tried.tflite")
    command = [vela, file, f"--accelerator-config={DEVICE}", "--output-dir", folder / "tried"]
    try:
        return subprocess.run(command, check=False, capture_output=True, timeout=10).returncode < 0
    except subprocess.TimeoutExpired:
        return False


@pytest.mark.slow
def test_that_the_remedy_for_another_device_works(engine, tmp_path):
    content = twin_tflite()
    made = twin_project("ethos-u85-256")
    _, wrong = compiled(content, DEVICE, tmp_path, "net")
    assert asked(engine, made, wrong) == "failed"
    assert engine.failure.code == "tflite-other-device"
    _, right = compiled(content, "ethos-u85-256", tmp_path, "again")
    assert compared(engine, made, right).outputs
    assert compared(engine, made, written(tmp_path, content)).compiled_here


@pytest.mark.slow
def test_that_integer_inputs_and_outputs_are_compared_as_the_same_real_values(engine, tmp_path):
    file = written(tmp_path, twin_tflite())
    floats = compared(engine, twin_project(), file)
    options = {**twin_project().target.options, "integer_io": True}
    made = edits.set_target(twin_project(), TargetChoice(id=DEVICE, options=options))
    integers = compared(engine, made, file)
    assert integers.outputs == floats.outputs
    # The remark names this option, and is gone with it.
    assert len(list(floats.remarks())) == len(list(integers.remarks())) + 1

"""How quick an edit comes to its numbers, as ratios to the plain flow measured in the same run.

Run with ``pytest -m benchmark -s tests/benchmarks/test_studies.py``.
CPU seconds of one thread: other work on the machine matters little to them. The plain flow is
export, prepare, 100 samples of calibration, convert and 8 samples of evaluation.
"""

from __future__ import annotations

import gc
import logging
import shutil
import statistics
import time
import warnings
from pathlib import Path

import pytest

from tests.engine.in_process import Engine, project
from workbench.project import edits
from workbench.project.model import DataSource, Evaluation
from workbench.protocol import RunStudy

pytestmark = [pytest.mark.engine, pytest.mark.benchmark, pytest.mark.filterwarnings("ignore")]

SAMPLES, EVALUATED = 100, 8
FILE = """
import sys
sys.path.insert(0, {root!r})
import torch
from tests.benchmarks import networks


def model():
    network, shape = networks.build({name!r})
    return network, (torch.randn(shape),)


def data(count, seed):
    shape = {shape!r}
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield torch.randn(shape, generator=generator)


def calibration():
    yield from data({samples}, 1)


def evaluation():
    yield from data({evaluated}, 2)
"""
KINDS = {"CNN": ("mobilenet_v2", "ethos-u55-128"), "transformer": ("encoder", "ethos-u85-256")}


TITLES = {"CNN": "MobileNetV2 96²", "transformer": "transformer"}


@pytest.fixture(scope="module", autouse=True)
def quiet_log():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module", params=KINDS)
def bench(request, tmp_path_factory):
    """An engine that has run the base configuration, and the plain flow's CPU seconds."""
    import torch

    from tests.benchmarks import networks

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    name, target = KINDS[request.param]
    _plain(name, target, samples=1)
    # As an engine does after its imports; the plain flow gains by it too.
    gc.collect()
    gc.freeze()
    plain = _plain(name, target)
    folder = tmp_path_factory.mktemp(name)
    engine = Engine(folder)
    _, shape = networks.build(name)
    text = FILE.format(
        root=str(Path(__file__).parents[2]), name=name, samples=SAMPLES, evaluated=EVALUATED, shape=shape
    )
    (folder / "networks.py").write_text(text)
    base = project(
        "model",
        "a8w8",
        target,
        calibration=DataSource(spec="networks.py:calibration"),
        evaluation=Evaluation(data=DataSource(spec="networks.py:evaluation")),
    )
    assert engine.run(base, "evaluate") == "done", engine.events
    yield request.param, engine, base, plain
    engine.close()
    shutil.rmtree(folder)


def _plain(name, target, samples=SAMPLES):
    """Return CPU seconds of the plain flow: all of it, and without the export."""
    import torch
    from executorch.backends.arm.ethosu import EthosUCompileSpec
    from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from tests.benchmarks import networks

    network, shape = networks.build(name)
    times = []
    for _ in range(2):
        begun = time.process_time()
        program = torch.export.export(network, (torch.randn(shape),))
        exported = time.process_time()
        quantizer = EthosUQuantizer(EthosUCompileSpec(target))
        quantizer.set_global(get_symmetric_quantization_config())
        prepared = prepare_pt2e(program.module(check_guards=False), quantizer)
        with torch.no_grad():
            for _ in range(samples):
                prepared(torch.randn(shape))
            converted = convert_pt2e(prepared)
            for _ in range(EVALUATED):
                sample = torch.randn(shape)
                network(sample)
                converted(sample)
        ended = time.process_time()
        times.append((ended - begun, ended - exported))
    return statistics.median(t for t, _ in times), statistics.median(t for _, t in times)


def edited(engine, made, until="evaluate"):
    begun = time.process_time()
    assert engine.run(made, until) == "done", engine.events
    return time.process_time() - begun


def modules(kind):
    if kind == "CNN":
        return ["features.3", "features.8", "features.14"]
    return ["layers.0.feed.0", "layers.1.feed.0", "layers.2.feed.0"]


def known(engine, base, names):
    from workbench.graph.snapshot import GraphSnapshot

    graph = GraphSnapshot.load(engine.path(base, "export") / "graph.json")
    there = {m.path for m in graph.modules}
    weighted = [m.path for m in graph.modules if m.type_name.endswith(("Conv2d", "Linear"))]
    return [n for n in names if n in there] or weighted[2:11:3]


def test_that_an_edit_whose_statistics_are_known_is_quick(bench, measured):
    kind, engine, base, (plain, _) = bench
    times = [
        edited(engine, edits.assign(base, "module_name", name, "a8w8-per-tensor"))
        for name in known(engine, base, modules(kind))
    ]
    ours = statistics.median(times)
    what = "One module changed, to its numbers, statistics known"
    measured(f"{what}: {TITLES[kind]}", ours / plain)


def test_that_an_edit_that_needs_one_pass_is_quick(bench, measured):
    kind, engine, base, (plain, _) = bench
    if kind != "CNN":
        return
    times = [
        edited(engine, edits.assign(base, "module_name", name, "a16w8"))
        for name in known(engine, base, modules(kind))
    ]
    ours = statistics.median(times)
    what = "One module changed, to its numbers, one pass needed"
    measured(f"{what}: {TITLES[kind]}", ours / plain)


def test_that_sensitivity_is_quicker_than_a_flow_for_each_module(bench, measured):
    from workbench.protocol import StudyProgress
    from workbench.studies.documents import load_study, study_folder
    from workbench.studies.sensitivity import SensitivityResult

    kind, engine, base, (_, each) = bench
    if kind != "CNN":
        return
    command = RunStudy(
        job="test",
        study="sensitivity",
        project=base,
        folder=str(engine.folder),
        options={"samples": EVALUATED},
        cache_root=str(engine.cache.root),
    )
    begun = time.process_time()
    engine.events = []
    engine.send(command)
    assert engine.follow() == "done", engine.events
    ours = time.process_time() - begun
    key = [e.key for e in engine.events if isinstance(e, StudyProgress)][-1]
    units = load_study(SensitivityResult, study_folder(engine.cache, key)).units
    ratio = ours / (each * len(units))
    measured("Sensitivity of MobileNetV2 96², against a flow for each module", ratio)


def test_that_undo_brings_its_numbers_back_at_once(opened, qtbot, measured):
    def run():
        opened.runs.run_to("evaluate")
        qtbot.waitUntil(lambda: not opened.runner.running)
        qtbot.waitUntil(lambda: opened.session.stage("evaluate").state == "cached")

    opened.window.reveal("accuracy")
    run()
    opened.document.apply("Set head", lambda p: edits.assign(p, "module_name", "head", "a16w8"))
    qtbot.waitUntil(lambda: opened.session.stage("evaluate").state == "stale")
    run()
    times = []
    for step in (opened.document.undo_stack.undo, opened.document.undo_stack.redo) * 4:
        before = opened.session.stage("evaluate").key
        begun = time.perf_counter()
        step()
        view = opened.session.stage
        qtbot.waitUntil(lambda: view("evaluate").key != before)
        assert view("evaluate").state == "cached"
        times.append(time.perf_counter() - begun)
    measured("Undo of an edit, to its numbers in the window", statistics.median(times))

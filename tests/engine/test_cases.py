"""Networks of ordinary code: what is quantized and delivered is the user's network."""

import json
import math
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.utils import _pytree

from tests.e2e.conftest import workbench
from tests.engine import case_networks, eager, written_networks
from tests.engine.cases import CASES, REFUSED, WRITES
from tests.engine.in_process import allowed, project
from tests.for_each import for_each
from workbench.engine.jobs.job import EngineJob
from workbench.engine.runtime.context import LiveObjectCache
from workbench.pipeline.cache import Cache
from workbench.pipeline.plan import plan
from workbench.project.model import DataSource
from workbench.project.opened import OpenProject
from workbench.protocol import RunUntil, StageFailed

pytestmark = pytest.mark.engine
# A fixture of the command line's tests.
__all__ = ["workbench"]
_MODULES = {"case_networks.py": case_networks, "written_networks.py": written_networks}
# Each takes a second.
QUICK = ("bn_bn", "near1d")


def decibels(expected, computed):
    """Return the SQNR of the weakest output of floats over all samples [dB]."""
    weakest = math.inf
    assert all(len(a) == len(b) for a, b in zip(expected, computed, strict=True))
    for output in range(len(expected[0])):
        a, b = (np.stack([sample[output] for sample in side]) for side in (expected, computed))
        assert a.shape == b.shape
        noise, signal = ((values.astype(np.float64) ** 2).sum() for values in (a - b, a))
        weakest = min(weakest, 10 * math.log10(signal / noise) if noise else math.inf)
    return weakest


def in_folder(case, folder):
    """Copy the networks of a case into a folder, and return their module."""
    module = _MODULES[case.file]
    shutil.copy(module.__file__, folder)
    return module


def converted(case, folder):
    """Return the SQNR of the quantized model on samples that calibration did not see [dB]."""
    module, events, store, cache = (in_folder(case, folder), [], LiveObjectCache(), Cache(folder / "cache"))
    data = DataSource(spec=f"{case.file}:{case.samples}")
    made = project(f"{case.file}:{case.name}", case.config, case.target, calibration=data)
    command = RunUntil(
        job="test", project=made, folder=str(folder), until="convert", cache_root=str(cache.root)
    )
    EngineJob(allowed(command), store, events.append).run()
    assert not [event for event in events if isinstance(event, StageFailed)], events
    quantized = store.get("convert", plan(OpenProject(made, folder), cache).key("convert")).module
    sides = [], []
    for sample in module.unseen_samples(case.name):
        with torch.no_grad():
            for side, model in zip(sides, (module.made(case.name)[0], quantized), strict=True):
                outputs = _pytree.tree_leaves(model(*(value.clone() for value in sample)))
                side.append([value.numpy() for value in outputs])
    return decibels(*sides)


def run(case, workbench):
    """Run a network as a user does; return the outcome."""
    in_folder(case, workbench.folder)
    model, data = (f"{case.file}:{name}" for name in (case.name, case.samples))
    path = workbench.folder / "case.qwb"
    new = "new", path, "--model", model, "--calibration", data, "--config", case.config
    assert workbench(*new, "--target", case.target, "--force").code == 0
    return workbench("run", path, "--trust", "--json", "--out", workbench.folder / "dist")


def delivered(case, workbench):
    """Return the SQNR of the delivered program on samples that calibration did not see [dB]."""
    folder = workbench.folder
    networks = folder / case.file
    subprocess.run([sys.executable, eager.__file__, networks, case.name, folder], check=True)
    (program,) = (folder / "dist").glob("*.pte")
    count = len(list(folder.glob("x*.npz")))
    jobs = [
        {"file": str(program), "inputs": f"x{index}.npz", "out": f"y{index}.npz"} for index in range(count)
    ]
    (folder / "jobs.json").write_text(json.dumps(jobs))
    assert workbench("simulate", "--batch", folder / "jobs.json", "--json").code == 0
    return decibels(
        *([list(np.load(folder / f"{side}{index}.npz").values()) for index in range(count)] for side in "ey")
    )


def assert_right(case, workbench):
    outcome = run(case, workbench)
    assert outcome.code == 0, outcome.err
    document = outcome.document
    assert document["gate"]["verdict"] == "right"
    assert document["accuracy"]["verdict"] in {"accurate enough", "low accuracy"}
    assert delivered(case, workbench) >= case.enough
    if case.on_the_npu:
        operators = [node["op"] for node in document["lower"]["cpu_nodes"]]
        assert all("quantize" in operator for operator in operators), operators


@for_each("case", [case for case in CASES if case.network in QUICK and case.config == "a8w8"])
def test_that_the_quantized_model_is_the_network(case, tmp_path):
    assert converted(case, tmp_path) >= case.enough


@pytest.mark.slow
@pytest.mark.parametrize("case", [*CASES, *WRITES], ids=lambda case: f"{case.name}-{case.config}")
def test_that_the_delivered_program_is_the_network(case, workbench):
    assert_right(case, workbench)


@pytest.mark.slow
@pytest.mark.parametrize("case", [*CASES, *WRITES], ids=lambda case: f"{case.name}-{case.config}")
def test_that_the_delivered_program_is_the_network_on_another_device(case, workbench):
    assert_right(case.elsewhere, workbench)


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_that_a_network_that_cannot_be_right_is_refused(case, workbench):
    outcome = run(case, workbench)
    assert outcome.code == 1
    failed = next(stage for stage in outcome.document["stages"] if stage["state"] == "failed")
    assert failed["error"]["code"] == case.code
    assert failed["error"]["where"]
    assert failed["error"]["hint"]
    assert not (workbench.folder / "dist").exists()

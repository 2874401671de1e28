"""Networks of ordinary code: what is quantized and delivered is the user's network."""

import itertools
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils import _pytree

from tests.e2e.conftest import workbench
from tests.engine import case_networks, eager, written_networks
from tests.engine.cases import CASES, REFUSED, WRITES
from tests.engine.in_process import project
from tests.for_each import for_each
from workbench.project.model import DataSource

pytestmark = pytest.mark.engine
# A fixture of the command line's tests.
__all__ = ["workbench"]
_MODULES = {"case_networks.py": case_networks, "written_networks.py": written_networks}
# Each takes less than a second.
QUICK = ("bn_bn", "near1d", "limits")


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


def converted(engine, case):
    """Return the SQNR of the quantized model on samples that calibration did not see [dB]."""
    module = _MODULES[case.file]
    shutil.copy(module.__file__, engine.folder)
    data = DataSource(spec=f"{case.file}:{case.samples}")
    made = project(f"{case.file}:{case.name}", case.config, case.target, calibration=data)
    assert engine.run(made, "convert") == "done", engine.failure
    store = engine.store
    quantized = store.get("convert", engine.path(made, "convert").name).module
    sides = [], []
    for sample in module.unseen_samples(case.name):
        with torch.no_grad():
            for side, model in zip(sides, (module.made(case.name)[0], quantized), strict=True):
                outputs = _pytree.tree_leaves(model(*(value.clone() for value in sample)))
                side.append([value.numpy() for value in outputs])
    return decibels(*sides)

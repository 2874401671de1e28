"""Stored numbers of MASE's behaviour."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import torch

FOLDER = Path(__file__).parents[2] / "data" / "vectors"
CASES = json.loads((FOLDER / "mase.json").read_text())["cases"]
QUANTIZERS = [c for c in CASES if c["kind"] == "quantizer"]
OPERATIONS = [c for c in CASES if c["kind"] == "op"]


@cache
def arrays():
    with np.load(FOLDER / "mase.npz") as file:
        return {name: file[name] for name in file.files}


def tensor(name):
    return torch.from_numpy(arrays()[name].copy())

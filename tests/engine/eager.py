"""What a network computes, by plain PyTorch in a process that imports nothing of the workbench.

Usage: python eager.py NETWORKS.py NETWORK FOLDER. Writes, for each sample that calibration does not
see, ``x0.npz`` with the inputs and ``e0.npz`` with the outputs. Each sample has a fresh instance.
"""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import torch
from torch.utils import _pytree


def write(networks: str, name: str, folder: Path) -> None:
    """Write inputs and outputs."""
    spec = importlib.util.spec_from_file_location("networks_of_eager", networks)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.use_deterministic_algorithms(True, warn_only=True)
    for index, sample in enumerate(module.unseen_samples(name)):
        model, _ = module.made(name)
        inputs = {f"in{i}": np.ascontiguousarray(v.numpy()) for i, v in enumerate(sample)}
        with torch.no_grad():
            result = model(*(value.clone() for value in sample))
        outputs = [v for v in _pytree.tree_leaves(result) if isinstance(v, torch.Tensor)]
        np.savez(folder / f"x{index}.npz", **inputs)
        np.savez(folder / f"e{index}.npz", **{f"out{i}": v.numpy() for i, v in enumerate(outputs)})


if __name__ == "__main__":
    write(sys.argv[1], sys.argv[2], Path(sys.argv[3]))

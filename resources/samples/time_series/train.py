"""Train the samples for time series: real data of the package aeon, a minute on one core.

Writes weights, calibration data (training series) and held-out series with labels beside this
file. The data come from aeon's wheel, which need not be installed:

    pip download aeon==1.6.0 --no-deps
    python train.py aeon-1.6.0-py3-none-any.whl

Data: BasicMotions (University of East Anglia, 2016) and Japanese Vowels (M. Kudo, J. Toyama, M.
Shimbo; UCI repository, CC BY 4.0), both of the UEA archive of time series, as aeon (BSD 3-clause)
distributes them.
"""

import sys
import zipfile
from pathlib import Path

import numpy as np
import torch
from networks import MotionsNet, VowelsNet
from safetensors.torch import save_file
from torch import nn

HERE = Path(__file__).parent
FRAMES = 28


def read(wheel: zipfile.ZipFile, name: str, part: str) -> tuple[list[np.ndarray], list[str]]:
    """Return the series [channels, steps] of a data set and their labels.

    Args:
        wheel: aeon's wheel.
        name: The data set.
        part: TRAIN or TEST.
    """
    text = wheel.read(f"aeon/datasets/data/{name}/{name}_{part}.ts").decode()
    lines = [line for line in text.splitlines() if line and line[0] not in "#@%"]
    series, labels = [], []
    for line in lines:
        *channels, label = line.split(":")
        series.append(np.array([np.array(c.split(","), np.float32) for c in channels]))
        labels.append(label.strip())
    return series, labels


def resampled(series: np.ndarray) -> np.ndarray:
    """Return a series [channels, steps] as [FRAMES, channels], by linear interpolation."""
    at = np.linspace(0, series.shape[1] - 1, FRAMES)
    rows = [np.interp(at, np.arange(series.shape[1]), row) for row in series]
    return np.stack(rows, 1).astype(np.float32)


def accuracy(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    """Return the share of series that are classified as their label."""
    model.eval()
    with torch.no_grad():
        return float((model(x).argmax(1) == y).float().mean())


def train(name: str, model: nn.Module, data: dict[str, torch.Tensor], epochs: int) -> None:
    """Train a network, report its held-out accuracy, write weights and data."""
    x, y = data["x"], data["y"]
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    for _ in range(epochs):
        model.train()
        for chosen in torch.randperm(len(x)).split(32):
            noisy = x[chosen] + 0.05 * x.std() * torch.randn_like(x[chosen])
            loss = nn.functional.cross_entropy(model(noisy), y[chosen], label_smoothing=0.05)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        schedule.step()
    held_out = accuracy(model, data["test_x"], data["test_y"])
    print(f"{name}: {held_out:.2%} of {len(data['test_x'])} held-out series")
    save_file(model.state_dict(), HERE / f"{name}_weights.safetensors")
    np.savez_compressed(HERE / f"{name}_calibration.npz", x=x[:128].numpy())
    np.savez_compressed(
        HERE / f"{name}_held_out.npz", x=data["test_x"].numpy(), labels=data["test_y"].numpy()
    )


def tensors(parts: dict[str, tuple[list[np.ndarray], list[str]]]) -> dict[str, torch.Tensor]:
    """Return series and labels of both parts as tensors, in a shuffled order."""
    names = sorted(set(parts["TRAIN"][1]))
    found = {}
    for part, prefix in (("TRAIN", ""), ("TEST", "test_")):
        series, labels = parts[part]
        order = torch.randperm(len(series))
        found[f"{prefix}x"] = torch.from_numpy(np.stack(series).astype(np.float32))[order]
        found[f"{prefix}y"] = torch.tensor([names.index(label) for label in labels])[order]
    return found


def main() -> None:
    """Train both networks."""
    torch.set_num_threads(1)
    parts = ("TRAIN", "TEST")
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        motions = {part: read(wheel, "BasicMotions", part) for part in parts}
        vowels = {part: read(wheel, "JapaneseVowels", part) for part in parts}
    torch.manual_seed(0)
    train("motions", MotionsNet(), tensors(motions), 60)
    vowels = {p: ([resampled(s) for s in series], y) for p, (series, y) in vowels.items()}
    train("vowels", VowelsNet(), tensors(vowels), 150)


if __name__ == "__main__":
    main()
